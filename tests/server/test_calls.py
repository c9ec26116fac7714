"""tools/list and tools/call at every revision, through the real call pipeline and into the real audit log."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from tests import factories
from tests.server.conftest import MODERN, Client, handshake, modern, refresh_catalogue, run_in_database, text, token
from toolhub.wire.versions import HANDSHAKE

REVISIONS = (*HANDSHAKE, MODERN)
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


async def open_client(user: User, revision: str, **options: Any) -> Client:
    credential = await token(user)
    return modern(credential, **options) if revision == MODERN else await handshake(credential, revision, **options)


async def last_call() -> Call:
    return await run_in_database(lambda: Call.objects.order_by("-started_at", "-id").first())


async def test_a_call_of_somebody_elses_tool_reads_like_one_that_does_not_exist(
    alice: User, bob: User, publish: Any
) -> None:
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(bob, revision)
        hidden = await client.send("tools/call", {"name": "server_add", "arguments": {"a": 1, "b": 2}}, id=7)
        absent = await client.send("tools/call", {"name": "server_abc", "arguments": {"a": 1, "b": 2}}, id=7)
        assert hidden["error"] == {"code": -32602, "message": "Unknown tool: server_add"}
        assert str(hidden).replace("server_add", "server_abc") == str(absent)
    outcomes = await run_in_database(
        lambda: list(Call.objects.order_by("started_at", "id").values_list("outcome", flat=True))
    )
    assert outcomes == ["refused", "unknown_tool"] * len(REVISIONS)


async def test_a_call_that_is_denied_while_the_server_starts_is_logged(
    alice: User, publish: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The database answers, and something else of the start takes too long."""
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    client = await open_client(alice, MODERN)
    settings.RECORD_SECONDS = 3.0
    monkeypatch.setattr(client.server, "needs_start", True)
    started = asyncio.Event()
    monkeypatch.setattr(client.server, "start_process", started.wait)
    asyncio.current_task().arrived = time.monotonic()  # type: ignore[union-attr]  # as a transport does
    denied = await client.call("server_add", {"a": 1, "b": 2})
    started.set()
    assert "starting" in denied["error"]["message"]
    call = await last_call()
    assert (call.name, call.outcome, call.username) == ("server_add", "refused", "alice")
    assert "starting" in call.detail


