"""The answer to a call by rules alone: it is what the decision and the judgement of the arguments say, or unclear."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from catalog.conditions import definitions
from catalog.conditions.definitions import FIXED
from catalog.conditions.forms import Accepted
from catalog.policy import answers, rules
from catalog.policy.answers import ALLOW, ASK, DENY, UNCLEAR, Answer, Sent
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import (
    AskRule,
    GrantRule,
    LimitRule,
    Snapshot,
    ToolDefinition,
    Trial,
    ValueListEntries,
)
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog.approvals.test_asking import (
    EMEA,
    GONE,
    HARMLESS,
    LARGE,
    MONDAY_NOON,
    SECRET,
    allow,
    asks,
)
from tests.catalog.approvals.test_asking import build as build_catalogue
from tests.catalog.approvals.test_asking import tool as make_tool
from tests.catalog.conditions import generated
from tests.catalog.conditions.test_agreement import draw_conditions, usable
from tests.catalog.test_policy import ALICE, BOB, FILES, MEMBERS, NUMBERS, rule

HIDDEN = {"$redacted": "hmac-sha256:0123456789abcdef"}
TOOL, OTHER = make_tool(), make_tool(2, NUMBERS)
LISTS = {name: (ValueListEntries("everyone", None, values),) for name, values in generated.LISTS.items()}
thorough = settings(
    bounded,
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def deny(pk: int, *conditions: dict[str, Any], **fields: Any) -> GrantRule:
    return rule(pk, "deny", conditions=definitions.parse(list(conditions)), **fields)


def is_hidden(value: Any) -> bool:
    return isinstance(value, dict) and "$redacted" in value


def build(*made: AskRule | GrantRule) -> Snapshot:
    return build_catalogue(*made, items=(TOOL, OTHER))


def answer(
    found: Snapshot,
    arguments: dict[str, Any] | None = None,
    change: Change = NO_CHANGE,
    item: ToolDefinition = TOOL,
    user: int = ALICE,
    toolsets: frozenset[int] | None = None,
    known: Sequence[int] = (),
) -> Answer:
    sent = Sent(arguments, is_hidden)
    who = Requester(user, toolsets)
    return answers.answer(found, who, item, MONDAY_NOON, "production", sent, change=change, known=known)


def kinds(found: Snapshot, *arguments: dict[str, Any] | None, change: Change = NO_CHANGE) -> list[str]:
    return [answer(found, one, change).kind for one in arguments]


# --- by the rules in force --------------------------------------------------------------------------------------------


def test_what_no_arguments_change_is_denied_by_the_rule_that_the_decision_names() -> None:
    found = build(allow(1, who=("user", ALICE)), deny(2, who=("user", BOB)))
    assert answer(found) == Answer(ALLOW, found.grants[0].rule)
    assert answer(found, user=BOB) == Answer(DENY, found.grants[1].rule)
    assert answer(found, user=3).rule == rules.INACTIVE and answer(found, user=9).rule == rules.NO_USER
    assert answer(found, item=OTHER).rule == rules.NO_GRANT
    assert answer(found, item=make_tool(9)).rule == rules.NOT_AVAILABLE
    assert answer(found, toolsets=frozenset({NUMBERS})).rule == rules.OTHER_TOOLSETS
    hidden = build_catalogue(allow(1), items=[make_tool(1, quarantined=True)])
    assert answer(hidden).kind == DENY


def test_conditions_of_grants_decide_about_the_arguments() -> None:
    found = build(allow(1, EMEA), allow(2, LARGE), deny(3, {"path": "/amount", "op": "range", "minimum": 100}))
    assert kinds(found, {"region": "emea"}, {"region": "apac"}, {"amount": 11}, {"amount": 100}) == [
        ALLOW, DENY, ALLOW, DENY,
    ]  # fmt: skip
    assert answer(found, {"region": "apac"}).rule == rules.UNFIT
    assert answer(found, {"region": "emea", "amount": 100}).rule == found.grants[2].rule


@pytest.mark.parametrize(
    ("arguments", "kind"), [({}, ALLOW), ({"region": "emea"}, ALLOW), ({"region": "apac"}, DENY), ({"area": 1}, DENY)]
)
def test_a_fixed_value_may_be_missing_or_the_same(arguments: dict[str, Any], kind: str) -> None:
    assert answer(build(allow(1, {**EMEA, "op": "fixed"})), arguments).kind == kind


def test_a_fixed_value_is_filled_in_before_approval_rules_look() -> None:
    found = build(allow(1, {**EMEA, "op": "fixed"}), asks(5, conditions=[EMEA]))
    assert kinds(found, {}, {"region": "emea"}) == [ASK, ASK]


def test_approval_rules_ask_about_what_grants_allow() -> None:
    found = build(allow(1), asks(5, conditions=[LARGE]), asks(6, ("grant", 1), conditions=[EMEA]))
    assert kinds(found, {}, {"amount": 11}, {"region": "emea"}) == [ALLOW, ASK, ASK]
    (question,) = answer(found, {"amount": 11, "region": "emea"}).asks
    assert [one.id for one in question.rules] == [5, 6]
    assert answer(build(deny(1), asks(5)), {}).kind == DENY


def test_a_value_that_is_known_asks_no_more() -> None:
    found = build(allow(1), asks(5, first_time=("region",)))
    assert answer(found, {"region": "emea"}).kind == ASK
    assert answer(found, {"region": "emea"}, known=[5]).kind == ALLOW


def test_it_says_whether_arguments_decided() -> None:
    assert not answer(build(allow(1), allow(2, EMEA)), {}).looked
    assert answer(build(allow(1, EMEA)), {"region": "emea"}).looked
    assert answer(build(allow(1), deny(2, EMEA)), {}).looked
    assert not answer(build(allow(1), asks(5)), {}).looked
    assert answer(build(allow(1), asks(5, conditions=[EMEA])), {}).looked
    assert answer(build(allow(1), asks(5, first_time=("region",))), {}).looked


# --- hidden arguments -------------------------------------------------------------------------------------------------


def test_a_hidden_argument_matters_only_where_a_condition_is_about_it() -> None:
    arguments = {"region": "emea", "amount": HIDDEN}
    assert kinds(build(allow(1)), arguments, None) == [ALLOW, ALLOW]
    assert kinds(build(allow(1, EMEA)), arguments, None) == [ALLOW, UNCLEAR]
    assert kinds(build(allow(1, LARGE)), arguments, None) == [UNCLEAR, UNCLEAR]
    assert kinds(build(allow(1), asks(5, conditions=[LARGE])), arguments, {"amount": 1}) == [UNCLEAR, ALLOW]
    assert kinds(build(allow(1), deny(2, LARGE)), arguments, {"amount": 1}) == [UNCLEAR, ALLOW]


def test_an_answer_that_a_hidden_argument_cannot_change_is_clear() -> None:
    arguments = {"region": "emea", "amount": HIDDEN}
    assert answer(build(allow(1, EMEA, LARGE)), {"region": "apac", "amount": HIDDEN}).kind == DENY
    assert answer(build(allow(1, EMEA), allow(2, LARGE)), arguments).kind == ALLOW
    assert answer(build(allow(1), deny(2, LARGE), deny(3, EMEA)), arguments).kind == DENY
    assert answer(build(allow(1), asks(5, conditions=[LARGE]), asks(6)), arguments).kind == ASK
    assert answer(build(allow(1, LARGE), deny(2)), arguments).kind == DENY


def test_a_hidden_value_inside_of_an_argument_is_hidden_too() -> None:
    dear = {"path": "/lines/*/price", "op": "range", "minimum": 100}
    whole = {"path": "/lines", "op": "length", "maximum": 1}
    lines = {"lines": [{"price": 1}, {"price": HIDDEN}]}
    assert answer(build(allow(1), deny(2, dear)), lines).kind == UNCLEAR
    assert answer(build(allow(1, whole)), lines).kind == UNCLEAR


def test_a_hidden_fixed_value_is_unclear() -> None:
    assert answer(build(allow(1, {**EMEA, "op": "fixed"})), {"region": HIDDEN}).kind == UNCLEAR
    both = build(allow(1, {**EMEA, "op": "fixed"}, LARGE))
    assert kinds(both, {"region": HIDDEN, "amount": 1}, {"region": HIDDEN, "amount": 11}) == [DENY, UNCLEAR]


@pytest.mark.parametrize("one", [SECRET, GONE])
def test_a_grant_about_what_no_condition_can_be_about_allows_and_denies_as_ever(one: dict[str, Any]) -> None:
    assert kinds(build(allow(1, one)), {}, None) == [DENY, DENY]
    assert kinds(build(allow(1), deny(2, one)), {}, None) == [DENY, DENY]


# --- as if rules were changed -----------------------------------------------------------------------------------------


def test_a_grant_is_added_and_taken_away() -> None:
    found = build(allow(1, who=("user", BOB)))
    assert kinds(found, {}, change=Change(grants=(allow(7),))) == [ALLOW]
    assert kinds(found, {}, change=Change(grants=(allow(7, who=("user", BOB)), allow(8, target=("tool", 2))))) == [DENY]
    assert kinds(build(allow(1)), {}, change=Change(removed_grants=frozenset({1}))) == [DENY]
    assert kinds(build(allow(1)), {}, change=Change(grants=(deny(7),))) == [DENY]
    other = Change(grants=(allow(7, environments=frozenset({"test"})), allow(8, flags=frozenset({"off"}))))
    assert kinds(found, {}, change=other) == [DENY]


def test_a_grant_in_the_place_of_another_keeps_the_approval_rules_that_are_bound_to_it() -> None:
    found = build(allow(1), asks(5, ("grant", 1)))
    change = Change.of(Trial("grant", 30, allow(30, EMEA), 1))
    assert [one.id for one in change.grants] == [1] and change.removed_grants == {1}
    assert kinds(found, {"region": "emea"}, {"region": "apac"}, change=change) == [ASK, DENY]
    assert kinds(found, {}, change=Change.of(Trial("grant", 30, allow(30)))) == [ALLOW]


def test_an_approval_rule_is_added_and_taken_away() -> None:
    found = build(allow(1), asks(5, conditions=[EMEA]))
    emea = {"region": "emea"}
    assert kinds(found, emea, {}, change=Change(removed_asks=frozenset({5}))) == [ALLOW, ALLOW]
    replaced = Change.of(Trial("approval_rule", 30, asks(30, conditions=[LARGE]), 5))
    assert kinds(found, emea, {"amount": 11}, change=replaced) == [ALLOW, ASK]
    for target in (("tool", 1), ("toolset", FILES), ("all", None), ("grant", 1)):
        assert kinds(build(allow(1)), {}, change=Change.of(Trial("approval_rule", 30, asks(30, target)))) == [ASK]
    for target in (("tool", 2), ("toolset", NUMBERS), ("grant", 9)):
        assert kinds(build(allow(1)), {}, change=Change.of(Trial("approval_rule", 30, asks(30, target)))) == [ALLOW]
    harmless = build_catalogue(allow(1), items=[make_tool(annotations=HARMLESS)])
    only = Change.of(Trial("approval_rule", 30, asks(30, destructive_only=True)))
    assert answer(harmless, {}, only, make_tool(annotations=HARMLESS)).kind == ALLOW
    assert kinds(build(allow(1)), {}, change=only) == [ASK]


def test_a_limit_in_trial_stands_beside_or_instead_of_those_in_force() -> None:
    found = Snapshot.build(items=[TOOL, OTHER], limits=[limit(1), limit(2, ("toolset", FILES))], members=MEMBERS)
    beside = Change.of(Trial("limit", 30, limit(30, ("all", None))))
    instead = Change.of(Trial("limit", 30, limit(30, ("tool", 2)), 1))
    assert [one.id for one in beside.find_limits(found, TOOL)] == [1, 2, 30]
    assert [one.id for one in instead.find_limits(found, TOOL)] == [2]
    assert [one.id for one in instead.find_limits(found, OTHER)] == [30]


def limit(pk: int, target: tuple[str, int | None] = ("tool", 1)) -> LimitRule:
    return LimitRule(pk, target[0], target[1], "each_user", None, "1/h")


def test_the_snapshot_knows_the_items_of_each_rule_in_trial() -> None:
    trials = [
        Trial("grant", 30, allow(30, target=("toolset", NUMBERS)), 1),
        Trial("grant", 31, allow(31, target=("resource", 1))),
        Trial("limit", 32, limit(32, ("all", None))),
        Trial("approval_rule", 33, asks(33, ("grant", 1))),
    ]
    found = Snapshot.build(items=[TOOL, OTHER], grants=[allow(1)], members=MEMBERS, trials=trials)
    reached = {key: [one.id for one in trials] for key, trials in found.trials_by_item.items()}
    assert reached == {("tool", 1): [30, 32, 33], ("tool", 2): [30, 32]}
    assert found.grants_by_id.keys() == {1} and found.limits == () and found.asking_tools == frozenset()


# --- the only arguments, and lists and objects -----------------------------------------------------------------------

ONLY = {"path": "", "op": "only", "names": ["region"]}
NESTED = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zone": {"type": "string", "default": "a"}},
        },
        "region": {"type": "string"},
    },
}
BERN = {"path": "/place", "op": "equals", "value": {"city": "Bern"}}
BERN_A = {**BERN, "value": {"zone": "a", "city": "Bern"}}


def nested(*made: AskRule | GrantRule) -> Snapshot:
    return build_catalogue(*made, items=[make_tool(schema=NESTED)])


def test_a_grant_with_the_only_arguments_denies_others_even_with_null_and_counts_no_default() -> None:
    found = build(allow(1, ONLY))
    assert kinds(found, {}, {"region": "emea"}, {"region": "emea", "amount": None}) == [ALLOW, ALLOW, DENY]
    with_default = make_tool(schema={"type": "object", "properties": {"region": {}, "limit": {"default": 5}}})
    found = build_catalogue(allow(1, ONLY), items=[with_default])
    assert answer(found, {"region": "emea"}, item=with_default).kind == ALLOW
    assert answer(found, {"limit": 5}, item=with_default).kind == DENY


def test_names_are_known_where_a_value_is_hidden_and_unknown_where_everything_is() -> None:
    found = build(allow(1, ONLY))
    assert kinds(found, {"region": HIDDEN}, {"amount": HIDDEN}, None, HIDDEN) == [ALLOW, DENY, UNCLEAR, UNCLEAR]


def test_a_secret_in_the_schema_does_not_keep_a_grant_from_naming_the_only_arguments() -> None:
    assert SECRET["path"].strip("/") in TOOL.input_schema["properties"]
    assert kinds(build(allow(1, ONLY)), {"region": "emea"}) == [ALLOW]


def test_a_grant_that_names_no_argument_of_a_call_is_no_way_around_an_approval_rule() -> None:
    found = build(allow(1), allow(2, ONLY), asks(5, ("grant", 1)))
    assert kinds(found, {"region": "emea"}, {"region": "emea", "amount": 1}) == [ALLOW, ASK]


def test_a_grant_compares_an_object_as_it_was_sent() -> None:
    found = nested(allow(1, BERN))
    item = found.items["tool", 1]
    assert isinstance(item, ToolDefinition)
    sent = [{"place": {"city": "Bern"}}, {"place": {"city": "Bern", "zone": "a"}}, {"place": {"city": "Rome"}}, {}]
    assert [answer(found, one, item=item).kind for one in sent] == [ALLOW, DENY, DENY, DENY]


@pytest.mark.parametrize(("made", "expected"), [(deny(2, BERN), DENY), (asks(5, conditions=[BERN]), ASK)])
def test_an_object_is_denied_and_asked_about_as_it_was_sent(made: AskRule | GrantRule, expected: str) -> None:
    found = nested(allow(1), made)
    item = found.items["tool", 1]
    assert isinstance(item, ToolDefinition)
    sent = [{"place": {"city": "Bern"}}, {"place": {"city": "Bern", "zone": "b"}}, {}]
    assert [answer(found, one, item=item).kind for one in sent] == [expected, ALLOW, ALLOW]


@pytest.mark.parametrize(("made", "expected"), [(deny(2, BERN_A), DENY), (asks(5, conditions=[BERN_A]), ASK)])
def test_a_default_inside_an_object_evades_no_denial_and_no_approval_rule(
    made: AskRule | GrantRule, expected: str
) -> None:
    found = nested(allow(1), made)
    item = found.items["tool", 1]
    assert isinstance(item, ToolDefinition)
    sent = [{"place": {"city": "Bern"}}, {"place": {"city": "Bern", "zone": "a"}}, {"place": {"city": "Rome"}}]
    assert [answer(found, one, item=item).kind for one in sent] == [expected, expected, ALLOW]


# --- the reference: the decision, and the judgement of the person's own form ------------------------------------------


def draw_grants(data: st.DataObject, schema: dict[str, Any]) -> list[GrantRule]:
    found = []
    for number in range(1, data.draw(st.integers(1, 3)) + 1):
        target = data.draw(st.sampled_from([("tool", 1), ("toolset", FILES)]))
        conditions = draw_conditions(data, schema, 2) if data.draw(st.integers(0, 3)) else []
        found.append(rule(number, target=target, conditions=tuple(conditions)))
    for number in range(10, 10 + data.draw(st.integers(0, 2))):
        conditions = draw_conditions(data, schema, 2, with_fixed=False, with_only=False)
        target = data.draw(st.sampled_from([("tool", 1), ("toolset", FILES)]))
        found.append(rule(number, "deny", target=target, conditions=tuple(conditions)))
    return found


@thorough
@given(st.data())
def test_it_is_the_answer_of_the_decision_and_of_the_judgement(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    check = usable(schema)
    grants = draw_grants(data, schema)
    item = make_tool(schema=schema, fill_defaults=data.draw(st.booleans()))
    found = Snapshot.build(items=[item], grants=grants, members=MEMBERS, value_lists=LISTS)
    decision = rules.decide(found, Requester(ALICE), item, MONDAY_NOON, "production")
    fixes = any(one.operator == FIXED for grant in grants for one in grant.conditions)
    guide = decision.form.schema if decision.form is not None and decision.form.schema is not None else schema
    for _ in range(5):
        sent = data.draw(generated.objects(guide, guide))
        kept = copy.deepcopy(sent)
        given = answers.answer(found, Requester(ALICE), item, MONDAY_NOON, "production", Sent(sent, is_hidden))
        assert sent == kept and given.kind in (ALLOW, DENY)
        accepted = None
        if decision.visible and decision.form is None:
            accepted = sent if check(sent) is None else None
        elif decision.visible and decision.form is not None:
            judged = decision.form.judge(sent, check)
            accepted = judged.arguments if isinstance(judged, Accepted) else None
        if accepted is not None:
            event("accepted")
            again = answers.answer(found, Requester(ALICE), item, MONDAY_NOON, "production", Sent(accepted, is_hidden))
            assert (given.kind, again.kind) == (ALLOW, ALLOW), (schema, grants, sent)
        elif check(sent) is None and not fixes:
            event("refused by conditions")
            assert given.kind == DENY, (schema, grants, sent)


@thorough
@given(st.data())
def test_an_answer_without_the_hidden_arguments_is_right_or_unclear(data: st.DataObject) -> None:
    schema = data.draw(generated.schemas())
    usable(schema)
    item = make_tool(schema=schema)
    drawn = [
        draw_conditions(data, schema, 2, with_fixed=False, with_only=False) for _ in range(data.draw(st.integers(0, 2)))
    ]
    made = [asks(20 + number, conditions=[]) for number in range(len(drawn))]
    asking_rules = [
        AskRule(**{**{name: getattr(one, name) for name in one.__dataclass_fields__}, "conditions": tuple(conditions)})
        for one, conditions in zip(made, drawn, strict=True)
    ]
    found = Snapshot.build(
        items=[item], grants=draw_grants(data, schema), asks=asking_rules, members=MEMBERS, value_lists=LISTS
    )
    sent = data.draw(generated.objects(schema, schema))
    assume(sent)
    hidden = {name: HIDDEN if data.draw(st.booleans()) else value for name, value in sent.items()}
    whole = answers.answer(found, Requester(ALICE), item, MONDAY_NOON, "production", Sent(sent))
    for part in (hidden, None):
        seen = answers.answer(found, Requester(ALICE), item, MONDAY_NOON, "production", Sent(part, is_hidden))
        event(f"{whole.kind} -> {seen.kind}")
        assert seen.kind in (whole.kind, UNCLEAR), (schema, found.grants, asking_rules, sent, part)
