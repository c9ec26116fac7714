"""Grants that another one covers: found, named, and never needed for any decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.policy import rules
from catalog.policy.definitions import AskRule, GrantRule, Member, Snapshot
from catalog.policy.redundancy import Redundancy
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog import restrictions
from tests.catalog.restrictions import EITHER, EMEA, FIRST, OPEN, SALES, SECOND, SHUT, SMALL
from tests.catalog.test_obstacles import HERE, THERE, build, make_rule
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, GONE, MEMBERS, NOW, NUMBERS, TWO, tool


def find(*grants: GrantRule) -> dict[int, int]:
    """The id of each redundant grant, and of the one that covers it."""
    return {key: cover.id for key, cover in Redundancy(build(*grants)).find_all().items()}


NARROWER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"who": ("group", BOB)}, {}),
    ({"who": ("user", BOB)}, {"who": ("group", ANALYSTS)}),
    ({}, {"who": ("group", SALES)}),
    ({"target": ("tool", 1)}, {"target": ("toolset", NUMBERS)}),
    ({"target": ("toolset", FILES)}, {"target": ("tool", 1)}),
    ({"target": ("prompt", 1)}, {"target": ("tool", 1)}),
    ({}, {"ends": NOW}),
    ({"ends": NOW + 2}, {"ends": NOW + 1}),
    ({}, {"starts": NOW}),
    ({"starts": NOW - 2}, {"starts": NOW - 1}),
    ({}, {"environments": THERE}),
    ({"environments": frozenset({HERE, "staging"})}, {"environments": THERE}),
    ({"effect": "deny"}, {}),
    ({}, {"effect": "deny"}),
    ({}, {"conditions": EITHER}),
    ({"conditions": EITHER}, {"conditions": EMEA}),
    ({"conditions": (*EMEA, *SMALL)}, {"conditions": EMEA}),
    ({"effect": "deny"}, {"effect": "deny", "conditions": EMEA}),
    ({"effect": "deny", "conditions": EMEA}, {"effect": "deny", "conditions": EMEA, "target": ("toolset", FILES)}),
    ({}, {"windows": OPEN}),
    ({"windows": (*OPEN, *SHUT)}, {"windows": OPEN}),
    ({}, {"flags": frozenset({"on"})}),
    ({"flags": frozenset({"half"})}, {"flags": frozenset({"half", "on"})}),
]


@pytest.mark.parametrize("with_rule", [1, 2])
def test_a_grant_with_an_approval_rule_neither_covers_nor_is_covered(with_rule: int) -> None:
    ask = AskRule(7, "Ask first", "grant", with_rule, "person", None)
    catalogue = build(make_rule(1), make_rule(2))
    assert list(Redundancy(catalogue).find_all()) == [2]
    assert Redundancy(replace(catalogue, asks_by_grant={with_rule: (ask,)})).find_all() == {}


@pytest.mark.parametrize(("needed", "other"), NARROWER)
def test_a_grant_is_needed_beside_one_that_reaches_less(needed: dict[str, Any], other: dict[str, Any]) -> None:
    assert 1 not in find(make_rule(1, **needed), make_rule(2, **other))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ({}, {"who": "everyone"}),
        ({}, {"who": ("group", ANALYSTS)}),
        ({}, {"target": ("toolset", FILES)}),
        ({"ends": NOW}, {}),
        ({"starts": NOW, "ends": NOW + 1}, {"starts": NOW - 1, "ends": NOW + 1}),
        ({"environments": THERE}, {"environments": THERE | {HERE}}),
        ({"environments": THERE}, {}),
        ({"effect": "deny"}, {"effect": "deny", "who": "everyone", "target": ("toolset", FILES)}),
        ({"conditions": EMEA}, {}),
        ({"conditions": EMEA}, {"conditions": EMEA, "target": ("toolset", FILES)}),
        ({"effect": "deny", "conditions": EMEA}, {"effect": "deny"}),
        ({"effect": "deny", "conditions": EMEA}, {"effect": "deny", "conditions": EMEA, "who": "everyone"}),
        ({"windows": OPEN}, {}),
        ({"windows": OPEN}, {"windows": OPEN, "who": "everyone"}),
        ({"flags": frozenset({"half", "on"})}, {"flags": frozenset({"on"})}),
    ],
)
def test_a_grant_is_covered_by_one_that_reaches_more(narrow: dict[str, Any], wide: dict[str, Any]) -> None:
    assert find(make_rule(1, **narrow), make_rule(2, **wide)) == {1: 2}


def test_of_equal_grants_the_oldest_stays() -> None:
    assert find(make_rule(5), make_rule(3), make_rule(4)) == {4: 3, 5: 3}
    limited: dict[str, Any] = {"conditions": EMEA, "windows": OPEN, "flags": frozenset({"on"})}
    assert find(make_rule(5, **limited), make_rule(3, **limited), make_rule(4)) == {3: 4, 5: 3}
    assert find(make_rule(5, **limited), make_rule(3, **limited)) == {5: 3}


def test_the_widest_cover_is_named() -> None:
    wide = make_rule(9, who="everyone", target=("toolset", FILES))
    assert find(make_rule(1), make_rule(2, who=("group", ANALYSTS)), wide) == {1: 9, 2: 9}


def test_a_tool_that_is_switched_off_is_covered_only_by_a_grant_of_itself() -> None:
    off = Redundancy(build(make_rule(1), make_rule(2, target=("toolset", FILES)), items=[TWO]))
    assert off.find_all() == {}


GRANTS = st.builds(
    make_rule,
    st.integers(1, 99),
    st.sampled_from(["allow", "allow", "deny"]),
    target=st.sampled_from([("tool", 1), ("tool", 2), ("toolset", FILES), ("toolset", NUMBERS)]),
    who=st.sampled_from(["everyone", ("user", ALICE), ("user", BOB), ("group", ANALYSTS), ("group", SALES)]),
    starts=st.one_of(st.none(), st.sampled_from([NOW - 9, NOW, NOW + 5])),
    ends=st.one_of(st.none(), st.sampled_from([NOW - 5, NOW, NOW + 9])),
    environments=st.sampled_from([frozenset(), frozenset(), frozenset({HERE}), THERE, THERE | {HERE}]),
    windows=restrictions.WINDOWS,
    flags=restrictions.FLAG_NAMES,
).filter(lambda made: made.starts is None or made.ends is None or made.starts < made.ends)
TIMES = [NOW + offset for offset in (-20, -9, -7, -5, -2, 0, 3, 5, 7, 9, 20)]
LATER = [NOW + offset for offset in (0, 300, 2 * 86_400 + 12 * 3_600)]
"""At the second, a window of the policy's examples has closed; at the third, the one that was closed is open."""


