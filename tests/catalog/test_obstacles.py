"""Why a person does not see an item: every obstacle, the nearest grant, and never another answer than the decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.types import Reason
from catalog.policy import obstacles, rules
from catalog.policy.definitions import GRANT, GrantRule, Member, Snapshot, ToolDefinition
from catalog.policy.obstacles import ELSEWHERE, ENDED, LATER, NOT_MEMBER, ONLY_OTHERS, Explanation
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog.test_policy import (
    ALICE,
    ANALYSTS,
    BOB,
    FILES,
    GONE,
    MEMBERS,
    NOW,
    NUMBERS,
    ONE,
    TWO,
    rule,
    tool,
)

SALES = 11
HERE, THERE = "production", frozenset({"staging"})


def make_rule(pk: int, effect: str = "allow", **fields: Any) -> GrantRule:
    return rule(pk, effect, **{"who": ("user", ALICE), **fields})


def build(*grants: GrantRule, items: Any = (ONE, TWO), members: Any = MEMBERS) -> Snapshot:
    return Snapshot.build(revision=1, items=items, grants=grants, members=members)


def explain(found: Snapshot, user: int = ALICE, item: Any = ONE, toolset_ids: Any = None) -> Explanation:
    return obstacles.explain(found, Requester(user, toolset_ids), item, NOW, HERE)


def name(explanation: Explanation) -> tuple[int | None, list[str]]:
    """The nearest grant and the codes, those of denials with their number."""
    codes = [f"deny {one.params['number']}" if one.code == GRANT else one.code for one in explanation.obstacles]
    return explanation.grant.id if explanation.grant is not None else None, codes


# --- each reason ---------------------------------------------------------------------------------------------------


def test_a_visible_item_has_no_obstacle_and_names_its_grant() -> None:
    assert name(explain(build(make_rule(4)))) == (4, [])
    assert name(explain(build(make_rule(4, target=("toolset", FILES), who=("group", ANALYSTS))))) == (4, [])


def test_without_any_grant_nothing_grants_it() -> None:
    assert explain(build()).obstacles == (rules.NO_GRANT,)
    elsewhere = build(make_rule(1, target=("tool", 2)), make_rule(2, target=("toolset", NUMBERS)))
    assert name(explain(elsewhere)) == (None, ["rule.no_grant"])


def test_a_grant_that_ended_starts_later_or_applies_elsewhere_says_when_and_where() -> None:
    cases: list[tuple[dict[str, Any], Reason]] = [
        ({"ends": NOW}, Reason(ENDED, {"at": NOW})),
        ({"starts": NOW + 5}, Reason(LATER, {"at": NOW + 5})),
        ({"environments": THERE}, Reason(ELSEWHERE, {"names": ["staging"]})),
    ]
    for fields, reason in cases:
        found = explain(build(make_rule(4, **fields)))
        assert found.obstacles == (reason,)


def test_several_obstacles_of_one_grant_are_all_named() -> None:
    assert name(explain(build(make_rule(4, ends=NOW - 1, environments=THERE)))) == (4, [ENDED, ELSEWHERE])
    group = build(make_rule(4, who=("group", SALES), starts=NOW + 1, environments=THERE))
    assert name(explain(group)) == (4, [NOT_MEMBER, LATER, ELSEWHERE])


def test_a_grant_to_a_group_that_the_person_is_not_in_names_the_group() -> None:
    (reason,) = explain(build(make_rule(4, who=("group", SALES), subject_name="Sales"))).obstacles
    assert (reason.code, reason.params) == (NOT_MEMBER, {"id": SALES, "name": "Sales"})


def test_a_group_whose_members_are_denied_the_item_is_no_way_to_it() -> None:
    grants = [make_rule(4, target=("toolset", FILES), who=("group", SALES)), make_rule(5, "deny", who=("group", SALES))]
    assert name(explain(build(*grants))) == (None, ["rule.no_grant"])
    assert name(explain(build(*grants, make_rule(6, who=("group", 12), ends=NOW)))) == (6, [NOT_MEMBER, ENDED])


def test_a_grant_to_somebody_else_counts_only_while_it_gives_them_access() -> None:
    assert name(explain(build(make_rule(4, who=("user", BOB))))) == (4, [ONLY_OTHERS])
    assert name(explain(build(make_rule(4, who=("user", BOB), ends=NOW)))) == (None, ["rule.no_grant"])


def test_every_denial_in_force_is_named_and_the_nearest_grant_beside_it() -> None:
    found = build(
        make_rule(9, "deny", who="everyone"),
        make_rule(5, "deny", target=("toolset", FILES), who=("group", ANALYSTS)),
        make_rule(6, "deny", ends=NOW),
        make_rule(7, "deny", environments=THERE),
        make_rule(8, "deny", who=("user", BOB)),
        make_rule(4, ends=NOW - 1),
    )
    assert name(explain(found)) == (4, ["deny 5", "deny 9", ENDED]), "removing the denials would not be enough"
    assert name(explain(build(make_rule(1), make_rule(2, "deny")))) == (1, ["deny 2"])


def test_what_hides_an_item_from_everyone_comes_first_and_the_grant_is_still_named() -> None:
    for unpinned, code in ((False, "rule.quarantined"), (True, "rule.unpinned")):
        hidden = build(make_rule(4, ends=NOW), items=[replace(ONE, quarantined=True, unpinned=unpinned)])
        assert name(explain(hidden)) == (4, [code, ENDED])
    off = obstacles.Target("tool", 1, frozenset({FILES}))
    granted = build(make_rule(4, target=("toolset", FILES)), items=[])
    assert name(explain(granted, item=off)) == (4, ["rule.not_offered"])


def test_an_inactive_person_a_missing_one_and_a_restricted_token_are_told_apart() -> None:
    found = build(make_rule(4, target=("toolset", FILES), who="everyone"))
    assert name(explain(found, GONE)) == (4, ["rule.inactive"])
    assert name(explain(found, 999)) == (None, ["rule.no_user"])
    assert name(explain(found, toolset_ids=frozenset({NUMBERS}))) == (4, ["rule.other_toolsets"])
    assert name(explain(found, item=TWO, toolset_ids=frozenset({NUMBERS}))) == (4, [])


# --- the nearest ---------------------------------------------------------------------------------------------------


def test_the_grant_that_needs_the_smallest_change_is_the_nearest() -> None:
    ladder = [
        make_rule(1, starts=NOW + 50),
        make_rule(2, ends=NOW - 50),
        make_rule(3, environments=THERE),
        make_rule(4, environments=THERE, ends=NOW - 50),
        make_rule(5, who=("group", SALES)),
        make_rule(6, who=("group", SALES), ends=NOW - 50),
        make_rule(7, who=("user", BOB)),
    ]
    while ladder:
        assert name(explain(build(*reversed(ladder))))[0] == ladder[0].id
        ladder.pop(0)


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        ({"ends": NOW - 1}, {"ends": NOW - 2}),
        ({"ends": NOW - 2, "who": ("user", ALICE)}, {"ends": NOW - 1, "who": ("group", ANALYSTS)}),
        ({"ends": NOW - 2, "who": ("group", ANALYSTS)}, {"ends": NOW - 1, "who": "everyone"}),
        ({"ends": NOW - 2}, {"ends": NOW - 1, "target": ("toolset", FILES)}),
        ({"starts": NOW + 1}, {"starts": NOW + 2}),
    ],
)
def test_of_equal_changes_the_one_for_fewer_people_fewer_tools_or_less_time_is_nearer(
    nearer: dict[str, Any], farther: dict[str, Any]
) -> None:
    assert name(explain(build(make_rule(1, **farther), make_rule(2, **nearer))))[0] == 2
    assert name(explain(build(make_rule(1), make_rule(2, **nearer))))[0] == 1, "a grant in force needs no change"


# --- agreement with the decision -----------------------------------------------------------------------------------

STARTS = st.one_of(st.none(), st.sampled_from([NOW - 9, NOW, NOW + 5]))
ENDS = st.one_of(st.none(), st.sampled_from([NOW - 5, NOW, NOW + 9]))
GRANTS = st.builds(
    make_rule,
    st.integers(1, 99),
    st.sampled_from(["allow", "allow", "deny"]),
    target=st.sampled_from([("tool", 1), ("tool", 2), ("toolset", FILES), ("toolset", NUMBERS), ("prompt", 1)]),
    who=st.sampled_from(
        ["everyone", ("user", ALICE), ("user", BOB), ("user", GONE), ("group", ANALYSTS), ("group", SALES)]
    ),
    starts=STARTS,
    ends=ENDS,
    environments=st.sampled_from([frozenset(), frozenset({HERE}), THERE]),
).filter(lambda made: made.starts is None or made.ends is None or made.starts < made.ends)


def remove_obstacles(
    found: Snapshot, who: Requester, item: ToolDefinition, explanation: Explanation
) -> tuple[Snapshot, Requester]:
    """The catalogue and the requester after exactly the changes that the explanation names."""
    grants, members = {made.id: made for made in found.grants}, dict(found.members)
    items = {one.id: one for one in found.tools.values()}
    near = explanation.grant
    for reason in explanation.obstacles:
        match reason.code:
            case "rule.not_offered":
                items[item.id] = item
            case "rule.quarantined" | "rule.unpinned":
                items[item.id] = replace(items[item.id], quarantined=False, unpinned=False)
            case "rule.inactive":
                members[who.user_id] = replace(members[who.user_id], is_active=True)
            case "rule.other_toolsets":
                who = Requester(who.user_id)
            case "rule.grant":
                del grants[reason.params["number"]]
            case "obstacle.later":
                assert near is not None
                grants[near.id] = replace(grants[near.id], starts=None)
            case "obstacle.ended":
                assert near is not None
                grants[near.id] = replace(grants[near.id], ends=None)
            case "obstacle.elsewhere":
                assert near is not None
                grants[near.id] = replace(grants[near.id], environments=near.environments | {HERE})
            case "obstacle.not_member":
                member = members[who.user_id]
                members[who.user_id] = replace(member, group_ids=member.group_ids | {reason.params["id"]})
            case "obstacle.only_others" | "rule.no_grant":
                grants[100] = make_rule(100, target=(item.kind, item.id), who=("user", who.user_id))
            case code:
                pytest.fail(f"an unknown obstacle: {code}")
    return build(*grants.values(), items=items.values(), members=members), who


@given(
    grants=st.lists(GRANTS, max_size=7, unique_by=lambda made: made.id),
    user=st.sampled_from([ALICE, BOB, GONE]),
    toolsets=st.sampled_from([None, None, frozenset({FILES}), frozenset({NUMBERS}), frozenset()]),
    state=st.sampled_from(["on", "on", "on", "off", "quarantined", "unpinned"]),
)
@settings(bounded, max_examples=400)
def test_an_item_is_visible_exactly_without_obstacles_and_once_the_named_ones_are_removed(
    grants: list[GrantRule], user: int, toolsets: Any, state: str
) -> None:
    hidden, unpinned = state in {"quarantined", "unpinned"}, state == "unpinned"
    served = [replace(item, quarantined=hidden, unpinned=unpinned) for item in (ONE, TWO) if state != "off"]
    found, who = build(*grants, items=served), Requester(user, toolsets)
    explainer = obstacles.Explainer(found, NOW, HERE)
    for item in (ONE, TWO):
        decision, explanation = rules.decide(found, who, item, NOW, HERE), explainer.explain(who, item)
        assert decision.visible is (explanation.obstacles == ())
        if decision.visible:
            continue
        if decision.rule is rules.NO_GRANT:
            own = {LATER, ENDED, ELSEWHERE, NOT_MEMBER, ONLY_OTHERS}
            assert explanation.obstacles == (rules.NO_GRANT,) or explanation.codes <= own
        else:
            assert explanation.obstacles[0] == decision.rule
        changed, asking = remove_obstacles(found, who, item, explanation)
        assert rules.decide(changed, asking, item, NOW, HERE).visible
        for left in explanation.obstacles:
            rest = tuple(one for one in explanation.obstacles if one != left)
            changed, asking = remove_obstacles(found, who, item, replace(explanation, obstacles=rest))
            assert not rules.decide(changed, asking, item, NOW, HERE).visible, f"{left} is no obstacle"


class CountedRule(GrantRule):
    """A grant that counts how often somebody looks at its effect."""

    looks = 0

    def __getattribute__(self, wanted: str) -> Any:
        if wanted == "effect":
            CountedRule.looks += 1
        return super().__getattribute__(wanted)


def test_the_rows_of_a_page_look_once_at_each_grant_of_thousands() -> None:
    items = [tool(pk, FILES if pk % 2 else NUMBERS) for pk in range(1, 10_001)]
    members = {pk: Member(f"user{pk}", True, frozenset({ANALYSTS})) for pk in range(1, 3_001)}
    grants = [make_rule(pk, target=("toolset", FILES), who=("user", pk + 1)) for pk in range(1, 2_900)]
    grants += [make_rule(pk, target=("toolset", FILES), who=("group", pk)) for pk in range(3_000, 5_000)]
    grants += [make_rule(pk, target=("tool", pk), who="everyone", ends=NOW - 1) for pk in range(5_000, 8_000)]
    counted = [CountedRule(**{one: getattr(made, one) for one in made.__dataclass_fields__}) for made in grants]
    found = build(*counted, items=items, members=members)
    CountedRule.looks = 0
    explainer = obstacles.Explainer(found, NOW, HERE)
    explained = [explainer.explain(Requester(1), item) for item in items[:50]]
    explained += [explainer.explain(Requester(user), items[0]) for user in range(2_950, 3_000)]
    assert 0 < CountedRule.looks <= len(grants)
    assert {code for one in explained for code in one.codes} == {NOT_MEMBER, "rule.no_grant"}
