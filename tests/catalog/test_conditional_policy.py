"""The one decision with conditions, time windows, flags and value lists: list, single decision and form agree."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.conditions import definitions, flags, windows
from catalog.conditions.forms import Accepted
from catalog.policy import rules as policy
from catalog.policy.definitions import (
    GrantRule,
    PromptDefinition,
    ResourceDefinition,
    Snapshot,
    ToolDefinition,
    ValueListEntries,
)
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog import test_policy
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, GONE, MEMBERS, NUMBERS, rule

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string"}, "amount": {"type": "integer"}, "note": {"type": "string"}},
    "additionalProperties": False,
}
OTHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
SMALL = {"path": "/amount", "op": "range", "maximum": 100}
OURS = {"path": "/region", "op": "belongs_to", "list": "regions"}
NOTE = {"path": "/note", "op": "fixed", "value": "by toolhub"}
CITY = {"path": "/city", "op": "one_of", "values": ["Bern"]}
LISTS = {
    "regions": (
        ValueListEntries("everyone", None, ("emea",)),
        ValueListEntries("group", ANALYSTS, ("apac",)),
        ValueListEntries("user", BOB, ("amer",)),
    ),
    "empty": (),
}
FLAGS = {"on": 100, "off": 0, "half": 50}
MONDAY_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
HOUR = 3_600.0


def tool(pk: int, *toolsets: int, schema: dict[str, Any] = SCHEMA, **fields: Any) -> ToolDefinition:
    wire = {"name": f"tool{pk}", "inputSchema": schema}
    return test_policy.tool(pk, *toolsets, input_schema=schema, wire=wire, **fields)


ONE, TWO, THREE = tool(1, FILES), tool(2, FILES, NUMBERS), tool(3, NUMBERS, schema=OTHER)
PROMPT = PromptDefinition(
    id=4, name="letter", title="", description="A letter.", arguments=[{"name": "region", "enum": ["emea", "apac"]}],
    messages=[], function=None, toolset_ids=frozenset({FILES}), hash="h4", wire_hash="f4",
    wire={"name": "letter", "arguments": [{"name": "region"}]},
)  # fmt: skip
TEMPLATE = ResourceDefinition(
    id=5, name="regions", title="", description="", uri="regions://{region}", mime_type="", is_template=True, text=None,
    blob=None, function="region", completions={}, toolset_ids=frozenset({FILES}), hash="h5", wire_hash="f5", wire={},
    size=None,
)  # fmt: skip
ITEMS = (ONE, TWO, THREE, PROMPT, TEMPLATE)


def grant(pk: int, *conditions: dict[str, Any], **fields: Any) -> GrantRule:
    effect = fields.pop("effect", "allow")
    for name, parse in (("windows", windows.parse), ("flags", flags.parse)):
        if name in fields:
            fields[name] = parse(fields[name])
    return rule(pk, effect, conditions=definitions.parse(list(conditions)), **fields)


def build(*grants: GrantRule) -> Snapshot:
    return Snapshot.build(revision=1, items=ITEMS, grants=grants, members=MEMBERS, value_lists=LISTS, flags=FLAGS)


def decide(found: Snapshot, user: int = ALICE, item: Any = ONE, now: float = MONDAY_NOON, **who: Any) -> Any:
    return policy.decide(found, Requester(user, **who), item, now, "production")


def see(found: Snapshot, user: int = ALICE, now: float = MONDAY_NOON, **who: Any) -> policy.Visible:
    return policy.decide_all(found, Requester(user, **who), now, "production")


def accepts(decision: Any, **arguments: Any) -> bool:
    return isinstance(decision.form.judge(arguments, lambda _: None), Accepted)


# --- conditions on arguments ---------------------------------------------------------------------------------------


def test_a_grant_with_a_condition_shows_the_narrowed_definition() -> None:
    shown, named = see(build(grant(7, EMEA))).tools["tool1"]
    assert shown.input_schema["properties"]["region"] == {"type": "string", "enum": ["emea"]} or (
        shown.input_schema["properties"]["region"] == {"type": "string", "const": "emea"}
    )
    assert shown.wire["inputSchema"] is shown.input_schema and "region" in shown.input_schema["required"]
    assert shown.base is ONE and shown.hash == ONE.hash and shown.wire_hash != ONE.wire_hash
    assert str(named) == "Grant 7: allow tool  to everyone, with conditions"


def test_people_with_the_same_permission_share_one_form() -> None:
    found = build(grant(7, EMEA))
    assert see(found, ALICE).tools["tool1"][0] is see(found, BOB).tools["tool1"][0]


def test_a_grant_without_conditions_outweighs_one_with_conditions() -> None:
    decision = decide(build(grant(6, EMEA), grant(7)))
    assert (decision.visible, decision.rule.params["number"], decision.form) == (True, 7, None)


def test_several_grants_are_a_union_and_a_denial_overrides_them_all() -> None:
    decision = decide(build(grant(6, EMEA), grant(7, SMALL), grant(8, {**EMEA, "value": "mars"}, effect="deny")))
    assert accepts(decision, region="emea", amount=1_000) and accepts(decision, region="apac", amount=5)
    assert not accepts(decision, region="apac", amount=1_000) and not accepts(decision, region="mars", amount=5)


def test_a_denial_with_a_condition_narrows_a_free_grant() -> None:
    decision = decide(build(grant(6), grant(7, SMALL, effect="deny")))
    assert decision.visible and decision.rule.params["number"] == 6
    assert accepts(decision, amount=101) and not accepts(decision, amount=100) and accepts(decision, region="emea")


def test_a_grant_of_a_toolset_hides_the_tools_without_the_argument() -> None:
    seen = see(build(grant(7, EMEA, target=("toolset", NUMBERS))))
    assert list(seen.tools) == ["tool2"]
    decision = decide(build(grant(7, EMEA, target=("toolset", NUMBERS))), item=THREE)
    assert (decision.visible, decision.rule) == (False, policy.UNFIT)
    assert decision.form.misfits[7].code == "no_argument"


def test_a_denial_of_one_tool_denies_all_of_it_once_the_argument_is_gone() -> None:
    found = build(grant(6, target=("tool", 3)), grant(7, EMEA, effect="deny", target=("tool", 3)))
    decision = decide(found, item=THREE)
    assert (decision.visible, decision.rule.params["number"]) == (False, 7)
    assert "tool3" not in see(found).tools
    of_toolset = build(grant(6, target=("tool", 3)), grant(7, EMEA, effect="deny", target=("toolset", NUMBERS)))
    assert decide(of_toolset, item=THREE).visible


def test_a_condition_on_a_secret_argument_allows_nothing_and_denies_everything() -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "region": {"type": "string", "writeOnly": True}}}
    item = tool(1, FILES, schema=schema)
    for grants in ([grant(7, EMEA)], [grant(6), grant(7, EMEA, effect="deny")]):
        found = Snapshot.build(items=[item], grants=grants, members=MEMBERS)
        assert not decide(found, item=item).visible and not see(found).tools


def test_a_prompt_shows_the_choices_that_are_left_and_no_fixed_argument() -> None:
    (shown, _) = see(build(grant(7, EMEA, target=("prompt", 4)))).prompts["letter"]
    assert shown.arguments == [{"name": "region", "required": True, "enum": ["emea"]}]
    assert shown.wire["arguments"] == [{"name": "region", "required": True}]
    (shown, _) = see(build(grant(7, {**EMEA, "op": "fixed"}, target=("prompt", 4)))).prompts["letter"]
    assert shown.arguments == [] and "arguments" not in shown.wire


def test_a_template_is_judged_by_its_variables_and_takes_no_fixed_value() -> None:
    decision = decide(build(grant(7, EMEA, target=("resource", 5))), item=TEMPLATE)
    assert accepts(decision, region="emea") and not accepts(decision, region="apac")
    fixed = decide(build(grant(7, {**EMEA, "op": "fixed"}, target=("resource", 5))), item=TEMPLATE)
    assert not fixed.visible and fixed.form.misfits[7].code == "no_fixed"


# --- value lists ---------------------------------------------------------------------------------------------------


def test_a_value_list_has_what_is_there_for_everyone_the_groups_and_the_user() -> None:
    found = build(grant(7, OURS))
    assert policy_values(found, ALICE) == {"emea", "apac"} and policy_values(found, BOB) == {"emea", "amer"}


def policy_values(found: Snapshot, user: int) -> set[str]:
    decision = decide(found, user)
    return {region for region in ("emea", "apac", "amer") if accepts(decision, region=region)}


@pytest.mark.parametrize("name", ["empty", "gone"])
def test_a_list_without_values_allows_nothing(name: str) -> None:
    assert not decide(build(grant(7, {**OURS, "list": name}))).visible


# --- flags and windows ---------------------------------------------------------------------------------------------


def test_a_grant_applies_only_where_all_its_flags_are_on() -> None:
    assert decide(build(grant(7, flags=["on"]))).visible
    for names in (["off"], ["on", "off"], ["unknown"]):
        assert not decide(build(grant(7, flags=names))).visible
    assert decide(build(grant(6), grant(7, flags=["off"], effect="deny"))).visible


def test_a_grant_applies_only_in_its_time_windows_and_the_next_change_is_exact() -> None:
    office = {"days": ["mon"], "from": "09:00", "to": "17:30", "zone": "UTC"}
    found = build(grant(7, windows=[office]))
    decision = decide(found)
    assert decision.visible and decision.changes_at == MONDAY_NOON + 5.5 * HOUR == see(found).changes_at
    evening = decide(found, now=decision.changes_at)
    assert not evening.visible and evening.changes_at == MONDAY_NOON - 3 * HOUR + 7 * 24 * HOUR


def test_windows_of_two_grants_that_never_leave_a_gap_change_nothing() -> None:
    first = {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "from": "00:00", "to": "12:00", "zone": "UTC"}
    second = {**first, "from": "12:00", "to": "24:00"}
    found = build(grant(7, windows=[first, second]))
    assert decide(found).changes_at is None and see(found).changes_at == MONDAY_NOON + 12 * HOUR


# --- all together --------------------------------------------------------------------------------------------------

CONDITIONS: Any = st.lists(
    st.sampled_from([EMEA, SMALL, OURS, CITY, {**SMALL, "optional": True}]), max_size=2, unique_by=repr
)
OPEN = {"days": ["mon"], "from": "09:00", "to": "13:00", "zone": "UTC"}
CLOSED = {"days": ["mon"], "from": "13:00", "to": "15:00", "zone": "Europe/Berlin"}
TARGETS = [
    ("tool", 1),
    ("tool", 2),
    ("tool", 3),
    ("toolset", FILES),
    ("toolset", NUMBERS),
    ("prompt", 4),
    ("resource", 5),
]


@st.composite
def grants(draw: st.DrawFn) -> GrantRule:
    effect = draw(st.sampled_from(["allow", "allow", "deny"]))
    conditions: list[dict[str, Any]] = draw(CONDITIONS)
    if effect == "allow" and draw(st.integers(0, 3)) == 0:
        conditions = [*conditions, NOTE]
    return grant(
        draw(st.integers(1, 1_000)),
        *conditions,
        effect=effect,
        target=draw(st.sampled_from(TARGETS)),
        who=draw(st.sampled_from(["everyone", ("user", ALICE), ("group", ANALYSTS), ("user", BOB)])),
        windows=draw(st.sampled_from([[], [], [OPEN], [CLOSED], [OPEN, CLOSED]])),
        flags=draw(st.sampled_from([[], [], ["on"], ["off"], ["half"]])),
        starts=draw(st.sampled_from([None, None, MONDAY_NOON - HOUR, MONDAY_NOON + HOUR])),
    )


GRANTS = st.lists(grants(), max_size=6, unique_by=lambda made: made.id)
SENT = [
    {"region": region, "amount": amount, "city": city, "note": note}
    for region in ("emea", "apac", None)
    for amount in (5, 500, None)
    for city in ("Bern", None)
    for note in ("x", None)
]
SENT = [{name: value for name, value in one.items() if value is not None} for one in SENT]


def allowed(form: Any, item: Any, sent: dict[str, Any]) -> bool:
    """Whether these arguments, those of the item among them, are allowed; `form` None: all that the item accepts."""
    known = form.original.schema if form is not None else SCHEMA if item is not THREE else OTHER
    sent = {name: value for name, value in sent.items() if name in known["properties"]}
    return form is None or isinstance(form.judge(sent, lambda _: None), Accepted)


@settings(bounded, max_examples=300)
@given(GRANTS, st.sampled_from([ALICE, BOB, GONE]), st.sampled_from([None, frozenset({NUMBERS}), frozenset[int]()]))
def test_the_list_and_the_single_decision_agree_on_every_item_and_form(
    made: list[GrantRule], user: int, toolset_ids: frozenset[int] | None
) -> None:
    found = build(*made)
    seen = see(found, user, toolset_ids=toolset_ids)
    shown: dict[str, Any] = {**seen.tools, **seen.prompts, **seen.resources, **seen.templates}
    for item in ITEMS:
        decision = decide(found, user, item, toolset_ids=toolset_ids)
        pair = shown.get(item.uri if isinstance(item, ResourceDefinition) else item.name)
        assert decision.visible is (pair is not None)
        if pair is not None:
            assert (pair[1], pair[0].form) == (decision.rule, decision.form)
            if isinstance(item, ToolDefinition):
                assert pair[0].input_schema == (decision.form.schema if decision.form else item.input_schema)


@settings(bounded, max_examples=150)
@given(GRANTS, grants(), st.sampled_from([ALICE, BOB]))
def test_a_denial_never_widens_and_a_restricted_token_never_does(
    made: list[GrantRule], more: GrantRule, user: int
) -> None:
    free = build(*made)
    denial = grant(2_000, target=(more.target_kind, more.target_id), effect="deny", flags=["on"])
    for item in ITEMS:
        before = decide(free, user, item)
        restricted = decide(free, user, item, toolset_ids=frozenset({NUMBERS}))
        after = decide(build(*made, denial), user, item)
        for sent in SENT:
            was = before.visible and allowed(before.form, item, sent)
            assert was or not (restricted.visible and allowed(restricted.form, item, sent))
            assert was or not (after.visible and allowed(after.form, item, sent))


@settings(bounded, max_examples=150)
@given(GRANTS, st.sampled_from([ALICE, BOB]))
def test_the_time_of_the_next_change_is_exact(made: list[GrantRule], user: int) -> None:
    found = build(*made)
    for item in ITEMS:
        now = decide(found, user, item)
        instants = [MONDAY_NOON + step * HOUR / 2 for step in range(1, 8 * 48)]
        same = [at for at in instants if now.changes_at is None or at < now.changes_at]
        for at in same[:: 7 if now.changes_at is None else 1]:
            later = decide(found, user, item, now=at)
            assert (later.visible, later.rule, later.form) == (now.visible, now.rule, now.form)
        if now.changes_at is not None:
            later = decide(found, user, item, now=now.changes_at)
            assert (later.visible, later.rule, later.form) != (now.visible, now.rule, now.form)
