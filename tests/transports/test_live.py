"""The pages' own socket: who gets in, what they are told of calls, and what ends it."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient
from django.utils import timezone

from audit.models import Action, Call
from tests.polling import wait_until_async
from tests.server.conftest import refresh_catalogue, server
from tests.transports import functions
from tests.transports.conftest import META, Person, run_in_database, sockets
from tests.transports.sockets import WAIT_SECONDS
from tests.transports.windows import Window, sign_in
from toolhub.access.models import AccessToken
from toolhub.server.live import subscriptions
from toolhub.transports import live

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


@pytest.fixture
async def alices(with_tools: Any) -> Person:
    made: Person = await with_tools("t_add", "t_silent", "t_wait")
    return made


async def start_call(person: Person, tool: str, label: str) -> tuple[Any, str]:
    """A call that runs, and its id."""
    request = person.begin_modern("tools/call", {"name": tool, "arguments": {"label": label}})
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)

    def find() -> str:
        return str(Call.objects.filter(name=tool, outcome="running").latest("id").pk)

    return request, await run_in_database(find)


async def wait_for_outcome(call_id: str) -> str:
    def outcome() -> str:
        found: str = Call.objects.get(pk=call_id).outcome
        return "" if found == "running" else found

    async def look() -> str:
        found: str = await run_in_database(outcome)
        return found

    found: str = await wait_until_async(look)
    return found


# --- who does not get in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": None}, id="without an origin"),
        pytest.param({"origin": "https://evil.example"}, id="a page of another site"),
        pytest.param({"origin": "http://localhost:3000"}, id="another port of this host"),
        pytest.param({"origin": "null"}, id="a page without a site"),
        pytest.param({"host": "evil.example", "origin": "http://evil.example"}, id="another host"),
        pytest.param({"cookie": None}, id="without a cookie"),
        pytest.param({"cookie": f"{settings.SESSION_COOKIE_NAME}=made-up"}, id="a session that never was"),
    ],
)
async def test_only_a_signed_in_page_of_this_site_may_open_the_socket(alice, windows, headers):
    window = await windows(alice, **headers)
    assert await window.refused()


async def test_a_token_is_no_session(alices, windows):
    window = await windows(key="", authorization=f"Bearer {alices.token}")
    assert await window.refused()


async def test_a_deactivated_user_is_rejected(alice, windows):
    key = await run_in_database(sign_in, alice)
    await User.objects.filter(pk=alice.pk).aupdate(is_active=False)
    window = await windows(key=key)
    assert await window.refused()


async def test_the_number_of_sockets_per_user_is_bounded(alice, bob, windows, monkeypatch):
    monkeypatch.setattr(live, "MAX_SOCKETS_PER_USER", 2)
    first, second = await windows(alice), await windows(alice)
    await first.opened()
    await second.opened()
    third = await windows(alice)
    assert await third.refused()
    await (await windows(bob)).opened()
    await first.leave()
    await (await windows(alice)).opened()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("x" * 600, 1009, id="too long"),
        pytest.param("no json", 1008, id="no JSON"),
        pytest.param("[]", 1008, id="a list"),
        pytest.param('{"watch": "everything"}', 1008, id="an unknown topic"),
        pytest.param('{"watch": "call", "id": "1; DROP TABLE"}', 1008, id="an id that is none"),
        pytest.param('{"watch": "call"}', 1008, id="no id"),
        pytest.param('{"watch": ["calls"]}', 1008, id="a topic that is a list"),
        pytest.param("[" * 500, 1008, id="deep nesting"),
    ],
)
async def test_an_invalid_message_closes_the_socket(alice, windows, text, code):
    window = await (await windows(alice)).opened()
    window.send(text)
    assert await window.closed() == code


async def test_a_binary_frame_closes_the_socket(alice, windows):
    window = await (await windows(alice)).opened()
    window.incoming.put_nowait({"type": "websocket.receive", "bytes": b"{}"})
    assert await window.closed() == 1003


async def test_a_socket_watches_a_bounded_number_of_calls(alice, windows):
    window = await (await windows(alice)).opened()
    for _ in range(live.MAX_WATCHED_CALLS + 1):
        window.send({"watch": "call", "id": str(uuid.uuid4())})
    assert await window.closed() == 1008


async def test_a_call_of_somebody_else_and_one_that_never_was_are_answered_alike(
    alices, bob, windows, label, monkeypatch
):
    monkeypatch.setattr("toolhub.server.live.calls.UNKNOWN_AFTER_SECONDS", 0.2)
    _, call_id = await start_call(alices, "t_wait", label)
    window = await (await windows(bob)).opened()
    nowhere = str(uuid.uuid4())
    for number in (call_id, nowhere):
        window.send({"watch": "call", "id": number})
    answers = [await window.message() for _ in range(2)]
    assert sorted(answer.pop("id") for answer in answers) == sorted([call_id, nowhere])
    assert answers == [{"topic": "call", "error": "unknown"}] * 2


async def test_nobody_hears_of_the_calls_of_others(alices, bob, windows, label):
    window = await (await windows(bob)).opened()
    hers = await (await windows(alices.user)).opened()
    for each in (window, hers):
        each.send({"watch": "calls"})
        await each.message(topic="calls", id=None)
    request, call_id = await start_call(alices, "t_wait", label)
    functions.GO[label].set()
    await request.answer()
    await hers.message(topic="calls", id=call_id, outcome="ok")
    assert window.outgoing.empty()


# --- what ends it ----------------------------------------------------------------------------------------------------


async def test_signing_out_closes_the_socket_for_good(alice, windows, monkeypatch):
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.1)
    browser = AsyncClient()
    await browser.aforce_login(alice)
    window = await (await windows(key=browser.cookies[settings.SESSION_COOKIE_NAME].value)).opened()
    await browser.alogout()
    assert await window.closed() == live.SIGNED_OUT


async def test_deactivating_a_user_closes_their_sockets(alice, bob, windows, monkeypatch):
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.1)
    window = await (await windows(alice)).opened()
    other = await (await windows(bob)).opened()
    await User.objects.filter(pk=alice.pk).aupdate(is_active=False)
    assert await window.closed() == live.SIGNED_OUT
    assert not other.task.done() and other.outgoing.empty()


async def test_a_page_that_does_not_read_is_closed_instead_of_filling_memory(alice, windows, monkeypatch):
    monkeypatch.setattr(live, "MAX_WAITING_MESSAGES", 5)
    window = await (await windows(alice)).opened()
    (socket,) = sockets()
    for _ in range(50):
        socket.put({"topic": "calls"})
    assert await window.closed() == 1013


async def test_windows_that_close_during_an_update_keep_nothing_from_the_others(alice, windows, monkeypatch):
    monkeypatch.setattr(live, "MAX_WAITING_MESSAGES", 0)
    opened = [await (await windows(alice)).opened() for _ in range(3)]
    for window in opened:
        window.send({"watch": "calls"})
    assert [await window.closed() for window in opened] == [1013] * 3


# --- what it tells ---------------------------------------------------------------------------------------------------


async def test_a_call_appears_by_itself_with_its_progress_and_its_end(alices, windows, label):
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "calls"})
    await window.message(topic="calls", id=None)
    request, call_id = await start_call(alices, "t_silent", label)
    began = await window.message(topic="calls", id=call_id)
    assert began == {
        "topic": "calls",
        "id": call_id,
        "outcome": None,
        "progress": None,
        "url": f"/calls/{call_id}/",
        "name": "t_silent",
    }
    functions.GO[label].set()
    await request.answer()
    assert (await window.message(topic="calls", id=call_id, outcome="ok"))["progress"] is None


async def test_progress_of_a_watched_call_arrives_and_then_its_outcome(alices, windows, label):
    request, call_id = await start_call(alices, "t_wait", label)
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "call", "id": call_id})
    first = await window.message(id=call_id)
    assert first == {"topic": "call", "id": call_id, "outcome": None, "progress": None, "url": f"/calls/{call_id}/"}
    functions.GO[label].set()
    went_on = await window.message(id=call_id)
    assert went_on["progress"] == {"progress": 2, "total": 3, "message": "went on"}
    await request.answer()
    assert (await window.message(id=call_id, outcome="ok"))["topic"] == "call"


async def test_a_call_that_has_ended_is_reported_at_once_and_no_more(alices, windows):
    await alices.modern("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    call_id = str((await Call.objects.alatest("id")).pk)
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "call", "id": call_id})
    assert (await window.message(id=call_id))["outcome"] == "ok"


async def test_an_auditor_may_watch_one_call_of_another_user(alices, bob, windows, label):
    def promote() -> None:
        User.objects.filter(pk=bob.pk).update(is_staff=True)
        bob.user_permissions.add(Permission.objects.get(codename="view_call"))

    await run_in_database(promote)
    request, call_id = await start_call(alices, "t_wait", label)
    window = await (await windows(await User.objects.aget(pk=bob.pk))).opened()
    window.send({"watch": "call", "id": call_id})
    assert (await window.message(id=call_id))["outcome"] is None
    functions.GO[label].set()
    await request.answer()
    assert (await window.message(id=call_id, outcome="ok"))["topic"] == "call"


async def test_not_granted_reads_as_not_there_for_the_one_who_asked(alices, windows, publish):
    def hide() -> None:
        publish(None, "t_ask")

    await run_in_database(hide)
    await refresh_catalogue()
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "calls"})
    await window.message(topic="calls", id=None)
    for name in ("t_ask", "no_such_tool"):
        await alices.modern("tools/call", {"name": name, "arguments": {}})
    heard = [await window.message(topic="calls"), await window.message(topic="calls")]
    assert {message["name"]: message["outcome"] for message in heard} == {
        "t_ask": "unknown_tool",
        "no_such_tool": "unknown_tool",
    }


# --- cancelling ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def browser() -> Any:
    async def of(user: User) -> AsyncClient:
        client = AsyncClient()
        await client.aforce_login(user)
        return client

    return of


async def press_cancel(browser: AsyncClient, call_id: str, **options: Any) -> Any:
    return await browser.post(f"/calls/{call_id}/cancel/", headers={"accept": "application/json"}, **options)


async def test_cancelling_asks_for_a_post_and_for_a_person(alices, browser, label):
    _, call_id = await start_call(alices, "t_wait", label)
    mine = await browser(alices.user)
    assert (await mine.get(f"/calls/{call_id}/cancel/")).status_code == 405
    assert (await press_cancel(AsyncClient(), call_id)).status_code == 302
    strict = AsyncClient(enforce_csrf_checks=True)
    await strict.aforce_login(alices.user)
    assert (await press_cancel(strict, call_id)).status_code == 403
    assert (await Call.objects.aget(pk=call_id)).outcome == "running"


async def test_a_call_of_somebody_else_cannot_be_cancelled_and_reads_like_none(alices, bob, root, browser, label):
    _, call_id = await start_call(alices, "t_wait", label)
    his = await browser(bob)
    theirs, nowhere = await press_cancel(his, call_id), await press_cancel(his, str(uuid.uuid4()))
    assert (theirs.status_code, nowhere.status_code) == (404, 404)
    assert theirs.content == nowhere.content
    await User.objects.filter(pk=bob.pk).aupdate(is_staff=True)
    assert (await press_cancel(his, call_id)).status_code == 404
    assert (await Call.objects.aget(pk=call_id)).outcome == "running"
    assert not await Action.objects.filter(verb="cancelled").aexists()


async def test_a_call_that_has_ended_says_so_and_stays_as_it_was(alices, browser):
    await alices.modern("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    call = await Call.objects.alatest("id")
    answer = await press_cancel(await browser(alices.user), str(call.pk))
    assert answer.json()["state"] == "ended"
    assert (await Call.objects.aget(pk=call.pk)).outcome == "ok"


async def test_cancelling_ends_the_call_and_the_audit_log_says_who_did_it(alices, browser, windows, label):
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "calls"})
    await window.message(topic="calls", id=None)
    request, call_id = await start_call(alices, "t_silent", label)
    answer = await press_cancel(await browser(alices.user), call_id)
    assert answer.json()["state"] == "cancelled"
    assert "cancelled by alice" in (await request.answer()).error["message"]
    assert functions.ENDED[label] == "cancelled by alice in the browser"
    call = await Call.objects.aget(pk=call_id)
    assert (call.outcome, call.detail) == ("cancelled", "cancelled by alice in the browser")
    action = await Action.objects.aget(verb="cancelled")
    assert (action.actor, action.kind) == ("alice", "call") and call_id in action.target
    await window.message(topic="calls", id=call_id, outcome="cancelled")


async def test_staff_with_the_permission_may_cancel_the_call_of_another(alices, bob, browser, label):
    def promote() -> None:
        User.objects.filter(pk=bob.pk).update(is_staff=True)
        bob.user_permissions.add(Permission.objects.get(codename="cancel_call"))

    await run_in_database(promote)
    request, call_id = await start_call(alices, "t_wait", label)
    answer = await press_cancel(await browser(bob), call_id)
    assert answer.json()["state"] == "cancelled"
    await request.answer()
    assert await wait_for_outcome(call_id) == "cancelled"
    assert (await Action.objects.aget(verb="cancelled")).actor == "bob"


async def test_a_call_of_a_session_is_cancelled_too(alices, browser, label):
    await alices.begin_session()
    request = alices.begin("tools/call", {"name": "t_silent", "arguments": {"label": label}})
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    call_id = str((await Call.objects.alatest("id")).pk)
    assert (await press_cancel(await browser(alices.user), call_id)).json()["state"] == "cancelled"
    await request.answer()
    assert await wait_for_outcome(call_id) == "cancelled"


# --- the connection check --------------------------------------------------------------------------------------------


@pytest.fixture
async def connecting(alices, windows) -> Window:
    """The page on which alice connects a client, at the address that the clients of these tests have."""
    window = await (await windows(alices.user)).opened()
    window.send({"watch": "connect"})
    await wait_until_async(lambda: server().pages.is_subscribed(subscriptions.connect_key(alices.user.pk)))
    for socket in sockets():
        server().connect_check.watch(socket.watcher, "192.0.2.7")
    return window


async def test_a_bad_token_is_reported_with_the_reason(alices, connecting):
    def spoil(**fields: Any) -> str:
        token, text = AccessToken.objects.issue(alices.user, "spoiled")
        AccessToken.objects.filter(pk=token.pk).update(**fields)
        return text

    now = timezone.now()
    for reason, fields in (("revoked", {"revoked": now}), ("expired", {"expires": now})):
        alices.token = await run_in_database(spoil, **fields)
        assert (await alices.modern("tools/list")).status == 401
        told = await connecting.message(topic="connect")
        assert (told["step"], told["reason"]) == ("failed", reason) and told["credential"].startswith("token:")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param({"authorization": None}, "missing", id="no token"),
        pytest.param({"authorization": "Basic abc"}, "scheme", id="another scheme"),
        pytest.param({"authorization": "Bearer thp_short"}, "malformed", id="half a token"),
        pytest.param({"authorization": "Bearer thp_" + "x" * 43}, "unknown", id="a token that never was"),
        pytest.param({"host": "evil.example"}, "host", id="another host"),
        pytest.param({"origin": "https://evil.example"}, "origin", id="another origin"),
        pytest.param({"accept": "text/plain"}, "accept", id="accepting nothing that is sent"),
        pytest.param({"content_type": "text/plain"}, "content_type", id="another content type"),
    ],
)
async def test_a_rejected_unknown_client_is_reported_at_the_same_address(alices, connecting, headers, reason):
    await alices.modern("tools/list", **headers)
    told = await connecting.message(topic="connect")
    assert (told["step"], told["reason"], told["credential"]) == ("failed", reason, None)


async def test_failures_at_another_address_are_not_reported(alices, connecting):
    await alices.wire.send("POST", alices.plain(authorization=None), b"{}", address="198.51.100.1")
    await alices.modern("tools/list", authorization=None)
    assert (await connecting.message(topic="connect"))["reason"] == "missing"
    assert connecting.outgoing.empty()


async def test_clients_of_other_users_are_not_reported(alices, bob, connecting, windows):
    his = await (await windows(bob)).opened()
    his.send({"watch": "connect"})
    await wait_until_async(lambda: server().pages.is_subscribed(subscriptions.connect_key(bob.pk)))
    await alices.modern("tools/list")
    await connecting.message(step="tools")
    assert his.outgoing.empty()


async def test_an_unsupported_revision_is_reported(alices, connecting):
    await alices.modern("tools/list", meta={f"{META}protocolVersion": "2027-01-01"}, mcp_protocol_version="2027-01-01")
    told = await connecting.message(topic="connect")
    assert (told["step"], told["reason"]) == ("failed", "revision")


@pytest.mark.parametrize("era", ["modern", "session"])
async def test_a_client_that_connects_is_followed_to_its_first_call(alices, connecting, era):
    if era == "session":
        await alices.begin_session()
        assert (await connecting.message(topic="connect"))["revision"] == "2025-11-25"
    send = alices.modern if era == "modern" else alices.request
    await send("tools/list")
    tools = await connecting.message(step="tools")
    assert (tools["count"], tools["token"], tools["client"]) == (3, "test", "test 1")
    await send("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    assert (await connecting.message(step="call"))["failed"] is False


async def test_nothing_is_tracked_while_nobody_connects_a_client(alices, monkeypatch):
    server().pages.keys.clear()
    monkeypatch.setattr(server().connect_check, "_send_step", lambda *_: pytest.fail("noted"))
    assert (await alices.modern("tools/list")).status == 200
    assert (await alices.modern("tools/list", authorization=None)).status == 401
