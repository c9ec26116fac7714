"""Trials in the admin of rules: who may, what the pages say, and the way of a change from a form into force."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog.models import ApprovalRule, Grant, Limit
from catalog.models.rule_trials import CatalogueRule
from catalog.policy import approval_texts
from tests import factories
from tests.catalog.approval_rules import HOURS, LARGE, make_customer_tool, make_rule, sign_in
from tests.catalog.test_admin import errors

pytestmark = pytest.mark.django_db
KINDS = ("grant", "limit", "approvalrule")
BANNER, OFFER = 'id="trial"', "Try a change first"


def address(row: CatalogueRule | str, page: str = "change") -> str:
    kind = row if isinstance(row, str) else row._meta.model_name
    keys = () if isinstance(row, str) else (row.pk,)
    return reverse(f"admin:catalog_{kind}_{page}", args=keys)


def read(client: Client, page: str, **query: Any) -> str:
    answer = client.get(page, query)
    assert answer.status_code == 200, answer.status_code
    return re.sub(r"\s+", " ", html.unescape(answer.content.decode()))


def said(answer: Any) -> str:
    return " ".join(str(one) for one in answer.context["messages"])


def make_rows(who: User, **fields: Any) -> dict[str, Any]:
    """A row of each kind, about one tool."""
    tool = make_customer_tool()
    return {
        "grant": factories.grant(who, tool, **fields),
        "limit": factories.limit("3/m", tool, **fields),
        "approvalrule": make_rule(tool=tool, name="Deletions", **fields),
    }


def confirm(client: Client, row: CatalogueRule, page: str = "put_in_force") -> Any:
    """Open a page that decides, and press its button."""
    seen = client.get(address(row, page)).context["seen"]
    return client.post(address(row, page), {"seen": seen}, follow=True)


def fill(row: Grant, **changes: Any) -> dict[str, Any]:
    """The form that tries a change of a grant."""
    sent = {"effect": row.effect, "tool": row.tool_id, "user": row.user_id, "trial": "True", "replaces": row.pk}
    return {name: value for name, value in {**sent, **changes}.items() if value is not None}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_only_view_reads_that_a_rule_is_in_trial_and_decides_nothing(alice: User, kind: str) -> None:
    row = make_rows(alice, trial=True)[kind]
    for client in (sign_in(f"view_{kind}"), sign_in(f"view_{kind}", f"add_{kind}")):
        page = read(client, address(row))
        assert BANNER in page and "applies nothing" in page
        assert address(row, "put_in_force") not in page and address(row, "end_trial") not in page
        for decision in ("put_in_force", "end_trial"):
            assert client.get(address(row, decision)).status_code == 403
            assert client.post(address(row, decision)).status_code == 403
    assert type(row).everything.get(pk=row.pk).trial


@pytest.mark.parametrize("kind", KINDS)
def test_changing_alone_puts_a_further_rule_in_force_and_no_replaced_one(alice: User, kind: str) -> None:
    rows = make_rows(alice)
    standing = rows[kind]
    tried = type(standing).everything.get(pk=standing.pk)
    tried.pk, tried.trial, tried.replaces, tried.note = None, True, standing, "tried"
    if kind == "approvalrule":
        tried.name = "Deletions (trial)"
    tried._state.adding = True
    tried.save()
    client = sign_in(f"view_{kind}", f"change_{kind}")
    assert address(tried, "put_in_force") not in read(client, address(tried))
    assert client.get(address(tried, "put_in_force")).status_code == 403
    assert client.post(address(tried, "put_in_force")).status_code == 403
    assert client.post(address(tried, "end_trial")).status_code == 403
    both = sign_in(f"view_{kind}", f"change_{kind}", f"delete_{kind}")
    assert "is in force." in said(confirm(both, tried))
    assert type(standing).everything.get().note == "tried"
    further = {
        "grant": lambda: factories.grant(alice, tried.tool, trial=True),
        "limit": lambda: factories.limit("9/m", trial=True),
        "approvalrule": lambda: make_rule(name="Further", all_tools=True, trial=True),
    }[kind]()
    assert "is in force." in said(confirm(sign_in(f"view_{kind}", f"change_{kind}"), further))


def test_who_may_not_add_is_offered_no_trial_and_who_may_not_view_reads_nothing_of_the_rule(alice: User) -> None:
    grant = factories.grant(alice, factories.make_tool(), note="TICKET-77")
    assert OFFER not in read(sign_in("view_grant", "change_grant", "delete_grant"), address(grant))
    assert OFFER in read(sign_in("view_grant", "add_grant"), address(grant))
    blind = read(sign_in("add_grant"), address("grant", "add"), replaces=grant.pk)
    absent = read(sign_in("add_grant"), address("grant", "add"), replaces=999_999)
    assert "TICKET-77" not in blind and BANNER not in blind and BANNER not in absent
    client = sign_in("add_grant")
    for number in (grant.pk, 999_999):
        assert "was deleted" in str(errors(client.post(address("grant", "add"), fill(grant, replaces=number))))


@pytest.mark.parametrize("given", ["", "x", "-1", "9" * 30, "0", "999999"])
def test_an_address_that_names_no_rule_in_force_gives_an_empty_form(browser: Client, given: str) -> None:
    assert BANNER not in read(browser, address("grant", "add"), replaces=given)


def test_a_change_of_what_is_gone_or_in_trial_is_refused_with_a_sentence(browser: Client, alice: User) -> None:
    standing = factories.grant(alice, factories.make_tool())
    tried = factories.deny(alice, factories.make_tool("other"), trial=True)
    for wrong in (999_999, tried.pk, "x"):
        found = errors(browser.post(address("grant", "add"), fill(standing, replaces=wrong)))
        assert list(found) == ["__all__"] and "was deleted" in str(found)
    found = errors(browser.post(address("grant", "add"), fill(standing, trial=None)))
    assert "Only a rule in trial" in str(found)
    assert Grant.everything.count() == 2


def test_a_form_never_switches_a_rule_in_force_off(browser: Client, alice: User) -> None:
    grant = factories.grant(alice, factories.make_tool())
    answer = browser.post(address(grant), fill(grant, replaces=None, note="sent by hand"))
    assert answer.status_code == 302
    assert Grant.objects.get().note == "sent by hand"


def test_a_limit_of_a_method_is_offered_no_trial(browser: Client) -> None:
    assert OFFER not in read(browser, address(factories.limit("3/m", "tools/list")))
    sent = {"rate": "3/m", "method": "tools/list", "scope": "each_user", "trial": "on"}
    assert "cannot be in trial" in str(errors(browser.post(address("limit", "add"), sent)))


def test_what_is_not_in_trial_any_more_is_decided_once(browser: Client, alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True)
    seen = browser.get(address(row, "put_in_force")).context["seen"]
    assert "is in force." in said(confirm(browser, row))
    for page in ("put_in_force", "end_trial"):
        for answer in (
            browser.post(address(row, page), {"seen": seen}, follow=True),
            browser.get(address(row, page), follow=True),
        ):
            assert "No rule in trial has this number" in said(answer)
    assert Grant.objects.get() == row


def test_what_changed_since_the_page_was_opened_is_read_again_first(browser: Client, alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True)
    seen = browser.get(address(row, "put_in_force")).context["seen"]
    row.note = "another"
    row.save()
    for sent in ({"seen": seen}, {}):
        answer = browser.post(address(row, "put_in_force"), sent, follow=True)
        assert "Review it again." in said(answer) and 'id="trial-decision"' in answer.content.decode()
    assert not Grant.objects.exists()


def test_what_cannot_be_in_force_is_said_on_the_page_of_the_rule(browser: Client, alice: User) -> None:
    tool = make_customer_tool()
    row = factories.grant(alice, tool, trial=True, conditions=[LARGE])
    tool.input_schema = {"type": "object", "properties": {"place": {"type": "string"}}, "additionalProperties": False}
    tool.save()
    answer = confirm(browser, row)
    assert "It cannot be put in force: " in said(answer) and "/amount" in said(answer)
    assert answer.request["PATH_INFO"] == address(row) and not Grant.objects.exists()


def test_a_decision_needs_the_token_of_its_form(root: User, alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(root)
    for page in ("put_in_force", "end_trial"):
        assert client.post(address(row, page)).status_code == 403
        assert client.put(address(row, page)).status_code in (403, 405)
    assert Grant.everything.get().trial


# --- the way of a change ----------------------------------------------------------------------------------------------


def test_a_new_rule_is_tried_first_with_a_tick(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    assert 'type="checkbox" name="trial"' in read(browser, address("grant", "add"))
    browser.post(address("grant", "add"), {"effect": "deny", "tool": tool.pk, "user": alice.pk, "trial": "on"})
    row = Grant.everything.get()
    assert row.trial and not Grant.objects.exists()
    page = read(browser, address(row))
    assert "In trial since" in page and 'name="trial"' not in page and 'name="replaces"' not in page
    browser.post(address(row), {"effect": "allow", "tool": tool.pk, "user": alice.pk})
    row.refresh_from_db()
    assert (row.trial, row.effect) == (True, "allow")


def test_a_change_of_a_grant_is_tried_and_put_in_force(browser: Client, alice: User) -> None:
    tool = make_customer_tool()
    grant = factories.grant(alice, tool, conditions=[LARGE], windows=[HOURS], note="TICKET-1")
    offered = re.search(rf'href="([^"]+)">{OFFER}', read(browser, address(grant)))
    assert offered is not None
    answer = browser.get(html.unescape(offered[1]))
    form = answer.context["adminform"].form
    assert form["replaces"].value() == grant.pk and form["trial"].value() is True
    assert (form["conditions"].initial, form["windows"].initial) == ([LARGE], [HOURS])
    page = html.unescape(answer.content.decode())
    assert f"You try a change of this rule: Grant {grant.pk}: allow tool delete_customer" in page
    assert "TICKET-1" in page and 'type="checkbox" name="trial"' not in page
    assert browser.post(address("grant", "add"), fill(grant, effect="deny")).status_code == 302
    tried = Grant.everything.get(trial=True)
    assert Grant.objects.get().effect == "allow" and tried.replaces == grant
    shown = read(browser, address(tried, "put_in_force"))
    assert "conditions" in shown and "Sales" not in shown and "TICKET-1" in shown
    answer = confirm(browser, tried)
    assert answer.request["PATH_INFO"] == address(grant)
    row = Grant.everything.get()
    assert (row.pk, row.effect, row.note) == (grant.pk, "deny", "")
    assert Action.objects.filter(verb="put in force", kind="grant").exists()


def test_a_change_of_an_approval_rule_gets_a_name_of_its_own(browser: Client) -> None:
    rule = make_rule(name="Deletions", tool=make_customer_tool())
    for number, expected in enumerate(("Deletions (changed)", "Deletions (changed 2)")):
        form = browser.get(address("approvalrule", "add"), {"replaces": rule.pk}).context["adminform"].form
        assert form["name"].value() == expected, number
        make_rule(name=expected, all_tools=True, trial=True, replaces=rule)
    long = make_rule(name="x" * 100, all_tools=True)
    form = browser.get(address("approvalrule", "add"), {"replaces": long.pk}).context["adminform"].form
    assert len(form["name"].value()) == 100 and form["name"].value().endswith(" (changed)")


def test_a_trial_ends_with_its_row_and_nothing_else(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    grant = factories.grant(alice, tool)
    tried = factories.deny(alice, tool, trial=True, replaces=grant)
    assert "The rule in force stays as it is." in read(browser, address(tried, "end_trial"))
    assert "is over" in said(confirm(browser, tried, "end_trial"))
    assert list(Grant.everything.all()) == [grant]
    assert Action.objects.filter(verb="deleted", kind="grant", target__startswith=f"Grant {tried.pk} in trial").exists()


def test_an_older_version_of_a_rule_in_force_does_not_bring_its_trial_back(browser: Client, alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True, note="first")
    confirm(browser, row)
    first = Grant.history.order_by("history_id").first()
    assert first is not None and first.trial
    page = reverse("admin:catalog_grant_simple_history", args=[row.pk, first.pk])
    answer = browser.post(page, fill(row, trial=None, replaces=None, note="restored"))
    assert answer.status_code == 302, errors(answer)
    assert Grant.objects.get().note == "restored"


def test_an_older_version_of_a_rule_in_trial_does_not_put_it_in_force(browser: Client, alice: User) -> None:
    row = factories.grant(alice, factories.make_tool(), trial=True, note="first")
    version = Grant.history.get()
    page = reverse("admin:catalog_grant_simple_history", args=[row.pk, version.pk])
    assert browser.post(page, fill(row, trial=None, replaces=None, note="restored")).status_code == 302
    row.refresh_from_db()
    assert (row.note, row.trial) == ("restored", True)


# --- lists and other pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_has_all_rules_says_which_are_in_trial_and_filters_them(
    browser: Client, alice: User, kind: str
) -> None:
    rows = make_rows(alice)
    standing = rows[kind]
    tried: Any = {
        "grant": lambda: factories.deny(alice, rows["grant"].tool, trial=True),
        "limit": lambda: factories.limit("9/m", trial=True),
        "approvalrule": lambda: make_rule(name="Tried", all_tools=True, trial=True),
    }[kind]()

    def listed(**query: str) -> set[int]:
        return {row.pk for row in browser.get(address(kind, "changelist"), query).context["cl"].result_list}

    assert listed() == {standing.pk, tried.pk}
    assert (listed(trial="yes"), listed(trial="no")) == ({tried.pk}, {standing.pk})
    assert "in trial" in read(browser, address(kind, "changelist"), trial="yes").partition('id="result_list"')[2]


def test_a_grant_in_trial_has_no_other_status(browser: Client, alice: User) -> None:
    factories.grant(alice, factories.make_tool(), trial=True)
    for when in ("now", "later", "over", "closed"):
        assert not browser.get(address("grant", "changelist"), {"when": when}).context["cl"].result_list


def test_an_approval_rule_is_offered_grants_in_force_alone(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    standing = factories.grant(alice, tool)
    factories.grant(alice, tool, trial=True)
    query = {"app_label": "catalog", "model_name": "approvalrule", "field_name": "grant", "term": ""}
    found = browser.get(reverse("admin:autocomplete"), query).json()["results"]
    assert [one["id"] for one in found] == [str(standing.pk)]


def test_who_deletes_a_tool_reads_which_of_its_rules_are_in_trial(browser: Client, alice: User) -> None:
    row = make_rows(alice, trial=True)["grant"]
    page = read(browser, reverse("admin:catalog_tool_delete", args=[row.tool_id]))
    assert f"Grant {row.pk}: allow tool delete_customer to user alice (in trial)" in page
    assert "(in trial)" in read(browser, reverse("admin:auth_user_delete", args=[alice.pk]))


def test_who_deletes_a_rule_reads_which_trials_go_with_it(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    grant = factories.grant(alice, tool)
    factories.deny(alice, tool, trial=True, replaces=grant)
    assert "deny tool calculate_sum to user alice (in trial)" in read(browser, address(grant, "delete"))


def test_the_meaning_of_an_approval_rule_says_that_it_is_in_trial(browser: Client) -> None:
    rule = make_rule(tool=make_customer_tool(), trial=True)
    says = "In trial: Calls of tool delete_customer ask the person who calls."
    assert approval_texts.describe_rule(rule, 0) == says and says in read(browser, address(rule))
    rule.enabled = False
    assert approval_texts.describe_rule(rule, 0).startswith("In trial: Switched off: ")


def test_pages_of_access_show_rules_in_force_alone(browser: Client, alice: User) -> None:
    rows = make_rows(alice, trial=True)
    tool = rows["grant"].tool
    for page in (
        reverse("pages:access-tool", args=[tool.pk]),
        f"{reverse('pages:view-as')}?user=alice&show=grants",
        reverse("admin:catalog_tool_change", args=[tool.pk]),
    ):
        shown = read(browser, page)
        assert f"/admin/catalog/grant/{rows['grant'].pk}/" not in shown, page
        assert "Deletions" not in shown, page
    assert browser.get(reverse("pages:revoke", args=[rows["grant"].pk])).status_code == 404
    assert (Limit.objects.count(), ApprovalRule.objects.count()) == (0, 0)
