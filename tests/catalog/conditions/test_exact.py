"""Conditions that exactly one call satisfies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from catalog.conditions.definitions import parse
from catalog.conditions.exact import exactly
from catalog.conditions.forms import Accepted, Alternative, Form, Permission
from catalog.conditions.mistakes import ConditionError
from catalog.schemas.full_check import hashable
from catalog.schemas.validator import Check
from tests.bounded import bounded
from tests.catalog.conditions import generated
from tests.catalog.conditions.test_agreement import usable

thorough = settings(
    bounded,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def form_of(arguments: dict[str, Any], schema: dict[str, Any], *, fills_defaults: bool = True) -> Form:
    alternative = Alternative.of(1, parse(exactly(arguments)), {}, names_item=True)
    return Form(Permission.build([alternative], []), schema, fills_defaults=fills_defaults)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"*": 1}, "path"),
        ({"": 1}, "names"),
        ({"a": 10**16}, "large_number"),
        ({"a": "x" * 501}, "long_value"),
        ({"a": ["x" * 400] * 30}, "long_value"),
        ({f"a{number}": number for number in range(20)}, "too_many"),
        ({"x" * 501: 1}, "path"),
    ],
)
def test_what_no_conditions_can_say_is_a_mistake(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(ConditionError) as raised:
        exactly(arguments)
    assert raised.value.code == code


def test_each_argument_has_its_value_in_the_order_given_and_no_other_may_be_sent() -> None:
    assert exactly({"b/c": {"x": [1]}, "a": None}) == [
        {"path": "/b~1c", "op": "equals", "value": {"x": [1]}},
        {"path": "/a", "op": "equals", "value": None},
        {"path": "", "op": "only", "names": ["b/c", "a"]},
    ]
    assert exactly({}) == [{"path": "", "op": "only", "names": []}]


def test_every_other_call_is_refused() -> None:
    schema = {
        "type": "object",
        "properties": {"path": {}, "force": {}, "options": {"type": "object", "properties": {"deep": {"default": 1}}}},
    }
    sent = {"path": "/x", "options": {"all": True}}
    found = form_of(sent, schema)
    assert found.schema is not None and isinstance(found.judge(sent, Check(schema)), Accepted)
    for other in (
        {}, {"path": "/x"}, {**sent, "path": "/y"}, {**sent, "force": None}, {**sent, "more": 1},
        {**sent, "options": {"all": 1}}, {**sent, "options": {"all": True, "deep": 1}}, {**sent, "options": {}},
    ):  # fmt: skip
        assert not isinstance(found.judge(other, Check(schema)), Accepted), other
        assert Check(found.schema)(other) is not None, other


@thorough
@given(st.data())
def test_the_conditions_accept_the_call_and_refuse_every_mutation_of_it(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    sent = data.draw(generated.objects(schema, schema))
    assume(check(sent) is None)
    found = form_of(sent, schema, fills_defaults=data.draw(st.booleans()))
    if found.misfits:  # a condition of a grant is about an argument that the schema names
        assert found.misfits[1].code == "no_argument" and not all(found.original.has_place((name,)) for name in sent)
        event("not named")
        return
    assert found.schema is not None and found.is_exact
    shown = Check(found.schema)
    assert isinstance(found.judge(sent, check), Accepted), (schema, sent, str(found.judge(sent, check)))
    assert shown(sent) is None
    for _ in range(6):
        other = _mutate(data, sent, schema)
        if hashable(other) == hashable(sent) or _is_filled_in(found, sent, other):
            continue
        event("mutated")
        assert not isinstance(found.judge(other, check), Accepted), (schema, sent, other)
        assert shown(other) is not None, (found.schema, sent, other)


def _mutate(data: st.DataObject, sent: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    value = data.draw(st.one_of(st.none(), st.sampled_from(generated.SCALARS), generated.values({}, schema)))
    kind = data.draw(st.sampled_from(["change", "add", "remove", "inside", "null"]))
    if not sent or kind == "add":
        return {**sent, data.draw(st.sampled_from([*generated.NAMES, "other"])): value}
    name = data.draw(st.sampled_from(list(sent)))
    if kind == "remove":
        return {key: one for key, one in sent.items() if key != name}
    if kind == "inside" and isinstance(sent[name], dict):
        return {**sent, name: {**sent[name], data.draw(st.sampled_from(generated.NAMES)): value}}
    if kind == "inside" and isinstance(sent[name], list):
        return {**sent, name: [*sent[name], value]}
    return {**sent, name: None if kind == "null" else value}


def _is_filled_in(found: Form, sent: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether arguments are missing whose defaults are the very values that were sent."""
    if not other.keys() < sent.keys():
        return False
    filled = found.ways[0].fill_all(other)
    return all(name in filled and hashable(filled[name]) == hashable(sent[name]) for name in sent.keys() - other.keys())
