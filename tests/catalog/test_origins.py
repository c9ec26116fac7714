"""From a call to the grant that decided, the tool, the user and the token, as far as the reader may view them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from audit.hooks import Related
from audit.models import Call
from catalog.models import Grant, Tool
from catalog.policy import messages
from catalog.policy.definitions import Rule
from tests import factories
from tests.audit.rows import build_call, save
from toolhub.access.models import AccessToken

pytestmark = pytest.mark.django_db


def make_call(alice: User, **values: Any) -> Call:
    return save(build_call(1, user=alice, started_at=timezone.now() + timedelta(minutes=5), **values))[0]


def related(viewer: User, call: Call) -> dict[str, Related]:
    client = Client()
    client.force_login(viewer)
    answer = client.get(reverse("admin:audit_call_change", args=[call.pk]))
    assert answer.status_code == 200
    return {one.title: one for one in answer.context["related"]}


def make_reader(*permissions: str) -> User:
    user = User.objects.create_user("reader", is_staff=True)
    for name in ("view_call", *permissions):
        user.user_permissions.add(Permission.objects.get(codename=name))
    return user


@pytest.fixture
def grant(alice: User) -> Grant:
    return factories.grant(alice, factories.make_tool("calculate_sum"), note="Ticket 7 \u202e for Alice")


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_reader_of_the_audit_log_alone_learns_nothing_of_other_rows(alice: User, grant: Grant) -> None:
    AccessToken.objects.issue(alice, "laptop")
    rule = messages.rule_of(grant)
    credential = f"token:{AccessToken.objects.get().pk}"
    call = make_call(alice, rule_reason=rule.text, target_id=grant.tool_id, credential_id=credential)
    assert related(make_reader(), call) == {}


@pytest.mark.parametrize("number", ["1", 0, -1, 2**70, True, None, [1], 1.5])
def test_a_rule_whose_number_was_edited_leads_nowhere(root: User, alice: User, number: Any) -> None:
    call = make_call(alice, rule_reason=Rule("rule.grant", {"number": number}).text)
    assert "Grant" not in related(root, call)


@pytest.mark.parametrize("number", ["1", 0, -1, 2**70, True, None, [1], 1.5])
def test_nor_does_one_that_lifted_an_approval(root: User, alice: User, grant: Grant, number: Any) -> None:
    rule = messages.rule_of(grant)
    call = make_call(alice, rule_reason=Rule(rule.code, {**rule.params, "lifted_by": number}).text)
    assert "Grant without approval" not in related(root, call)


@pytest.mark.parametrize("credential", ["token:", "token:x", "token:99999999999999999999", "admin:1", "nothing:1", ""])
def test_a_credential_that_is_no_row_leads_nowhere(root: User, alice: User, credential: str) -> None:
    call = make_call(alice, credential_id=credential, method="completion/complete", target_id=7)
    assert set(related(root, call)) == {"User"}


# --- what works ------------------------------------------------------------------------------------------------------


def test_the_rule_leads_to_the_grant_its_note_its_giver_and_its_history(root: User, alice: User, grant: Grant) -> None:
    Grant.history.update(history_user=root)
    call = make_call(alice, rule_reason=messages.rule_of(grant).text)
    found = related(root, call)["Grant"]
    assert found.name == f"Grant {grant.pk}: allow tool calculate_sum to user alice"
    assert found.url == reverse("admin:catalog_grant_change", args=[grant.pk])
    assert found.details[0].startswith("Created ") and found.details[0].endswith(" by root.")
    assert found.details[1] == "Note: Ticket 7 ⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩ for Alice"
    assert found.links == [("History", reverse("admin:catalog_grant_history", args=[grant.pk]))]


def test_a_call_without_approval_leads_to_the_grant_that_says_so(root: User, alice: User, grant: Grant) -> None:
    tool = Tool.objects.get()
    lifting = factories.grant(alice, tool, skips_approval=True, note="Every Monday")
    rule = messages.rule_of(grant)
    call = make_call(alice, rule_reason=Rule(rule.code, {**rule.params, "lifted_by": lifting.pk}).text)
    found = related(root, call)
    assert found["Grant"].url == reverse("admin:catalog_grant_change", args=[grant.pk])
    assert found["Grant without approval"].url == reverse("admin:catalog_grant_change", args=[lifting.pk])
    assert "Note: Every Monday" in found["Grant without approval"].details
    assert "Grant without approval" not in related(make_reader("view_tool"), call)


def test_a_grant_that_changed_after_the_call_says_so(root: User, alice: User, grant: Grant) -> None:
    call = save(build_call(1, user=alice, rule_reason=messages.rule_of(grant).text))[0]
    assert "Changed since this call. Its history has the earlier version." in related(root, call)["Grant"].details


def test_a_deleted_grant_names_who_deleted_it(root: User, alice: User, grant: Grant) -> None:
    call = make_call(alice, rule_reason=messages.rule_of(grant).text, target_id=grant.tool_id)
    number = grant.pk
    grant.delete()
    Grant.history.update(history_user=root)
    found = related(root, call)["Grant"]
    assert (found.name, found.url) == (str(number), "")
    assert any(text.startswith("Deleted ") and text.endswith(" by root.") for text in found.details)
    assert found.links == [("Admin activity", f"{reverse('admin:audit_action_changelist')}?kind=grant&verb=deleted")]
    assert "Deleted" not in str(related(make_reader("view_tool"), call))


def test_ids_are_names_and_lead_to_their_pages(root: User, alice: User, grant: Grant) -> None:
    AccessToken.objects.issue(alice, "laptop")
    token = AccessToken.objects.get()
    found = related(root, make_call(alice, target_id=grant.tool_id, credential_id=f"token:{token.pk}"))
    assert found["Tool"].url == reverse("admin:catalog_tool_change", args=[grant.tool_id])
    assert found["User"] == Related("User", "alice", reverse("admin:auth_user_change", args=[alice.pk]))
    assert found["Access token"].url == reverse("admin:access_accesstoken_change", args=[token.pk])
    gone = related(root, make_call_of_gone(alice))
    assert gone["Tool"].details == gone["Access token"].details == ["It no longer exists."]


def make_call_of_gone(alice: User) -> Call:
    return save(build_call(2, user=alice, target_id=999, credential_id="token:999"))[0]


def test_a_rate_limit_is_found_by_the_reason_of_the_rejection(root: User, alice: User) -> None:
    limit = factories.limit("1/m", factories.make_tool("limited"))
    reason = Rule("limit.reached", {**messages.rule_of(limit).params, "seconds": 3}).text
    found = related(root, make_call(alice, outcome="limited", detail_reason=reason))
    assert found["Limit"].url == reverse("admin:catalog_limit_change", args=[limit.pk])
