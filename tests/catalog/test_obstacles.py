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
from catalog.policy.obstacles import (
    CLOSED,
    ELSEWHERE,
    ENDED,
    FLAGS,
    LATER,
    NOT_MEMBER,
    ONLY_OTHERS,
    UNFIT,
    Explainer,
    Explanation,
)
from catalog.policy.rules import Requester
from tests.bounded import bounded
from tests.catalog import restrictions
from tests.catalog.restrictions import ASIA, EITHER, EMEA, FIRST, FIXED, LISTED, OPEN, SALES, SECOND, SHUT, SMALL
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

HERE, THERE = "production", frozenset({"staging"})


def make_rule(pk: int, effect: str = "allow", **fields: Any) -> GrantRule:
    return rule(pk, effect, **{"who": ("user", ALICE), **fields})


def build(*grants: GrantRule, items: Any = (ONE, TWO), members: Any = MEMBERS, flags: Any = None) -> Snapshot:
    return Snapshot.build(
        revision=1,
        items=items,
        grants=grants,
        members=members,
        value_lists=restrictions.VALUE_LISTS,
        flags=restrictions.FLAGS if flags is None else flags,
    )


def build_with_arguments(*grants: GrantRule) -> Snapshot:
    return build(*grants, items=(FIRST, SECOND))


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


# --- conditions, time windows and flags ------------------------------------------------------------------------------


def test_a_grant_whose_windows_are_closed_says_when_they_open() -> None:
    saturday_at_nine = 2 * 86_400 + 9 * 3_600
    (reason,) = explain(build(make_rule(4, windows=SHUT))).obstacles
    assert reason == Reason(CLOSED, {"at": saturday_at_nine})
    assert name(explain(build(make_rule(4, windows=OPEN)))) == (4, [])
    assert name(explain(build(make_rule(4, windows=(*OPEN, *SHUT))))) == (4, [])


def test_windows_open_next_after_the_start_of_the_grant() -> None:
    sunday_noon, next_saturday = 3 * 86_400 + 12 * 3_600, 9 * 86_400 + 9 * 3_600
    for starts, at in ((sunday_noon, sunday_noon), (sunday_noon + 6 * 3_600, next_saturday)):
        later, closed = explain(build(make_rule(4, windows=SHUT, starts=starts))).obstacles
        assert (later.code, closed) == (LATER, Reason(CLOSED, {"at": at}))


def test_flags_are_named_for_the_person_for_whom_they_are_off() -> None:
    found = build(make_rule(4, who="everyone", flags=frozenset({"on", "off", "half", "gone"})))
    assert explain(found, ALICE).obstacles == (Reason(FLAGS, {"names": ["gone", "off"]}),)
    assert explain(found, BOB).obstacles == (Reason(FLAGS, {"names": ["gone", "half", "off"]}),)
    shared = build(make_rule(4, who="everyone", flags=frozenset({"half"})))
    explainer = Explainer(shared, NOW, HERE)
    asked = [name(explainer.explain(Requester(user), ONE)) for user in (BOB, ALICE, BOB)]
    assert asked == [(4, [FLAGS]), (4, []), (4, [FLAGS])], "people share what was read, not the answer"


def test_a_denial_with_flags_is_an_obstacle_only_where_they_are_on() -> None:
    found = build(make_rule(1, who="everyone"), make_rule(2, "deny", who="everyone", flags=frozenset({"half"})))
    assert name(explain(found, ALICE)) == (1, ["deny 2"])
    assert name(explain(found, BOB)) == (1, [])
    assert name(explain(build(make_rule(1), make_rule(2, "deny", windows=SHUT)))) == (1, [])


