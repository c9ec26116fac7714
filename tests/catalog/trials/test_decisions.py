"""Decisions about rules in trial: put in force with id and history, ended, and decided once."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from audit.models import Action
from catalog.models import ApprovalRule, Grant, Limit
from catalog.trials import decisions
from tests import factories
from tests.catalog.approval_rules import LARGE, make_customer_tool, make_rule

pytestmark = pytest.mark.django_db
GONE = "This rule is not in trial any more: someone put it in force or ended its trial."


def refuse(decide: object, *args: object) -> str:
    with pytest.raises(ValidationError) as refused:
        decide(*args)  # type: ignore[operator]
    return " ".join(refused.value.messages)


# --- what is not put in force -----------------------------------------------------------------------------------------


def test_a_rule_in_force_is_not_decided_about(alice: User) -> None:
    row = factories.grant(alice, factories.make_tool())
    assert refuse(decisions.put_in_force, row) == refuse(decisions.end, row) == GONE
    assert Grant.objects.get() == row


def test_of_two_decisions_the_second_is_refused(alice: User) -> None:
    tool = factories.make_tool()
    row = factories.grant(alice, tool, trial=True)
    same = Grant.everything.get(pk=row.pk)
    decisions.put_in_force(row)
    assert refuse(decisions.end, same) == refuse(decisions.put_in_force, same) == GONE
    tried = factories.deny(alice, tool, trial=True)
    decisions.end(Grant.everything.get(pk=tried.pk))
    assert refuse(decisions.put_in_force, tried) == GONE
    assert list(Grant.everything.all()) == [row]


@pytest.mark.parametrize("changed", ["tried", "replaced"])
def test_only_what_its_reader_saw_is_put_in_force(alice: User, changed: str) -> None:
    tool = factories.make_tool()
    standing = factories.grant(alice, tool)
    tried = factories.deny(alice, tool, trial=True, replaces=standing)
    seen = decisions.fingerprint(tried)
    row = tried if changed == "tried" else standing
    row.note = "TICKET-2"
    row.save()
    said = "The rule changed after you opened the page. Review it again."
    assert refuse(decisions.put_in_force, tried, seen) == refuse(decisions.end, tried, seen) == said
    decisions.put_in_force(tried, decisions.fingerprint(Grant.everything.get(pk=tried.pk)))
    assert Grant.objects.get().effect == "deny"


def test_what_could_not_be_saved_is_not_put_in_force(alice: User) -> None:
    tool = make_customer_tool()
    tried = factories.grant(alice, tool, trial=True, conditions=[LARGE])
    tool.input_schema = {"type": "object", "properties": {"place": {"type": "string"}}, "additionalProperties": False}
    tool.save()
    assert "There is no argument /amount." in refuse(decisions.put_in_force, tried)
    standing = factories.grant(alice, tool)
    make_rule(name="Deletions", grant=standing)
    denied = factories.deny(alice, tool, trial=True, replaces=standing)
    assert "“Deletions”" in refuse(decisions.put_in_force, denied)
    assert list(Grant.objects.values_list("effect", flat=True)) == ["allow"]
    assert Grant.everything.filter(trial=True).count() == 2


# --- put in force -----------------------------------------------------------------------------------------------------


def test_a_further_rule_is_applied_from_then_on(alice: User) -> None:
    tool = factories.make_tool()
    row = factories.grant(alice, tool, trial=True)
    assert factories.load().grants == ()
    applied = decisions.put_in_force(row)
    assert Grant.objects.get() == applied == row
    assert [rule.id for rule in factories.load().grants] == [row.pk]
    assert list(Grant.history.order_by("history_id").values_list("trial", flat=True)) == [True, False]


def test_a_replaced_grant_keeps_its_id_its_history_and_its_approval_rules(alice: User) -> None:
    tool = make_customer_tool()
    standing = factories.grant(alice, tool, note="TICKET-1")
    rule = make_rule(name="Deletions", grant=standing)
    tried = factories.grant(alice, tool, conditions=[LARGE], trial=True, replaces=standing)
    decisions.put_in_force(tried)
    applied = Grant.everything.get()
    assert applied.pk == standing.pk
    assert (applied.conditions, applied.note, applied.trial, applied.replaces_id) == ([LARGE], "", False, None)
    assert ApprovalRule.objects.get().grant == applied and rule.grant_id == applied.pk
    assert Grant.history.filter(id=standing.pk).count() == 2


def test_a_replaced_limit_has_the_new_rate() -> None:
    standing = factories.limit("3/m", factories.make_tool())
    decisions.put_in_force(factories.limit("9/m", trial=True, replaces=standing))
    row = Limit.objects.get()
    assert (row.pk, row.rate, row.tool, row.all_tools) == (standing.pk, "9/m", None, True)


def test_a_replaced_approval_rule_keeps_its_name() -> None:
    tool = make_customer_tool()
    standing = make_rule(name="Deletions", tool=tool)
    tried = make_rule(name="Deletions (trial)", tool=tool, conditions=[LARGE], trial=True, replaces=standing)
    decisions.put_in_force(tried)
    row = ApprovalRule.everything.get()
    assert (row.pk, row.name, row.conditions) == (standing.pk, "Deletions", [LARGE])


def test_decisions_are_in_the_admin_activity(alice: User) -> None:
    tool = factories.make_tool()
    standing = factories.grant(alice, tool)
    tried = factories.deny(alice, tool, trial=True, replaces=standing)
    other = factories.limit("3/m", tool, trial=True)
    begun = Action.objects.count()
    decisions.put_in_force(tried)
    decisions.end(other)
    logged = list(Action.objects.order_by("link").values_list("verb", "kind", "target")[begun:])
    assert [(verb, kind) for verb, kind, _target in logged] == [
        *(("changed", "grant"), ("put in force", "grant"), ("deleted", "grant"), ("deleted", "limit"))
    ]
    names = [target for _verb, _kind, target in logged]
    assert names[1] == f"Grant {standing.pk}: deny tool calculate_sum to user alice (id {standing.pk})"
    assert names[2].startswith(f"Grant {tried.pk} in trial") and names[3].startswith(f"Limit {other.pk} in trial")
