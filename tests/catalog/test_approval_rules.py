"""Approval rules: what they refuse, and what they keep when what they name goes away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from catalog import checks
from catalog.models import ApprovalRule
from tests import factories
from tests.catalog.approval_rules import HOURS, LARGE, build_rule, make_customer_tool, make_rule

pytestmark = pytest.mark.django_db


def find_errors(row: ApprovalRule) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    return dict(refused.value.message_dict)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", " large", "large ", "a\nb", "a\tb", "a\u2028b", "a\x9bb", "a\u202eb", "a\u200bb", "x" * 101]
)
def test_a_name_is_one_visible_line_of_at_most_100_characters(name: str) -> None:
    assert list(find_errors(build_rule(name=name))) == ["name"]


def test_two_rules_have_different_names() -> None:
    make_rule(name="Deletions")
    assert list(find_errors(build_rule(name="Deletions"))) == ["name"]
    assert "upper and lower case" in str(find_errors(build_rule(name="DELETIONS"))["name"])


def test_a_rule_has_exactly_one_target(alice: User) -> None:
    tool, toolset = make_customer_tool(toolset="Customers"), factories.make_toolset("Customers")
    grant = factories.grant(alice, tool)
    targets: dict[str, Any] = {"grant": grant, "tool": tool, "toolset": toolset, "all_tools": True}
    sentence = "Choose exactly one of grant, tool, toolset and all tools."
    assert sentence in find_errors(build_rule(all_tools=False))["tool"]
    for one in targets:
        for other in targets:
            if one != other:
                both = build_rule(**{one: targets[one], other: targets[other]})
                assert any(sentence in said for said in find_errors(both).values())
                with pytest.raises(IntegrityError), transaction.atomic():
                    both.save()
        build_rule(name=one, **{one: targets[one]}).full_clean()


def test_approvers_are_a_group_and_the_person_who_calls_is_none() -> None:
    group = factories.make_group("ops")
    assert find_errors(build_rule(asks="approvers"))["group"] == ["Choose the group whose members approve."]
    both = find_errors(build_rule(group, asks="person"))
    assert both["group"] == ["The rule asks the person who calls. Leave the approvers empty."]


def test_an_approver_does_not_answer_in_the_client_of_the_person_who_calls() -> None:
    errors = find_errors(build_rule(factories.make_group("ops"), accepts_client=True))
    assert errors["accepts_client"] == ["Approvers answer in the browser. Switch this off."]
    build_rule(asks="person", accepts_client=True).full_clean()


def test_outside_of_time_windows_needs_time_windows() -> None:
    errors = find_errors(build_rule(outside_windows=True))
    assert errors["outside_windows"] == ["Enter the time windows outside which the rule asks."]
    build_rule(outside_windows=True, windows=[HOURS]).full_clean()


@pytest.mark.parametrize("minutes", [0, 1441, -1])
def test_the_minutes_are_between_one_and_those_of_a_day(minutes: int) -> None:
    assert "minutes" in find_errors(build_rule(minutes=minutes))
    with pytest.raises(IntegrityError), transaction.atomic():
        build_rule(minutes=minutes).save()


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ({"path": "/place", "op": "equals", "value": 1}, "There is no argument /place."),
        ({"path": "/region", "op": "equals", "value": "mars"}, "No arguments of the tool satisfy the conditions."),
        ({"path": "/api_key", "op": "equals", "value": "x"}, "The argument /api_key is secret"),
        ({"path": "/customer", "op": "belongs_to", "list": "ours"}, "There is no value list “ours”."),
        ({"path": "/region", "op": "fixed", "value": "emea"}, "A rule that asks cannot fix a value. Use “equals”."),
        ({"path": "/region"}, "A condition is an object"),
        ("region", "A condition is an object"),
    ],
)
def test_conditions_fit_the_tool(condition: Any, sentence: str) -> None:
    errors = find_errors(build_rule(tool=make_customer_tool(), conditions=[condition]))
    assert sentence in " ".join(errors["conditions"])


def test_conditions_fit_a_tool_of_the_toolset_or_of_the_catalogue_or_of_the_grant(alice: User) -> None:
    toolset = factories.make_toolset("Customers")
    other = factories.make_tool("other", toolset=toolset)
    grants = [factories.grant(alice, toolset), factories.grant(alice, other)]
    for targets in ({"toolset": toolset}, {"all_tools": True}, {"grant": grants[0]}, {"grant": grants[1]}):
        assert "no argument /amount" in str(find_errors(build_rule(**targets, conditions=[LARGE])))
    make_customer_tool(toolset=toolset)
    fitting: list[dict[str, Any]] = [{"toolset": toolset}, {"all_tools": True}, {"grant": grants[0]}]
    for number, one in enumerate(fitting):
        make_rule(name=f"Rule {number}", **one, conditions=[LARGE])


def test_a_rule_for_a_grant_is_for_one_of_tools(alice: User) -> None:
    for item in (factories.make_prompt(), factories.make_resource()):
        errors = find_errors(build_rule(grant=factories.grant(alice, item)))
        assert errors == {"grant": ["Only calls of tools ask. Choose a grant of a tool or a toolset."]}


def test_a_rule_for_a_grant_is_for_one_that_allows(alice: User) -> None:
    errors = find_errors(build_rule(grant=factories.deny(alice, make_customer_tool())))
    assert errors == {"grant": ["This grant denies, so that no call needs an approval. Choose one that allows."]}


def test_a_grant_with_a_rule_keeps_allowing_tools(alice: User) -> None:
    tool, prompt = make_customer_tool(), factories.make_prompt()
    grant = factories.grant(alice, tool)
    make_rule(name="Deletions", grant=grant)
    said = "The approval rule “Deletions” is for calls that this grant allows. Change or delete that rule first."
    grant.effect = "deny"
    with pytest.raises(ValidationError) as refused:
        grant.full_clean()
    assert refused.value.message_dict == {"effect": [said]}
    grant.effect, grant.tool, grant.prompt = "allow", None, prompt
    with pytest.raises(ValidationError) as refused:
        grant.full_clean()
    assert refused.value.message_dict == {"prompt": [said]}
    grant.tool, grant.prompt = tool, None
    grant.full_clean()


# --- what stays ------------------------------------------------------------------------------------------------------


def test_a_rule_for_all_destructive_tools_asks_for_these_alone(alice: User) -> None:
    make_rule(factories.make_group("ops"), destructive_only=True)
    deletes, silent = make_customer_tool(), make_customer_tool("silent", destructive=None)
    reads = make_customer_tool("read_customer", destructive=None, read_only=True)
    catalogue = factories.load()
    assert set(catalogue.asks_by_tool) == {deletes.pk, silent.pk} and reads.pk not in catalogue.asks_by_tool


def test_a_rule_stays_without_approvers_when_its_group_is_deleted() -> None:
    group = factories.make_group("ops")
    rule = make_rule(group)
    group.delete()
    rule.refresh_from_db()
    assert (rule.asks, rule.group) == ("approvers", None)
    assert list(find_errors(rule)) == ["group"]


def test_the_state_of_a_rule_says_whether_it_asks_at_this_time() -> None:
    monday = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
    tuesday = monday + timedelta(days=1)
    inside, outside = build_rule(windows=[HOURS]), build_rule(windows=[HOURS], outside_windows=True)
    assert [inside.state_at(monday), inside.state_at(tuesday)] == ["in force", "closed"]
    assert [outside.state_at(monday), outside.state_at(tuesday)] == ["closed", "in force"]
    assert build_rule(enabled=False).state_at(monday) == "off"


def test_a_check_names_the_rules_that_nobody_can_approve(alice: User) -> None:
    group = factories.make_group("ops", [alice])
    make_rule(group, name="Deletions")
    make_rule(group, name="Resting", enabled=False)
    make_rule(name="Own")
    assert checks.check_approvers(None, databases=["default"]) == []
    alice.is_active = False
    alice.save()
    (warning,) = checks.check_approvers(None, databases=["default"])
    assert warning.id == "catalog.W006" and warning.msg.endswith("do not run: Deletions.")
    assert checks.check_approvers(None) == []