async def test_wrong_arguments_name_the_field_in_the_way_of_the_revision(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(alice, revision)
        message = await client.call("server_add", {"a": 1})
        if revision in ("2025-11-25", MODERN):
            assert message["result"]["isError"] is True
            assert "b" in text(message)
        else:
            assert message["error"]["code"] == -32602
            assert "b" in message["error"]["message"]
        assert (await last_call()).outcome == "invalid_arguments"


async def test_a_call_answers_and_is_logged(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(alice, revision)
        message = await client.call("server_add", {"a": 1, "b": 2})
        assert text(message) == "3" or text(message) == "3.0"
        assert message["result"]["isError"] is False
        call = await last_call()
        assert (call.outcome, call.name, call.revision) == ("ok", "server_add", revision)


async def test_a_rate_limit_gives_the_waiting_time_as_text_and_as_a_number(alice: User, publish: Any) -> None:
    tool = await run_in_database(publish, alice, "server_add")
    await run_in_database(lambda: factories.limit("1/h", tool))
    await refresh_catalogue()
    client = modern(await token(alice))
    passed, began = 0, time.time()
    while not (message := await client.call("server_add", {"a": 1, "b": 2}))["result"]["isError"]:
        passed += 1
        assert passed <= 2
    assert passed
    seconds = message["result"]["_meta"]["dev.toolhub/retryAfterSeconds"]
    assert 0 < seconds <= 3600 and str(seconds) in text(message)
    # Periods begin at fixed moments: a second call passes only when one begins in between.
    assert passed == 1 or 3600 - seconds <= time.time() - began + 2
    assert (await last_call()).outcome == "limited"


async def test_a_failing_tool_answers_a_sentence_and_the_calls_id_and_no_internals(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_fail", "server_break")
    await refresh_catalogue()
    client = modern(await token(alice))
    said = await client.call("server_fail")
    assert text(said) == "The moon is not full." and said["result"]["isError"] is True
    broken = await client.call("server_break")
    assert broken["result"]["isError"] is True and "secret-detail" not in str(broken)
    assert broken["result"]["_meta"]["dev.toolhub/callId"] == str((await last_call()).id)


async def test_a_function_may_end_with_an_error_of_the_protocol(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_refuse")
    await refresh_catalogue()
    error = await modern(await token(alice)).error("tools/call", {"name": "server_refuse"})
    assert error == {"code": -31000, "message": "Not today", "data": {"why": "holiday"}}


async def test_a_malformed_call_is_rejected_and_logged(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    client = modern(await token(alice))
    malformed: list[dict[str, Any]] = [
        {},
        {"name": 5},
        {"name": "server_add", "arguments": [1, 2]},
        {"name": "server_add", "arguments": None},
        {"name": "server_add", "inputResponses": None},
        {"name": "server_add", "requestState": "nonsense"},
    ]
    for count, params in enumerate(malformed, 1):
        assert (await client.error("tools/call", params))["code"] == -32602
        assert (await last_call()).outcome == "refused"
        assert await run_in_database(Call.objects.count) == count


async def test_a_handshake_method_does_not_exist_at_the_modern_revision(alice: User) -> None:
    client = modern(await token(alice))
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/result", "x"):
        assert (await client.error(method))["code"] == -32601


async def test_a_modern_method_does_not_exist_at_handshake_revisions(alice: User) -> None:
    client = await handshake(await token(alice))
    for method in ("server/discover", "subscriptions/listen", "tasks/get", "initialize", "x/y"):
        assert (await client.error(method))["code"] == -32601


async def test_the_list_holds_exactly_the_tools_of_the_caller_in_a_stable_order(
    alice: User, bob: User, charlie: User, publish: Any
) -> None:
    await run_in_database(publish, alice, "server_add", "server_fail")
    await run_in_database(publish, bob, "server_steps")
    await run_in_database(publish, alice, "server_thread", position=1)
    await refresh_catalogue()
    theirs = {alice: ["server_thread", "server_add", "server_fail"], bob: ["server_steps"], charlie: []}
    for revision in REVISIONS:
        for user, names in theirs.items():
            found = await (await open_client(user, revision)).result("tools/list")
            assert [tool["name"] for tool in found["tools"]] == names
            if revision == MODERN:
                assert found["cacheScope"] == "private" and 0 <= found["ttlMs"] <= 5000


async def test_a_tool_that_needs_a_capability_is_not_run_for_a_client_without_it(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_sampling_only", "server_must_be_task")
    await refresh_catalogue()
    poor = modern(await token(alice), {})
    error = await poor.error("tools/call", {"name": "server_sampling_only"})
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    error = await poor.error("tools/call", {"name": "server_must_be_task"})
    assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    old = await (await handshake(await token(alice), capabilities={})).call("server_sampling_only")
    assert old["result"]["isError"] is True and "sampling" in text(old)
    rich = modern(await token(alice), {"sampling": {}})
    assert text(await rich.call("server_sampling_only")) == "sampled"


async def test_progress_and_log_lines_travel_on_the_calls_own_stream(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_steps")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(alice, revision, **({"level": "info"} if revision == MODERN else {}))
        outlet = client.outlet()
        await client.call("server_steps", {}, outlet=outlet, _meta={"progressToken": "t-1"})
        progress = [message["params"] for message in outlet.of("notifications/progress")]
        assert [one["progress"] for one in progress] == [0, 50, 100]
        assert {one["progressToken"] for one in progress} == {"t-1"}
        levels = [message["params"]["level"] for message in outlet.of("notifications/message")]
        assert levels == ["info", "error"]


async def test_without_a_token_or_a_level_a_modern_client_hears_nothing(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_steps")
    await refresh_catalogue()
    client = modern(await token(alice))
    outlet = client.outlet()
    await client.call("server_steps", {}, outlet=outlet)
    assert outlet.messages == []


async def test_a_session_hears_log_lines_from_the_level_it_set(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_steps")
    await refresh_catalogue()
    client = await handshake(await token(alice))
    assert (await client.error("logging/setLevel", {"level": "loud"}))["code"] == -32602
    assert await client.result("logging/setLevel", {"level": "error"}) == {}
    outlet = client.outlet()
    await client.call("server_steps", {}, outlet=outlet)
    assert [message["params"]["level"] for message in outlet.of("notifications/message")] == ["error"]


async def test_ping_and_discover(alice: User) -> None:
    assert await (await handshake(await token(alice))).result("ping") == {}
    found = await modern(await token(alice)).result("server/discover")
    assert "2026-07-28" in found["supportedVersions"]
    assert found["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolhub"


async def test_initialize_agrees_on_a_revision(alice: User) -> None:
    for asked, agreed in (*[(one, one) for one in HANDSHAKE], ("1999-01-01", "2025-11-25"), (MODERN, "2025-11-25")):
        assert (await handshake(await token(alice), asked)).peer.revision == agreed


async def test_a_question_to_a_client_that_cannot_be_asked_names_the_capability_it_lacks(
    alice: User, publish: Any
) -> None:
    await run_in_database(publish, alice, "server_ask_name", "server_open_page", "server_ask_everything")
    await refresh_catalogue()
    missing: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("server_ask_name", {}, {"elicitation": {}}),
        ("server_ask_name", {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        ("server_open_page", {"elicitation": {}}, {"elicitation": {"url": {}}}),
        ("server_ask_everything", {"elicitation": {}, "roots": {}}, {"sampling": {}}),
    ]
    for name, declared, required in missing:
        error = await modern(await token(alice), declared).error("tools/call", {"name": name})
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": required}), name
        assert ((await last_call()).outcome, (await last_call()).error_class) == ("tool_error", "ClientLacks")
        old = await (await handshake(await token(alice), capabilities=declared)).call(name)
        assert old["result"]["isError"] is True and "did not declare" in text(old)


async def test_metadata_of_a_tool_forges_nothing_of_the_protocol_or_of_this_server(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_forge_meta")
    await refresh_catalogue()
    client = modern(await token(alice))
    for fail in (True, False):
        result = (await client.call("server_forge_meta", {"fail": fail}))["result"]
        call_id = {"dev.toolhub/callId": str((await last_call()).id)} if fail else {}
        own = {name: value for name, value in result["_meta"].items() if not name.endswith("/serverInfo")}
        assert own == {"com.example/kept": 1, **call_id}
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]
        [block] = result["content"]
        assert block["_meta"] == block["resource"]["_meta"] == {"com.example/kept": 1}


async def test_null_and_lists_are_structured_content_of_the_newest_revision_and_text_before(
    alice: User, publish: Any
) -> None:
    await run_in_database(publish, alice, "server_null")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(alice, revision)
        listed = (await client.result("tools/list"))["tools"][0]
        assert ("outputSchema" in listed) == (revision == MODERN)
        for ids, value, said in ((True, [1, 2], "[1,2]"), (False, None, "null")):
            result = (await client.call("server_null", {"ids": ids}))["result"]
            assert result["content"] == [{"type": "text", "text": said}] and not result.get("isError")
            assert result.get("structuredContent", "absent") == (value if revision == MODERN else "absent")


async def test_all_problems_of_the_arguments_are_in_one_answer_in_words_and_as_data(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    for revision in REVISIONS:
        client = await open_client(alice, revision)
        message = await client.call("server_add", {"a": "one", "c": 3})
        if revision in ("2025-11-25", MODERN):
            said, data = text(message), message["result"]["_meta"]["dev.toolhub/problems"]
            assert message["result"]["isError"] is True
        else:
            said, data = message["error"]["message"], message["error"]["data"]["dev.toolhub/problems"]
            assert message["error"]["code"] == -32602
        assert all(f'argument "{name}"' in said for name in "abc"), said
        assert sorted((one["path"], one["code"]) for one in data) == [
            ("/a", "type"),
            ("/b", "missing"),
            ("/c", "unknown"),
        ]
        [wrong] = [one for one in data if one["path"] == "/a"]
        assert (wrong["expected"], wrong["got"]) == ("number", 'string "one"')
