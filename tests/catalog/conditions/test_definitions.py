"""Stored conditions: what is accepted, and the mistake that is named."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.conditions.definitions import (
    MAX_BOUND,
    MAX_CONDITIONS,
    as_json,
    parse,
    parse_path,
    path_text,
)
from catalog.conditions.mistakes import ConditionError

AT = {"path": "/a"}
ONLY = {"path": "", "op": "only"}


def nest(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        ({}, "not_list", 0),
        ("[]", "not_list", 0),
        ([{**AT, "op": "equals", "value": number} for number in range(MAX_CONDITIONS + 1)], "too_many", 0),
        (["x"], "not_condition", 1),
        ([{"path": 1, "op": "equals", "value": 1}], "not_condition", 1),
        ([{"op": "equals", "value": 1}], "not_condition", 1),
        ([{"path": "a", "op": "equals", "value": 1}], "path", 1),
        ([{"path": "", "op": "equals", "value": 1}], "path", 1),
        ([{"path": "/*", "op": "equals", "value": 1}], "path", 1),
        ([{"path": "/a~2", "op": "equals", "value": 1}], "path", 1),
        ([{"path": "/a" * 9, "op": "equals", "value": 1}], "path", 1),
        ([{**AT, "op": "like", "value": 1}], "operator", 1),
        ([{**AT, "op": "equals", "value": 1}, {**AT, "op": "equals", "values": [1]}], "member", 2),
        ([{**AT, "op": "equals", "value": 1, "optional": "yes"}], "optional", 1),
        ([{**AT, "op": "fixed", "value": 1, "optional": True}], "fixed_optional", 1),
        ([{"path": "/a/*", "op": "fixed", "value": 1}], "fixed_items", 1),
        ([{**AT, "op": "fixed", "value": "x" * 10_001}], "long_value", 1),
        ([{**AT, "op": "equals"}], "no_operand", 1),
        ([{**AT, "op": "range"}], "bounds", 1),
        ([{**AT, "op": "range", "minimum": 1, "exclusiveMinimum": 1}], "bounds", 1),
        ([{**AT, "op": "range", "minimum": "1"}], "bound", 1),
        ([{**AT, "op": "range", "minimum": True}], "bound", 1),
        ([{**AT, "op": "range", "maximum": MAX_BOUND + 1}], "bound", 1),
        ([{**AT, "op": "range", "minimum": 2, "maximum": 1}], "empty_range", 1),
        ([{**AT, "op": "range", "exclusiveMinimum": 1, "maximum": 1}], "empty_range", 1),
        ([{**AT, "op": "length", "minimum": 1.5}], "bound", 1),
        ([{**AT, "op": "length", "minimum": -1}], "length", 1),
        ([{**AT, "op": "length", "minimum": 0}], "length", 1),
        ([{**AT, "op": "equals", "value": [1, 10**16]}], "large_number", 1),
        ([{**AT, "op": "equals", "value": {"deep": [{"x": -(10**16)}]}}], "large_number", 1),
        ([{**AT, "op": "equals", "value": ["x" * 501]}], "long_value", 1),
        ([{**AT, "op": "equals", "value": {"x" * 501: 1}}], "long_value", 1),
        ([{**AT, "op": "equals", "value": ["x" * 499] * 20}], "long_value", 1),
        ([{**AT, "op": "equals", "value": nest(65)}], "deep_value", 1),
        ([{**AT, "op": "equals", "value": nest(4_000)}], "deep_value", 1),
        ([{**AT, "op": "one_of", "values": [{}]}], "scalar", 1),
        ([{"path": "/a", "op": "only", "names": []}], "only_path", 1),
        ([{**ONLY, "names": [], "optional": False}], "only_optional", 1),
        ([{**ONLY, "names": [], "value": 1}], "member", 1),
        ([ONLY], "no_operand", 1),
        ([{**ONLY, "names": "a"}], "names", 1),
        ([{**ONLY, "names": ["a", "a"]}], "names", 1),
        ([{**ONLY, "names": [""]}], "names", 1),
        ([{**ONLY, "names": [1]}], "names", 1),
        ([{**ONLY, "names": ["x" * 501]}], "names", 1),
        ([{**ONLY, "names": [str(number) for number in range(101)]}], "names", 1),
        ([{**ONLY, "names": ["a"]}, {**ONLY, "names": ["b"]}], "only_twice", 2),
        ([{**AT, "op": "fixed", "value": 1}, {**ONLY, "names": ["b"]}], "only_fixed", 2),
        ([{**AT, "op": "equals", "value": 10**16}], "large_number", 1),
        ([{**AT, "op": "equals", "value": "x" * 501}], "long_value", 1),
        ([{**AT, "op": "one_of", "values": []}], "values", 1),
        ([{**AT, "op": "one_of", "values": "x"}], "values", 1),
        ([{**AT, "op": "not_one_of", "values": [[1]]}], "scalar", 1),
        ([{**AT, "op": "prefix", "prefix": ""}], "text", 1),
        ([{**AT, "op": "belongs_to", "list": 1}], "text", 1),
        ([{**AT, "op": "pattern", "pattern": "(?=x)"}], "pattern", 1),
        ([{**AT, "op": "pattern", "pattern": "(a+)+$"}], "costly_pattern", 1),
        ([{**AT, "op": "equals", "value": 1}, {**AT, "op": "equals", "value": 1}], "twice", 2),
        ([{**AT, "op": "equals", "value": 1}, {**AT, "op": "fixed", "value": 1}], "overlap", 2),
        ([{"path": "/a/b", "op": "fixed", "value": 1}, {**AT, "op": "fixed", "value": {}}], "overlap", 1),
    ],
)
def test_a_mistake_is_named_with_the_number_of_its_condition(data: Any, code: str, number: int) -> None:
    with pytest.raises(ConditionError) as raised:
        parse(data)
    assert (raised.value.code, raised.value.number) == (code, number)


def test_conditions_come_back_as_they_were_stored() -> None:
    data = [
        {"path": "/region", "op": "one_of", "values": ["emea", None, 1, 1.5, True], "optional": True},
        {"path": "/lines/*/amount", "op": "range", "exclusiveMinimum": 0, "maximum": 1000.5},
        {"path": "/title", "op": "length", "minimum": 1, "maximum": 80},
        {"path": "/repository", "op": "belongs_to", "list": "our repositories"},
        {"path": "/a~1b/~0c", "op": "pattern", "pattern": "^[a-z]+$"},
        {"path": "/options/dry_run", "op": "fixed", "value": {"deep": [1, None]}},
        {"path": "/lines", "op": "equals", "value": [{"b": 1.5, "a": [None, True, {}]}]},
    ]
    assert [as_json(one) for one in parse(data)] == data
    only = [{**ONLY, "names": ["b", "*", "a/b"]}, {"path": "/b", "op": "equals", "value": nest(64)}]
    assert [as_json(one) for one in parse(only)] == only and parse(only)[0].steps == ()
    assert as_json(parse([{**ONLY, "names": []}])[0]) == {**ONLY, "names": []}


def test_a_path_is_a_json_pointer_with_a_star_for_every_item() -> None:
    assert parse_path("/lines/*/a~1b~0c") == ("lines", None, "a/b~c")
    assert path_text(("lines", None, "a/b~c")) == "/lines/*/a~1b~0c"
    assert parse_path("/") == ("",)
