"""The one decision: denied unless granted, a deny beats every allow, the rule is named, time is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.policy import rules as policy
from catalog.policy.definitions import GrantRule, Member, Snapshot, ToolDefinition, fill_template
from catalog.policy.rules import Requester
from tests.bounded import bounded

ALICE, BOB, GONE = 1, 2, 3
ANALYSTS, FILES, NUMBERS = 10, 20, 21
NOW = 1_000.0


def tool(pk: int, *toolsets: int, **fields: Any) -> ToolDefinition:
    name = f"tool{pk}"
    values: dict[str, Any] = {
        "id": pk, "name": name, "title": "", "description": name, "input_schema": {}, "output_schema": None,
        "annotations": {}, "icons": [], "toolset_ids": frozenset(toolsets), "runner": "python_function", "settings": {},
        "timeout": 1.0, "max_argument_bytes": 1, "max_result_bytes": 1, "record_bodies": "whole",
        "task_support": "forbidden", "requires_capabilities": (), "hash": f"h{pk}", "wire_hash": f"f{pk}", "wire": {},
    }  # fmt: skip
    return ToolDefinition(**{**values, **fields})


def rule(
    pk: int, effect: str = "allow", target: tuple[str, int] = ("tool", 1), who: Any = "everyone", **fields: Any
) -> GrantRule:
    kind, key = who if isinstance(who, tuple) else (who, None)
    values: dict[str, Any] = {"starts": None, "ends": None, "environments": frozenset(), **fields}
    return GrantRule(
        id=pk, effect=effect, target_kind=target[0], target_id=target[1], subject_kind=kind, subject_id=key, **values,
    )  # fmt: skip


MEMBERS = {
    ALICE: Member("alice", True, frozenset({ANALYSTS})),
    BOB: Member("bob", True, frozenset()),
    GONE: Member("gone", False, frozenset({ANALYSTS})),
}
ONE, TWO = tool(1, FILES), tool(2, FILES, NUMBERS)


def catalogue(*rules: GrantRule) -> Snapshot:
    return Snapshot.build(revision=1, items=[ONE, TWO], grants=rules, members=MEMBERS)


def decide(
    found: Snapshot, user: int, item: Any = ONE, now: float = NOW, environment: str = "production", **who: Any
) -> Any:
    return policy.decide(found, Requester(user, **who), item, now, environment)


def test_nothing_is_visible_without_a_grant() -> None:
    decision = decide(catalogue(), ALICE)
    assert (decision.visible, decision.rule, decision.changes_at) == (False, policy.NO_GRANT, None)


@pytest.mark.parametrize("who", ["everyone", ("user", ALICE), ("group", ANALYSTS)])
@pytest.mark.parametrize("target", [("tool", 1), ("toolset", FILES)])
def test_a_grant_shows_the_tool_and_is_named(who: Any, target: tuple[str, int]) -> None:
    found = catalogue(rule(7, target=target, who=who))
    assert decide(found, ALICE) == policy.Decision(True, found.grants[0].rule, None)
    assert str(found.grants[0].rule).startswith("Grant 7: allow ")
    assert decide(found, BOB).visible is (who == "everyone")


def test_a_deny_overrides_every_allow_and_is_the_rule_that_is_named() -> None:
    found = catalogue(rule(1), rule(2, target=("toolset", FILES)), rule(3, "deny", who=("group", ANALYSTS)))
    assert decide(found, ALICE) == policy.Decision(False, found.grants[2].rule, None)
    assert found.grants[2].rule.params["number"] == 3
    assert decide(found, BOB).visible
    assert decide(found, ALICE, TWO).visible


def test_an_inactive_or_unknown_user_sees_nothing() -> None:
    found = catalogue(rule(1))
    assert decide(found, GONE) == policy.Decision(False, policy.INACTIVE, None)
    assert decide(found, 999) == policy.Decision(False, policy.NO_USER, None)
    assert policy.decide_all(found, Requester(GONE), NOW, "x").tools == {}


def test_a_tool_that_is_not_in_the_catalogue_is_not_visible() -> None:
    assert decide(catalogue(rule(1, target=("tool", 9))), ALICE, tool(9)).rule == policy.NOT_AVAILABLE


def test_a_grant_of_a_resource_is_none_of_the_tool_with_the_same_number() -> None:
    assert not decide(catalogue(rule(1, target=("resource", 1))), ALICE).visible


def test_a_grant_for_other_environments_does_not_count() -> None:
    found = catalogue(rule(1, environments=frozenset({"staging"})), rule(2, "deny", environments=frozenset({"test"})))
    assert not decide(found, ALICE).visible
    assert decide(found, ALICE, environment="staging").visible


def test_a_grant_starts_and_ends_at_its_exact_time() -> None:
    found = catalogue(rule(1, starts=NOW + 10, ends=NOW + 20))
    assert decide(found, ALICE) == policy.Decision(False, policy.NO_GRANT, NOW + 10)
    assert decide(found, ALICE, now=NOW + 10) == policy.Decision(True, found.grants[0].rule, NOW + 20)
    assert decide(found, ALICE, now=NOW + 20) == policy.Decision(False, policy.NO_GRANT, None)


def test_the_time_of_the_next_change_skips_grants_that_change_nothing() -> None:
    found = catalogue(rule(1, ends=NOW + 50), rule(2, starts=NOW + 5, ends=NOW + 9))
    assert decide(found, ALICE).changes_at == NOW + 50


def test_a_token_restricted_to_toolsets_shows_only_those() -> None:
    found = catalogue(rule(1, target=("toolset", FILES)))
    assert decide(found, ALICE, ONE, toolset_ids=frozenset({NUMBERS})).rule == policy.OTHER_TOOLSETS
    assert decide(found, ALICE, TWO, toolset_ids=frozenset({NUMBERS})).visible
    assert not decide(found, ALICE, TWO, toolset_ids=frozenset()).visible


def test_fingerprints_differ_exactly_when_the_list_shows_something_else() -> None:
    def prints(*items: ToolDefinition) -> str:
        found = Snapshot.build(items=items, grants=[rule(1, target=("toolset", FILES))], members=MEMBERS)
        return policy.decide_all(found, Requester(ALICE), NOW, "x").fingerprints["tools"]

    assert prints(ONE, TWO) == prints(TWO, ONE) == prints(replace(ONE, hash="behind the scenes"), TWO)
    assert len({prints(ONE, TWO), prints(ONE), prints(replace(ONE, wire_hash="other"), TWO), prints()}) == 4


TIMES = st.one_of(st.none(), st.sampled_from([NOW - 5, NOW, NOW + 5, NOW + 9]))
RULES = st.builds(
    rule,
    st.integers(1, 99),
    st.sampled_from(["allow", "allow", "deny"]),
    st.sampled_from([("tool", 1), ("tool", 2), ("toolset", FILES), ("toolset", NUMBERS), ("prompt", 1)]),
    st.sampled_from(["everyone", ("user", ALICE), ("user", BOB), ("group", ANALYSTS), ("group", 11)]),
    starts=TIMES,
    ends=TIMES,
    environments=st.sampled_from([frozenset(), frozenset({"production"}), frozenset({"test"})]),
)


@given(
    rules=st.lists(RULES, max_size=6, unique_by=lambda found: found.id),
    user=st.sampled_from([ALICE, BOB, GONE]),
    toolsets=st.sampled_from([None, frozenset({FILES}), frozenset({NUMBERS}), frozenset()]),
)
@settings(bounded, max_examples=120)
def test_the_list_and_the_single_decision_never_disagree(rules: Any, user: int, toolsets: Any) -> None:
    found, who = catalogue(*rules), Requester(user, toolsets)
    everything = policy.decide_all(found, who, NOW, "production")
    for item in (ONE, TWO):
        decision = policy.decide(found, who, item, NOW, "production")
        assert decision.visible is (item.name in everything.tools)
        if decision.visible:
            assert everything.tools[item.name] == (item, decision.rule)
        if decision.changes_at is not None:
            assert everything.changes_at is not None and everything.changes_at <= decision.changes_at
            assert policy.decide(found, who, item, decision.changes_at, "production") != replace(
                decision, changes_at=policy.decide(found, who, item, decision.changes_at, "production").changes_at
            )


def test_a_prompt_template_is_filled_once_and_without_expressions() -> None:
    assert fill_template("Hello {name}, {name}!", {"name": "{other}", "other": "x"}) == "Hello {other}, {other}!"
    assert fill_template('{"a": {name.real}} {unknown} {', {"name": "x"}) == '{"a": {name.real}} {unknown} {'
