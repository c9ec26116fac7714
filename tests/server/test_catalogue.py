"""Resources, prompts, completion and pages."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core import signing

from audit.models import Call
from catalog.functions import registry
from catalog.models.rules import LIMITED_METHODS
from tests import factories
from tests.server.conftest import MODERN, Client, handshake, modern, refresh_catalogue, run_in_database, token
from toolhub.server import dispatch, pagination
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


REQUESTS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "prompts/get": {"name": "greeting", "arguments": {"name": "Alice"}},
    "resources/read": {"uri": "docs://handbook"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "server_letter"},
        "argument": {"name": "tone", "value": "k"},
    },
    "tasks/get": {"taskId": str(uuid4())},
}


async def test_limits_name_every_method_that_these_tests_try() -> None:
    assert set(REQUESTS) == set(LIMITED_METHODS)
    for revision, methods in dispatch.METHODS.items():
        assert set(LIMITED_METHODS) - {"tasks/get"} <= set(methods), revision


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_beyond_the_limit_of_a_method_its_requests_get_the_seconds_to_wait(
    alices: User, bob: User, method: str, revision: str
) -> None:
    if method == "tasks/get" and revision != MODERN:
        return
    await run_in_database(lambda: factories.limit("2/d", method, user=alices))
    await refresh_catalogue()
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

    async def connect(user: User) -> Client:
        credential = await token(user)
        return modern(credential, capabilities) if revision == MODERN else await handshake(credential, revision)

    def is_limited(message: dict[str, Any]) -> bool:
        return "dev.toolhub/retryAfterSeconds" in str(message.get("error", {}).get("data"))

    client, other = await connect(alices), await connect(bob)
    outcomes = [is_limited(await client.send(method, REQUESTS[method])) for _ in range(3)]
    assert outcomes == [False, False, True]
    error = await client.error(method, REQUESTS[method])
    assert error["code"] == -32603 and f"2/d on method {method}" in error["message"]
    assert 0 < error["data"]["dev.toolhub/retryAfterSeconds"] <= 86_400
    assert not is_limited(await other.send(method, REQUESTS[method]))
    for free in REQUESTS.keys() - {method, "tasks/get"}:
        assert not is_limited(await client.send(free, REQUESTS[free]))
    logged = await run_in_database(lambda: list(Call.objects.filter(outcome="limited").values_list("method", "name")))
    names = {"prompts/get": "greeting", "resources/read": "docs://handbook"}
    assert logged == ([(method, names[method])] * 2 if method in names else [])


async def test_a_limit_of_reads_counts_and_hides_what_is_not_there_like_what_is(alices: User, bob: User) -> None:
    await run_in_database(lambda: factories.limit("3/d", "resources/read"))
    await refresh_catalogue()
    client = modern(await token(bob))
    for uri in ("docs://handbook", "docs://nothing", "toolhub://results/1"):
        assert (await client.error("resources/read", {"uri": uri}))["message"] == "Resource not found"
    seen = {
        uri: str(await client.error("resources/read", {"uri": uri})).replace(uri, "")
        for uri in ("docs://handbook", "docs://nothing", "toolhub://results/1")
    }
    assert all("on method resources/read" in one for one in seen.values())
    assert (await modern(await token(alices)).result("resources/read", {"uri": "docs://handbook"}))["contents"]
