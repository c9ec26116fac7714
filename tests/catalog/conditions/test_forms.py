"""What a list shows of a tool under conditions, and what a call with other arguments is told."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.conditions.definitions import parse
from catalog.conditions.forms import Accepted, Alternative, Denial, Form, Permission, Refused
from catalog.schemas.validator import Check

TICKET = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "enum": ["emea", "apac", "amer"], "description": "Where"},
        "amount": {"type": "number", "minimum": 0},
        "repository": {"type": "string", "maxLength": 100},
        "dry_run": {"type": "boolean", "default": False},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Note"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "options": {"type": "object", "properties": {"mode": {"enum": ["fast", "safe"]}, "force": {"type": "boolean"}}},
    },
    "required": ["region", "amount"],
    "additionalProperties": False,
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["sku"],
        }
    },
}
LISTS = {"our repositories": ("site", "docs")}


def form(*grants: list[dict[str, Any]], denies: list[list[dict[str, Any]]] | None = None, **options: Any) -> Form:
    schema = options.pop("schema", TICKET)
    alternatives = [Alternative.of(number, parse(one), LISTS) for number, one in enumerate(grants, 1)]
    denials = [Denial.of(number, parse(one), LISTS) for number, one in enumerate(denies or [], 50)]
    return Form(Permission.build(alternatives, denials), schema, **options)


def shown(found: Form, *names: str) -> Any:
    part: Any = found.schema
    for name in names:
        part = part["items" if name == "*" else "properties"]
        part = part if name == "*" else part[name]
    return part


def call(found: Form, **arguments: Any) -> Any:
    verdict = found.judge(arguments, Check(TICKET))
    return verdict.arguments if isinstance(verdict, Accepted) else str(verdict.problem)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"path": "/region", "op": "equals", "value": "emea"}, {"enum": ["emea"]}),
        ({"path": "/region", "op": "one_of", "values": ["apac", "emea", "moon"]}, {"enum": ["emea", "apac"]}),
        ({"path": "/region", "op": "not_one_of", "values": ["amer"]}, {"enum": ["emea", "apac"]}),
        ({"path": "/region", "op": "prefix", "prefix": "a"}, {"enum": ["apac", "amer"]}),
        ({"path": "/region", "op": "pattern", "pattern": "^.m"}, {"enum": ["emea", "amer"]}),
    ],
)  # fmt: skip
def test_choices_that_are_left_are_listed(condition: dict[str, Any], expected: dict[str, Any]) -> None:
    assert shown(form([condition]), "region") == {"type": "string", "description": "Where", **expected}


@pytest.mark.parametrize(
    ("condition", "name", "expected"),
    [
        ({"path": "/amount", "op": "range", "maximum": 9}, "amount", {"type": "number", "minimum": 0, "maximum": 9}),
        ({"path": "/amount", "op": "range", "minimum": -5}, "amount", {"type": "number", "minimum": 0}),
        ({"path": "/amount", "op": "range", "exclusiveMinimum": 1}, "amount",
         {"type": "number", "minimum": 0, "exclusiveMinimum": 1}),
        ({"path": "/repository", "op": "length", "maximum": 20}, "repository", {"type": "string", "maxLength": 20}),
        ({"path": "/repository", "op": "prefix", "prefix": "a.b/"}, "repository",
         {"type": "string", "maxLength": 100, "pattern": r"^a\.b/"}),
        ({"path": "/repository", "op": "belongs_to", "list": "our repositories"}, "repository",
         {"type": "string", "enum": ["site", "docs"]}),
        ({"path": "/repository", "op": "not_one_of", "values": ["secret", 7]}, "repository",
         {"type": "string", "maxLength": 100, "not": {"enum": ["secret"]}}),
        ({"path": "/lines", "op": "length", "maximum": 3}, "lines",
         {"type": "array", "items": {"$ref": "#/$defs/Line"}, "maxItems": 3}),
        ({"path": "/note", "op": "length", "maximum": 9}, "note", {"type": "string", "maxLength": 9, "title": "Note"}),
        ({"path": "/note", "op": "length", "maximum": 9, "optional": True}, "note",
         {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}], "default": None, "title": "Note"}),
    ],
)  # fmt: skip
def test_bounds_and_patterns_are_shown_at_the_argument(
    condition: dict[str, Any], name: str, expected: dict[str, Any]
) -> None:
    found = form([condition])
    assert found.is_exact and shown(found, name) == expected


def test_an_argument_with_a_condition_must_be_sent_unless_it_may_be_left_out() -> None:
    condition = {"path": "/repository", "op": "prefix", "prefix": "web-"}
    found = form([condition])
    assert found.schema is not None and found.schema["required"] == ["region", "amount", "repository"]
    assert call(found, region="emea", amount=1) == 'argument "repository": is required'
    found = form([{**condition, "optional": True}])
    assert found.schema is not None and found.schema["required"] == ["region", "amount"]
    assert call(found, region="emea", amount=1) == {"region": "emea", "amount": 1}


def test_a_default_that_satisfies_a_condition_counts_and_another_one_is_not_shown() -> None:
    dry = [{"path": "/dry_run", "op": "equals", "value": False}]
    assert shown(form(dry), "dry_run") == {"type": "boolean", "enum": [False], "default": False}
    assert call(form(dry), region="emea", amount=1) == {"region": "emea", "amount": 1}
    wet = [{"path": "/dry_run", "op": "equals", "value": True}]
    found = form(wet)
    assert found.schema is not None and "dry_run" in found.schema["required"]
    assert shown(found, "dry_run") == {"type": "boolean", "enum": [True]}
    assert call(found, region="emea", amount=1) == 'argument "dry_run": is required'
    assert call(found, region="emea", amount=1, dry_run=False) == 'argument "dry_run": expected true, got boolean false'


def test_conditions_reach_into_the_items_of_a_list_and_into_definitions() -> None:
    found = form([{"path": "/lines/*/count", "op": "range", "maximum": 5}])
    line = shown(found, "lines", "*")
    assert line["properties"]["count"] == {"type": "integer", "default": 1, "maximum": 5}
    assert line["required"] == ["sku", "count"], "defaults do not reach into lists"
    assert TICKET["$defs"]["Line"]["required"] == ["sku"]  # type: ignore[index]
    lines = [{"sku": "a", "count": 1}, {"sku": "b", "count": 6}]
    assert call(found, region="emea", amount=1, lines=lines) == (
        'argument "lines[1].count": expected at most 5, got integer 6'
    )


def test_a_fixed_value_is_not_shown_and_is_filled_in() -> None:
    found = form([{"path": "/dry_run", "op": "fixed", "value": True}])
    assert found.schema is not None and "dry_run" not in found.schema["properties"]
    assert call(found, region="emea", amount=1) == {"region": "emea", "amount": 1, "dry_run": True}


@pytest.mark.parametrize(
    "sent", [{"dry_run": False}, {"dry_run": True}, {"Dry_Run": False}, {"dry_run ": False}, {"dry\u200b_run": 1}]
)
def test_a_fixed_value_cannot_be_sent_in_any_spelling(sent: dict[str, Any]) -> None:
    open_schema = {key: value for key, value in TICKET.items() if key != "additionalProperties"}
    found = form([{"path": "/dry_run", "op": "fixed", "value": True}], schema=open_schema)
    verdict = found.judge({"region": "emea", "amount": 1, **sent}, Check(open_schema))
    assert isinstance(verdict, Refused)
    assert str(verdict.problem).startswith(f'argument "{next(iter(sent))}": is not known; expected one of "region", ')


def test_a_fixed_value_inside_an_object_makes_the_object() -> None:
    found = form([{"path": "/options/force", "op": "fixed", "value": False}])
    assert shown(found, "options") == {
        "type": "object", "properties": {"mode": {"enum": ["fast", "safe"]}}, "additionalProperties": False,
    }  # fmt: skip
    assert call(found, region="emea", amount=1)["options"] == {"force": False}
    assert call(found, region="emea", amount=1, options={"mode": "fast"})["options"] == {"mode": "fast", "force": False}
    answer = 'argument "options.force": is not known; expected one of "mode"'
    assert call(found, region="emea", amount=1, options={"force": False}) == answer
    assert call(found, region="emea", amount=1, options=None) == 'argument "options": expected object, got null'


def test_a_fixed_value_reaches_every_item() -> None:
    found = form([{"path": "/lines/*/count", "op": "fixed", "value": 1}])
    assert "count" not in shown(found, "lines", "*")["properties"]
    filled = call(found, region="emea", amount=1, lines=[{"sku": "a"}, {"sku": "b"}])
    assert filled["lines"] == [{"sku": "a", "count": 1}, {"sku": "b", "count": 1}]


def test_two_grants_are_a_union_said_at_the_argument() -> None:
    small, own = {"path": "/amount", "op": "range", "maximum": 10}, {"path": "/amount", "op": "range", "minimum": 1000}
    assert shown(form([small], [own]), "amount") == {
        "anyOf": [{"type": "number", "minimum": 0, "maximum": 10}, {"type": "number", "minimum": 1000}]
    }
    emea, apac = ({"path": "/region", "op": "equals", "value": value} for value in ("emea", "apac"))
    assert shown(form([emea], [apac]), "region")["enum"] == ["emea", "apac"]
    assert form([emea], []).schema == TICKET


def test_arguments_that_depend_on_each_other_are_decided_by_the_call() -> None:
    """Nothing is combined at the root of a schema: some clients leave out such a tool, others fail as a whole."""
    own: list[dict[str, Any]] = [
        {"path": "/region", "op": "equals", "value": "emea"},
        {"path": "/amount", "op": "range", "maximum": 1000},
    ]
    small: list[dict[str, Any]] = [
        {"path": "/region", "op": "one_of", "values": ["emea", "apac"]},
        {"path": "/amount", "op": "range", "maximum": 9},
    ]
    found = form(own, small)
    assert not found.is_exact and found.schema is not None and "anyOf" not in found.schema
    assert shown(found, "region")["enum"] == ["emea", "apac"]
    assert call(found, region="emea", amount=1000) == {"region": "emea", "amount": 1000}
    assert call(found, region="apac", amount=9) == {"region": "apac", "amount": 9}
    assert call(found, region="apac", amount=10) == 'argument "region": expected "emea", got string "apac"'


def test_a_denial_overrides_what_grants_allow() -> None:
    denied = [{"path": "/region", "op": "equals", "value": "amer"}]
    found = form([], denies=[denied])
    assert shown(found, "region")["enum"] == ["emea", "apac"]
    assert call(found, region="amer", amount=1) == 'argument "region": expected anything but "amer", got string "amer"'
    over: list[dict[str, Any]] = [*denied, {"path": "/amount", "op": "range", "exclusiveMinimum": 100}]
    found = form([], denies=[over])
    assert not found.is_exact and found.schema == TICKET
    assert call(found, region="amer", amount=100) == {"region": "amer", "amount": 100}
    verdict = found.judge({"region": "amer", "amount": 101}, Check(TICKET))
    assert isinstance(verdict, Refused) and verdict.grant_id == 50


def test_a_denial_holds_for_any_item_and_a_grant_for_all() -> None:
    two = [{"sku": "a"}, {"sku": "b"}]
    only_a = [{"path": "/lines/*/sku", "op": "equals", "value": "a"}]
    assert "lines[1].sku" in call(form(only_a), region="emea", amount=1, lines=two)
    assert "lines[0].sku" in call(form([], denies=[only_a]), region="emea", amount=1, lines=two)
    assert isinstance(call(form([], denies=[only_a]), region="emea", amount=1, lines=two[1:]), dict)


def test_a_grant_whose_argument_a_tool_does_not_have_allows_nothing_of_it() -> None:
    found = form([{"path": "/customer", "op": "equals", "value": "own"}])
    assert found.schema is None and found.misfits[1].code == "no_argument"
    assert form([{"path": "/customer", "op": "equals", "value": "own", "optional": True}]).schema == TICKET
    assert form([{"path": "/region", "op": "equals", "value": "moon"}]).misfits[1].code == "impossible"


def test_a_denial_of_what_a_tool_does_not_have_changes_nothing_unless_it_means_that() -> None:
    denied = {"path": "/customer", "op": "equals", "value": "other"}
    assert form([], denies=[[denied]]).schema == TICKET
    found = form([], denies=[[{**denied, "optional": True}]])
    assert found.schema is None and found.misfits[1].code == "denied" and found.misfits[1].params["grant"] == 50


def test_a_long_value_list_is_checked_and_not_shown() -> None:
    many = {"repos": tuple(f"r{number}" for number in range(501))}
    condition = parse([{"path": "/repository", "op": "belongs_to", "list": "repos"}])
    found = Form(Permission.build([Alternative.of(1, condition, many)], []), TICKET)
    assert not found.is_exact and shown(found, "repository") == {"type": "string", "maxLength": 100}
    assert isinstance(call(found, region="emea", amount=1, repository="r500"), dict)
    assert 'argument "repository": expected one of "r0", "r1"' in call(found, region="emea", amount=1, repository="x")


def test_permissions_with_values_that_python_takes_for_equal_are_different() -> None:
    """Forms are kept by their permission: 1 and true must not share one."""
    one, true, text = (
        Alternative.of(1, parse([{"path": "/a", "op": "one_of", "values": [value]}]), {}) for value in (1, True, "1")
    )
    assert len({one, true, text}) == 3


def test_values_of_a_list_are_named_as_what_was_sent_is_written() -> None:
    condition = parse([{"path": "/amount", "op": "belongs_to", "list": "amounts"}])
    found = Form(Permission.build([Alternative.of(1, condition, {"amounts": ("1", "2", "few")})], []), TICKET)
    assert shown(found, "amount")["enum"] == [1, 2]
    assert call(found, region="emea", amount=7) == 'argument "amount": expected one of 1, 2, got integer 7'


# --- the only arguments -----------------------------------------------------------------------------------------------


def only(*names: str) -> dict[str, Any]:
    return {"path": "", "op": "only", "names": list(names)}


def test_the_only_arguments_close_the_schema_and_another_one_is_unknown_even_with_null() -> None:
    found = form([only("region", "amount", "note")])
    assert found.is_exact and found.schema is not None
    assert list(found.schema["properties"]) == ["region", "amount", "note"]
    assert found.schema["additionalProperties"] is False and "propertyNames" not in found.schema
    assert call(found, region="emea", amount=1) == {"region": "emea", "amount": 1}  # dry_run is filled in, not sent
    message = 'argument "dry_run": is not known; expected one of "region", "amount", "note"'
    assert call(found, region="emea", amount=1, dry_run=None) == (
        'argument "dry_run": expected boolean, got null'  # the definition's own check comes first
    )
    assert call(found, region="emea", amount=1, dry_run=False) == message


def test_arguments_that_the_schema_does_not_declare_are_refused_by_name() -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    found = form([only("a", "other")], schema=schema)
    assert found.schema == {"type": "object", "properties": {"a": {}}, "propertyNames": {"enum": ["a", "other"]}}
    assert found.is_exact
    for sent, allowed in (({"other": 1}, True), ({"b": None}, False), ({"third": 1}, False)):
        assert isinstance(found.judge(sent, Check(schema)), Accepted) == allowed
        assert (Check(found.schema)(sent) is None) == allowed


@pytest.mark.parametrize(
    "beside",
    [
        {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        {"anyOf": [{"required": ["a"]}, {"properties": {"x1": {"type": "integer"}}}]},
        {"allOf": [{"properties": {"x1": {"type": "integer"}}}], "unevaluatedProperties": False},
        {"$ref": "#/$defs/Root", "$defs": {"Root": {"properties": {"x1": {"type": "integer"}}}}},
        {"propertyNames": {"maxLength": 2}},
    ],
)
def test_what_else_names_members_stays_beside_the_names(beside: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, **beside}
    for names in (["a"], ["a", "x1"], []):
        found = form([only(*names)], schema=schema)
        assert found.is_exact and found.schema is not None
        assert "b" not in found.schema["properties"]
        for sent in ({}, {"a": 1}, {"x1": 1}, {"x1": "1"}, {"b": 1}, {"a": 1, "x1": 1}, {"a": 1, "x2": 1}):
            verdict = isinstance(found.judge(sent, Check(schema)), Accepted)
            assert verdict == (Check(schema)(sent) is None and sent.keys() <= set(names))
            assert verdict == (Check(found.schema)(sent) is None), (names, sent, found.schema)


def test_a_required_argument_that_is_not_named_allows_nothing() -> None:
    assert form([only("region")]).schema is None
    assert form([only("region")]).misfits[1].code == "impossible"
    condition = {"path": "/repository", "op": "prefix", "prefix": "web-"}
    assert form([condition, only("region", "amount")]).misfits[1].code == "impossible"
    assert form([{**condition, "optional": True}, only("region", "amount")]).schema is not None


def test_no_names_allow_a_call_without_arguments() -> None:
    schema = {"type": "object", "properties": {"a": {"default": 1}}}
    found = form([only()], schema=schema)
    assert found.schema == {"type": "object", "properties": {}, "additionalProperties": False} and found.is_exact
    assert isinstance(found.judge({}, Check(schema)), Accepted)
    assert str(found.judge({"a": 1}, Check(schema)).problem) == 'argument "a": is not known; expected none'  # type: ignore[union-attr]


def test_several_grants_with_only_arguments_show_them_all_and_the_call_decides() -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}
    found = form([only("a")], [only("b")], schema=schema)
    assert found.schema == {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
    assert not found.is_exact
    assert isinstance(found.judge({"b": 1}, Check(schema)), Accepted)
    assert isinstance(found.judge({"a": 1, "b": 1}, Check(schema)), Refused)
    first, second = ({"path": "/a", "op": "equals", "value": number} for number in (1, 2))
    apart = form([first, only("a", "b")], [second, only("a", "c")], schema=schema)
    assert not apart.is_exact and isinstance(apart.judge({"a": 1, "c": 1}, Check(schema)), Refused)
    open_one = form([only("a")], [{"path": "/c", "op": "equals", "value": 1}], schema=schema)
    assert open_one.schema is not None and "b" in open_one.schema["properties"] and not open_one.is_exact


def test_the_only_arguments_may_stand_beside_a_secret_one_and_name_it() -> None:
    schema = {"type": "object", "properties": {"a": {}, "key": {"type": "string", "writeOnly": True}}}
    found = form([only("a", "key")], schema=schema)
    assert found.is_exact and isinstance(found.judge({"key": "x"}, Check(schema)), Accepted)
    assert isinstance(form([only("a")], schema=schema).judge({"key": "x"}, Check(schema)), Refused)


def test_completion_offers_nothing_for_an_argument_outside_the_names() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    found = form([only("a")], schema=schema)
    assert found.may_send("a", "x") and not found.may_send("b", "x")
    assert form([only("a")], [only("b")], schema=schema).may_send("b", "x")


# --- lists and objects ------------------------------------------------------------------------------------------------

PLACE = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zone": {"type": "string", "default": "a"}},
            "default": {"city": "Bern"},
        },
        "lines": {"type": "array", "items": {"type": "object"}},
    },
}


def decide(found: Form, sent: dict[str, Any], schema: dict[str, Any] = PLACE) -> tuple[bool, bool]:
    """Return whether a call is allowed, and whether the shown schema accepts it."""
    shown_problem = Check(found.schema)(sent) if found.schema is not None else True
    return isinstance(found.judge(sent, Check(schema)), Accepted), shown_problem is None


def test_an_object_is_equal_in_any_order_and_by_json_as_it_was_sent() -> None:
    equals = {"path": "/place", "op": "equals", "value": {"city": "Bern", "zone": "b"}}
    found = form([equals], schema=PLACE)
    assert found.is_exact and shown(found, "place") == {"type": "object", "enum": [equals["value"]]}
    for place, allowed in (
        ({"zone": "b", "city": "Bern"}, True), ({"city": "Bern"}, False),
        ({"city": "Bern", "zone": "b", "more": None}, False), ([], False), (None, False),
    ):  # fmt: skip
        assert decide(found, {"place": place}) == (allowed, allowed)
    numbers = form([{"path": "/lines", "op": "equals", "value": [{"n": 1}]}], schema=PLACE)
    assert decide(numbers, {"lines": [{"n": 1.0}]}) == (True, True)
    assert decide(numbers, {"lines": [{"n": True}]}) == (False, False)
    assert decide(numbers, {"lines": [{"n": 1}, {"n": 1}]}) == (False, False)


def test_an_allowed_object_is_not_what_defaults_make_of_what_was_sent() -> None:
    complete = {"path": "/place", "op": "equals", "value": {"city": "Bern", "zone": "a"}}
    found = form([complete], schema=PLACE)
    assert decide(found, {"place": {"city": "Bern"}}) == (False, False)
    assert decide(found, {"place": {"city": "Bern", "zone": "a"}}) == (True, True)
    assert decide(found, {}) == (True, True)  # left out, it is what defaults make


def test_a_denied_object_is_denied_as_sent_and_with_its_defaults() -> None:
    for value in ({"city": "Bern"}, {"city": "Bern", "zone": "a"}):
        found = form([], denies=[[{"path": "/place", "op": "equals", "value": value}]], schema=PLACE)
        assert not found.is_exact
        assert not decide(found, {"place": {"city": "Bern"}})[0]
        assert decide(found, {"place": {"city": "Rome"}}) == (True, True)
    assert not decide(found, {"place": {"city": "Bern", "zone": "a"}})[0]
    assert not decide(found, {})[0]


def test_a_denied_object_is_denied_with_its_fixed_values_too() -> None:
    fixed = {"path": "/place/zone", "op": "fixed", "value": "b"}
    for value in ({"city": "Bern"}, {"city": "Bern", "zone": "b"}):
        found = form([fixed], denies=[[{"path": "/place", "op": "equals", "value": value}]], schema=PLACE)
        assert not found.is_exact and not decide(found, {"place": {"city": "Bern"}})[0]
        assert decide(found, {"place": {"city": "Rome"}}) == (True, True)


def test_a_fixed_object_is_denied_with_the_defaults_that_are_filled_into_it() -> None:
    fixed = {"path": "/place", "op": "fixed", "value": {"city": "Bern"}}
    denied = {"path": "/place", "op": "equals", "value": {"city": "Bern", "zone": "a"}}
    found = form([fixed], denies=[[denied]], schema=PLACE)
    assert found.schema is None and found.misfits[1].code == "impossible"
    zone = form([fixed], denies=[[{"path": "/place/zone", "op": "equals", "value": "a"}]], schema=PLACE)
    assert zone.schema is None
