"""Conditions, time windows and flags of a grant when it is saved: that all they name exists, and that they fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client

from catalog.models import ApprovalRule, Flag, Grant, Prompt, Resource, Tool, Toolset
from catalog.models.grant_conditions import MAX_TRIED_ITEMS
from tests import factories

pytestmark = pytest.mark.django_db

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "enum": ["emea", "apac"]},
        "amount": {"type": "number", "maximum": 100},
        "pin": {"type": "string", "format": "password"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "pair": {"type": "object", "properties": {"x": {}, "y": {}}, "dependentRequired": {"x": ["y"]}},
    },
    "additionalProperties": False,
}
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
WINDOW = {"days": ["mon"], "from": "09:00", "to": "17:30", "zone": "UTC"}


@pytest.fixture
def report(db: None) -> Tool:
    return factories.make_tool("report", input_schema=SCHEMA)


def find_errors(target: Tool | Toolset | Resource | Prompt, **fields: Any) -> dict[str, list[str]]:
    """Return the errors of a grant to everyone, by field; empty when it can be saved."""
    row = Grant(everyone=True, **{type(target).__name__.lower(): target}, **fields)
    try:
        row.full_clean()
    except ValidationError as error:
        return dict(error.message_dict)
    return {}


def find_misfit(target: Tool | Toolset | Resource | Prompt, *conditions: dict[str, Any], **fields: Any) -> str:
    """Return what is wrong with the conditions; empty when they can be saved."""
    errors = find_errors(target, conditions=list(conditions), **fields)
    assert set(errors) <= {"conditions"}
    return " ".join(errors.get("conditions", []))


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_grant_names_only_flags_that_exist_here_or_in_the_environment(report: Tool, settings: Any) -> None:
    Flag.objects.create(name="beta")
    assert find_errors(report, flags=["beta", "gamma"]) == {
        "flags": ["There is no flag “gamma”. Create it first, or choose another one."]
    }
    settings.FLAGS = {"gamma": 0}
    assert find_errors(report, flags=["beta", "gamma"]) == {}


def test_a_grant_names_only_value_lists_that_exist(report: Tool) -> None:
    factories.make_value_list("ours", {})
    named = [{"path": "/region", "op": "belongs_to", "list": name} for name in ("ours", "theirs")]
    assert find_misfit(report, *named) == (
        "Condition 2: There is no value list “theirs”. Create it first, or choose another one."
    )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("conditions", {}, "This must be a list."),
        ("conditions", [{"path": "region", "op": "equals", "value": 1}], "Condition 1: The path region is not the "),
        ("windows", [WINDOW, {**WINDOW, "zone": "Mars"}], 'Time window 2: There is no time zone "Mars".'),
        ("windows", {}, "This must be a list."),
        ("flags", ["a b"], "Flag 1: A flag's name has 1 to 100 letters"),
        ("flags", {}, "This must be a list."),
    ],
)
def test_what_is_wrong_by_itself_is_said_once(report: Tool, field: str, value: Any, says: str) -> None:
    errors = find_errors(report, **{field: value})
    assert list(errors) == [field] and len(errors[field]) == 1 and errors[field][0].startswith(says)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ({"path": "/country", "op": "equals", "value": "de"}, "There is no argument /country."),
        ({"path": "/lines/*/price", "op": "equals", "value": 1}, "There is no argument /lines/*/price."),
        (
            {"path": "/pin", "op": "equals", "value": "1234"},
            "The argument /pin is secret, so that no condition can name its values.",
        ),
        ({"path": "/region", "op": "equals", "value": "mars"}, "No arguments of the tool satisfy the conditions."),
        (
            {"path": "/region", "op": "fixed", "value": "mars"},
            '"mars" is no value that the tool accepts for /region.',
        ),
        (
            {"path": "/pair/x", "op": "fixed", "value": "y"},
            'The argument /pair/x cannot have a fixed value: its object uses "dependentRequired". '
            "Only arguments that the schema names one by one can.",
        ),
    ],
)
def test_conditions_that_no_call_of_the_tool_could_satisfy_are_refused(
    report: Tool, condition: dict[str, Any], says: str
) -> None:
    assert find_misfit(report, condition) == says


def test_a_deny_fixes_no_value_and_is_refused_where_it_could_deny_nothing(report: Tool) -> None:
    fixed = {"path": "/region", "op": "fixed", "value": "emea"}
    assert find_misfit(report, EMEA | {"path": "/amount", "value": 1}, fixed, effect="deny") == (
        "Condition 2: A grant that denies cannot fix a value. Use “equals”."
    )
    assert find_misfit(report, fixed, effect="allow") == ""
    assert find_misfit(report, EMEA | {"value": "mars"}, effect="deny") == (
        "No arguments of the tool satisfy the conditions."
    )
    assert find_misfit(report, EMEA, effect="deny") == ""


def test_a_grant_names_the_only_arguments_of_a_tool_with_secrets_and_a_deny_and_a_rule_name_none(report: Tool) -> None:
    only = {"path": "", "op": "only", "names": ["region", "pin"]}
    assert find_misfit(report, only, EMEA) == ""
    assert find_misfit(report, EMEA, only, effect="deny") == (
        "Condition 2: A grant that denies cannot name the only arguments. Use a grant that allows."
    )
    assert find_misfit(report, {**only, "names": ["amount"]}, EMEA) == (
        "No arguments of the tool satisfy the conditions."
    )
    rule = ApprovalRule(name="Ask", tool=report, asks="person", conditions=[only])
    with pytest.raises(ValidationError) as raised:
        rule.full_clean()
    assert raised.value.message_dict["conditions"] == [
        "Condition 1: A rule that asks cannot name the only arguments. Remove this condition."
    ]


def test_a_list_or_an_object_must_be_one_that_the_tool_accepts(report: Tool) -> None:
    lines = {"path": "/lines", "op": "equals", "value": [{"sku": "a"}]}
    assert find_misfit(report, lines) == find_misfit(report, lines, effect="deny") == ""
    assert find_misfit(report, {**lines, "value": [{"sku": 1}]}) == "No arguments of the tool satisfy the conditions."


def test_a_prompt_and_a_resource_have_their_own_arguments() -> None:
    choices = {"name": "tone", "enum": ["warm", "cold"]}
    greeting = factories.make_prompt(arguments=[{"name": "name", "required": True}, choices])
    assert find_misfit(greeting, {"path": "/tone", "op": "equals", "value": "warm"}) == ""
    assert find_misfit(greeting, {"path": "/tone", "op": "fixed", "value": "cold"}) == ""
    assert find_misfit(greeting, {"path": "/tone", "op": "equals", "value": "loud"}) != ""
    assert find_misfit(greeting, {"path": "/age", "op": "equals", "value": "7"}) == "There is no argument /age."
    files = factories.make_resource(uri_template="file:///{area}/{name}", function="read_file")
    assert find_misfit(files, {"path": "/area", "op": "prefix", "prefix": "pub"}) == ""
    assert find_misfit(files, {"path": "/region", "op": "equals", "value": "x"}) == "There is no argument /region."
    assert find_misfit(files, {"path": "/area", "op": "fixed", "value": "pub"}) == (
        "The argument /area is part of an address: clients always send it. Use “equals”."
    )
    handbook = factories.make_resource()
    assert find_misfit(handbook, {"path": "/area", "op": "equals", "value": "x"}) == "There is no argument /area."


# --- what can be saved -----------------------------------------------------------------------------------------------


def test_conditions_that_some_call_satisfies_are_saved_as_they_were_given(report: Tool) -> None:
    Flag.objects.create(name="beta")
    conditions = [
        EMEA,
        {"path": "/lines/*/sku", "op": "prefix", "prefix": "A-", "optional": True},
        {"path": "/amount", "op": "range", "minimum": 1, "exclusiveMaximum": 50.5},
    ]
    assert find_errors(report, conditions=conditions, windows=[WINDOW], flags=["beta"]) == {}
    grant = factories.grant(None, report, conditions=conditions, windows=[WINDOW], flags=["beta"])
    stored = Grant.objects.get(pk=grant.pk)
    assert (stored.conditions, stored.windows, stored.flags) == (conditions, [WINDOW], ["beta"])


def test_a_value_list_fits_when_one_of_its_values_does_and_while_it_is_empty(
    report: Tool, alice: User, bob: User
) -> None:
    condition = {"path": "/region", "op": "belongs_to", "list": "ours"}
    ours = factories.make_value_list("ours", {alice: ["mars"]})
    assert find_misfit(report, condition) == "No arguments of the tool satisfy the conditions."
    ours.parts.create(user=bob, entries=["emea"])
    assert find_misfit(report, condition) == ""
    ours.parts.all().delete()
    assert find_misfit(report, condition) == ""


def test_conditions_of_a_toolset_must_fit_one_of_its_items(report: Tool) -> None:
    toolset = factories.make_toolset("Everything")
    assert find_misfit(toolset, EMEA) == "", "an empty toolset may get an item later"
    factories.make_tool("another", toolset=toolset, input_schema={"type": "object", "properties": {"a": {}}})
    factories.make_prompt("greeting", toolset=toolset)
    factories.make_resource("docs://static", toolset=toolset)
    assert find_misfit(toolset, EMEA) == "There is no argument /region."
    for item in (
        report,
        factories.make_prompt("regional", arguments=[{"name": "region"}]),
        factories.make_resource(uri_template="docs://{region}", function="read_file"),
    ):
        item.toolsets.add(toolset)
        assert find_misfit(toolset, EMEA) == "", item
        item.toolsets.remove(toolset)


def test_a_large_toolset_is_tried_up_to_a_bound(report: Tool, django_assert_max_num_queries: Any) -> None:
    toolset = factories.make_toolset("Large")
    tools = [
        Tool(name=f"tool_{number:04d}", description="One.", input_schema={"type": "object"})
        for number in range(MAX_TRIED_ITEMS + 1)
    ]
    tools[-1].input_schema = SCHEMA
    Tool.toolsets.through.objects.bulk_create(
        Tool.toolsets.through(tool=tool, toolset=toolset) for tool in Tool.objects.bulk_create(tools)
    )
    with django_assert_max_num_queries(23):  # three of them for each constraint of the model
        assert find_misfit(toolset, EMEA) == "There is no argument /region."
    tools[0].toolsets.clear()
    assert find_misfit(toolset, EMEA) == "", "the last tool is among those that are tried now"


def test_a_grant_whose_tool_changed_since_says_at_the_field_why_it_cannot_be_saved(
    browser: Client, report: Tool, alice: User
) -> None:
    grant = factories.grant(alice, report, conditions=[EMEA])
    report.input_schema = {"type": "object", "properties": {"country": {"type": "string"}}}
    report.save()
    sent = {"effect": "allow", "tool": report.pk, "user": alice.pk, "note": "ticket 7"}
    answer = browser.post(
        f"/admin/catalog/grant/{grant.pk}/change/", {**sent, "conditions": json.dumps(grant.conditions)}
    )
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors == {"conditions": ["There is no argument /region."]}
    assert Grant.objects.get().note == ""
