"""The catalogue in memory: what changes it, how fast it is known, and that nobody can forget to say so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from catalog.models import Grant, Tool, Toolset
from catalog.policy import revision, snapshot
from catalog.policy.loader import Loader
from catalog.policy.rules import Requester, decide_all
from tests import factories

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db


def names_of(user: User) -> list[str]:
    return list(decide_all(factories.load(), Requester(user.pk), 0.0, "test").tools)


def test_every_kind_of_change_raises_the_revision_in_its_own_transaction(alice: User) -> None:
    tool, group = factories.make_tool(), factories.make_group()
    toolset, grant = factories.make_toolset(), factories.grant(alice, tool)
    limit = factories.limit("3/m", tool)
    changes: dict[str, Callable[[], object]] = {
        "save a tool": tool.save,
        "update tools in bulk": lambda: Tool.objects.update(position=7),
        "create tools in bulk": lambda: Tool.objects.bulk_create([Tool(name="other", description="Other.")]),
        "add to a toolset": lambda: tool.toolsets.add(toolset),
        "take from a toolset": lambda: tool.toolsets.clear(),
        "rename a toolset": lambda: Toolset.objects.filter(pk=toolset.pk).update(name="Renamed"),
        "change a grant": grant.save,
        "change a limit": limit.save,
        "delete a limit": limit.delete,
        "join a group": lambda: alice.groups.add(group),
        "leave a group": lambda: alice.groups.remove(group),
        "switch a user off in bulk": lambda: User.objects.update(is_active=False),
        "make a user": lambda: User.objects.create_user("dora"),
        "rename a group": lambda: Group.objects.filter(pk=group.pk).update(name="renamed"),
        "delete grants in bulk": lambda: Grant.objects.all().delete(),
        "save a resource": factories.make_resource,
        "save a prompt": factories.make_prompt,
        "delete a tool": tool.delete,
        "delete a user": alice.delete,
    }
    for what, change in changes.items():
        before = revision.current()
        change()
        assert revision.current() > before, what


def test_plain_sql_raises_the_revision_and_the_version(alice: User) -> None:
    tool = factories.make_tool()
    factories.grant(alice, tool)
    assert factories.load().tools["calculate_sum"].title == ""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE catalog_tool SET title = 'Sum' WHERE id = %s", [tool.pk])
    assert factories.load().tools["calculate_sum"].title == "Sum"


def test_signing_in_is_no_change_of_the_catalogue(alice: User) -> None:
    before = revision.current()
    User.objects.filter(pk=alice.pk).update(last_login="2026-01-01T00:00:00Z")
    alice.save(update_fields=["last_login"])
    assert revision.current() == before


def test_a_rolled_back_change_leaves_no_trace(alice: User) -> None:
    tool = factories.make_tool()
    before = revision.current()

    with transaction.atomic():
        tool.title = "Never"
        tool.save()
        assert revision.current() > before
        transaction.set_rollback(True)
    assert revision.current() == before
    assert factories.load().tools["calculate_sum"].title == ""


def test_only_changed_rows_are_built_again(alice: User) -> None:
    one, two = factories.make_tool("one"), factories.make_tool("two")
    loader = Loader()
    first = loader.load()
    two.title = "Two"
    two.save()
    one.toolsets.add(factories.make_toolset())
    second = loader.load()
    assert second.tools["one"].wire is first.tools["one"].wire
    assert second.tools["one"].toolset_ids and not first.tools["one"].toolset_ids
    assert second.tools["two"].title == "Two"
    assert second.tools["two"].hash != first.tools["two"].hash


def test_a_disabled_tool_is_not_in_the_snapshot(alice: User) -> None:
    tool = factories.make_tool()
    factories.grant(alice, tool)
    assert names_of(alice) == ["calculate_sum"]
    Tool.objects.update(enabled=False)
    assert names_of(alice) == []


def test_lists_are_ordered_by_position_and_then_by_name(alice: User) -> None:
    factories.grant(None, *(factories.make_tool(name, position=at) for name, at in (("c", 2), ("b", 2), ("z", 1))))
    assert names_of(alice) == ["z", "b", "c"]


def test_the_wire_entry_holds_the_schema_as_written_and_no_absent_members(alice: User) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object"}},
        "properties": {"z": {"type": "number", "x-mcp-header": "Z", "maximum": 1.0}, "a": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["z"]}]}],
        "additionalProperties": False,
    }
    factories.make_tool("exact", input_schema=schema, read_only=True, idempotent=False)
    wire = factories.load().tools["exact"].wire
    assert list(wire) == ["name", "description", "inputSchema", "annotations"]
    assert repr(wire["inputSchema"]) == repr(schema)
    assert wire["annotations"] == {"readOnlyHint": True, "idempotentHint": False}


def test_resources_and_prompts_carry_their_wire_entries(alice: User) -> None:
    factories.make_resource("docs://handbook", name="handbook", text="Grüße", description="How we work.")
    factories.make_resource(uri_template="docs://{page}", name="page", function="page")
    factories.make_resource("img://dot", name="dot", text=None, blob="AAEC", mime_type="image/png")
    factories.make_prompt(
        "review",
        arguments=[{"name": "city", "required": True, "enum": ["Bern"]}],
    )
    found = factories.load()
    assert found.resources["docs://handbook"].wire == {
        "uri": "docs://handbook", "name": "handbook", "description": "How we work.", "mimeType": "text/plain",
        "size": 7,
    }  # fmt: skip
    assert found.resources["img://dot"].size == 3
    assert [item.wire["uriTemplate"] for item in found.templates] == ["docs://{page}"]
    assert found.prompts["review"].wire["arguments"] == [{"name": "city", "required": True}]
    assert found.prompts["review"].arguments[0]["enum"] == ["Bern"]


@pytest.mark.django_db(transaction=True)
async def test_a_commit_in_this_process_is_known_at_once_and_listeners_hear_of_it() -> None:
    first = await snapshot.ensure()
    assert await snapshot.ensure() is first
    heard = asyncio.Event()
    forget = snapshot.listen(lambda fresh: heard.set() if "calculate_sum" in fresh.tools else None)
    try:
        await sync_to_async(factories.make_tool)()
        await asyncio.wait_for(heard.wait(), 30)
        assert "calculate_sum" in snapshot.current().tools
    finally:
        forget()
        await snapshot.stop()


@pytest.mark.django_db(transaction=True)
async def test_a_change_that_sends_no_signal_is_found_by_the_poll() -> None:
    def elsewhere() -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE catalog_tool SET title = 'From elsewhere'")

    await sync_to_async(factories.make_tool)()
    await snapshot.ensure()
    heard = asyncio.Event()
    forget = snapshot.listen(
        lambda fresh: heard.set() if fresh.tools["calculate_sum"].title == "From elsewhere" else None
    )
    try:
        await sync_to_async(elsewhere)()
        await asyncio.wait_for(heard.wait(), 30)
    finally:
        forget()
        await snapshot.stop()


@pytest.mark.django_db(transaction=True)
async def test_while_the_database_is_away_the_last_snapshot_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    await sync_to_async(factories.make_tool)()
    before = await snapshot.reload()
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def away(using: str = "default") -> int:
        loop.call_soon_threadsafe(asked.set)
        raise OperationalError("gone")

    try:
        await snapshot.ensure()
        before = snapshot.current()
        monkeypatch.setattr(revision, "current", away)
        snapshot.poll_now()
        await asyncio.wait_for(asked.wait(), 30)
        assert await snapshot.ensure() is before
        monkeypatch.undo()
        await sync_to_async(Tool.objects.update)(title="Back")
        assert (await snapshot.reload()).tools["calculate_sum"].title == "Back"
    finally:
        await snapshot.stop()
