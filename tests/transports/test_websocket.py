"""MCP over WebSocket: who gets in, both eras on one socket, many calls at once, and what ends a socket."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from tests.polling import wait_until_async
from tests.server.conftest import refresh_catalogue
from tests.transports import functions
from tests.transports.conftest import META, MODERN, Person, run_in_database
from tests.transports.sockets import WAIT_SECONDS, Socket
from toolhub.access import bearer
from toolhub.access.models import AccessToken
from toolhub.hub import Hub
from toolhub.parts import parts
from toolhub.server.request_rates import RequestRates
from toolhub.transports import connection
from toolhub.wire.meta import RETRY_AFTER

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


def add_envelope(params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        **(params or {}),
        "_meta": {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}, **meta},
    }


@pytest.fixture
async def alices(with_tools: Any) -> Person:
    made: Person = await with_tools("t_add", "t_silent", "t_wait", "t_ask", "t_flood")
    return made


@pytest.fixture
async def sockets(alices: Person) -> AsyncIterator[Any]:
    """Makes sockets of alice and has them closed at the end."""
    made: list[Socket] = []

    def make(**options: Any) -> Socket:
        made.append(Socket(alices, **options))
        return made[-1]

    yield make
    for socket in made:
        if not socket.task.done():
            await socket.leave()


@pytest.mark.parametrize(
    "what",
    [
        {"authorization": None},
        {"authorization": "Bearer thp_" + "x" * 43},
        {"authorization": "Basic " + b64encode(b"hub:thp_wrong").decode()},
        {"authorization": "Basic !!!"},
        {"host": "evil.example.com"},
        {"origin": "https://evil.example.com"},
        {"subprotocols": ["graphql-ws"]},
        {"subprotocols": ["mcp", "bearer.thp_" + "x" * 43], "authorization": None},
        {"subprotocols": ["mcp", "bearer.a", "bearer.b"], "authorization": None},
        {"subprotocols": ["mcp", "bearer.a"]},
    ],
)
async def test_a_handshake_that_is_not_good_is_refused(sockets: Any, what: dict[str, Any]) -> None:
    assert await sockets(**what).refused()


async def test_a_token_in_the_address_is_not_looked_for(alices: Person, sockets: Any) -> None:
    socket = sockets(authorization=None)
    socket.scope["query_string"] = f"token={alices.token}".encode()
    assert await socket.refused()


async def test_a_token_gets_in_as_bearer_as_password_and_as_subprotocol(alices: Person, sockets: Any) -> None:
    password = b64encode(f"hub:{alices.token}".encode()).decode()
    ways: list[dict[str, Any]] = [
        {},
        {"origin": "http://localhost:3000"},
        {"subprotocols": []},
        {"authorization": f"Basic {password}"},
        {"authorization": None, "subprotocols": ["mcp", f"bearer.{alices.token}"]},
    ]
    for options in ways:
        await (await sockets(**options).opened()).initialize()


async def test_there_is_no_other_socket(alices: Person) -> None:
    socket = Socket(alices)
    await socket.leave()
    scope = {**socket.scope, "path": "/ws/else"}
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})
    await alices.wire.application(scope, incoming.get, outgoing.put)
    assert outgoing.get_nowait() == {"type": "websocket.close"}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_session_lives_as_long_as_its_socket(sockets: Any, revision: str) -> None:
    socket = await sockets().opened()
    assert (await socket.initialize(revision))["result"]["protocolVersion"] == revision
    answer = await socket.request("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}}, revision=revision)
    assert answer["result"]["content"][0]["text"] == "3"
    again = await socket.request("initialize", {}, revision=revision)
    assert again["error"]["code"] == -32600
    call = await run_in_database(lambda: Call.objects.get())
    assert (call.transport, call.revision, call.outcome) == ("websocket", revision, "ok")


async def test_handshake_and_modern_revisions_share_one_socket(sockets: Any) -> None:
    socket = await sockets().opened()
    params = add_envelope({"name": "t_add", "arguments": {"a": 1, "b": 2}})
    before = await socket.request("tools/call", params, revision=MODERN)
    assert before["result"]["resultType"] == "complete"
    await socket.initialize()
    session = await socket.request("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    assert "resultType" not in session["result"]
    after = await socket.request("server/discover", add_envelope(), revision=MODERN)
    assert MODERN in after["result"]["supportedVersions"]


async def test_requests_before_initialize_are_refused_except_a_ping(sockets: Any) -> None:
    socket = await sockets().opened()
    refused = await socket.request("tools/list")
    assert refused["error"]["code"] == -32600
    unsupported = await socket.request(
        "tools/list", {"_meta": {f"{META}protocolVersion": "v9", f"{META}clientCapabilities": {}}}, revision=MODERN
    )
    assert unsupported["error"]["code"] == -32022


@pytest.mark.parametrize(
    "text,code",
    [
        ("{", -32700),
        ("[]", -32600),
        ("[" * 5000, -32700),
        ('{"jsonrpc":"2.0","id":1}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', -32602),
        ('{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
    ],
)
async def test_a_malformed_message_is_answered_and_the_socket_lives(sockets: Any, text: str, code: int) -> None:
    socket = await sockets().opened()
    await socket.initialize()
    socket.text(text)
    assert (await socket.message())["error"]["code"] == code
    assert "result" in await socket.request("tools/list")


async def test_a_slow_call_does_not_hold_up_the_others(sockets: Any, label: str) -> None:
    socket = await sockets().opened()
    await socket.initialize()
    socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}, id="slow"))
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    assert "result" in await socket.request("tools/list", id="quick")
    functions.GO[label].set()
    assert (await socket.message())["id"] == "slow"


async def test_a_cancelled_call_gets_no_answer(sockets: Any, label: str) -> None:
    socket = await sockets().opened()
    await socket.initialize()
    socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}, id="slow"))
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    socket.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    for _ in range(3):
        assert "result" in await socket.request("ping")
    assert functions.ENDED[label] == "notifications/cancelled"


async def test_a_modern_request_on_a_socket_is_cancelled_by_its_notification(sockets: Any, label: str) -> None:
    socket = await sockets().opened()
    params = add_envelope({"name": "t_silent", "arguments": {"label": label}})
    socket.send(socket.person.message("tools/call", params, id="slow"))
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    socket.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    assert "result" in await socket.request("tools/list", add_envelope(), revision=MODERN)
    assert functions.ENDED[label] == "notifications/cancelled"


async def test_a_question_and_its_answer_share_the_socket(sockets: Any) -> None:
    socket = await sockets().opened()
    await socket.initialize(elicitation={})
    socket.send(socket.person.message("tools/call", {"name": "t_ask", "arguments": {}}, id="call"))
    question = await socket.message()
    assert question["method"] == "elicitation/create"
    socket.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}})
    assert "Ann" in json.dumps(await socket.message())


async def test_a_batch_at_2025_03_26_is_answered_in_one_frame(sockets: Any) -> None:
    socket = await sockets().opened()
    await socket.initialize("2025-03-26")
    socket.send([socket.person.message("ping", id=1), socket.person.message("tools/list", id=2)])
    assert {answer["id"] for answer in await socket.message()} == {1, 2}


async def test_leaving_cancels_what_was_running(sockets: Any, label: str) -> None:
    socket = await sockets().opened()
    await socket.initialize()
    socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}))
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    await socket.leave()
    call = await run_in_database(lambda: Call.objects.get())
    assert call.outcome == "cancelled"


@pytest.mark.parametrize(
    "event,code,reason",
    [
        ({"bytes": b"{}"}, connection.UNSUPPORTED, "a binary frame"),
        ({"text": " " * 5_000_000}, connection.TOO_BIG, "a message that is too large"),
    ],
)
async def test_an_unreadable_message_closes_the_socket_and_says_why(
    sockets: Any, event: dict[str, Any], code: int, reason: str
) -> None:
    socket = await sockets().opened()
    socket.incoming.put_nowait({"type": "websocket.receive", **event})
    assert await socket.close_event() == {"type": "websocket.close", "code": code, "reason": reason}
    assert parts.get(Hub).server.refusals.counts["large"] == (code == connection.TOO_BIG)


async def test_a_socket_too_many_is_told_to_come_back(sockets: Any, settings: Any) -> None:
    settings.MAX_STREAMS_PER_USER = 1
    first = await sockets().opened()
    late = await sockets().opened()
    event = await late.close_event()
    assert event["code"] == connection.TRY_LATER
    assert "1 open streams and WebSockets, the maximum. Close one. Try again in 30 s." in event["reason"]
    assert parts.get(Hub).server.refusals.counts["streams"] == 1
    await first.leave()
    await (await sockets().opened()).initialize()


async def test_while_tokens_cannot_be_checked_a_socket_is_told_to_come_back(
    sockets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "MAX_WAITING_TOKENS", 0)
    unknown = await sockets(authorization="Bearer thp_" + "x" * 43).opened()
    event = await unknown.close_event()
    assert (event["code"], event["reason"]) == (
        connection.TRY_LATER,
        "Too many access tokens at this server are waiting to be checked. Try again in 5 s.",
    )
    assert parts.get(Hub).server.refusals.counts["lookups"] == 1


async def test_more_calls_than_may_run_are_refused_one_by_one_and_the_socket_stays(
    sockets: Any, label: str, settings: Any
) -> None:
    settings.MAX_CALLS_PER_USER = 3
    socket = await sockets().opened()
    await socket.initialize()
    for number in range(600):
        socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}, id=number))
    answers = [await socket.message() for _ in range(597)]
    assert {answer["id"] for answer in answers} == set(range(3, 600))
    assert {answer["error"]["code"] for answer in answers} == {-32603}
    assert {answer["error"]["data"][RETRY_AFTER] for answer in answers} == {1}


async def test_sessions_that_come_too_fast_are_refused_and_counted(sockets: Any, settings: Any) -> None:
    settings.REQUESTS_RATE = "1/h"
    role = parts.get(Hub).server
    role.rates = RequestRates()
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first, second = await sockets().opened(), await sockets().opened()
    assert "result" in await first.request("initialize", asked)
    error = (await second.request("initialize", asked))["error"]
    assert error["data"][RETRY_AFTER] > 0
    assert role.refusals.counts["requests"] == 1


async def test_too_many_messages_in_progress_close_the_socket(
    sockets: Any, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_CONCURRENT_MESSAGES", 5)
    socket = await sockets().opened()
    await socket.initialize()
    for number in range(6):
        socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}, id=number))
    assert await socket.closed() == connection.TRY_LATER


async def test_a_reader_that_takes_nothing_is_disconnected(sockets: Any, settings: Any) -> None:
    settings.MAX_QUEUED_BYTES = 50_000 // connection.OUTGOING_STREAMS
    socket = await sockets().opened()
    await socket.initialize()
    socket.taking.clear()
    params = add_envelope({"name": "t_flood", "arguments": {"messages": 20}}, **{f"{META}logLevel": "debug"})
    call = socket.person.message("tools/call", params)
    socket.send(call)
    await wait_until_async(lambda: run_in_database(lambda: Call.objects.exclude(outcome="running").exists()))
    socket.taking.set()
    assert await socket.closed() == connection.POLICY


async def test_a_revoked_token_closes_the_socket(sockets: Any, alice: User, label: str) -> None:
    socket = await sockets().opened()
    await socket.initialize()
    socket.send(socket.person.message("tools/call", {"name": "t_silent", "arguments": {"label": label}}))
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    await run_in_database(lambda: [token.revoke() for token in AccessToken.objects.filter(user=alice)])
    assert await socket.closed() == connection.POLICY
    await socket.leave()
    assert (await run_in_database(lambda: Call.objects.get())).outcome == "cancelled"


async def test_calls_on_an_open_socket_are_logged_under_the_new_name_of_the_token(sockets: Any, alice: User) -> None:
    def rename() -> None:
        token = AccessToken.objects.get(user=alice)
        token.name = "renamed"
        token.save(update_fields=["name"])

    socket = await sockets().opened()
    await socket.initialize()
    call = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    await socket.request("tools/call", call)
    await run_in_database(rename)
    assert "result" in await socket.request("tools/call", call), "the session goes on"
    logged = await run_in_database(lambda: list(Call.objects.order_by("id").values_list("credential", flat=True)))
    assert logged == ["test", "renamed"]


async def test_changes_reach_a_session_and_a_subscription_on_one_socket(sockets: Any, alice: User) -> None:
    from catalog.models import Grant

    socket = await sockets().opened()
    await socket.initialize()
    socket.send(
        socket.person.message(
            "subscriptions/listen", add_envelope({"notifications": {"toolsListChanged": True}}), id="s"
        )
    )
    assert (await socket.message())["method"] == "notifications/subscriptions/acknowledged"
    await run_in_database(lambda: Grant.objects.filter(user=alice).order_by("pk")[0].delete())
    await refresh_catalogue()
    news = [await socket.message(), await socket.message()]
    assert {message["method"] for message in news} == {"notifications/tools/list_changed"}
    tags = [message.get("params", {}).get("_meta", {}).get(f"{META}subscriptionId") for message in news]
    assert sorted(tags, key=str) == [None, "s"]