@st.composite
def some_grants(draw: st.DrawFn) -> list[GrantRule]:
    """Grants of which some differ from another one in one thing only: others rarely cover each other."""
    grants = draw(st.lists(GRANTS, min_size=1, max_size=5, unique_by=lambda made: made.id))
    grants = [replace(made, conditions=draw(restrictions.conditions_for(made.effect))) for made in grants]
    twin = replace(draw(st.sampled_from(grants)), id=100)
    change = draw(st.sampled_from(["", "conditions", "windows", "flags", "who", "target"]))
    match change:
        case "conditions":
            twin = replace(twin, conditions=())
        case "windows":
            twin = replace(twin, windows=())
        case "flags":
            twin = replace(twin, flags=frozenset())
        case "who":
            twin = replace(twin, subject_kind="everyone", subject_id=None)
        case "target":
            twin = replace(twin, target_kind="toolset", target_id=FILES)
    return [*grants, twin]


def decide_everything(found: Snapshot) -> list[bool]:
    return [
        rules.decide(found, Requester(user, toolsets), item, now, environment).visible
        for user in (ALICE, BOB, GONE)
        for toolsets in (None, frozenset({NUMBERS}))
        for item in (FIRST, SECOND)
        for now in TIMES
        for environment in (HERE, "staging", "test")
    ]


def list_definitions(found: Snapshot) -> list[dict[str, Any]]:
    """What each person's client is shown, at times at which windows are open and closed."""
    return [
        {name: item.wire for name, (item, _rule) in shown.tools.items()}
        for user in (ALICE, BOB)
        for now in LATER
        for environment in (HERE, "staging")
        for shown in [rules.decide_all(found, Requester(user), now, environment)]
    ]


@given(grants=some_grants())
@settings(bounded, max_examples=400)
def test_no_decision_and_no_definition_changes_without_one_or_all_of_the_redundant_grants(
    grants: list[GrantRule],
) -> None:
    found = build(*grants, items=(FIRST, SECOND))
    redundant = Redundancy(found).find_all()
    decisions, definitions = decide_everything(found), list_definitions(found)
    for gone in [redundant.keys(), *({key} for key in redundant)]:
        left = build(*(made for made in grants if made.id not in gone), items=(FIRST, SECOND))
        assert decide_everything(left) == decisions
        assert list_definitions(left) == definitions


class CountedRule(GrantRule):
    """A grant that counts how often somebody looks at its end."""

    looks = 0

    def __getattribute__(self, wanted: str) -> Any:
        if wanted == "ends":
            CountedRule.looks += 1
        return super().__getattribute__(wanted)


def test_thousands_of_grants_are_not_compared_with_each_other() -> None:
    items = [tool(pk, FILES) for pk in range(1, 1_001)]
    members = {pk: Member(f"user{pk}", True, frozenset({ANALYSTS})) for pk in range(1, 1_001)} | MEMBERS
    made = [make_rule(pk, target=("tool", pk), who=("user", pk)) for pk in range(1, 1_001)]
    made.append(make_rule(2_000, target=("toolset", FILES), who=("group", ANALYSTS)))
    counted = [CountedRule(**{one: getattr(rule, one) for one in rule.__dataclass_fields__}) for rule in made]
    CountedRule.looks = 0
    found = Redundancy(build(*counted, items=items, members=members)).find_all()
    assert len(found) == 999, "bob is in no group"
    assert CountedRule.looks <= 5 * len(made)
