"""The list and the call agree: random schemas, rules and arguments (Hypothesis)."""

from __future__ import annotations

import copy
import json
from typing import Any

from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from catalog.conditions.definitions import FIXED, ONLY, Condition
from catalog.conditions.forms import Accepted, Alternative, Denial, Form, Permission, Refused, Way
from catalog.schemas import schema_rules, validator
from tests.bounded import bounded
from tests.catalog.conditions import generated

COMBINATORS = {"anyOf", "oneOf", "allOf", "not", "if"}
thorough = settings(
    bounded,
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def form_of(
    schema: dict[str, Any],
    allows: list[list[Condition]],
    denies: list[list[Condition]] = [],  # noqa: B006
    *,
    fills_defaults: bool = True,
) -> Form:
    alternatives = [Alternative.of(number, one, generated.LISTS) for number, one in enumerate(allows, 1)]
    denials = [Denial.of(100 + number, one, generated.LISTS) for number, one in enumerate(denies)]
    return Form(Permission.build(alternatives, denials), schema, fills_defaults=fills_defaults)


def draw_conditions(
    data: st.DataObject, schema: dict[str, Any], most: int, *, with_fixed: bool = True, with_only: bool = True
) -> list[Condition]:
    kind = generated.conditions(schema, with_fixed=with_fixed, with_only=with_only)
    found = [one for one in data.draw(st.lists(kind, min_size=1, max_size=most)) if one is not None]
    first = next((one.operator for one in found if one.operator in (FIXED, ONLY)), FIXED)
    only = [one for one in found if one.operator == ONLY][:1] if first == ONLY else []
    found = [one for one in found if one.operator != ONLY and (first == FIXED or one.operator != FIXED)] + only
    fixed = [one for one in found if one.operator == FIXED]
    kept = [
        one
        for one in found
        if one in fixed[:1] or (all(_apart(one, other) for other in fixed[:1]) and one.operator != FIXED)
    ]
    assume(kept)
    return list(dict.fromkeys(kept))


def _apart(one: Condition, other: Condition) -> bool:
    shared = min(len(one.steps), len(other.steps))
    return one.steps[:shared] != other.steps[:shared]


def usable(schema: dict[str, Any]) -> validator.Check:
    try:
        schema_rules.check(schema)
    except ValidationError:
        assume(False)
    return validator.Check(schema)


def check_agreement(form: Form, schema: dict[str, Any], check: validator.Check, data: st.DataObject) -> None:
    before = json.dumps(schema)
    shown = None
    impossible = [
        Way(one, form.original, form.fill)
        for one in form.permission.alternatives
        if one.grant_id in form.misfits and form.misfits[one.grant_id].code == "impossible"
    ]
    if form.schema is not None:
        schema_rules.check(form.schema)
        assert form.schema.get("type") == "object"
        assert COMBINATORS & form.schema.keys() <= COMBINATORS & schema.keys()
        shown = validator.Check(form.schema)
    for _ in range(6):
        guide = schema if form.schema is None or data.draw(st.booleans()) else form.schema
        sent = data.draw(generated.objects(guide, guide))
        kept = copy.deepcopy(sent)
        for way in impossible:
            assert isinstance(form.judge_way(way, sent, check)[1], Refused), (schema, sent)
        if shown is None:
            event("nothing shown")
            continue
        verdict = form.judge(sent, check)
        assert sent == kept
        problem = shown(sent)
        if isinstance(verdict, Accepted):
            event("accepted")
            assert problem is None, (form.schema, sent, str(problem))
            assert check(verdict.arguments) is None
        elif form.is_exact:
            event("refused, exact")
            assert problem is not None, (form.schema, sent, str(verdict.problem))
        else:
            event("refused, wider")
    assert json.dumps(schema) == before


@thorough
@given(st.data())
def test_the_list_and_the_call_agree_on_one_grant(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    conditions = draw_conditions(data, schema, 3)
    form = form_of(schema, [conditions], fills_defaults=data.draw(st.booleans()))
    check_agreement(form, schema, check, data)


@thorough
@given(st.data())
def test_the_list_and_the_call_agree_on_a_grant_and_a_denial(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    allowed = draw_conditions(data, schema, 2) if data.draw(st.booleans()) else []
    denied = [
        draw_conditions(data, schema, 2, with_fixed=False, with_only=False) for _ in range(data.draw(st.integers(1, 2)))
    ]
    check_agreement(form_of(schema, [allowed], denied), schema, check, data)


@thorough
@given(st.data())
def test_the_list_and_the_call_agree_on_several_grants(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    allowed = [draw_conditions(data, schema, 2) for _ in range(data.draw(st.integers(2, 3)))]
    check_agreement(form_of(schema, allowed), schema, check, data)


def matches(
    steps: tuple[str | None, ...], value: Any, sent: Any, *, has_sent: bool = True
) -> list[tuple[str, Any, Any]]:
    """Return what is at a path, for comparison written anew: ("value" or "filled", it, it as sent), or why nothing."""
    other = "other" if has_sent else "inside what was filled"
    if not steps:
        return [("value", value, sent)] if has_sent else [("filled", value, value)]
    step, rest = steps[0], steps[1:]
    if step is None:
        if not isinstance(value, list):
            return [("null" if value is None else other, None, None)]
        return [
            one
            for n, item in enumerate(value)
            for one in matches(rest, item, sent[n] if has_sent else None, has_sent=has_sent)
        ]
    if not isinstance(value, dict):
        return [("null" if value is None else other, None, None)]
    if step not in value:
        return [("absent", None, None)]
    was_sent = has_sent and isinstance(sent, dict) and step in sent
    return matches(rest, value[step], sent[step] if was_sent else None, has_sent=was_sent)


def is_structured(condition: Condition) -> bool:
    return condition.operator == "equals" and isinstance(condition.value, list | dict)


def is_allowed(condition: Condition, complete: Any, sent: Any) -> bool:
    if condition.operator == ONLY:
        return set(sent) <= set(condition.value)
    expects = condition.expectation(generated.LISTS).holds
    for how, filled, as_sent in matches(condition.steps, complete, sent):
        value = as_sent if is_structured(condition) else filled
        left_out = how in ("absent", "null", "filled", "inside what was filled") or (how == "value" and value is None)
        if condition.is_optional and left_out:
            continue
        if how not in ("value", "filled") or not expects(value):
            return False
    return True


def is_denied(condition: Condition, complete: Any, sent: Any) -> bool:
    expects = condition.expectation(generated.LISTS).holds
    for how, value, as_sent in matches(condition.steps, complete, sent):
        if how in ("value", "filled") and (expects(value) or (is_structured(condition) and expects(as_sent))):
            return True
        if condition.is_optional and (how not in ("value", "filled") or value is None):
            return True
    return False


@thorough
@given(st.data())
def test_a_call_is_allowed_exactly_when_a_grant_allows_it_and_none_denies_it(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    allows = [draw_conditions(data, schema, 2, with_fixed=False) for _ in range(data.draw(st.integers(1, 2)))]
    denies = [
        draw_conditions(data, schema, 2, with_fixed=False, with_only=False) for _ in range(data.draw(st.integers(0, 2)))
    ]
    form = form_of(schema, allows, denies)
    for _ in range(6):
        sent = data.draw(generated.objects(schema, schema))
        way = Way(Alternative(1), form.original, form.fill)
        complete = way.fill_all(sent)
        granted = any(
            all(is_allowed(one, complete, sent) for one in conditions)
            for number, conditions in enumerate(allows, 1)
            if form.misfits.get(number) is None or form.misfits[number].code == "impossible"
        )
        denied = any(all(is_denied(one, complete, sent) for one in conditions) for conditions in denies)
        allowed = check(sent) is None and granted and not denied
        event(f"allowed {allowed}")
        verdict = form.judge(sent, check) if form.schema is not None else None
        assert isinstance(verdict, Accepted) == allowed, (schema, sent)
