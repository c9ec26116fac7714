"""Calls under conditions: what runs, what is refused with which words, and what is in the log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from audit import outcomes
from catalog.calls import call_tool
from catalog.errors import InvalidArguments, UnknownResource, UnknownTool
from catalog.functions import registry
from catalog.models import Tool, ValueList, ValueListPart
from catalog.policy import visibility
from tests import factories
from tests.catalog import prompts_and_resources, tools
from tests.catalog.pipeline import (
    RecordingChannel,
    call,
    caller,
    logged_calls,
    only_logged_call,
    run_in_database,
    text,
)

pytestmark = pytest.mark.django_db(transaction=True)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string"},
        "amount": {"type": "integer", "default": 7},
        "note": {"type": "string"},
        "sender": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "team": {"type": "string"}},
            "additionalProperties": False,
        },
    },
    "required": ["region"],
    "additionalProperties": False,
}
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
SMALL = {"path": "/amount", "op": "range", "maximum": 100}
TEAM = {"path": "/sender/team", "op": "fixed", "value": "support"}
NOTE = {"path": "/note", "op": "fixed", "value": "by toolhub"}


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()
    prompts_and_resources.RAN.clear()


def publish(user: Any, *grants: list[dict[str, Any]], **fields: Any) -> Tool:
    """The tool of tickets, with one grant for each list of conditions."""
    row = {**registry.tool_row("call_ticket"), "input_schema": SCHEMA, **fields}
    tool = factories.make_tool(**row)
    for conditions in grants:
        grant = factories.grant(user, tool, conditions=conditions)
        grant.full_clean()
    return tool


async def ticket(user: Any, **arguments: Any) -> Any:
    return json.loads(text(await call(user, "call_ticket", arguments)))


async def refuse(user: Any, **arguments: Any) -> str:
    """The answer to a call that must not run."""
    tools.RAN.clear()
    with pytest.raises(InvalidArguments) as refused:
        await call(user, "call_ticket", arguments)
    assert tools.RAN == []
    return str(refused.value)


# --- tools ---------------------------------------------------------------------------------------------------------


async def test_a_violated_condition_reads_like_a_violated_schema_and_names_the_field(alice: Any) -> None:
    await run_in_database(publish, alice, [EMEA, SMALL])
    conditional = await refuse(alice, region="apac", amount=101)
    narrowed = json.loads(json.dumps(SCHEMA))
    narrowed["properties"]["region"] = {"type": "string", "const": "emea"}
    narrowed["properties"]["amount"]["maximum"] = 100
    await run_in_database(Tool.objects.filter(name="call_ticket").update, input_schema=narrowed)
    await run_in_database(lambda: factories.grant(alice, Tool.objects.get(name="call_ticket")))
    assert await refuse(alice, region="apac", amount=101) == conditional
    assert conditional == (
        '2 problems: (1) argument "region": expected "emea", got string "apac"; '
        '(2) argument "amount": expected at most 100, got integer 101'
    )


async def test_a_refused_call_is_logged_with_the_grant_and_the_field(alice: Any) -> None:
    await run_in_database(publish, alice, [EMEA])
    await refuse(alice, region="apac")
    row = await only_logged_call()
    assert (row.outcome, row.error_class) == (outcomes.INVALID_ARGUMENTS, "InvalidArguments")
    assert row.rule.endswith("to user alice, with conditions") and row.detail.startswith(
        'argument "region": expected "emea"'
    )
    assert json.loads(row.arguments) == {"region": "apac"}


async def test_the_grant_that_accepts_the_arguments_is_the_one_in_the_log(alice: Any) -> None:
    await run_in_database(publish, alice, [EMEA], [SMALL])
    assert await ticket(alice, region="emea", amount=500)
    assert await ticket(alice, region="apac", amount=5)
    assert "region" in await refuse(alice, region="apac", amount=500)
    first, second, third = [row.rule.split(":")[0] for row in await logged_calls()]
    assert first != second and third == first


async def test_a_denial_names_itself_in_the_log_and_overrides_every_grant(alice: Any) -> None:
    tool = await run_in_database(publish, alice, [])
    denial = await run_in_database(factories.deny, alice, tool, conditions=[EMEA])
    assert await ticket(alice, region="apac")
    assert "region" in await refuse(alice, region="emea")
    assert [row.rule.split(":")[0] for row in await logged_calls()][1] == f"Grant {denial.pk}"


async def test_the_definition_in_the_log_is_the_tool_itself_whoever_calls(alice: Any, bob: Any) -> None:
    tool = await run_in_database(publish, alice, [EMEA])
    await run_in_database(factories.grant, bob, tool)
    await ticket(alice, region="emea")
    await ticket(bob, region="emea")
    first, second = await logged_calls()
    assert first.definition == second.definition


async def test_fixed_values_are_filled_in_and_logged_and_nobody_sees_them_in_the_list(alice: Any) -> None:
    await run_in_database(publish, alice, [NOTE, TEAM])
    shown = visibility.for_credential(factories.credential(alice)).tools["call_ticket"][0].input_schema
    assert "note" not in shown["properties"] and list(shown["properties"]["sender"]["properties"]) == ["name"]
    sent = {"region": "emea", "sender": {"name": "Ada"}}
    found = await ticket(alice, **sent)
    assert found["note"] == "by toolhub" and found["sender"] == {"name": "Ada", "team": "support"}
    assert found["amount"] == 7  # the definition's own default, as for everybody
    assert json.loads((await only_logged_call()).arguments)["note"] == "by toolhub"
    assert sent == {"region": "emea", "sender": {"name": "Ada"}}


@pytest.mark.parametrize(
    "sent",
    [
        {"note": "mine"},
        {"note": "by toolhub"},
        {"note": None},
        {"Note": "mine"},
        {"note ": "mine"},
        {"no\u0074e\u200b": "mine"},
        {"sender": {"team": "sales"}},
        {"sender": {"Team": "sales"}},
        {"sender": {"name": "Ada", "team": None}},
        {"sender": None},
        {"sender": []},
        {"sender": "team"},
    ],
)
async def test_a_fixed_value_cannot_be_sent_in_any_spelling(alice: Any, sent: dict[str, Any]) -> None:
    await run_in_database(publish, alice, [NOTE, TEAM])
    await refuse(alice, region="emea", **sent)


async def test_large_arguments_are_judged_as_well(alice: Any) -> None:
    fields = {"max_argument_bytes": 2_000_000}
    await run_in_database(publish, alice, [{"path": "/note", "op": "length", "maximum": 50_000}, EMEA], **fields)
    assert (await ticket(alice, region="emea", note="n" * 40_000))["note"] == "n" * 40_000
    assert "note" in await refuse(alice, region="emea", note="n" * 60_000)
    assert "bytes" in await refuse(alice, region="emea", note="n" * 2_100_000)


async def test_patterns_beyond_their_budget_refuse_the_call(alice: Any) -> None:
    costly = {"path": "/note", "op": "pattern", "pattern": "(?:a{0,30}b{0,30}c{0,30}){1,9}$"}
    await run_in_database(publish, alice, [costly], max_argument_bytes=2_000_000)
    assert "too complicated" in await refuse(alice, region="emea", note="abd" * 300_000)


async def test_long_lists_under_many_grants_are_refused_within_a_bounded_time(alice: Any) -> None:
    numbers = {"type": "object", "properties": {"value": {"type": "array", "items": {"type": "integer"}}}}
    odd = [{"path": "/value/*", "op": "one_of", "values": [*range(40), -number]} for number in range(1, 10)]

    def make() -> None:
        tool = factories.make_tool(
            **{**registry.tool_row("call_echo"), "input_schema": numbers, "max_argument_bytes": 4_000_000}
        )
        for number in range(20):
            factories.grant(alice, tool, conditions=[*odd, {**odd[0], "values": [*range(30), -number - 100]}])

    await run_in_database(make)
    with pytest.raises(InvalidArguments) as refused:
        await call(alice, "call_echo", {"value": [number % 30 for number in range(300_000)] + [-1]})
    assert "too complicated" in str(refused.value)
    assert text(await call(alice, "call_echo", {"value": [1, 2]})) == "[1,2]"


async def test_a_tool_that_no_arguments_satisfy_is_unknown(alice: Any) -> None:
    await run_in_database(publish, alice, [])
    tool = await run_in_database(Tool.objects.get, name="call_ticket")
    await run_in_database(tool.grants.update, conditions=[{"path": "/city", "op": "equals", "value": "Bern"}])
    with pytest.raises(UnknownTool):
        await call(alice, "call_ticket", {"region": "emea"})
    row = await only_logged_call()
    assert (row.outcome, row.rule) == (outcomes.REFUSED, "no arguments satisfy the conditions of the grants")


def delete_by_sql(*models: Any) -> None:
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"DELETE FROM {model._meta.db_table}")


async def test_a_changed_value_list_changes_the_next_call(alice: Any) -> None:
    condition = {"path": "/region", "op": "belongs_to", "list": "regions"}

    def make() -> ValueListPart:
        part: ValueListPart = ValueList.objects.create(name="regions").parts.create(user=alice, entries=["emea"])
        publish(alice, [condition])
        return part

    part = await run_in_database(make)
    assert await ticket(alice, region="emea")
    assert "region" in await refuse(alice, region="apac")
    part.entries = ["apac"]
    await run_in_database(part.save)
    assert await ticket(alice, region="apac")
    await run_in_database(delete_by_sql, ValueListPart, ValueList)
    with pytest.raises(UnknownTool):
        await call(alice, "call_ticket", {"region": "apac"})


async def test_a_stored_denial_with_the_only_arguments_denies_everything(
    alice: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tool = await run_in_database(publish, alice, [])
    await run_in_database(factories.deny, alice, tool, conditions=[{"path": "", "op": "only", "names": ["amount"]}])
    with pytest.raises(UnknownTool):
        await call(alice, "call_ticket", {"region": "emea"})
    assert "only_denied" in caplog.text


@pytest.mark.parametrize(
    "broken", [{"conditions": [{"path": "region"}]}, {"windows": [{}]}, {"flags": [7]}, {"flags": {}}]
)
async def test_a_stored_grant_that_cannot_be_read_allows_nothing_and_denies_everything(
    alice: Any, broken: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tool = await run_in_database(publish, alice, [])
    assert await ticket(alice, region="emea")
    denial = await run_in_database(factories.deny, alice, tool, **broken)
    with pytest.raises(UnknownTool):
        await call(alice, "call_ticket", {"region": "emea"})
    await run_in_database(denial.delete)
    await run_in_database(tool.grants.update, **broken)
    with pytest.raises(UnknownTool):
        await call(alice, "call_ticket", {"region": "emea"})
    assert "cannot be read" in caplog.text


# --- prompts, resources, suggestions -------------------------------------------------------------------------------


def publish_letter(user: Any, *conditions: dict[str, Any]) -> None:
    prompt = factories.make_prompt(**registry.prompt_row("sample_letter"))
    factories.grant(user, prompt, conditions=list(conditions)).full_clean()


async def test_a_prompt_is_judged_by_its_arguments(alice: Any) -> None:
    await run_in_database(
        publish_letter,
        alice,
        {"path": "/to", "op": "one_of", "values": ["Ada", "Alan"]},
        {"path": "/tone", "op": "fixed", "value": "stern"},
    )
    found = await call_tool.get_prompt(caller(alice), "sample_letter", {"to": "Ada"}, RecordingChannel())
    assert found.messages[0]["content"]["text"] == "Write a short stern letter to Ada."
    for arguments in ({"to": "Grace"}, {"to": "Ada", "tone": "kind"}, {}):
        with pytest.raises(InvalidArguments):
            await call_tool.get_prompt(caller(alice), "sample_letter", arguments, RecordingChannel())
    assert prompts_and_resources.RAN == ["sample_letter"]
    first, second, *_ = await logged_calls()
    assert json.loads(first.arguments) == {"to": "Ada", "tone": "stern"}
    assert second.rule == first.rule and second.outcome == outcomes.INVALID_ARGUMENTS


async def test_an_address_that_a_condition_excludes_reads_like_one_that_is_not_there(alice: Any, bob: Any) -> None:
    def publish_items() -> None:
        rows = [
            {"uri": "", **registry.resource_row("sample_template"), "completions": {"number": ["1", "10", "21"]}},
            {"uri": "", "uri_template": "sample://{kind}/{other}", "function": "sample_template", "name": "any"},
        ]
        first, second = [factories.make_resource(**row) for row in rows]
        books = [{"path": "/kind", "op": "equals", "value": "book"}, {"path": "/number", "op": "prefix", "prefix": "1"}]
        factories.grant(alice, first, conditions=books).full_clean()
        factories.deny(bob, second)

    await run_in_database(publish_items)
    found = await call_tool.read_resource(caller(alice), "sample://book/10", RecordingChannel())
    assert found.contents[0]["text"] == "book number 10"
    messages = []
    for user, uri in ((alice, "sample://film/10"), (alice, "sample://book/21"), (bob, "sample://film/10")):
        with pytest.raises(UnknownResource) as refused:
            await call_tool.read_resource(caller(user), uri, RecordingChannel())
        messages.append(str(refused.value).replace(uri, "URI"))
    assert len(set(messages)) == 1 and prompts_and_resources.RAN == ["book 10"]
    rows = await logged_calls()
    assert [row.outcome for row in rows[1:]] == [outcomes.REFUSED] * 3
    assert rows[1].detail == 'argument "kind": expected "book", got string "film"' and '"number"' in rows[2].detail
    assert "with conditions" in rows[1].rule


async def test_suggestions_leave_out_what_the_person_may_not_send(alice: Any) -> None:
    def publish_both() -> None:
        publish_letter(
            alice,
            {"path": "/to", "op": "not_one_of", "values": ["Alan"]},
            {"path": "/form", "op": "equals", "value": "short"},
        )
        row = {"uri": "", **registry.resource_row("sample_template"), "completions": {"number": ["1", "10", "21"]}}
        odd = [{"path": "/number", "op": "pattern", "pattern": "1$"}]
        factories.grant(alice, factories.make_resource(**row), conditions=odd).full_clean()

    await run_in_database(publish_both)

    async def complete(ref: dict[str, str], name: str, typed: str = "") -> list[str]:
        found = await call_tool.complete(caller(alice), ref, {"name": name, "value": typed}, {})
        return list(found[0])

    letter = {"type": "ref/prompt", "name": "sample_letter"}
    assert await complete(letter, "to") == ["Ada", "Grace"] and await complete(letter, "form") == ["short"]
    template = {"type": "ref/resource", "uri": "sample://{kind}/{number}"}
    assert await complete(template, "number") == ["1", "21"] and await complete(template, "kind") == ["book", "film"]
