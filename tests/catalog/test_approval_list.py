"""Requests for approval in the admin: a list that changes nothing, for people who may view it alone."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from audit.models import Call
from catalog.approvals import decisions
from catalog.models import Approval, Tool
from tests import factories
from tests.catalog.approval_rules import sign_in
from tests.catalog.approvals.waiting import NAME, ask, attempt, make_rule
from tests.catalog.pipeline import publish, run_in_database
from tests.catalog.test_origins import make_reader, related

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "admin:catalog_approval_changelist"


def change_page(row: Approval) -> str:
    return reverse("admin:catalog_approval_change", args=[row.pk])


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code
    return html.unescape(answer.content.decode())


@pytest.fixture
async def asked(alice: User, bob: User) -> Approval:
    """What alice's call asked bob, who is the only approver; it waits."""

    def make() -> Tool:
        tool: Tool = publish(alice, NAME)
        make_rule(tool, factories.make_group("ops", [bob]))
        return tool

    await run_in_database(make)
    await ask(alice)
    return await Approval.objects.aget()


def store(row: Approval) -> dict[str, Any]:
    return dict(Approval.objects.filter(pk=row.pk).values()[0])


# --- refusals --------------------------------------------------------------------------------------------------------


def test_people_without_the_permission_see_no_request_and_no_argument(asked: Approval) -> None:
    for client in (sign_in(), sign_in("view_approvalrule", "change_approvalrule", "view_grant", "view_call")):
        for address in (reverse(LIST), change_page(asked)):
            answer = client.get(address)
            assert answer.status_code == 403 and "emea" not in answer.content.decode()
    reader = make_reader("view_tool")
    assert "Approval" not in related(reader, Call.objects.get(pk=asked.call_id))


def test_nobody_changes_adds_or_deletes_a_request_here(browser: Client, asked: Approval) -> None:
    before = store(asked)
    sent = {"state": "approved", "decided_by": "1", "seal": "x", "_save": "Save", "post": "yes"}
    for client in (browser, sign_in("view_approval")):
        add = reverse("admin:catalog_approval_add")
        delete = reverse("admin:catalog_approval_delete", args=[asked.pk])
        for address in (change_page(asked), add, delete):
            assert client.post(address, sent).status_code == 403
        chosen = {"action": "delete_selected", "_selected_action": str(asked.pk), "post": "yes"}
        client.post(reverse(LIST), chosen)
        for address in (add, delete):
            assert client.get(address).status_code == 403
    assert store(asked) == before


def test_digests_are_neither_shown_nor_filtered_by(browser: Client, asked: Approval) -> None:
    page = read(browser, change_page(asked)) + read(browser, reverse(LIST))
    for name in ("binding", "context", "seal"):
        assert str(getattr(asked, name)) not in page
        answer = browser.get(reverse(LIST), {f"{name}__startswith": str(getattr(asked, name))[:1]})
        assert answer.status_code in (302, 400)


# --- what it shows ---------------------------------------------------------------------------------------------------


def test_the_list_and_the_page_say_who_asks_what_and_who_decided(browser: Client, asked: Approval, bob: User) -> None:
    decisions.deny(asked.pk, bob, "Not today")
    Approval.objects.update(reason="Not\u202e today")  # as an earlier version could store it
    page = read(browser, reverse(LIST))
    for text in ("denied", NAME, "alice", "Tickets need a second person", "bob", str(asked.call_id)):
        assert text in page
    page = read(browser, change_page(asked))
    for text in ('"region": "emea"', "Not⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩ today", "test client 1", "laptop", "ops"):
        assert text in page
    assert reverse("admin:audit_call_change", args=[asked.call_id]) in page
    assert reverse("admin:catalog_approvalrule_change", args=[asked.rule_id]) in page


def test_who_may_not_read_the_audit_log_gets_no_link_to_it(asked: Approval) -> None:
    client = sign_in("view_approval")
    for address in (reverse(LIST), change_page(asked)):
        page = read(client, address)
        assert str(asked.call_id) in page
        assert reverse("admin:audit_call_change", args=[asked.call_id]) not in page
        assert reverse("admin:catalog_approvalrule_change", args=[asked.rule_id]) not in page


def test_a_request_whose_time_is_over_reads_expired_before_anything_stores_it(browser: Client, asked: Approval) -> None:
    Approval.objects.update(expires=asked.created)
    assert "expired" in read(browser, reverse(LIST)).split('id="result_list"')[-1]
    assert store(asked)["state"] == "waiting"


def test_a_person_is_deleted_with_their_requests(browser: Client, asked: Approval, alice: User) -> None:
    address = reverse("admin:auth_user_delete", args=[alice.pk])
    assert "Are you sure" in read(browser, address)
    assert browser.post(address, {"post": "yes"}).status_code == 302
    assert not User.objects.filter(username="alice").exists() and not Approval.objects.exists()


# --- the page of a call ----------------------------------------------------------------------------------------------


async def test_the_page_of_a_call_shows_the_approval_that_it_asked_for_or_used(
    root: User, asked: Approval, alice: User, bob: User
) -> None:
    await run_in_database(decisions.approve, asked.pk, bob)
    await attempt(alice)
    row = await Approval.objects.aget()
    waited = await Call.objects.aget(pk=row.call_id)
    ran = await Call.objects.aget(pk=str(row.used_by))
    found = await run_in_database(related, root, waited)
    assert found["Approval"].name == "used" and found["Approval"].url == change_page(row)
    assert found["Approval"].links == [("Call that ran", reverse("admin:audit_call_change", args=[ran.pk]))]
    assert found["Approval"].details[0] == "Rule: Tickets need a second person"
    assert found["Approval"].details[1].endswith(" by bob.")
    found = await run_in_database(related, root, ran)
    assert found["Approval"].links == [("Call that asked", reverse("admin:audit_call_change", args=[waited.pk]))]
    assert found["Grant"].name.endswith("allow tool call_ticket to user alice")
    assert "approved by bob" in json.dumps(ran.rule)
    reader = await run_in_database(make_reader, "view_tool")
    assert "Approval" not in await run_in_database(related, reader, ran)
