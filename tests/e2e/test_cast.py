"""alice, bob and charlie over every transport and revision: who sees and calls what, and who hears of a change."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.client import HttpClient, WebSocketClient
from tests.e2e import proofs
from tests.e2e.pages import Pages
from tests.e2e.raw import META, MODERN, Raw
from tests.e2e.seed import end_grants
from tests.polling import wait_until_async
from tests.real_servers import ROOT, Hub
from toolhub.wire import versions

REVISIONS = (*versions.HANDSHAKE, *versions.MODERN)
LISTS = {"alice": ["hers", "shared"], "bob": ["shared", "with_limit_1", "with_limit_2", "with_limit_3"], "charlie": []}
IS_LONG_RUN = os.environ.get("TOOLHUB_TEST_LONG") == "1"


def seed_users() -> dict[str, Any]:
    from tests.e2e.seed import create_cast, grant_tool
    from tests.factories import limit, make_group

    tokens = create_cast()
    proofs.create_root()
    for user in tokens:
        proofs.allow_sign_in(user)
    grant_tool("hers", ["alice"], "plus")
    grant_tool("shared", ["alice", "bob"], "plus")
    from catalog.models import Tool

    for number in (1, 2, 3):
        limit("3/m", Tool.objects.get(pk=grant_tool(f"with_limit_{number}", ["bob"], "plus")))
    return {**tokens, "group": make_group("late").pk}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    ledger = tmp_path_factory.mktemp("cast") / "ledger"
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(ledger)}
    with Hub(env=env, seed=seed_users) as running:
        yield running


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_a_tool_of_somebody_else_and_one_that_does_not_exist_get_the_same_bytes(hub: Hub) -> None:
    for method, key in (("modern", None), ("handshake", "session")):
        async with Raw(hub.port, hub.seeded["bob"]) as bob:
            seen = []
            session = await bob.session() if key else None
            for name in ("hers", "hars"):
                params = {"name": name, "arguments": {"a": 1}}
                if method == "modern":
                    answer = await bob.modern("tools/call", params)
                else:
                    answer = await bob.handshake("tools/call", params, session)
                assert answer.messages()[-1]["error"]["message"] == f"Unknown tool: {name}"
                seen.append(answer.seen(name))
            assert seen[0] == seen[1]
    async with WebSocketClient(hub.ws_url, hub.seeded["bob"], MODERN) as client:
        texts = []
        for name in ("hers", "hars"):
            with pytest.raises(Exception, match="-32602"):
                await client.call(name, {"a": 1}, request_id="same")
            texts.append(json.dumps(client.messages[-1]).replace(name, "..."))
        assert texts[0] == texts[1]
    for name, outcome in (("hers", "refused"), ("hars", "unknown_tool")):
        rows = await asyncio.to_thread(hub.call, proofs.list_calls, name=name)
        assert [row[1:3] for row in rows] == [["bob", outcome]] * 3


async def test_a_limit_refuses_the_fourth_call_and_says_how_long_to_wait(hub: Hub) -> None:
    """Periods begin at fixed moments: only when one begins in between, more pass."""
    async with HttpClient(hub.mcp_url, hub.seeded["bob"], "2025-11-25") as bob:
        for number in (1, 2, 3):
            name, passed, began = f"with_limit_{number}", 0, time.time()
            while not (result := await bob.call(name, {"a": 1})).get("isError"):
                passed += 1
                assert passed <= 6
            took = time.time() - began
            assert passed >= 3
            text = result["content"][0]["text"]
            seconds = [value for value in result["_meta"].values() if isinstance(value, int)]
            assert "3/m" in text and len(seconds) == 1 and 1 <= seconds[0] <= 60 and str(seconds[0]) in text, result
            assert passed == 3 or 60 - seconds[0] <= took + 2, f"{passed} passed in one period: {result}"
            rows = await asyncio.to_thread(hub.call, proofs.list_calls, name=name)
            assert sorted(row[2] for row in rows) == ["limited"] + ["ok"] * passed
            assert next(str(seconds[0]) in row[4] for row in rows if row[2] == "limited")


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_sees_their_own_list_over_http_and_websocket(hub: Hub, revision: str) -> None:
    for user, names in LISTS.items():
        for kind, url in ((HttpClient, hub.mcp_url), (WebSocketClient, hub.ws_url)):
            async with kind(url, hub.seeded[user], revision) as client:
                assert [name for name in await client.tools() if not name.startswith("later")] == names


async def stdio(hub: Hub, user: str, revision: str) -> list[list[str]]:
    """The lists of one process: at the modern revision, and after `initialize` at another."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "manage.py",
        "mcpstdio",
        cwd=ROOT,
        env={**hub.environment(), "TOOLHUB_TOKEN": hub.seeded[user]},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": "raw", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "tools/list", "params": {"_meta": meta}},
        {"id": 2, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 3, "method": "tools/list"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
    said, _ = await asyncio.wait_for(process.communicate(b"".join(lines)), 120)
    answers = {message["id"]: message["result"] for message in map(json.loads, said.splitlines()) if "id" in message}
    assert answers[2]["protocolVersion"] == revision
    return [[tool["name"] for tool in answers[number]["tools"]] for number in (1, 3)]


async def test_each_sees_their_own_list_over_stdio(hub: Hub) -> None:
    revisions = versions.HANDSHAKE if IS_LONG_RUN else ("2024-11-05", "2025-06-18", "2025-11-25")
    chosen = (
        [(user, revision) for user in LISTS for revision in revisions]
        if IS_LONG_RUN
        else list(zip(LISTS, revisions, strict=True))
    )
    for user, revision in chosen:
        for found in await stdio(hub, user, revision):
            assert [name for name in found if not name.startswith("later")] == LISTS[user]


async def test_each_sees_their_own_list_in_the_browser(hub: Hub) -> None:
    every = {name for names in LISTS.values() for name in names}
    for user, names in LISTS.items():
        async with Pages(hub, user) as pages:
            await pages.sign_in()
            # What is random in it may hold any word.
            page = re.sub(r'(csrf\w*" value|nonce)="[^"]*"', "", await pages.get("/tools/"))
            assert {name for name in every if f">{name}<" in page or f"#{name}" in page or name in page} == set(names)


# --- changes ---------------------------------------------------------------------------------------------------------

CHANGED = "notifications/tools/list_changed"


@pytest.fixture
async def connected(hub: Hub) -> AsyncIterator[dict[str, Any]]:
    """Each of the three holds another kind of stream open."""
    async with AsyncExitStack() as stack:
        alice = await stack.enter_async_context(HttpClient(hub.mcp_url, hub.seeded["alice"], "2025-11-25"))
        await alice.listen()
        bob = await stack.enter_async_context(HttpClient(hub.mcp_url, hub.seeded["bob"], MODERN))
        await bob.subscribe(toolsListChanged=True)
        charlie = await stack.enter_async_context(WebSocketClient(hub.ws_url, hub.seeded["charlie"], "2025-06-18"))
        yield {"alice": alice, "bob": bob, "charlie": charlie}


async def test_only_clients_whose_list_changed_hear_of_a_saved_change(hub: Hub, connected: dict[str, Any]) -> None:
    rows = await asyncio.to_thread(hub.call, get_ids)
    heard = dict.fromkeys(connected, 0)
    async with Pages(hub, proofs.ROOT) as admin:
        await admin.sign_in()

        async def concerns(who: set[str]) -> None:
            """These hear of what was just done; that the others do not, shows when all have heard of something else."""
            for user in who:
                heard[user] += 1
                await connected[user].wait_for_message(CHANGED, heard[user])

        async def fence() -> None:
            await asyncio.to_thread(hub.call, add_tool_for_everyone, number=heard["alice"])
            await concerns(set(connected))
            for user, client in connected.items():
                assert len(client.received_params(CHANGED)) == heard[user], f"{user} heard of what was not theirs"

        await admin.send(f"/admin/catalog/tool/{rows['hers']}/change/", description="Adds two numbers, for alice.")
        await concerns({"alice"})
        await fence()
        await admin.send("/admin/catalog/grant/add/", effect="allow", tool=rows["hers"], user=rows["bob"])
        await concerns({"bob"})
        assert "hers" in await connected["bob"].tools()
        await fence()
        person = f"/admin/auth/user/{rows['charlie']}/change/"
        await admin.send(person, first_name="Charles")
        await fence()
        await asyncio.to_thread(hub.call, add_tool_for_group, pk=hub.seeded["group"])
        await admin.send(person, groups=[str(hub.seeded["group"])])
        await concerns({"charlie"})
        assert "later_for_group" in await connected["charlie"].tools()
        await fence()
        await admin.send(f"/admin/catalog/tool/{rows['shared']}/change/", enabled=None)
        await concerns({"alice", "bob"})
        await fence()
        # What is switched on again, and taken back, leaves the others of this module as they were.
        await admin.send(f"/admin/catalog/tool/{rows['shared']}/change/", enabled="on")
        await concerns({"alice", "bob"})
        await asyncio.to_thread(hub.call, withdraw_grant)
        await wait_until_async(lambda: have_lists(connected), 60)


async def have_lists(connected: dict[str, Any]) -> bool:
    return {user: await client.tools() for user, client in connected.items()} == LISTS


def get_ids() -> dict[str, int]:
    from django.contrib.auth.models import User

    from catalog.models import Tool

    users = {user.username: user.pk for user in User.objects.all()}
    return {**users, **dict(Tool.objects.values_list("name", "id"))}


def add_tool_for_everyone(number: int) -> None:
    from tests.factories import grant, make_tool

    grant(None, make_tool(f"later_{number}", function="plus"))


def add_tool_for_group(pk: int) -> None:
    from django.contrib.auth.models import Group

    from tests.factories import grant, make_tool

    grant(Group.objects.get(pk=pk), make_tool("later_for_group", function="plus"))


def withdraw_grant() -> None:
    from django.contrib.auth.models import User

    from catalog.models import Grant, Tool

    Tool.objects.filter(name__startswith="later").delete()
    Grant.objects.filter(tool__name="hers", user=User.objects.get(username="bob")).delete()


async def test_when_a_grant_ends_the_tool_goes_and_open_streams_hear_it_at_that_time(hub: Hub) -> None:
    await asyncio.to_thread(hub.call, add_temporary_tool)
    async with AsyncExitStack() as stack:
        token = hub.seeded["charlie"]
        # Whoever comes only when the hub knows of it hears nothing of its beginning.
        early = await stack.enter_async_context(HttpClient(hub.mcp_url, token, MODERN))

        async def known() -> bool:
            return await early.tools() == ["later_ending"]

        await wait_until_async(known, 60)
        clients: list[Any] = [
            await stack.enter_async_context(HttpClient(hub.mcp_url, token, "2025-11-25")),
            await stack.enter_async_context(HttpClient(hub.mcp_url, token, MODERN)),
            await stack.enter_async_context(WebSocketClient(hub.ws_url, token, "2025-03-26")),
        ]
        assert [await client.tools() for client in clients] == [["later_ending"]] * 3
        assert await clients[0].text("later_ending", {"a": 1})
        await clients[0].listen()
        await clients[1].subscribe(toolsListChanged=True)
        for client in clients:
            client.messages.clear()
        ends = await asyncio.to_thread(hub.call, end_grants, name="later_ending", seconds=2)
        saved = time.time()
        await asyncio.gather(*(client.wait_for_message(CHANGED) for client in clients))
        heard = time.time()
        assert ends - 0.05 < heard < max(ends, saved) + 20, f"heard {heard - ends:.2f} s after the end"
        assert [await client.tools() for client in clients] == [[], [], []]
        for client in clients:
            with pytest.raises(Exception, match="Unknown tool: later_ending"):
                await client.call("later_ending", {"a": 1})
        assert [len(client.received_params(CHANGED)) for client in clients] == [1, 1, 1]
    rows = await asyncio.to_thread(hub.call, proofs.list_calls, name="later_ending")
    assert sorted(row[2] for row in rows) == ["ok", "refused", "refused", "refused"]


def add_temporary_tool() -> None:
    from tests.e2e.seed import grant_tool

    grant_tool("later_ending", ["charlie"], "plus")
