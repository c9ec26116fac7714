"""Resources, prompts, completion and pages."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core import signing

from catalog.functions import registry
from tests import factories
from tests.server.conftest import MODERN, Client, handshake, modern, refresh_catalogue, run_in_database, token
from toolhub.server import pagination
from toolhub.wire.versions import HANDSHAKE

REVISIONS = (*HANDSHAKE, MODERN)
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


@pytest.fixture
async def alices(alice: User, bob: User, published_functions: None) -> User:
    def make() -> None:
        factories.grant(
            alice,
            factories.make_resource("docs://handbook"),
            factories.make_resource("docs://logo", text=None, blob="aGVsbG8=", mime_type="image/png"),
            factories.make_resource(uri_template="test://item/{number}", function="server_item", name="server_item"),
            factories.make_prompt("greeting"),
            factories.make_prompt(
                "server_letter",
                function="server_letter",
                arguments=registry.lookup("prompt", "server_letter").arguments,
            ),
        )

    await run_in_database(make)
    await refresh_catalogue()
    return alice


async def clients(user: User) -> list[Client]:
    credential = await token(user)
    return [*[await handshake(credential, revision) for revision in HANDSHAKE], modern(credential)]


async def test_items_without_a_grant_are_not_listed_and_not_found(alices: User, bob: User) -> None:
    for client in await clients(bob):
        assert (await client.result("resources/list"))["resources"] == []
        assert (await client.result("resources/templates/list"))["resourceTemplates"] == []
        assert (await client.result("prompts/list"))["prompts"] == []
        for uri in ("docs://handbook", "docs://nothing", "test://item/5", "toolhub://results/1"):
            error = await client.error("resources/read", {"uri": uri})
            code = -32602 if client.peer.era == "modern" else -32002
            assert error == {"code": code, "message": "Resource not found", "data": {"uri": uri}}
        hidden = await client.error("prompts/get", {"name": "greeting", "arguments": {"name": "Bob"}})
        absent = await client.error("prompts/get", {"name": "greetinx", "arguments": {"name": "Bob"}})
        assert str(hidden).replace("greeting", "greetinx") == str(absent) and hidden["code"] == -32602
        for ref in (
            {"type": "ref/prompt", "name": "server_letter"},
            {"type": "ref/resource", "uri": "test://item/{number}"},
        ):
            found = await client.send("completion/complete", {"ref": ref, "argument": {"name": "number", "value": ""}})
            assert "error" in found or found["result"]["completion"]["values"] == []


async def test_resources_are_listed_and_read_at_every_revision(alices: User) -> None:
    for client in await clients(alices):
        listed = await client.result("resources/list")
        assert [one["uri"] for one in listed["resources"]] == ["docs://handbook", "docs://logo"]
        found = await client.result("resources/templates/list")
        assert [one["uriTemplate"] for one in found["resourceTemplates"]] == ["test://item/{number}"]
        assert (await client.result("resources/read", {"uri": "docs://handbook"}))["contents"] == [
            {"uri": "docs://handbook", "mimeType": "text/plain", "text": "Be kind, write tests."}
        ]
        assert (await client.result("resources/read", {"uri": "docs://logo"}))["contents"][0]["blob"] == "aGVsbG8="
        item = (await client.result("resources/read", {"uri": "test://item/12"}))["contents"][0]
        assert item["uri"] == "test://item/12" and "12" in item["text"]


async def test_prompts_are_listed_and_filled_at_every_revision(alices: User) -> None:
    for client in await clients(alices):
        listed = (await client.result("prompts/list"))["prompts"]
        assert [one["name"] for one in listed] == ["greeting", "server_letter"]
        found = await client.result("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}})
        assert found["messages"][0]["content"]["text"] == "Greet Ada warmly."
        made = await client.result("prompts/get", {"name": "server_letter", "arguments": {"to": "Ada", "tone": "firm"}})
        assert made["messages"][0]["content"]["text"] == "Write a firm letter to Ada."
        assert (await client.error("prompts/get", {"name": "greeting"}))["code"] == -32602
        assert (await client.error("prompts/get", {"name": "greeting", "arguments": {"name": 5}}))["code"] == -32602


async def test_arguments_and_variables_are_completed(alices: User) -> None:
    for client in await clients(alices):
        found = await client.result(
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "server_letter"}, "argument": {"name": "tone", "value": "ki"}},
        )
        assert found["completion"]["values"] == ["kind", "kindly"]
        found = await client.result(
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "test://item/{number}"},
                "argument": {"name": "number", "value": "1"},
            },
        )
        assert found["completion"]["values"] == ["1", "12"]
    for wrong in (
        {},
        {"ref": {"type": "ref/tool", "name": "x"}},
        {"ref": {"type": "ref/prompt", "name": "server_letter"}},
    ):
        assert (await client.error("completion/complete", wrong))["code"] == -32602


async def test_a_session_subscribes_to_resources_it_may_read(alices: User, bob: User) -> None:
    client = await handshake(await token(alices))
    assert await client.result("resources/subscribe", {"uri": "docs://handbook"}) == {}
    assert await client.result("resources/subscribe", {"uri": "test://item/7"}) == {}
    assert await client.result("resources/unsubscribe", {"uri": "docs://handbook"}) == {}
    assert await client.result("resources/unsubscribe", {"uri": "never subscribed"}) == {}
    assert (await client.error("resources/subscribe", {"uri": "docs://other"}))["code"] == -32002
    assert (await client.error("resources/subscribe", {}))["code"] == -32602
    stranger = await handshake(await token(bob))
    assert (await stranger.error("resources/subscribe", {"uri": "docs://handbook"}))["code"] == -32002


async def test_a_long_list_comes_in_pages_that_survive_a_change(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGE_ENTRIES", 3)

    def make() -> None:
        for number in range(8):
            factories.grant(None, factories.make_tool(f"tool_{number}"))

    await run_in_database(make)
    await refresh_catalogue()
    for client in await clients(alice):
        names, cursors, cursor = [], [], None
        while True:
            found = await client.result("tools/list", {} if cursor is None else {"cursor": cursor})
            names += [tool["name"] for tool in found["tools"]]
            cursor = found.get("nextCursor")
            if cursor is None:
                break
            cursors.append(cursor)
        assert names == [f"tool_{number}" for number in range(8)] and len(cursors) == 2

    await run_in_database(_remove, "tool_2")
    await refresh_catalogue()
    found = await client.result("tools/list", {"cursor": cursors[0]})
    assert [tool["name"] for tool in found["tools"]] == ["tool_3", "tool_4", "tool_5"]

    other = modern(await token(bob))
    forged = signing.dumps(["tools", alice.pk, 100, "tool_2"], salt="another purpose")
    for wrong in (cursors[0], "", "x", 5, cursors[0][:-1], forged):
        assert (await other.error("tools/list", {"cursor": wrong}))["code"] == -32602
    assert (await client.error("prompts/list", {"cursor": cursors[0]}))["code"] == -32602
    assert "nextCursor" not in await client.result("tools/list", {"cursor": cursors[1], "_meta": {}})


def _remove(name: str) -> None:
    from catalog.models import Tool

    Tool.objects.filter(name=name).update(enabled=False)