def test_a_denial_with_conditions_is_an_obstacle_only_where_it_leaves_nothing() -> None:
    narrowing = build_with_arguments(make_rule(1), make_rule(2, "deny", conditions=EMEA))
    assert name(explain(narrowing, item=FIRST)) == (1, [])
    everything = build_with_arguments(make_rule(1), make_rule(2, "deny", conditions=EITHER))
    assert name(explain(everything, item=FIRST)) == (1, ["deny 2"])
    gone = [make_rule(1, target=("tool", 2)), make_rule(2, "deny", target=("tool", 2), conditions=SMALL)]
    found = explain(build_with_arguments(*gone), item=SECOND)
    assert name(found) == (1, ["deny 2"]), "the tool has no such argument any more, so that the denial is in doubt"


def test_of_denials_that_leave_nothing_together_only_those_that_must_go_are_named() -> None:
    apac = restrictions.make_conditions({"path": "/region", "op": "equals", "value": "apac"})
    found = build_with_arguments(
        make_rule(1), make_rule(2, "deny", conditions=EMEA), make_rule(3, "deny", conditions=apac)
    )
    assert name(explain(found, item=FIRST)) == (1, ["deny 3"])


def test_conditions_that_no_arguments_satisfy_are_named_with_their_mistake() -> None:
    (reason,) = explain(build_with_arguments(make_rule(4, conditions=ASIA)), item=FIRST).obstacles
    assert (reason.code, reason.params["mistake"].code) == (UNFIT, "impossible")
    (reason,) = explain(build_with_arguments(make_rule(4, target=("tool", 2), conditions=SMALL)), item=SECOND).obstacles
    assert (reason.code, reason.params["mistake"].code) == (UNFIT, "no_argument")
    denied = build_with_arguments(make_rule(4, conditions=EMEA), make_rule(5, "deny", conditions=EMEA))
    assert name(explain(denied, item=FIRST)) == (4, [UNFIT]), "either one of the two hides it"


def test_a_grant_that_ended_and_does_not_fit_says_both() -> None:
    found = build_with_arguments(make_rule(4, ends=NOW, conditions=ASIA))
    assert name(explain(found, item=FIRST)) == (4, [ENDED, UNFIT])


def test_a_grant_that_fits_is_nearer_than_one_that_does_not() -> None:
    found = build_with_arguments(make_rule(1, conditions=ASIA), make_rule(2, ends=NOW - 5, conditions=EMEA))
    assert name(explain(found, item=FIRST)) == (2, [ENDED])


def test_the_grant_that_decides_is_named_among_several_that_apply() -> None:
    grants = [make_rule(1, conditions=FIXED), make_rule(2, conditions=EMEA), make_rule(3, conditions=ASIA)]
    assert name(explain(build_with_arguments(*grants), item=FIRST)) == (2, [])
    assert name(explain(build_with_arguments(*grants, make_rule(9)), item=FIRST)) == (9, [])


def test_a_group_whose_denial_would_leave_nothing_is_no_way_to_an_item() -> None:
    grants = [make_rule(4, who=("group", SALES)), make_rule(5, "deny", who=("group", SALES), conditions=EITHER)]
    assert name(explain(build_with_arguments(*grants), item=FIRST)) == (None, ["rule.no_grant"])
    assert name(explain(build_with_arguments(*grants), item=SECOND)) == (None, ["rule.no_grant"])
    grants[1] = make_rule(5, "deny", who="everyone", conditions=LISTED)
    assert name(explain(build_with_arguments(*grants), item=FIRST)) == (None, ["rule.no_grant"]), (
        "the list has all regions for members"
    )
    assert name(explain(build_with_arguments(grants[0]), item=FIRST)) == (4, [NOT_MEMBER])


def test_a_grant_to_a_group_is_judged_with_the_lists_of_its_members() -> None:
    apac = restrictions.make_conditions({"path": "/region", "op": "equals", "value": "apac"})
    grants = [make_rule(4, who=("group", SALES), conditions=LISTED), make_rule(5, "deny", conditions=EMEA)]
    assert name(explain(build_with_arguments(*grants), item=FIRST)) == (4, [NOT_MEMBER])
    grants[1] = make_rule(5, "deny", conditions=apac)
    assert name(explain(build_with_arguments(*grants), item=FIRST)) == (4, [NOT_MEMBER])


