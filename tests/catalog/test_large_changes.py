"""Large changes of the catalogue: calls are logged meanwhile, and nothing of a failed or planned one stays."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_save
from django.utils import timezone

from audit.models import Action
from catalog.exchange import exporter, importer
from catalog.exchange.values import FileError
from catalog.models import Grant, Tool, Toolset
from catalog.openapi import document_import
from catalog.openapi.proposals import Choices
from catalog.policy import grant_changes, large_changes, revision
from catalog.signals import changed
from tests import factories
from toolhub.access.models import ServingProcess

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="on PostgreSQL writers do not block each other"),
]


def make_file(number: int, **changes: Any) -> dict[str, Any]:
    tools = [
        {
            "name": f"tool_{index}",
            "description": f"Adds {index}.",
            "settings": {"function": "calculate_sum"},
            "input_schema": factories.TWO_NUMBERS,
            "toolsets": ["Many"],
            **changes,
        }
        for index in range(number)
    ]
    grants = [{"toolset": "Many", "everyone": True}]
    return {"toolhub": 1, "toolsets": [{"name": "Many"}], "tools": tools, "grants": grants}


@pytest.fixture
def attempts() -> Iterator[list[str]]:
    """What another connection got that wanted to write whenever a row was saved, as the audit log does for a call."""
    name, found = str(connection.settings_dict["NAME"]), list[str]()

    def try_to_write(**_: Any) -> None:
        other = sqlite3.connect(name, timeout=0, uri=True, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            found.append("free")
        except sqlite3.OperationalError as error:
            found.append(str(error))
        finally:
            other.close()

    for model in (Tool, Grant):
        post_save.connect(try_to_write, sender=model, weak=False, dispatch_uid="test.attempts")
    yield found
    for model in (Tool, Grant):
        post_save.disconnect(sender=model, dispatch_uid="test.attempts")


def test_the_heartbeat_of_a_server_delays_no_change_and_its_row_stays() -> None:
    """A process that is gone leaves a gap among the rows of processes, whose key is a text."""
    now = timezone.now()
    for name in ("gone", "live"):
        ServingProcess.objects.create(id=name, host="here", pid=0, started=now, beat=now, peers="[]")
    ServingProcess.objects.filter(id="gone").delete()
    database = str(connection.settings_dict["NAME"])

    def report(**_: Any) -> None:
        other = sqlite3.connect(database, timeout=0, uri=True, isolation_level=None)
        other.execute("UPDATE access_servingprocess SET pid = pid + 1")
        other.close()

    post_save.connect(report, sender=Tool, weak=False, dispatch_uid="test.report")
    try:
        importer.run(make_file(3))
    finally:
        post_save.disconnect(sender=Tool, dispatch_uid="test.report")
    assert Tool.objects.count() == 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT rowid, id, pid FROM access_servingprocess")
        assert cursor.fetchall() == [(2, "live", 3)]


def all_rows() -> str:
    return json.dumps(exporter.export_catalogue(), sort_keys=True)


@pytest.mark.parametrize("plan", [True, False])
def test_an_import_leaves_the_database_free_for_calls_while_it_works(attempts: list[str], plan: bool) -> None:
    importer.run(make_file(20), plan=plan)
    assert attempts == ["free"] * 21
    assert Tool.objects.count() == (0 if plan else 20)


def test_an_import_of_an_openapi_document_does_too(attempts: list[str], root: User) -> None:
    paths = {f"/thing{number}": {"get": {"operationId": f"get_thing_{number}"}} for number in range(5)}
    content = {"openapi": "3.1.0", "info": {"title": "Things"}, "paths": paths}
    row = document_import.prepare(json.dumps(content).encode(), "things.json")
    choices = Choices(server="https://x.example", prefix="", secrets={}, outputs=False)
    result = document_import.apply(row, choices, [f"GET {path}" for path in paths], None, root)
    assert attempts == ["free"] * 5
    assert sorted(Tool.objects.values_list("name", flat=True)) == sorted(tool.name for tool in result.made)
    assert row.imported_at is not None and not row.pending


def test_many_grants_at_once_do_too(attempts: list[str], alice: User, bob: User) -> None:
    tools = [factories.make_tool(f"tool_{number}") for number in range(5)]
    attempts.clear()
    change = grant_changes.GrantChange(
        grant_changes.ALLOW,
        grant_changes.targets([tool.pk for tool in tools], []),
        grant_changes.subjects([alice.pk, bob.pk], []),
    )
    _, done = grant_changes.carry_out(change, grant_changes.Plan.build(change).digest)
    assert done and Grant.objects.count() == 10
    assert attempts == ["free"] * 10


def test_the_change_is_one_transaction_with_history_log_and_a_new_revision(alice: User) -> None:
    importer.run(make_file(3))
    first, before = revision.current(), Action.objects.count()
    heard: list[int] = []

    def hear(**_: Any) -> None:
        heard.append(Tool.objects.filter(description="Changed.").count())

    changed.connect(hear)
    outcome = importer.run(make_file(2, description="Changed.", toolsets=[]), prune=True)
    changed.disconnect(hear)
    assert sorted(change.mark for change in outcome.changes) == ["-", "~", "~"]
    assert heard[-1] == 2 and revision.current() > first
    assert not Tool.objects.filter(name="tool_2").exists()
    for tool in Tool.objects.all():
        assert tool.version > first and not tool.toolsets.exists()
        assert [row.description for row in tool.history.all()][-1].startswith("Adds")
    logged = list(Action.objects.order_by("link").values_list("verb", "target"))[before:]
    assert [verb for verb, _ in logged].count("changed") == 2
    assert any(verb == "deleted" and target.startswith("tool_2 ") for verb, target in logged)
    call_command("verifycalls", stdout=io.StringIO())  # exits when something is wrong
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA foreign_key_check").fetchall() == []
    factories.make_tool("later")  # keys go on where they should
    importer.run({**make_file(2, description="Changed.", toolsets=[]), "tools": []})


def test_a_failed_import_changes_nothing() -> None:
    importer.run(make_file(2))
    rows, number, logged = all_rows(), revision.current(), Action.objects.count()
    wrong = make_file(4)
    wrong["tools"][3]["input_schema"] = {"type": "array"}
    with pytest.raises(FileError):
        importer.run(wrong)
    assert (all_rows(), revision.current(), Action.objects.count()) == (rows, number, logged)


def interrupted(times: int, work: Callable[[], Any]) -> Callable[[], Any]:
    """Work in the middle of which somebody else changes the catalogue, so many times."""
    name, left = str(connection.settings_dict["NAME"]), [times]

    def both() -> Any:
        if left[0]:
            left[0] -= 1
            other = sqlite3.connect(name, timeout=5, uri=True, isolation_level=None)
            other.execute("UPDATE catalog_tool SET description = description || '!' WHERE name = 'mine'")
            other.close()
        return work()

    return both


def test_a_change_of_somebody_else_in_between_is_kept_and_the_work_is_done_again() -> None:
    factories.make_tool("mine", description="Mine")

    def work() -> str:
        tool = Tool.objects.get(name="mine")
        tool.description += " and yours"
        tool.save()
        return tool.description

    assert large_changes.run(interrupted(2, work)) == "Mine!! and yours"
    assert Tool.objects.get().description == "Mine!! and yours"
    with pytest.raises(large_changes.Stale):
        large_changes.run(interrupted(large_changes.MAX_TRIES, work))
    assert Tool.objects.get().description == "Mine!! and yours" + "!" * large_changes.MAX_TRIES


def test_a_change_that_no_revision_shows_is_not_overwritten_either() -> None:
    toolset = Toolset.objects.create(name="Mine", description="one")
    name, tries = str(connection.settings_dict["NAME"]), list[str]()

    def work() -> None:
        row = Toolset.objects.get()
        tries.append(row.description)
        if len(tries) == 1:
            other = sqlite3.connect(name, timeout=5, uri=True, isolation_level=None)
            other.execute("UPDATE catalog_toolset SET description = 'two'")
            other.close()
        row.description += "!"
        row.save()

    large_changes.run(work)
    toolset.refresh_from_db()
    assert tries == ["one", "two"] and toolset.description == "two!"
