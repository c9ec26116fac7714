"""The effect of a change of grants: who gains, loses and keeps access, and with which conditions."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.conditions.definitions import parse
from catalog.policy import effects
from catalog.policy.definitions import GrantRule, Member, Snapshot
from catalog.policy.effects import Effect
from tests.catalog.restrictions import (
    ASIA,
    EITHER,
    EMEA,
    FIRST,
    FLAGS,
    LISTED,
    OWN,
    SECOND,
    SHUT,
    SMALL_OR_NONE,
    VALUE_LISTS,
)
from tests.catalog.test_obstacles import HERE, make_rule
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, MEMBERS, NOW


def build(*grants: GrantRule, members: Any = MEMBERS) -> Snapshot:
    items = (FIRST, SECOND)
    return Snapshot.build(items=items, grants=grants, members=members, value_lists=VALUE_LISTS, flags=FLAGS)


def add(found: Snapshot, *rules: GrantRule, remove: Any = ()) -> Effect:
    """The effect on alice and bob, and on the first tool."""
    after = effects.with_grants(found, add=rules, remove=remove)
    return effects.compare(found, after, [ALICE, BOB], [FIRST], NOW, HERE)


EVERYONE = make_rule(1, who="everyone")
LIMITED = make_rule(1, who="everyone", conditions=EMEA)


@pytest.mark.parametrize(
    ("before", "change", "effect"),
    [
        ([], {"conditions": EMEA}, Effect(1, 0)),
        ([], {"conditions": ASIA}, Effect(0, 0)),
        ([], {"windows": SHUT}, Effect(0, 0)),
        ([], {"flags": frozenset({"half"}), "who": "everyone"}, Effect(1, 0)),
        ([EVERYONE], {"effect": "deny", "conditions": EMEA}, Effect(0, 0, 1)),
        ([EVERYONE], {"effect": "deny", "conditions": EITHER}, Effect(0, 1)),
        ([EVERYONE], {"effect": "deny", "conditions": EMEA, "who": "everyone", "flags": {"half"}}, Effect(0, 0, 1)),
        ([EVERYONE], {"conditions": EMEA}, Effect(0, 0)),
        ([LIMITED], {}, Effect(0, 0, 1)),
        ([LIMITED], {"conditions": SMALL_OR_NONE, "who": "everyone"}, Effect(0, 0, 2)),
        ([LIMITED], {"conditions": EMEA}, Effect(0, 0)),
        ([LIMITED], {"conditions": OWN}, Effect(0, 0, 1)),
        ([LIMITED], {"effect": "deny", "who": "everyone", "conditions": LISTED}, Effect(0, 2)),
    ],
)
def test_who_gains_loses_and_keeps_access_with_other_conditions(
    before: list[GrantRule], change: dict[str, Any], effect: Effect
) -> None:
    assert add(build(*before), make_rule(0, **change)) == effect


def test_revoking_one_of_two_grants_changes_what_may_be_sent() -> None:
    found = build(EVERYONE, make_rule(2, conditions=EMEA))
    assert add(found, remove={1}) == Effect(0, 1, 1), "bob loses it, and alice keeps it for one region"
    assert add(found, remove={2}) == Effect(0, 0)


def test_several_new_grants_are_told_apart_by_more_than_their_missing_number() -> None:
    new = [make_rule(0, who=("user", ALICE), conditions=EMEA), make_rule(0, who="everyone", conditions=OWN)]
    after = effects.with_grants(build(), add=new)
    assert len({rule.id for rule in after.grants}) == 2
    assert add(build(), *new) == Effect(1, 0), "the list has no values for bob"


def test_other_names_of_the_only_arguments_change_what_may_be_sent() -> None:
    one, two = (parse([{"path": "", "op": "only", "names": names}]) for names in (["region"], ["region", "amount"]))
    found = build(make_rule(1, who="everyone", conditions=one))
    assert add(found, make_rule(0, who="everyone", conditions=two), remove={1}) == Effect(0, 0, 2)
    assert add(found, make_rule(0, who="everyone", conditions=one), remove={1}) == Effect(0, 0)


def test_forms_of_many_people_are_not_compared() -> None:
    members = {key: Member(f"user{key}", True, frozenset({ANALYSTS})) for key in range(1, 2_001)}
    for conditions, exact in (((), True), (EMEA, True), (OWN, False)):
        found = build(make_rule(1, who="everyone", conditions=conditions), members=members)
        after = effects.with_grants(found, remove={1})
        effect = effects.compare(found, after, list(members), [FIRST], NOW, HERE)
        assert effect == (Effect(0, 2_000) if exact else Effect(2_000, 0, exact=False))


def test_denials_count_with_conditions_and_only_where_their_flags_are_on() -> None:
    found = build(
        make_rule(1, "deny", who="everyone", conditions=EMEA),
        make_rule(2, "deny", who="everyone", flags=frozenset({"half"})),
        make_rule(3, "deny", who="everyone", flags=frozenset({"off"})),
        make_rule(4, "deny", who="everyone", windows=SHUT),
        make_rule(5, "deny", target=("toolset", FILES), who=("group", ANALYSTS)),
    )

    def find(*people: int) -> list[int]:
        return [rule.id for rule in effects.find_denials(found, people, [FIRST], [], NOW)]

    assert find(ALICE, BOB) == [1, 2, 5]
    assert find(BOB) == [1]
    assert find() == []
    (first, *_others) = effects.find_denials(found, [BOB], [FIRST], [], NOW)
    assert first.rule.english.endswith(", with conditions")