def test_an_example_of_others_counts_only_with_their_flags_on() -> None:
    flagged: dict[str, Any] = {"who": ("user", BOB), "flags": frozenset({"half"})}
    assert name(explain(build(make_rule(4, **flagged)))) == (None, ["rule.no_grant"])
    assert name(explain(build(make_rule(4, **flagged), flags={"half": 100}))) == (4, [ONLY_OTHERS])


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
    environments=st.sampled_from([frozenset(), frozenset(), frozenset({HERE}), THERE]),
    windows=restrictions.WINDOWS,
    flags=restrictions.FLAG_NAMES,
).filter(lambda made: made.starts is None or made.ends is None or made.starts < made.ends)


@st.composite
def some_grants(draw: st.DrawFn) -> list[GrantRule]:
    grants = draw(st.lists(GRANTS, max_size=7, unique_by=lambda made: made.id))
    return [replace(made, conditions=draw(restrictions.conditions_for(made.effect))) for made in grants]


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
            case "obstacle.closed":
                assert near is not None
                grants[near.id] = replace(grants[near.id], windows=())
            case "obstacle.flags":
                assert near is not None
                grants[near.id] = replace(grants[near.id], flags=near.flags.difference(reason.params["names"]))
            case "obstacle.unfit":
                assert near is not None
                grants[near.id] = replace(grants[near.id], conditions=())
            case "obstacle.not_member":
                member = members[who.user_id]
                members[who.user_id] = replace(member, group_ids=member.group_ids | {reason.params["id"]})
            case "obstacle.only_others" | "rule.no_grant":
                grants[100] = make_rule(100, target=(item.kind, item.id), who=("user", who.user_id))
            case code:
                pytest.fail(f"an unknown obstacle: {code}")
    return build(*grants.values(), items=items.values(), members=members), who


@given(
    grants=some_grants(),
    user=st.sampled_from([ALICE, BOB, GONE]),
    toolsets=st.sampled_from([None, None, frozenset({FILES}), frozenset({NUMBERS}), frozenset()]),
    state=st.sampled_from(["on", "on", "on", "off", "quarantined", "unpinned"]),
)
@settings(bounded, max_examples=600)
def test_an_item_is_visible_exactly_without_obstacles_and_once_the_named_ones_are_removed(
    grants: list[GrantRule], user: int, toolsets: Any, state: str
) -> None:
    hidden, unpinned = state in {"quarantined", "unpinned"}, state == "unpinned"
    served = [replace(item, quarantined=hidden, unpinned=unpinned) for item in (FIRST, SECOND) if state != "off"]
    found, who = build(*grants, items=served), Requester(user, toolsets)
    explainer = obstacles.Explainer(found, NOW, HERE)
    for item in (FIRST, SECOND):
        decision, explanation = rules.decide(found, who, item, NOW, HERE), explainer.explain(who, item)
        assert decision.visible is (explanation.obstacles == ())
        if decision.visible:
            assert explanation.grant is not None
            assert explanation.grant.rule == decision.rule
            continue
        if decision.rule in {rules.NO_GRANT, rules.UNFIT}:
            own = {LATER, CLOSED, ENDED, ELSEWHERE, FLAGS, UNFIT, NOT_MEMBER, ONLY_OTHERS}
            assert rules.NO_GRANT in explanation.obstacles or explanation.codes <= own | {GRANT}
        else:
            assert explanation.obstacles[0] == decision.rule
        changed, asking = remove_obstacles(found, who, item, explanation)
        if state == "off":  # nothing is known of its arguments, and what its conditions hide, until it is switched on
            again = obstacles.explain(changed, asking, item, NOW, HERE)
            changed, asking = remove_obstacles(changed, asking, item, again)
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
