"""A test case runs through the call pipeline, is logged as a test, and needs what every call needs."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from audit import recorder
from audit.models import Call
from catalog.models import Tool, ToolTest
from catalog.tool_tests.run import Outcome, make_caller, run
from tests.catalog import tools  # noqa: F401 - registers the functions
from tests.catalog.pipeline import run_in_database
from tests.factories import TWO_NUMBERS, grant, limit, make_tool

pytestmark = pytest.mark.django_db(transaction=True)


def make_test(tool: Tool, **fields: Any) -> ToolTest:
    test = ToolTest(**{"tool": tool, "name": "a test", **fields})
    test.full_clean()
    test.save()
    return test


async def outcome(user: Any, tool: str, granted: bool = True, **fields: Any) -> Outcome:
    def publish() -> ToolTest:
        row = Tool.objects.filter(name=tool).first() or make_tool(
            tool, function=tool, **{"input_schema": {"type": "object"}, **fields.pop("row", {})}
        )
        if granted:
            grant(user, row)
        ToolTest.objects.all().delete()
        return make_test(row, **fields)

    test = await run_in_database(publish)
    caller = make_caller(test, user.pk, user.username, f"admin:{user.pk}", "root")
    return await run(test, caller, recorder.new_call_id())


async def test_a_run_is_a_logged_call_that_names_the_test_and_who_ran_it(alice: Any) -> None:
    found = await outcome(alice, "call_add", arguments={"a": 1, "b": 2}, match="text", expected="3",
                          row={"input_schema": TWO_NUMBERS})  # fmt: skip
    assert found.passed and found.call_id is not None
    call = await Call.objects.aget(pk=found.call_id)
    assert (call.transport, call.client_name, call.username) == ("test", "toolhub tests", "alice")
    assert call.credential == "test case 'a test', run by root" and call.outcome == "ok"


@pytest.mark.parametrize(
    ("tool", "fields", "code"),
    [
        ("call_error", {}, "test.status"),
        ("call_error", {"status": "tool_error", "match": "text", "expected": "not full"}, ""),
        ("call_slow", {"status": "timeout", "row": {"timeout": 0.2}}, ""),
        ("call_slow", {"status": "tool_error", "row": {"timeout": 0.2}}, "test.status"),
        (
            "call_add",
            {"arguments": {"a": "x"}, "status": "invalid_arguments", "row": {"input_schema": TWO_NUMBERS}},
            "",
        ),
    ],
)
async def test_every_status_of_the_log_can_be_expected(alice: Any, tool: str, fields: Any, code: str) -> None:
    found = await outcome(alice, tool, **fields)
    assert (found.problem.code if found.problem else "") == code and found.call_id is not None


async def test_a_test_opens_nothing_that_its_user_may_not_use(alice: Any) -> None:
    assert (await outcome(alice, "call_error", granted=False, status="refused")).passed
    found = await outcome(alice, "call_error", granted=False)
    assert found.problem is not None and found.problem.params["got"] == "refused"


async def test_a_test_counts_against_rate_limits_and_says_so(alice: Any) -> None:
    await run_in_database(
        lambda: limit("1/d", make_tool("call_language", function="call_language", input_schema={"type": "object"}))
    )
    assert (await outcome(alice, "call_language")).passed
    found = await outcome(alice, "call_language")
    assert found.problem is not None and found.problem.code == "test.limited"


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"arguments": []}, "arguments", "must be an object"),
        ({"arguments": {"password": "hunter2hunter2"}}, "arguments", "is a secret"),
        ({"arguments": {"pin": "hunter2"}}, "arguments", "is a secret"),
        (
            {"arguments": {"a": {"$redacted": "sha256:" + "0" * 16, "length": 3}, "pin": "x"}},
            "arguments",
            "is a secret",
        ),
        ({"match": "text", "expected": " "}, "expected", "Enter what the result"),
        ({"match": "json", "expected": "{"}, "expected", "not valid JSON"),
        ({"match": "json", "expected": "{}", "status": "tool_error"}, "match", "Only a successful result"),
        ({"match": "schema", "expected": '{"type": "strin"}'}, "expected", "type"),
        ({"match": "text", "expected": "x" * 100_001}, "expected", "At most 100000"),
        ({"name": ""}, "name", "blank"),
    ],
)
def test_a_test_that_cannot_be_kept_or_judged_is_refused(fields: dict[str, Any], field: str, says: str) -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
    with pytest.raises(ValidationError) as refused:
        make_test(make_tool("call_error", function="call_error", input_schema=schema), **fields)
    assert says in " ".join(refused.value.message_dict[field])


def test_a_name_is_used_once_for_each_tool() -> None:
    one, other = make_tool("one"), make_tool("other")
    make_test(one)
    make_test(other)
    with pytest.raises(ValidationError, match="has a test case of this name"):
        make_test(one)
