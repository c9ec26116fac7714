"""The call pipeline: what is refused, what is logged, how a call can end."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any
from uuid import UUID

import pytest
from django.utils.translation import get_language, override

from audit import outcomes, recorder
from audit.recorder import AuditLogUnavailable
from audit.types import Reason
from catalog import threads
from catalog.calls import call_log, call_tool
from catalog.errors import (
    CLIENT_GONE,
    CallNotLogged,
    InternalFailure,
    InvalidArguments,
    LimitReached,
    MissingCapability,
    NeedsInput,
    ProtocolError,
    UnknownPrompt,
    UnknownResource,
    UnknownTool,
)
from catalog.functions.content import ABSENT
from catalog.policy import snapshot
from catalog.schemas.errors import SchemaProblem
from tests import factories
from tests.catalog import tools
from tests.catalog.pipeline import (
    MODERN,
    RecordingChannel,
    call,
    caller,
    logged_calls,
    only_logged_call,
    publish,
    run_in_database,
    text,
)
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()


# --- language ------------------------------------------------------------------------------------------------------


async def test_the_call_pipeline_answers_and_logs_in_english_in_every_language(
    alice: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    inside = {"url": "http://127.0.0.1:9/{path}"}
    broken = {"url": "https://api.example.com/", "select": "items"}
    for name, runner, its in (
        ("inside", "http_api", {**inside, "retries": 0}),
        ("broken", "http_api", broken),
        ("needy", "http_api", {**inside, "static_headers": {"A": {"secret": "absent"}}}),
    ):
        row = await run_in_database(factories.make_tool, name=name, runner=runner, settings=its)
        await run_in_database(factories.grant, alice, row)
    await run_in_database(publish, alice, "call_language")
    said = {}
    with override("zh-hans"):
        for name in ("inside", "broken", "needy", "call_language"):
            arguments = {"a": 1, "b": 2} if name != "call_language" else {}
            said[name] = text(await call(alice, name, arguments))
        with pytest.raises(InvalidArguments) as refused:
            await call(alice, "inside", {"a": "one"})
        assert get_language() == "zh-hans", "the page goes on in its own language"
    assert said["call_language"] == "en: This field is required."
    assert (
        "This tool is not set up correctly" in said["broken"]
        and "nobody has entered it yet. Ask your administrator" in said["needy"]
    )
    assert "a selection must start with $" in caplog.text
    everything = [*said.values(), str(refused.value), caplog.text]
    for recorded in await logged_calls():
        everything += [str(value) for value in vars(recorded).values()]
    assert [found for found in everything if re.search("[一-鿿]", found)] == []


# --- refusals ------------------------------------------------------------------------------------------------------


async def test_another_users_tool_and_an_unknown_one_are_answered_alike_and_logged_apart(alice: Any, bob: Any) -> None:
    await run_in_database(publish, alice, "call_add")
    answers = []
    for name in ("call_add", "call_nothing"):
        with pytest.raises(UnknownTool) as refused:
            await call(bob, name, {"a": 1, "b": 2})
        answers.append(str(refused.value).replace(name, "NAME"))
    assert answers[0] == answers[1]
    refused_row, unknown_row = await logged_calls()
    assert (refused_row.outcome, unknown_row.outcome) == (outcomes.REFUSED, outcomes.UNKNOWN_TOOL)
    assert refused_row.rule == "No grant allows it" and unknown_row.target_id is None
    assert json.loads(refused_row.rule_reason) == ["rule.no_grant", {}]
    assert (refused_row.detail_reason, unknown_row.rule_reason) == (refused_row.rule_reason, "")
    assert json.loads(unknown_row.detail_reason) == ["unknown.tool", {}]
    assert json.loads(refused_row.arguments) == {"a": 1, "b": 2}
    assert tools.RAN == []


async def test_a_deny_overrides_an_allow_and_the_audit_log_names_it(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    denied = await run_in_database(factories.deny, alice, tool)
    with pytest.raises(UnknownTool):
        await call(alice, "call_add", {"a": 1, "b": 2})
    row = await only_logged_call()
    assert row.outcome == outcomes.REFUSED and f"Grant {denied.pk}" in row.rule
    params = {"number": denied.pk, "effect": "deny", "kind": "tool", "name": "call_add", "by": "user", "whom": "alice"}
    assert json.loads(row.rule_reason) == ["rule.grant", params]


async def test_a_superuser_without_a_grant_is_denied(root: Any) -> None:
    await run_in_database(publish, None, "call_add")
    with pytest.raises(UnknownTool):
        await call(root, "call_add", {"a": 1, "b": 2})


async def test_a_token_for_other_toolsets_does_not_reach_the_tool(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add")
    with pytest.raises(UnknownTool):
        await call_tool.call_tool(
            caller(alice, toolset_ids=frozenset({999})), "call_add", {"a": 1, "b": 2}, RecordingChannel()
        )
    assert (await only_logged_call()).outcome == outcomes.REFUSED


@pytest.mark.parametrize("name", ["x" * 5000, "lone \ud800 surrogate", "nul \0 byte", "", "<script>", "../../x"])
async def test_an_impossible_tool_name_is_rejected_and_logged(alice: Any, name: str) -> None:
    channel = RecordingChannel()
    channel.request_id = name
    with pytest.raises(UnknownTool):
        await call(alice, name, {name: name}, channel)
    with pytest.raises(UnknownResource):
        await call_tool.read_resource(caller(alice), name, channel)
    with pytest.raises(UnknownPrompt):
        await call_tool.get_prompt(caller(alice), name, {name: name}, channel)
    assert [row.outcome for row in await logged_calls()] == [outcomes.UNKNOWN_TOOL] * 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"a": 1}, "b"),
        ({"a": 1, "b": "two"}, "b"),
        ({"a": 1, "b": 2, "c": 3}, "c"),
        ({"a": "x" * 400_000, "b": 2}, "larger than 262144 bytes"),
        ([1, 2], "object"),
    ],
)
async def test_invalid_arguments_are_rejected_and_the_field_is_named(alice: Any, arguments: Any, named: str) -> None:
    await run_in_database(publish, alice, "call_add")
    with pytest.raises(InvalidArguments, match=named) as refused:
        await call(alice, "call_add", arguments)
    row = await only_logged_call()
    assert row.outcome == outcomes.INVALID_ARGUMENTS and row.detail and row.id == refused.value.call_id
    assert len(row.arguments) < 70_000
    kept = SchemaProblem.from_reason(Reason.read(row.detail_reason))
    assert kept is not None and str(kept) == row.detail and kept.reason == refused.value.reason
    assert tools.RAN == []


async def test_a_rate_limited_call_names_the_seconds_to_wait_and_does_not_run(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "2/h", tool)
    for _ in range(2):
        await call(alice, "call_add", {"a": 1, "b": 2})
    with pytest.raises(LimitReached) as refused:
        await call(alice, "call_add", {"a": 1, "b": 2})
    assert 1 <= refused.value.seconds <= 3600 and "2/h" in refused.value.label
    assert tools.RAN == ["call_add", "call_add"]
    rows = await logged_calls()
    assert [row.outcome for row in rows] == [outcomes.OK, outcomes.OK, outcomes.LIMITED]
    assert rows[2].id == refused.value.call_id and "2/h" in rows[2].detail
    code, params = json.loads(rows[2].detail_reason)
    assert (code, params["rate"], params["seconds"]) == ("limit.reached", "2/h", refused.value.seconds)


async def test_two_hundred_calls_at_once_against_twenty_a_minute_admit_exactly_twenty(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "20/d", tool)
    made = await asyncio.gather(
        *(call(alice, "call_add", {"a": 1, "b": 2}) for _ in range(200)), return_exceptions=True
    )
    assert sum(isinstance(answer, LimitReached) for answer in made) == 180
    assert len(tools.RAN) == 20
    assert len(await logged_calls(outcome=outcomes.LIMITED)) == 180


async def test_required_client_capabilities_are_checked_before_a_tool_runs(alice: Any) -> None:
    await run_in_database(publish, alice, "call_sampling")
    with pytest.raises(MissingCapability) as refused:
        await call(alice, "call_sampling", channel=RecordingChannel({"elicitation": {}}))
    assert refused.value.required == {"sampling": {}}
    assert (await only_logged_call()).outcome == outcomes.REFUSED
    assert text(await call(alice, "call_sampling", channel=RecordingChannel({"sampling": {}}))) == "sampled"


async def test_a_tool_that_must_run_as_a_task_is_refused_otherwise(alice: Any) -> None:
    await run_in_database(publish, alice, "call_task", "call_task_after")
    opted: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
    for capabilities in ({}, opted):
        with pytest.raises(MissingCapability) as refused:
            await call(alice, "call_task", channel=RecordingChannel(capabilities))
        assert refused.value.required == {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert text(await call(alice, "call_task", detached=True)) == "as a task"
    with pytest.raises(MissingCapability):
        await call(alice, "call_task_after", channel=RecordingChannel({"elicitation": {}}))
    with pytest.raises(NeedsInput):
        await call(alice, "call_task_after", channel=RecordingChannel(opted, modern=True), revision=MODERN)


async def test_nothing_runs_while_the_audit_log_cannot_be_written(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await run_in_database(publish, alice, "call_add")

    async def away(*args: Any) -> Any:
        raise AuditLogUnavailable("calls cannot be logged now")

    monkeypatch.setattr(recorder, "begin", away)
    monkeypatch.setattr(recorder, "deny", away)
    with pytest.raises(CallNotLogged, match="calls cannot be logged now"):
        await call(alice, "call_add", {"a": 1, "b": 2})
    with pytest.raises(CallNotLogged):
        await call(alice, "call_nothing")
    assert tools.RAN == []


async def test_an_answer_is_withheld_when_the_outcome_cannot_be_logged(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(publish, alice, "call_add")

    def away(*args: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(AuditLogUnavailable("the spool is full"))
        return future

    monkeypatch.setattr(recorder, "finish", away)
    with pytest.raises(InternalFailure):
        await call(alice, "call_add", {"a": 1, "b": 2})


# --- what is logged -----------------------------------------------------------------------------------------------


async def test_the_audit_log_holds_user_tool_rule_and_outcome(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    result = await call(alice, "call_add", {"b": 2, "a": 1})
    assert result.content == [{"type": "text", "text": "3"}] and not result.is_error and result.structured is ABSENT
    row = await only_logged_call()
    assert (row.id, row.outcome, row.username, row.name) == (result.call_id, outcomes.OK, "alice", "call_add")
    assert row.target_id == tool.pk and len(row.definition) == 64
    assert (row.transport, row.revision, row.address, row.client_name) == (
        "http",
        "2025-11-25",
        "192.0.2.7",
        "test client",
    )
    assert row.rule.startswith("Grant ") and row.request_id == "7"
    assert row.arguments == '{"a":1,"b":2}'
    assert json.loads(row.result) == {"content": [{"type": "text", "text": "3"}]}
    assert row.result_bytes == len(row.result) and len(row.result_sha256) == 64
    assert row.duration_us is not None


async def test_the_intent_is_durable_before_anything_runs(alice: Any) -> None:
    await run_in_database(publish, alice, "call_wait")
    tools.GATES["durable"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "call_wait", {"label": "durable"}))
    await tools.GATES["durable"].wait()
    assert (await only_logged_call()).outcome == outcomes.RUNNING
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_call_is_announced_between_the_intent_and_the_run(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add")
    told: list[Any] = []

    async def begun(call_id: UUID) -> None:
        told.append((call_id, (await only_logged_call()).outcome, list(tools.RAN)))

    number = recorder.new_call_id()
    result = await call(alice, "call_add", {"a": 1, "b": 2}, call_id=number, begun=begun)
    assert told == [(number, outcomes.RUNNING, [])] and result.call_id == number


async def test_a_call_whose_beginning_cannot_be_announced_does_not_run(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add")

    async def begun(call_id: UUID) -> None:
        raise OSError("no room for the task")

    with pytest.raises(InternalFailure):
        await call(alice, "call_add", {"a": 1, "b": 2}, begun=begun)
    assert tools.RAN == [] and (await only_logged_call()).outcome == outcomes.TOOL_ERROR


async def test_a_secret_in_the_arguments_is_hidden_in_result_and_error_too(alice: Any) -> None:
    await run_in_database(publish, alice, "call_echo")
    result = await call(alice, "call_echo", {"value": {"password": "hunter2hunter2"}})
    assert "hunter2hunter2" in text(result)
    row = await only_logged_call()
    assert "hunter2hunter2" not in row.arguments + row.result


async def test_nothing_runs_behind_more_secrets_than_the_log_can_search_for(alice: Any) -> None:
    await run_in_database(publish, alice, "call_echo")
    behind = {"value": {"text": json.dumps({"password": [f"a{number:04d}" for number in range(51)]}), "real": "order"}}
    with pytest.raises(InvalidArguments, match="at most 50, with 20,000 characters"):
        await call(alice, "call_echo", behind)
    assert tools.RAN == [] and (await only_logged_call()).outcome == outcomes.INVALID_ARGUMENTS


async def test_a_large_result_that_cannot_be_prepared_in_time_is_logged_as_missing(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(publish, alice, "call_echo", max_argument_bytes=1_000_000, max_result_bytes=4_000_000)
    monkeypatch.setattr(call_log, "RESULT_WAIT_SECONDS", 0.0)
    free = threading.Event()
    pool = threads.checks()
    taken = [asyncio.create_task(pool.run(lambda: free.wait(60))) for _ in range(pool.size)]
    await wait_until_async(lambda: pool.taken == pool.size)
    monkeypatch.setattr(call_log, "MAX_INLINE_CHARACTERS", 1000)
    await call(alice, "call_echo", {"value": "x" * 2000})
    free.set()
    await asyncio.gather(*taken)
    row = await only_logged_call()
    assert row.outcome == outcomes.OK and "too many large results at once" in row.result and row.result_bytes == 2000


async def test_a_tool_that_logs_digests_leaves_no_text(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", record_bodies="digests")
    await call(alice, "call_add", {"a": 1234567, "b": 2})
    row = await only_logged_call()
    assert "1234567" not in row.arguments + row.result and "1234569" not in row.result
    assert row.outcome == outcomes.OK


# --- how a run can end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says", "error_class"),
    [
        ("call_error", "The moon is not full.", "ToolError"),
        ("call_break", "failed unexpectedly", "RuntimeError"),
        ("call_exit", "failed unexpectedly", "SystemExit"),
        ("call_exit_thread", "failed unexpectedly", "SystemExit"),
        ("call_self_cancel", "failed unexpectedly", "CancelledError"),
    ],
)
async def test_a_tool_that_fails_answers_an_error_without_internals(
    alice: Any, name: str, says: str, error_class: str
) -> None:
    await run_in_database(publish, alice, name)
    result = await call(alice, name)
    assert result.is_error and says in text(result)
    row = await only_logged_call()
    assert (row.outcome, row.error_class) == (outcomes.TOOL_ERROR, error_class)
    assert "hunter2" not in text(result) + row.result + row.detail and "/srv" not in text(result)
    if "unexpectedly" in says:
        assert str(result.call_id) in text(result)


@pytest.mark.parametrize(
    ("code", "logged"),
    [("404", '["tool.error",{"code":"404"}]'), ("unreachable", '["tool.error",{"code":"unreachable"}]')]
    + [(wrong, "") for wrong in ("", "much longer than a code", "a\nb", "<b>")],
)
async def test_the_code_of_an_error_is_logged_beside_its_sentence(alice: Any, code: str, logged: str) -> None:
    await run_in_database(publish, alice, "call_coded")
    assert text(await call(alice, "call_coded", {"code": code})) == "Not there."
    row = await only_logged_call()
    assert (row.detail, row.detail_reason) == ("Not there.", logged)


async def test_a_protocol_error_of_the_function_goes_through_and_is_logged(alice: Any) -> None:
    await run_in_database(publish, alice, "call_protocol")
    with pytest.raises(ProtocolError) as raised:
        await call(alice, "call_protocol")
    assert (raised.value.code, raised.value.message, raised.value.data) == (-31000, "Not today", {"why": "holiday"})
    assert (await only_logged_call()).outcome == outcomes.TOOL_ERROR


@pytest.mark.parametrize("name", ["call_slow", "call_stubborn"])
async def test_a_tool_that_takes_too_long_is_stopped_and_says_so(alice: Any, name: str) -> None:
    await run_in_database(publish, alice, name)
    result = await call(alice, name)
    assert result.is_error and "within 0.2 s" in text(result)
    assert (await only_logged_call()).outcome == outcomes.TIMEOUT
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_cancelled_call_is_logged_with_the_reason(alice: Any) -> None:
    await run_in_database(publish, alice, "call_wait")
    tools.GATES["gone"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "call_wait", {"label": "gone"}))
    await tools.GATES["gone"].wait()
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    row = await only_logged_call()
    assert (row.outcome, row.detail) == (outcomes.CANCELLED, CLIENT_GONE)


async def test_a_call_cancelled_twice_is_still_logged(alice: Any) -> None:
    await run_in_database(publish, alice, "call_wait")
    tools.GATES["twice"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "call_wait", {"label": "twice"}))
    await tools.GATES["twice"].wait()
    running.cancel(CLIENT_GONE)
    await asyncio.sleep(0)
    running.cancel("again")
    with pytest.raises(asyncio.CancelledError):
        await running

    async def ended() -> bool:
        return (await only_logged_call()).outcome == outcomes.CANCELLED

    await wait_until_async(ended)


async def test_a_cancelled_function_in_a_thread_is_asked_to_stop(alice: Any) -> None:
    await run_in_database(publish, alice, "call_thread")
    tools.OPEN["told"] = threading.Event()
    channel = RecordingChannel()
    running = asyncio.ensure_future(call(alice, "call_thread", {"label": "told"}, channel))
    await wait_until_async(tools.OPEN["told"].is_set)
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert channel.reports == [(1, 2, "waiting")]
    await wait_until_async(lambda: "told stopped" in tools.RAN)
    assert (await only_logged_call()).outcome == outcomes.CANCELLED


async def test_a_call_ends_at_its_deadline_although_its_thread_goes_on_and_keeps_its_slot(
    alice: Any, settings: Any
) -> None:
    settings.TOOL_THREADS = 1
    await run_in_database(publish, alice, "call_blocked", "call_double")
    tools.OPEN["stuck"] = threading.Event()
    result = await call(alice, "call_blocked", {"label": "stuck"})
    assert result.is_error and "within 0.3 s" in text(result)
    assert threads.tools().taken == 1
    threads.WAIT_SECONDS, before = 0.1, threads.WAIT_SECONDS
    try:
        busy = await call(alice, "call_double", {"n": 4})
    finally:
        threads.WAIT_SECONDS = before
    assert busy.is_error and "busy" in text(busy)
    tools.OPEN["stuck"].set()
    assert text(await call(alice, "call_double", {"n": 4})) == "8 in tool"
    assert [row.outcome for row in await logged_calls()] == [outcomes.TIMEOUT, outcomes.TOOL_ERROR, outcomes.OK]


async def test_a_tool_without_its_function_answers_that_it_is_not_set_up(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", settings={"function": "no_such_function"})
    result = await call(alice, "call_add", {"a": 1, "b": 2})
    assert result.is_error and "not set up" in text(result)


async def test_a_changed_definition_is_in_force_for_the_next_call(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await call(alice, "call_add", {"a": 1, "b": 2})

    def tighten() -> None:
        tool.input_schema = {**tool.input_schema, "required": ["a", "b", "c"]}
        tool.save()

    await run_in_database(tighten)
    with pytest.raises(InvalidArguments, match="c"):
        await call(alice, "call_add", {"a": 1, "b": 2})


async def test_a_hundred_calls_at_once_each_get_their_own_answer(alice: Any, bob: Any) -> None:
    await run_in_database(publish, alice, "call_echo")
    await run_in_database(factories.grant, bob, (await snapshot_tool("call_echo")))
    made = await asyncio.gather(
        *(call(user, "call_echo", {"value": f"{user.username} {n}"}) for n in range(50) for user in (alice, bob))
    )
    assert [text(answer) for answer in made] == [f"{name} {n}" for n in range(50) for name in ("alice", "bob")]
    assert len({answer.call_id for answer in made}) == 100


async def snapshot_tool(name: str) -> Any:
    from catalog.models import Tool

    assert name in snapshot.current().tools
    return await Tool.objects.aget(name=name)
