"""Decisions about requests: each is made once, makes one grant, and can be undone while nobody changed that grant."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from audit.models import Action
from catalog.access_requests import decisions, requestable, submissions
from catalog.access_requests.decisions import Stale
from catalog.access_requests.submissions import Refused
from catalog.models import AccessRequest, Grant, Tool, Toolset
from catalog.policy import rules, snapshot
from catalog.policy.rules import Requester
from catalog.views.tools import visible_to
from tests import factories

pytestmark = pytest.mark.django_db


def ask(user: User, toolset: Toolset, tool: str = "") -> AccessRequest:
    choice = requestable.find_toolset(visible_to(user), toolset.pk)
    assert choice is not None
    return submissions.submit(user, choice, choice.find(tool) if tool else None, "For the report.")


def sees(user: User, tool: str) -> bool:
    catalogue = snapshot.latest()
    return rules.decide(catalogue, Requester(user.pk), catalogue.tools[tool], timezone.now().timestamp(), "").visible


def test_an_approval_makes_the_grant_of_the_toolset_with_the_reason_as_its_note(
    charlie: User, numbers: Toolset
) -> None:
    made = ask(charlie, numbers)
    assert not sees(charlie, "delete_rows")
    ends = timezone.now() + timedelta(days=7)
    decisions.approve(made.pk, "root", ends=ends, environments=("production",), answer="Have fun.")
    grant = Grant.objects.get()
    assert (grant.user, grant.toolset, grant.tool, grant.effect) == (charlie, numbers, None, "allow")
    assert (grant.ends, grant.environments, grant.note) == (ends, ["production"], "For the report.")
    made.refresh_from_db()
    assert (made.state, made.decided_by, made.grant, made.answer) == ("approved", "root", grant, "Have fun.")
    logged = Action.objects.get(kind="access request", verb="approved")
    assert logged.target == "toolset Numbers for charlie" and f'"grant":{grant.pk}' in logged.after


def test_an_approval_of_one_tool_grants_no_other(charlie: User, numbers: Toolset) -> None:
    decisions.approve(ask(charlie, numbers, "calculate_sum").pk, "root")
    assert sees(charlie, "calculate_sum") and not sees(charlie, "delete_rows")


def test_a_tool_that_left_the_toolset_is_granted_by_itself(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers, "calculate_sum")
    Tool.objects.get(name="calculate_sum").toolsets.clear()
    decisions.approve(made.pk, "root")
    assert sees(charlie, "calculate_sum") and not sees(charlie, "delete_rows")


@pytest.mark.parametrize("state", ["approved", "declined", "withdrawn", "gone"])
def test_what_was_decided_withdrawn_or_deleted_is_not_decided_again(
    charlie: User, numbers: Toolset, state: str
) -> None:
    made = ask(charlie, numbers)
    AccessRequest.objects.filter(pk=made.pk).update(state=state)
    for decide in (decisions.approve, decisions.decline):
        with pytest.raises(Stale):
            decide(made.pk, "root")
    assert not Grant.objects.exists() and AccessRequest.objects.get().state == state
    with pytest.raises(Stale):
        decisions.decline(999_999_999, "root")


def test_an_inactive_person_gets_no_grant_but_an_answer(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    User.objects.filter(pk=charlie.pk).update(is_active=False)
    with pytest.raises(Refused, match="not active"):
        decisions.approve(made.pk, "root")
    assert not Grant.objects.exists()
    assert decisions.decline(made.pk, "root").state == "declined"


def test_a_grant_that_cannot_be_saved_leaves_the_request_open(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    with pytest.raises(ValidationError):
        decisions.approve(made.pk, "root", environments=("not a name!",))
    with pytest.raises(ValidationError):
        decisions.approve(made.pk, "root", answer="x" * 501)
    made.refresh_from_db()
    assert made.is_open and not Grant.objects.exists()


def test_undoing_an_approval_revokes_its_grant_and_opens_the_request(charlie: User, numbers: Toolset) -> None:
    other = factories.grant(charlie, Tool.objects.get(name="calculate_sum"))
    made = ask(charlie, numbers)
    decisions.approve(made.pk, "root", ends=timezone.now() + timedelta(days=1), answer="Yes.")
    decisions.undo(made.pk)
    made.refresh_from_db()
    assert made.is_open and (made.decided_by, made.answer, made.grant, made.decided_at) == ("", "", None, None)
    assert list(Grant.objects.all()) == [other]
    with pytest.raises(Stale):
        decisions.undo(made.pk)


def test_a_grant_that_was_changed_since_is_kept_with_the_decision(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    decisions.approve(made.pk, "root")
    Grant.objects.update(note="Kept for the audit.")
    with pytest.raises(Refused, match="changed since"):
        decisions.undo(made.pk)
    made.refresh_from_db()
    assert made.state == "approved" and Grant.objects.exists()


@pytest.mark.parametrize("change", [{"conditions": [1]}, {"windows": [1]}, {"flags": ["beta"]}])
def test_a_grant_that_was_restricted_since_is_kept_as_well(
    charlie: User, numbers: Toolset, change: dict[str, Any]
) -> None:
    made = ask(charlie, numbers)
    decisions.approve(made.pk, "root")
    Grant.objects.update(**change)
    with pytest.raises(Refused, match="changed since"):
        decisions.undo(made.pk)


LATER = {"conditions", "windows", "flags", "trial", "trial_since", "replaces_id", "skips_approval"}


def test_an_approval_from_before_grants_had_conditions_can_be_undone(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    grant = decisions.approve(made.pk, "root").grant
    assert grant is not None
    columns = [field.attname for field in Grant._meta.concrete_fields]
    then = {name: getattr(grant, name) for name in columns if name not in LATER}
    digest = hashlib.sha256(json.dumps(then, sort_keys=True).encode()).hexdigest()
    AccessRequest.objects.filter(pk=made.pk).update(granted=digest)
    decisions.undo(made.pk)
    made.refresh_from_db()
    assert made.is_open


def test_a_decision_whose_grant_was_deleted_can_be_undone(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    decisions.approve(made.pk, "root")
    Grant.objects.all().delete()
    assert decisions.undo(made.pk).is_open


def test_a_decision_about_what_was_deleted_or_requested_again_is_not_undone(charlie: User, numbers: Toolset) -> None:
    first, second = ask(charlie, numbers, "delete_rows"), ask(charlie, numbers)
    decisions.approve(first.pk, "root")
    decisions.decline(second.pk, "root")
    ask(charlie, numbers)
    with pytest.raises(Refused, match="requested the same again"):
        decisions.undo(second.pk)
    Tool.objects.filter(name="delete_rows").delete()
    with pytest.raises(Refused, match="deleted"):
        decisions.undo(first.pk)
    assert set(AccessRequest.objects.filter(state="open").values_list("kind", flat=True)) == {"toolset"}


@pytest.mark.django_db(transaction=True)
def test_of_two_administrators_one_decides_and_the_other_is_told(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    together, told = threading.Barrier(2), []

    def decide(name: str, how: Any) -> None:
        together.wait()
        try:
            how(made.pk, name)
        except Stale:
            told.append(name)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=decide, args=("root", decisions.approve)),
        threading.Thread(target=decide, args=("rita", decisions.decline)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.refresh_from_db()
    assert told == [{"approved": "rita", "declined": "root"}[made.state]]
    assert Grant.objects.count() == (made.state == "approved")
