"""Rules in trial: they decide nothing, every look at all rules sees them, and what cannot be tried is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from catalog import checks
from catalog.approvals import inbox
from catalog.models import Approval, ApprovalRule, Flag, Grant, Limit, Tool
from catalog.models.rule_trials import MAX_TRIALS, CatalogueRule
from catalog.policy import visibility
from tests import factories
from tests.catalog.approval_rules import build_rule, make_customer_tool, make_rule
from tests.catalog.approvals.waiting import NAME, attempt
from tests.catalog.pipeline import publish, run_in_database

pytestmark = pytest.mark.django_db


def refuse(row: models.Model) -> str:
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    return " ".join(refused.value.messages)


# --- what cannot be tried --------------------------------------------------------------------------------------------


def test_a_rule_in_force_does_not_become_a_trial(alice: User) -> None:
    tool = factories.make_tool()
    for row in (factories.grant(alice, tool), factories.limit("3/m", tool), make_rule(tool=tool)):
        row.trial = True
        assert "it would stop to apply" in refuse(row)


def test_only_a_rule_in_trial_replaces_another_one(alice: User) -> None:
    tool = factories.make_tool()
    standing = factories.grant(alice, tool)
    row = Grant(user=alice, tool=tool, replaces=standing)
    assert "Only a rule in trial" in refuse(row)
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()


def test_a_trial_takes_the_place_of_a_rule_in_force_alone(alice: User) -> None:
    tool = factories.make_tool()
    first = factories.grant(alice, tool, trial=True)
    assert "is in trial itself" in refuse(Grant(user=alice, tool=tool, trial=True, replaces=first))
    first.replaces = first
    assert "is in trial itself" in refuse(first)
    gone = Grant(user=alice, tool=tool, trial=True, replaces_id=999_999)
    assert "deleted" in refuse(gone) or "does not exist" in refuse(gone)


def test_a_limit_of_a_method_cannot_be_tried() -> None:
    said = refuse(Limit(rate="3/m", method="tools/list", scope="each_user", trial=True))
    assert "cannot be in trial" in said and "Choose a tool" in said
    Limit(rate="3/m", all_tools=True, scope="each_user", trial=True).full_clean()


@pytest.mark.parametrize("trial", [False, True])
def test_an_approval_rule_is_not_for_a_grant_in_trial(alice: User, trial: bool) -> None:
    tool = make_customer_tool()
    tried, standing = factories.grant(alice, tool, trial=True), factories.grant(alice, tool)
    assert "The grant is in trial" in refuse(build_rule(grant=tried, trial=trial))
    build_rule(grant=standing, trial=trial).full_clean()


def test_a_trial_keeps_to_the_approval_rules_of_the_grant_that_it_replaces(alice: User) -> None:
    tool = make_customer_tool()
    standing = factories.grant(alice, tool)
    make_rule(name="Deletions", grant=standing, trial=True)
    denied = Grant(user=alice, tool=tool, effect="deny", trial=True, replaces=standing)
    assert "“Deletions”" in refuse(denied)
    standing.effect = "deny"
    assert "“Deletions”" in refuse(standing)


def test_so_many_rules_are_in_trial_and_no_more(alice: User) -> None:
    tool = factories.make_tool()
    for _ in range(MAX_TRIALS - 2):
        row = factories.grant(alice, tool, trial=True)
    factories.limit("3/m", tool, trial=True)
    make_rule(tool=tool, trial=True)
    for another in (
        Grant(user=alice, tool=tool, trial=True),
        Limit(rate="3/m", tool=tool, scope="each_user", trial=True),
        build_rule(name="Another", tool=tool, trial=True),
    ):
        assert f"{MAX_TRIALS} rules are in trial" in refuse(another)
    row.full_clean()
    Grant(user=alice, tool=tool).full_clean()


def test_names_are_free_of_those_in_trial_too() -> None:
    make_rule(name="Deletions", trial=True)
    assert "already exists" in refuse(build_rule(name="Deletions"))
    assert "upper and lower case" in refuse(build_rule(name="DELETIONS"))


def test_the_database_keeps_the_start_of_a_trial(alice: User) -> None:
    row = factories.grant(alice, factories.make_tool())
    for values in ({"trial": True}, {"trial_since": timezone.now()}, {"replaces": row}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Grant.everything.filter(pk=row.pk).update(**values)


# --- since when ------------------------------------------------------------------------------------------------------


def test_a_trial_begins_when_it_is_saved_and_again_when_it_decides_otherwise(alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True)
    begun = row.trial_since
    assert begun is not None
    row.note = "TICKET-1"
    row.save()
    assert Grant.everything.get().trial_since == begun
    row.effect = "deny"
    row.save(update_fields=["effect", "trial"])
    again = Grant.everything.get().trial_since
    assert again is not None and again > begun
    row.trial = False
    row.save()
    assert Grant.objects.get().trial_since is None


def test_the_state_of_a_rule_in_trial_is_that(alice: User) -> None:
    now, tool = timezone.now(), factories.make_tool()
    assert factories.grant(alice, tool, trial=True, ends=now).state_at(now, "production") == "trial"
    assert make_rule(tool=tool, trial=True, enabled=False).state_at(now) == "trial"


# --- what it decides: nothing ----------------------------------------------------------------------------------------


def test_every_model_with_trials_hides_them_unless_all_rows_are_named(alice: User) -> None:
    """A new kind of rule is found here by itself."""
    found: list[Any] = [model for model in apps.get_models() if "trial" in {one.name for one in model._meta.fields}]
    kinds = {model for model in found if hasattr(model, "history")}
    assert kinds == {Grant, Limit, ApprovalRule} == set(CatalogueRule.__subclasses__())
    tool = factories.make_tool(toolset="Numbers")
    factories.grant(alice, tool, trial=True)
    factories.limit("3/m", tool, trial=True)
    make_rule(factories.make_group("ops"), tool=tool, trial=True)
    for model in kinds:
        assert model._default_manager.count() == 0, model
        assert model.objects.count() == 0, model
        assert model.everything.count() == 1, model
        assert not model._default_manager.filter(trial=True).exists()
        for relation in Tool._meta.related_objects:
            if relation.related_model is model:
                assert getattr(tool, str(relation.get_accessor_name())).count() == 0, model


def test_a_grant_in_trial_gives_nobody_access(alice: User) -> None:
    tool, group = factories.make_tool(), factories.make_group(members=[alice])
    factories.grant(group, tool, trial=True)
    factories.limit("3/m", tool, group=group, trial=True)
    catalogue = factories.load()
    assert catalogue.grants == () and catalogue.limits == ()
    assert visibility.find_audience("tool", tool.pk).users == []


@pytest.mark.django_db(transaction=True)
async def test_a_call_is_decided_as_if_no_rule_were_in_trial(alice: User, bob: User) -> None:
    def prepare() -> None:
        tool = publish(alice, NAME)
        factories.deny(None, tool, trial=True)
        factories.grant(bob, tool, trial=True)
        factories.limit("1/d", tool, trial=True)
        make_rule(tool=tool, trial=True)
        make_rule(factories.make_group("ops", [bob]), name="All of it", all_tools=True, trial=True)

    await run_in_database(prepare)
    for _ in range(2):
        assert not (await attempt(alice)).is_error
    with pytest.raises(Exception, match="Unknown tool"):
        await attempt(bob)
    assert not await Approval.objects.aexists()


def test_a_rule_in_trial_makes_nobody_an_approver(alice: User) -> None:
    group = factories.make_group("ops", [alice])
    rule = make_rule(group, trial=True)
    assert not inbox.summarise(alice).takes_part
    assert not checks.check_approvers(None, ["default"])
    rule.trial = False
    rule.save()
    assert inbox.summarise(alice).takes_part


# --- where all rules count -------------------------------------------------------------------------------------------


def test_what_a_rule_in_trial_names_stays(alice: User) -> None:
    flag, tool = Flag.objects.create(name="beta"), factories.make_tool()
    grant = factories.grant(alice, tool, flags=["beta"], trial=True)
    with pytest.raises(ProtectedError) as refused, transaction.atomic():
        flag.delete()
    assert f"is used by grant {grant.pk}" in refused.value.args[0] and refused.value.protected_objects == {grant}
    flag.name = "other"
    assert "is used by grant" in refuse(flag)


def test_a_trial_goes_with_the_rule_in_whose_place_it_is_tried(alice: User) -> None:
    tool = factories.make_tool()
    standing = factories.grant(alice, tool)
    factories.deny(alice, tool, trial=True, replaces=standing)
    standing.delete()
    assert not Grant.everything.exists()


def test_english_names_say_that_a_rule_is_in_trial(alice: User) -> None:
    tool = factories.make_tool()
    grant, limit = factories.grant(alice, tool, trial=True), factories.limit("3/m", tool, trial=True)
    assert str(grant) == f"Grant {grant.pk} in trial: allow tool calculate_sum to user alice"
    assert str(limit).startswith(f"Limit {limit.pk} in trial: 3/m")
