"""Grants that another one covers: found, named, and never needed for any decision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.policy import rules
from catalog.policy.definitions import GrantRule, Member, Snapshot
from catalog.policy.redundancy import Redundancy
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog.test_obstacles import HERE, SALES, THERE, build, make_rule
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, GONE, MEMBERS, NOW, NUMBERS, ONE, TWO, tool


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
]


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
    ],
)
def test_a_grant_is_covered_by_one_that_reaches_more(narrow: dict[str, Any], wide: dict[str, Any]) -> None:
    assert find(make_rule(1, **narrow), make_rule(2, **wide)) == {1: 2}


def test_of_equal_grants_the_oldest_stays() -> None:
    assert find(make_rule(5), make_rule(3), make_rule(4)) == {4: 3, 5: 3}


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
    environments=st.sampled_from([frozenset(), frozenset({HERE}), THERE, THERE | {HERE}]),
).filter(lambda made: made.starts is None or made.ends is None or made.starts < made.ends)
TIMES = [NOW + offset for offset in (-20, -9, -7, -5, -2, 0, 3, 5, 7, 9, 20)]


def decide_everything(found: Snapshot) -> list[bool]:
    return [
        rules.decide(found, Requester(user, toolsets), item, now, environment).visible
        for user in (ALICE, BOB, GONE)
        for toolsets in (None, frozenset({NUMBERS}))
        for item in (ONE, TWO)
        for now in TIMES
        for environment in (HERE, "staging", "test")
    ]


@given(grants=st.lists(GRANTS, min_size=2, max_size=8, unique_by=lambda made: made.id))
@settings(bounded, max_examples=300)
def test_no_decision_changes_without_one_or_all_of_the_redundant_grants(grants: list[GrantRule]) -> None:
    found = build(*grants)
    redundant = Redundancy(found).find_all()
    decisions = decide_everything(found)
    for gone in [redundant.keys(), *({key} for key in redundant)]:
        assert decide_everything(build(*(made for made in grants if made.id not in gone))) == decisions


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
