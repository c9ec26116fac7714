"""The door: what is refused, what is on record, how a call can end."""

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
from catalog.calls import call_tool
from catalog.errors import (
    CLIENT_GONE,
    InternalFailure,
    InvalidArguments,
    LimitReached,
    MissingCapability,
    NeedsInput,
    ProtocolError,
    RecordUnavailable,
    UnknownPrompt,
    UnknownResource,
    UnknownTool,
)
from catalog.policy import snapshot
from catalog.schemas.errors import SchemaProblem
from tests import factories
from tests.catalog import tools
from tests.catalog.pipeline import (
    MODERN,
    Recording,
    call,
    caller,
    in_database,
    on_record,
    publish,
    text,
    the_record,
)
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    tools.RAN.clear()


# --- language ------------------------------------------------------------------------------------------------------


async def test_whatever_language_is_active_the_door_answers_and_records_in_english(
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
        row = await in_database(factories.make_tool, name=name, runner=runner, settings=its)
        await in_database(factories.grant, alice, row)
    await in_database(publish, alice, "door_language")
    said = {}
    with override("zh-hans"):
        for name in ("inside", "broken", "needy", "door_language"):
            arguments = {"a": 1, "b": 2} if name != "door_language" else {}
            said[name] = text(await call(alice, name, arguments))
        with pytest.raises(InvalidArguments) as refused:
            await call(alice, "inside", {"a": "one"})
        assert get_language() == "zh-hans", "the page goes on in its own language"
    assert said["door_language"] == "en: This field is required."
    assert (
        "This tool is not set up correctly" in said["broken"]
        and "which is not set. Ask your administrator" in said["needy"]
    )
    assert "a selection must start with $" in caplog.text
    everything = [*said.values(), str(refused.value), caplog.text]
    for recorded in await on_record():
        everything += [str(value) for value in vars(recorded).values()]
    assert [found for found in everything if re.search("[一-鿿]", found)] == []


# --- refusals ------------------------------------------------------------------------------------------------------


async def test_a_tool_of_somebody_else_and_one_that_does_not_exist_are_refused_alike_and_recorded_apart(
    alice: Any, bob: Any
) -> None:
    await in_database(publish, alice, "door_add")
    answers = []
    for name in ("door_add", "door_nothing"):
        with pytest.raises(UnknownTool) as refused:
            await call(bob, name, {"a": 1, "b": 2})
        answers.append(str(refused.value).replace(name, "NAME"))
    assert answers[0] == answers[1]
    refused_row, unknown_row = await on_record()
    assert (refused_row.outcome, unknown_row.outcome) == (outcomes.REFUSED, outcomes.UNKNOWN_TOOL)
    assert refused_row.rule == "No grant allows it" and unknown_row.target_id is None
    assert json.loads(refused_row.rule_reason) == ["rule.no_grant", {}]
    assert (refused_row.detail_reason, unknown_row.rule_reason) == (refused_row.rule_reason, "")
    assert json.loads(unknown_row.detail_reason) == ["unknown.tool", {}]
    assert json.loads(refused_row.arguments) == {"a": 1, "b": 2}
    assert tools.RAN == []


async def test_a_deny_beats_an_allow_and_the_record_names_it(alice: Any) -> None:
    tool = await in_database(publish, alice, "door_add")
    denied = await in_database(factories.deny, alice, tool)
    with pytest.raises(UnknownTool):
        await call(alice, "door_add", {"a": 1, "b": 2})
    row = await the_record()
    assert row.outcome == outcomes.REFUSED and f"Grant {denied.pk}" in row.rule
    params = {"number": denied.pk, "effect": "deny", "kind": "tool", "name": "door_add", "by": "user", "whom": "alice"}
    assert json.loads(row.rule_reason) == ["rule.grant", params]


async def test_a_superuser_without_a_grant_is_refused(root: Any) -> None:
    await in_database(publish, None, "door_add")
    with pytest.raises(UnknownTool):
        await call(root, "door_add", {"a": 1, "b": 2})


async def test_a_token_for_other_toolsets_does_not_reach_the_tool(alice: Any) -> None:
    await in_database(publish, alice, "door_add")
    with pytest.raises(UnknownTool):
        await call_tool.call_tool(
            caller(alice, toolset_ids=frozenset({999})), "door_add", {"a": 1, "b": 2}, Recording()
        )
    assert (await the_record()).outcome == outcomes.REFUSED


@pytest.mark.parametrize("name", ["x" * 5000, "lone \ud800 surrogate", "nul \0 byte", "", "<script>", "../../x"])
async def test_a_name_that_no_tool_can_have_is_refused_and_recorded(alice: Any, name: str) -> None:
    channel = Recording()
    channel.request_id = name
    with pytest.raises(UnknownTool):
        await call(alice, name, {name: name}, channel)
    with pytest.raises(UnknownResource):
        await call_tool.read_resource(caller(alice), name, channel)
    with pytest.raises(UnknownPrompt):
        await call_tool.get_prompt(caller(alice), name, {name: name}, channel)
    assert [row.outcome for row in await on_record()] == [outcomes.UNKNOWN_TOOL] * 3


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
async def test_arguments_that_do_not_fit_are_refused_and_the_field_is_named(
    alice: Any, arguments: Any, named: str
) -> None:
    await in_database(publish, alice, "door_add")
    with pytest.raises(InvalidArguments, match=named) as refused:
        await call(alice, "door_add", arguments)
    row = await the_record()
    assert row.outcome == outcomes.INVALID_ARGUMENTS and row.detail and row.id == refused.value.call_id
    assert len(row.arguments) < 70_000
    kept = SchemaProblem.of(Reason.read(row.detail_reason))
    assert kept is not None and str(kept) == row.detail and kept.reason == refused.value.reason
    assert tools.RAN == []


async def test_the_call_above_a_limit_is_refused_with_the_seconds_to_wait_and_does_not_run(alice: Any) -> None:
    tool = await in_database(publish, alice, "door_add")
    await in_database(factories.limit, "2/h", tool)
    for _ in range(2):
        await call(alice, "door_add", {"a": 1, "b": 2})
    with pytest.raises(LimitReached) as refused:
        await call(alice, "door_add", {"a": 1, "b": 2})
    assert 1 <= refused.value.seconds <= 3600 and "2/h" in refused.value.label
    assert tools.RAN == ["door_add", "door_add"]
    rows = await on_record()
    assert [row.outcome for row in rows] == [outcomes.OK, outcomes.OK, outcomes.LIMITED]
    assert rows[2].id == refused.value.call_id and "2/h" in rows[2].detail
    code, params = json.loads(rows[2].detail_reason)
    assert (code, params["rate"], params["seconds"]) == ("limit.reached", "2/h", refused.value.seconds)


async def test_two_hundred_calls_at_once_against_twenty_a_minute_admit_exactly_twenty(alice: Any) -> None:
    tool = await in_database(publish, alice, "door_add")
    await in_database(factories.limit, "20/d", tool)
    made = await asyncio.gather(
        *(call(alice, "door_add", {"a": 1, "b": 2}) for _ in range(200)), return_exceptions=True
    )
    assert sum(isinstance(answer, LimitReached) for answer in made) == 180
    assert len(tools.RAN) == 20
    assert len(await on_record(outcome=outcomes.LIMITED)) == 180


async def test_what_a_tool_needs_from_the_client_is_asked_for_before_it_runs(alice: Any) -> None:
    await in_database(publish, alice, "door_sampling")
    with pytest.raises(MissingCapability) as refused:
        await call(alice, "door_sampling", channel=Recording({"elicitation": {}}))
    assert refused.value.required == {"sampling": {}}
    assert (await the_record()).outcome == outcomes.REFUSED
    assert text(await call(alice, "door_sampling", channel=Recording({"sampling": {}}))) == "sampled"


async def test_a_tool_that_must_run_as_a_task_is_refused_otherwise(alice: Any) -> None:
    await in_database(publish, alice, "door_task", "door_task_after")
    opted: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
    for capabilities in ({}, opted):
        with pytest.raises(MissingCapability) as refused:
            await call(alice, "door_task", channel=Recording(capabilities))
        assert refused.value.required == {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert text(await call(alice, "door_task", detached=True)) == "as a task"
    with pytest.raises(MissingCapability):
        await call(alice, "door_task_after", channel=Recording({"elicitation": {}}))
    with pytest.raises(NeedsInput):
        await call(alice, "door_task_after", channel=Recording(opted, modern=True), revision=MODERN)


async def test_nothing_runs_while_the_record_cannot_be_written(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_database(publish, alice, "door_add")

    async def away(*args: Any) -> Any:
        raise AuditLogUnavailable("calls cannot be logged now")

    monkeypatch.setattr(recorder, "begin", away)
    monkeypatch.setattr(recorder, "deny", away)
    with pytest.raises(RecordUnavailable, match="calls cannot be logged now"):
        await call(alice, "door_add", {"a": 1, "b": 2})
    with pytest.raises(RecordUnavailable):
        await call(alice, "door_nothing")
    assert tools.RAN == []


async def test_an_answer_is_withheld_when_the_outcome_cannot_be_recorded(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(publish, alice, "door_add")

    def away(*args: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(AuditLogUnavailable("the spool is full"))
        return future

    monkeypatch.setattr(recorder, "finish", away)
    with pytest.raises(InternalFailure):
        await call(alice, "door_add", {"a": 1, "b": 2})


# --- what is on record -----------------------------------------------------------------------------------------------


async def test_the_record_holds_who_what_why_and_how_it_ended(alice: Any) -> None:
    tool = await in_database(publish, alice, "door_add")
    result = await call(alice, "door_add", {"b": 2, "a": 1})
    assert result.content == [{"type": "text", "text": "3"}] and not result.is_error and result.structured is None
    row = await the_record()
    assert (row.id, row.outcome, row.username, row.name) == (result.call_id, outcomes.OK, "alice", "door_add")
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
    await in_database(publish, alice, "door_wait")
    tools.GATES["durable"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "door_wait", {"label": "durable"}))
    await tools.GATES["durable"].wait()
    assert (await the_record()).outcome == outcomes.RUNNING
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_whoever_asks_is_told_between_the_intent_and_the_run(alice: Any) -> None:
    await in_database(publish, alice, "door_add")
    told: list[Any] = []

    async def begun(call_id: UUID) -> None:
        told.append((call_id, (await the_record()).outcome, list(tools.RAN)))

    number = recorder.new_call_id()
    result = await call(alice, "door_add", {"a": 1, "b": 2}, call_id=number, begun=begun)
    assert told == [(number, outcomes.RUNNING, [])] and result.call_id == number


async def test_a_call_whose_beginning_cannot_be_announced_does_not_run(alice: Any) -> None:
    await in_database(publish, alice, "door_add")

    async def begun(call_id: UUID) -> None:
        raise OSError("no room for the task")

    with pytest.raises(InternalFailure):
        await call(alice, "door_add", {"a": 1, "b": 2}, begun=begun)
    assert tools.RAN == [] and (await the_record()).outcome == outcomes.TOOL_ERROR


async def test_a_secret_in_the_arguments_is_hidden_in_result_and_error_too(alice: Any) -> None:
    await in_database(publish, alice, "door_echo")
    result = await call(alice, "door_echo", {"value": {"password": "hunter2hunter2"}})
    assert "hunter2hunter2" in text(result)
    row = await the_record()
    assert "hunter2hunter2" not in row.arguments + row.result


async def test_a_tool_that_records_digests_leaves_no_text(alice: Any) -> None:
    await in_database(publish, alice, "door_add", record_bodies="digests")
    await call(alice, "door_add", {"a": 1234567, "b": 2})
    row = await the_record()
    assert "1234567" not in row.arguments + row.result and "1234569" not in row.result
    assert row.outcome == outcomes.OK


# --- how a run can end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says", "error_class"),
    [
        ("door_error", "The moon is not full.", "ToolError"),
        ("door_break", "failed unexpectedly", "RuntimeError"),
        ("door_exit", "failed unexpectedly", "SystemExit"),
        ("door_exit_thread", "failed unexpectedly", "SystemExit"),
        ("door_self_cancel", "failed unexpectedly", "CancelledError"),
    ],
)
async def test_a_tool_that_fails_answers_an_error_without_internals(
    alice: Any, name: str, says: str, error_class: str
) -> None:
    await in_database(publish, alice, name)
    result = await call(alice, name)
    assert result.is_error and says in text(result)
    row = await the_record()
    assert (row.outcome, row.error_class) == (outcomes.TOOL_ERROR, error_class)
    assert "hunter2" not in text(result) + row.result + row.detail and "/srv" not in text(result)
    if "unexpectedly" in says:
        assert str(result.call_id) in text(result)


async def test_a_protocol_error_of_the_function_goes_through_and_is_on_record(alice: Any) -> None:
    await in_database(publish, alice, "door_protocol")
    with pytest.raises(ProtocolError) as raised:
        await call(alice, "door_protocol")
    assert (raised.value.code, raised.value.message, raised.value.data) == (-31000, "Not today", {"why": "holiday"})
    assert (await the_record()).outcome == outcomes.TOOL_ERROR


@pytest.mark.parametrize("name", ["door_slow", "door_stubborn"])
async def test_a_tool_that_takes_too_long_is_stopped_and_says_so(alice: Any, name: str) -> None:
    await in_database(publish, alice, name)
    result = await call(alice, name)
    assert result.is_error and "within 0.2 s" in text(result)
    assert (await the_record()).outcome == outcomes.TIMEOUT
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_cancelled_call_ends_on_record_with_the_reason(alice: Any) -> None:
    await in_database(publish, alice, "door_wait")
    tools.GATES["gone"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "door_wait", {"label": "gone"}))
    await tools.GATES["gone"].wait()
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    row = await the_record()
    assert (row.outcome, row.detail) == (outcomes.CANCELLED, CLIENT_GONE)


async def test_a_call_cancelled_twice_still_ends_on_record(alice: Any) -> None:
    await in_database(publish, alice, "door_wait")
    tools.GATES["twice"] = asyncio.Event()
    running = asyncio.ensure_future(call(alice, "door_wait", {"label": "twice"}))
    await tools.GATES["twice"].wait()
    running.cancel(CLIENT_GONE)
    await asyncio.sleep(0)
    running.cancel("again")
    with pytest.raises(asyncio.CancelledError):
        await running

    async def ended() -> bool:
        return (await the_record()).outcome == outcomes.CANCELLED

    await eventually(ended)


async def test_a_cancelled_function_in_a_thread_is_told_to_stop(alice: Any) -> None:
    await in_database(publish, alice, "door_thread")
    tools.OPEN["told"] = threading.Event()
    channel = Recording()
    running = asyncio.ensure_future(call(alice, "door_thread", {"label": "told"}, channel))
    await eventually(tools.OPEN["told"].is_set)
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert channel.reports == [(1, 2, "waiting")]
    await eventually(lambda: "told stopped" in tools.RAN)
    assert (await the_record()).outcome == outcomes.CANCELLED


async def test_a_call_ends_at_its_deadline_although_its_thread_goes_on_and_keeps_its_slot(
    alice: Any, settings: Any
) -> None:
    settings.TOOL_THREADS = 1
    await in_database(publish, alice, "door_blocked", "door_double")
    tools.OPEN["stuck"] = threading.Event()
    result = await call(alice, "door_blocked", {"label": "stuck"})
    assert result.is_error and "within 0.3 s" in text(result)
    assert threads.tools().taken == 1
    threads.WAIT_SECONDS, before = 0.1, threads.WAIT_SECONDS
    try:
        busy = await call(alice, "door_double", {"n": 4})
    finally:
        threads.WAIT_SECONDS = before
    assert busy.is_error and "busy" in text(busy)
    tools.OPEN["stuck"].set()
    assert text(await call(alice, "door_double", {"n": 4})) == "8 in tool"
    assert [row.outcome for row in await on_record()] == [outcomes.TIMEOUT, outcomes.TOOL_ERROR, outcomes.OK]


async def test_a_tool_without_its_function_answers_that_it_is_not_set_up(alice: Any) -> None:
    await in_database(publish, alice, "door_add", settings={"function": "no_such_function"})
    result = await call(alice, "door_add", {"a": 1, "b": 2})
    assert result.is_error and "not set up" in text(result)


async def test_a_changed_definition_is_in_force_for_the_next_call(alice: Any) -> None:
    tool = await in_database(publish, alice, "door_add")
    await call(alice, "door_add", {"a": 1, "b": 2})

    def tighten() -> None:
        tool.input_schema = {**tool.input_schema, "required": ["a", "b", "c"]}
        tool.save()

    await in_database(tighten)
    with pytest.raises(InvalidArguments, match="c"):
        await call(alice, "door_add", {"a": 1, "b": 2})


async def test_a_hundred_calls_at_once_each_get_their_own_answer(alice: Any, bob: Any) -> None:
    await in_database(publish, alice, "door_echo")
    await in_database(factories.grant, bob, (await snapshot_tool("door_echo")))
    made = await asyncio.gather(
        *(call(user, "door_echo", {"value": f"{user.username} {n}"}) for n in range(50) for user in (alice, bob))
    )
    assert [text(answer) for answer in made] == [f"{name} {n}" for n in range(50) for name in ("alice", "bob")]
    assert len({answer.call_id for answer in made}) == 100


async def snapshot_tool(name: str) -> Any:
    from catalog.models import Tool

    assert name in snapshot.current().tools
    return await Tool.objects.aget(name=name)
