"""Every value that differs between two definitions is one change with its place, and none is lost."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.reviews import changes
from catalog.reviews.changes import Change

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Bern", "Rome"], "default": "Bern"},
        "days": {"type": "integer"},
    },
    "required": ["city"],
}


def change_schema(**members: Any) -> dict[str, Any]:
    return {"inputSchema": {**SCHEMA, **members}}


def change_city(**members: Any) -> dict[str, Any]:
    properties: dict[str, Any] = copy.deepcopy(SCHEMA["properties"])
    properties["city"].update(members)
    return change_schema(properties=properties)


CITY = ("properties", "city")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (change_city(enum=["Bern", "Rome", "Oslo"]), Change("inputSchema", (*CITY, "enum"), None, "Oslo")),
        (change_city(enum=["Rome"]), Change("inputSchema", (*CITY, "enum"), "Bern", None)),
        (change_city(enum=["Rome", "Bern"]), Change("inputSchema", (*CITY, "enum"), "Bern\nRome", "Rome\nBern")),
        (change_city(default="Rome"), Change("inputSchema", (*CITY, "default"), "Bern", "Rome")),
        (change_city(default=None), Change("inputSchema", (*CITY, "default"), "Bern", "null")),
        (change_city(title="City"), Change("inputSchema", (*CITY, "title"), None, "City")),
        (change_schema(required=["city", "days"]), Change("inputSchema", ("required",), None, "days")),
        (change_schema(additionalProperties=False), Change("inputSchema", ("additionalProperties",), None, "false")),
    ],
    ids=["new choice", "choice gone", "order", "default", "null", "title", "required", "member"],
)
def test_one_changed_value_is_one_change(after: dict[str, Any], expected: Change) -> None:
    assert changes.compare({"inputSchema": SCHEMA}, after) == [expected]


def test_a_new_parameter_is_one_change_with_all_that_it_is() -> None:
    added = {"type": "string", "description": "All messages."}
    after = change_schema(properties={**SCHEMA["properties"], "history": added})
    (found,) = changes.compare({"inputSchema": SCHEMA}, after)
    assert found.path == ("properties", "history") and found.is_new
    assert json.loads(found.after or "") == added


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, 1), ("true", True), ("null", None), ([], {})])
def test_values_of_another_type_never_look_the_same(one: Any, other: Any) -> None:
    found = changes.compare(change_city(default=one), change_city(default=other))
    assert [change.before != change.after for change in found] == [True]


def test_a_member_that_changed_in_very_many_places_is_one_change() -> None:
    before = change_schema(properties={f"p{number}": {"type": "string"} for number in range(300)})
    after = change_schema(properties={f"p{number}": {"type": "integer"} for number in range(300)})
    (found,) = changes.compare(before, after)
    assert found.path == () and '"p299"' in (found.after or "")


def test_a_deeply_nested_value_is_compared() -> None:
    before: Any = "one"
    after: Any = "two"
    for _level in range(500):
        before, after = {"items": before}, {"items": after}
    (found,) = changes.compare({"inputSchema": before}, {"inputSchema": after})
    assert (len(found.path), found.before, found.after) == (500, "one", "two")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1", "a\nb"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_different_values_have_a_change_that_shows_it_and_equal_ones_none(one: Any, other: Any) -> None:
    found = changes.compare({"settings": {"x": one}}, {"settings": {"x": other}})
    assert bool(found) == (json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert all(change.before != change.after for change in found)
