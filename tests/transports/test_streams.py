"""Answers that become streams: progress, clients that leave, clients that come back, streams that are listened to."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from catalog.errors import CLIENT_GONE
from tests.polling import wait_until_async
from tests.server.conftest import refresh_catalogue
from tests.transports import functions
from tests.transports.conftest import MODERN, Person, run_in_database
from tests.transports.wire import Request
from tests.wire.official import validate_server_message
from toolhub.access.models import AccessToken
from toolhub.transports import exchange, resume, stream

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


def messages(request: Request, revision: str, method: str = "tools/call") -> list[dict[str, Any]]:
    """What the stream carried so far, judged."""
    found = [json.loads(data) for data in re.findall(rb"^data: (\{.*\})$", request.body, re.M)]
    for message in found:
        validate_server_message(revision, message, method)
    return found


def ids(request: Request) -> list[str]:
    return [found.decode() for found in re.findall(rb"^id: (.+)$", request.body, re.M)]


@pytest.fixture
async def alices(with_tools: Any) -> Person:
    made: Person = await with_tools("t_add", "t_wait", "t_silent", "t_flood", "t_leave", "t_ask")
    return made


def make_waiting(tool: str, label: str, **more: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": {"label": label}, **more}


async def wait_until_started(label: str) -> None:
    await asyncio.wait_for(functions.STARTED[label].wait(), 60)


async def get_last_outcome() -> tuple[str, str]:
    def last() -> Call | None:
        return Call.objects.order_by("-started_at", "-id").first()

    async def ended() -> Call | None:
        found: Call | None = await run_in_database(last)
        return found if found is not None and found.outcome != "running" else None

    found: Call | None = await wait_until_async(ended)
    assert found is not None
    return found.outcome, found.detail


async def test_a_quick_call_is_answered_with_one_json_body(alices: Person) -> None:
    answer = await alices.modern("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    assert answer.header("content-type") == "application/json"
    assert int(answer.header("content-length") or 0) == len(answer.body)
    assert b"\n" not in answer.body


async def test_a_client_that_accepts_only_streams_gets_one(alices: Person) -> None:
    await alices.begin_session()
    answer = await alices.request("tools/list", accept="text/event-stream")
    assert answer.header("content-type") == "text/event-stream"
    assert messages(answer, "2025-11-25", "tools/list")[-1]["result"]["tools"]


async def test_progress_is_streamed_before_the_answer(alices: Person, label: str) -> None:
    request = alices.begin_modern("tools/call", make_waiting("t_wait", label), meta={"progressToken": "p"})
    await request.wait_for_text(b"began")
    assert request.header("content-type") == "text/event-stream"
    assert request.header("x-accel-buffering") == "no"
    functions.GO[label].set()
    await request.answer()
    assert [message.get("method", "answer") for message in messages(request, MODERN)][-1] == "answer"
    assert ids(request) == [], "the stateless revision cannot resume"


async def test_a_client_that_accepts_no_stream_gets_the_answer_alone(alices: Person, label: str) -> None:
    functions.GO[label].set()
    answer = await alices.modern(
        "tools/call", make_waiting("t_wait", label), meta={"progressToken": "p"}, accept="application/json"
    )
    assert answer.header("content-type") == "application/json"
    assert f"{label} done" in answer.body.decode()


async def test_leaving_cancels_a_call_of_the_stateless_revision(alices: Person, label: str) -> None:
    request = alices.begin_modern("tools/call", make_waiting("t_silent", label))
    await wait_until_started(label)
    request.leave()
    await request.answer()
    assert await get_last_outcome() == ("cancelled", CLIENT_GONE)
    assert functions.ENDED[label] == CLIENT_GONE
    assert request.body == b"", "nothing is sent for a cancelled request"


async def test_leaving_a_session_cancels_nothing_and_the_answer_is_kept(alices: Person, label: str) -> None:
    await alices.begin_session()
    request = alices.begin("tools/call", make_waiting("t_wait", label, _meta={"progressToken": 1}))
    await request.wait_for_text(b"began")
    request.leave()
    functions.GO[label].set()
    await request.answer()
    assert (await get_last_outcome())[0] == "ok"
    back = await alices.listen(last_event_id=ids(request)[-1]).answer()
    assert f"{label} done" in json.dumps(messages(back, "2025-11-25")[-1])


async def test_leaving_before_anything_was_streamed_lets_the_call_go_on(alices: Person, label: str) -> None:
    await alices.begin_session("2025-06-18")
    request = alices.begin("tools/call", make_waiting("t_silent", label))
    await wait_until_started(label)
    await asyncio.wait_for(request.watched.wait(), 60)
    request.leave()
    functions.GO[label].set()
    await request.answer()
    assert (await get_last_outcome())[0] == "ok"


async def test_a_stream_begins_with_an_id_from_2025_11_25_on_and_with_none_before(alices: Person, label: str) -> None:
    functions.GO[label].set()
    for revision, primed in (("2025-06-18", False), ("2025-11-25", True)):
        await alices.begin_session(revision)
        answer = await alices.request("tools/call", make_waiting("t_wait", label, _meta={"progressToken": 1}))
        first = answer.body.split(b"\n\n")[0].decode()
        assert (first.endswith("data: ") and "retry:" in first) is primed
        assert len(ids(answer)) == len(messages(answer, revision)) + primed


async def test_a_client_that_is_sent_away_gets_the_rest_when_it_returns(alices: Person, label: str) -> None:
    await alices.begin_session()
    request = alices.begin("tools/call", make_waiting("t_leave", label, _meta={"progressToken": 1}))
    await asyncio.wait_for(request.ended.wait(), 60)
    assert not any("result" in message for message in messages(request, "2025-11-25"))
    back = alices.listen(last_event_id=ids(request)[-1])
    await asyncio.wait_for(back.started.wait(), 60)
    functions.GO[label].set()
    await back.answer()
    assert [message.get("method", "answer") for message in messages(back, "2025-11-25")] == [
        "notifications/progress",
        "answer",
    ]
    from_the_start = await alices.listen(last_event_id=ids(request)[0]).answer()
    assert messages(from_the_start, "2025-11-25") == messages(request, "2025-11-25") + messages(back, "2025-11-25")
    assert len(set(ids(from_the_start))) == len(ids(from_the_start))


async def test_an_older_revision_is_never_sent_away(alices: Person, label: str) -> None:
    await alices.begin_session("2025-06-18")
    request = alices.begin("tools/call", make_waiting("t_leave", label, _meta={"progressToken": 1}))
    await wait_until_started(label)
    assert not request.ended.is_set()
    functions.GO[label].set()
    await request.answer()
    assert "welcome back" in request.body.decode()


async def test_events_of_another_session_are_unknown_even_to_the_same_person(alices: Person, label: str) -> None:
    functions.GO[label].set()
    await alices.begin_session()
    request = await alices.request("tools/call", make_waiting("t_wait", label, _meta={"progressToken": 1}))
    await alices.begin_session()
    answer = await alices.listen(last_event_id=ids(request)[0]).answer()
    nobodys = await alices.listen(last_event_id="x" * 22 + ".0").answer()
    assert answer.status == 400
    assert answer.body == nobodys.body


async def test_a_log_forgets_its_oldest_streams_and_the_largest_ones(
    alices: Person, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions.GO[label].set()
    await alices.begin_session()
    monkeypatch.setattr(resume, "MAX_LOG_BYTES", 200)
    request = await alices.request("tools/call", make_waiting("t_wait", label, _meta={"progressToken": 1}))
    assert f"{label} done" in request.body.decode(), "the stream itself goes on"
    assert (await alices.listen(last_event_id=ids(request)[0]).answer()).status == 400


async def test_a_quiet_stream_is_kept_open_with_comments(
    alices: Person, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(exchange, "STREAM_AFTER_SECONDS", 0.05)
    request = alices.begin_modern("tools/call", make_waiting("t_silent", label))
    await request.wait_for_text(b":\n\n:\n\n")
    functions.GO[label].set()
    await request.answer()
    assert f"{label} done" in json.dumps(messages(request, MODERN)[-1])


async def test_a_reader_that_is_too_slow_is_disconnected_and_its_call_ended(alices: Person) -> None:
    request = alices.wire.begin()
    await request.answer()
    taken = asyncio.Event()
    full = EndlessReader(taken)
    out = stream.EventStream(full.send, [])
    ended: list[bool] = []
    out.on_slow = lambda: ended.append(True)
    for number in range(stream.MAX_QUEUED_MESSAGES + 3):
        out.notify({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": number}})
    assert ended and not out.connected
    taken.set()
    out.end()
    await out.wait_written()


async def test_progress_for_a_slow_reader_is_dropped_before_anything_else() -> None:
    taken = asyncio.Event()
    reader = EndlessReader(taken)
    out = stream.EventStream(reader.send, [])
    for number in range(stream.PROGRESS_DROP_MESSAGES * 3):
        out.notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": number}})
    out.notify({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "kept"}})
    taken.set()
    await out.finish({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert reader.sent.count(b"notifications/progress") == stream.PROGRESS_DROP_MESSAGES
    assert b"kept" in reader.sent and reader.sent.rstrip().endswith(b'"result":{}}')


class EndlessReader:
    """Takes nothing until it is told to."""

    def __init__(self, taken: asyncio.Event) -> None:
        self.taken, self.sent = taken, b""

    async def send(self, message: Any) -> None:
        await self.taken.wait()
        self.sent += message.get("body", b"")


async def test_a_batch_is_answered_in_one_body(alices: Person) -> None:
    await alices.begin_session("2025-03-26")
    batch = [
        alices.message("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}}, id="one"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        alices.message("tools/frobnicate", id="two"),
    ]
    answer = await alices.post(batch)
    assert {message["id"]: "result" in message for message in answer.json} == {"one": True, "two": False}
    assert (await alices.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).status == 202


async def test_a_cancelled_request_gets_no_answer(alices: Person, label: str) -> None:
    await alices.begin_session()
    request = alices.begin("tools/call", make_waiting("t_silent", label), id="cancel me")
    await wait_until_started(label)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "cancel me"}}
    assert (await alices.post(cancel)).status == 202
    await request.answer()
    assert messages(request, "2025-11-25") == []
    assert (await get_last_outcome())[0] == "cancelled"


async def test_a_session_ended_by_its_client_ends_its_calls_and_streams(alices: Person, label: str) -> None:
    await alices.begin_session()
    call = alices.begin("tools/call", make_waiting("t_silent", label))
    stream_of_news = alices.listen()
    await wait_until_started(label)
    await asyncio.wait_for(stream_of_news.started.wait(), 60)
    gone = await alices.wire.send("DELETE", alices.plain(mcp_session_id=alices.session))
    assert 200 <= gone.status < 300
    await call.answer()
    await stream_of_news.answer()
    assert (await get_last_outcome())[0] == "cancelled"


async def test_a_revoked_token_ends_streams_and_calls(alices: Person, alice: User, label: str) -> None:
    await alices.begin_session()
    news = alices.listen()
    subscription = alices.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    call = alices.begin_modern("tools/call", make_waiting("t_silent", label))
    await subscription.wait_for_text(b"acknowledged")
    await wait_until_started(label)
    await asyncio.wait_for(news.started.wait(), 60)
    await run_in_database(lambda: [token.revoke() for token in AccessToken.objects.filter(user=alice)])
    await asyncio.gather(news.answer(), subscription.answer(), call.answer())
    assert (await get_last_outcome())[0] == "cancelled"
    assert (await alices.modern("tools/list")).status == 401


async def test_changes_reach_the_stream_of_a_session_and_a_subscription(
    alices: Person, alice: User, publish: Any
) -> None:
    await alices.begin_session()
    news = alices.listen()
    subscription = alices.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=77)
    await news.wait_for_text(b":\n\n")  # at once: Daphne sends no headers before the first byte of a body
    await subscription.wait_for_text(b"acknowledged")
    await run_in_database(lambda: withdraw_grant(alice))
    await refresh_catalogue()
    await news.wait_for_text(b"notifications/tools/list_changed")
    await subscription.wait_for_text(b"notifications/tools/list_changed")
    for message in messages(subscription, MODERN, "subscriptions/listen"):
        assert message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 77
    news.leave()
    subscription.leave()
    await asyncio.gather(news.answer(), subscription.answer())


def withdraw_grant(alice: User) -> None:
    from catalog.models import Grant

    found = Grant.objects.filter(user=alice).first()
    assert found is not None
    found.delete()


async def test_a_question_travels_on_the_calls_own_stream_and_its_answer_in_another_post(alices: Person) -> None:
    await alices.begin_session(capabilities={"elicitation": {}})
    call = alices.begin("tools/call", {"name": "t_ask", "arguments": {}})
    await call.wait_for_text(b"elicitation/create")
    question = messages(call, "2025-11-25")[-1]
    reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}}
    assert (await alices.post(reply)).status == 202
    await call.answer()
    assert "Ann" in json.dumps(messages(call, "2025-11-25")[-1])


async def test_a_browser_gets_a_page_and_a_preflight_its_headers(alices: Person) -> None:
    page = await alices.wire.send("GET", {"host": "localhost", "accept": "text/html,*/*;q=0.8"})
    assert page.status == 200 and (page.header("content-type") or "").startswith("text/html")
    assert b"/connect/" in page.body
    asked = {
        "host": "localhost",
        "origin": "http://localhost:5173",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, mcp-protocol-version",
    }
    preflight = await alices.wire.send("OPTIONS", asked)
    assert preflight.status == 204
    assert preflight.header("access-control-allow-origin") == "http://localhost:5173"
    assert preflight.header("access-control-allow-headers") == "authorization, mcp-protocol-version"
    foreign = await alices.wire.send("OPTIONS", {**asked, "origin": "https://evil.example.com"})
    assert foreign.status == 403 and foreign.header("access-control-allow-origin") is None


async def test_other_paths_go_to_django_without_the_clients_root_path(alices: Person) -> None:
    other = await alices.wire.send("GET", {"host": "localhost"}, path="/tools/")
    assert (other.status, other.body) == (418, b"django")
    assert other.scope["root_path"] == ""
    assert (await alices.wire.send("GET", path="/healthz")).status == 200
    ready = await alices.wire.send("GET", path="/readyz")
    assert ready.status == 200 and ready.json["ready"] is True


async def test_a_missing_capability_is_status_400_before_the_stream_and_ends_the_stream_after(with_tools: Any) -> None:
    alices = await with_tools("server_open_page", "server_report_and_ask")
    early = await alices.modern("tools/call", {"name": "server_open_page"})
    assert (early.status, early.header("content-type")) == (400, "application/json")
    assert early.error["code"] == -32021
    assert early.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    late = await alices.modern("tools/call", {"name": "server_report_and_ask"}, meta={"progressToken": 7})
    assert (late.status, late.header("content-type")) == (200, "text/event-stream")
    progress, error = messages(late, MODERN)
    assert progress["method"] == "notifications/progress" and error["error"]["code"] == -32021
    assert late.ended.is_set()


@pytest.mark.parametrize("in_session", [True, False])
async def test_a_stateless_envelope_under_a_stateful_header_is_a_header_mismatch(
    alices: Person, in_session: bool
) -> None:
    if in_session:
        await alices.begin_session()
    before = await run_in_database(Call.objects.count)
    session = alices.session or None
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    for header in ("2025-11-25", "2025-03-26"):
        answer = await alices.modern("tools/call", params, mcp_protocol_version=header, mcp_session_id=session)
        assert (answer.status, answer.error.get("code")) == (400, -32020), answer.body
        assert answer.json["id"] is not None and "MCP-Protocol-Version" in answer.error["message"]
    assert await run_in_database(Call.objects.count) == before + 2, "attempts are logged"
    assert await run_in_database(Call.objects.filter(outcome="ok").count) == 0
    other = await alices.modern("tools/call", params, meta={"io.modelcontextprotocol/protocolVersion": "2025-11-25"})
    assert (other.status, other.error["code"]) == (400, -32020)


async def test_arguments_that_only_mention_the_envelope_are_no_mismatch(alices: Person, label: str) -> None:
    await alices.begin_session()
    named = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    answer = await alices.request("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2, **named}})
    assert (answer.status == 200 and "error" not in answer.json) or answer.error["code"] == -32602


async def test_an_unknown_version_is_answered_with_all_that_are_known(alices: Person) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    answer = await alices.modern("tools/list", meta=meta, mcp_protocol_version="2099-01-01")
    assert (answer.status, answer.error["code"]) == (400, -32022)
    assert answer.error["data"] == {
        "supported": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
        "requested": "2099-01-01",
    }
