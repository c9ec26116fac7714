"""Rules in trial: who sees which rules and which numbers, and what the page says of each."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from catalog.models import ApprovalRule, Grant, Tool
from catalog.trials import tally
from tests import factories
from tests.trial_notes import begin, log

pytestmark = pytest.mark.django_db
PAGE = "/admin/trials/"
READ_NO_CALLS = "You may not read the calls that this rule decides about."
ON_A = [{"path": "/a", "op": "equals", "value": 7}]
WORDS = re.compile(r"\s+")


def staff(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return sign_in(user)


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, query: str = "") -> str:
    factories.load()
    return WORDS.sub(" ", client.get(PAGE + query).content.decode())


def ask_rule(tool: Tool, **fields: Any) -> ApprovalRule:
    made: ApprovalRule = ApprovalRule.everything.create(
        name=fields.pop("name", "Numbers"), tool=tool, asks="person", **fields
    )
    return made


@pytest.fixture
def tool(db: None) -> Tool:
    return factories.make_tool()


@pytest.fixture
def denial(tool: Tool) -> Grant:
    return begin(factories.deny(None, tool, trial=True))


# --- refusals ----------------------------------------------------------------------------------------------------


def test_who_may_view_no_rules_does_not_get_the_page(alice: User, auditor_client: Client) -> None:
    assert sign_in(alice).get(PAGE).status_code == 302
    assert staff("sam", "view_tool").get(PAGE).status_code == 403
    assert auditor_client.get(PAGE).status_code == 403


def test_nothing_but_reading_is_answered(browser: Client) -> None:
    assert browser.post(PAGE).status_code == 405


def test_rules_of_a_kind_that_the_viewer_may_not_view_are_not_there(tool: Tool, denial: Grant) -> None:
    limit = begin(factories.limit("3/m", tool, trial=True))
    ask = begin(ask_rule(tool, trial=True))
    marks = {"view_grant": f"trial-grant-{denial.pk}", "view_limit": f"trial-limit-{limit.pk}"}
    marks["view_approvalrule"] = f"trial-approval_rule-{ask.pk}"
    for permission, mark in marks.items():
        text = read(staff(permission, permission))
        assert [other for other in marks.values() if f'id="{other}"' in text] == [mark]


def test_who_may_not_read_calls_gets_numbers_and_only_their_own_calls(tool: Tool, denial: Grant, alice: User) -> None:
    sam = staff("sam", "view_grant")
    theirs = log(alice, (denial, "allow", "deny"))
    own = log(User.objects.get(username="sam"), (denial, "allow", "deny"), number=1)
    text = read(sam)
    assert "2 calls would have been denied." in text
    assert "1 call of others is counted and not listed." in text
    assert "alice" not in text and str(theirs.pk) not in text
    assert reverse("access:call", args=[own.pk]) in text
    assert "/admin/audit/call/" not in text


def hide(tool: Tool, how: str) -> Any:
    """Something that looks at arguments of the tool's calls."""
    toolset = factories.make_toolset()
    match how:
        case "grant":
            return factories.grant(None, tool, conditions=ON_A)
        case "grant of a toolset":
            tool.toolsets.add(toolset)
            return factories.deny(None, toolset, conditions=ON_A)
        case "approval rule":
            return ask_rule(tool, conditions=ON_A)
        case "first time":
            return ask_rule(tool, first_time="/a")
        case "another trial":
            return factories.grant(None, tool, conditions=ON_A, trial=True)
        case "deleted since":
            factories.grant(None, tool, conditions=ON_A).delete()
        case "changed since":
            row = factories.grant(None, tool, conditions=ON_A)
            Grant.history.update(history_date=timezone.now() - timedelta(days=30))
            row.conditions = []
            row.save()
    return None


@pytest.mark.parametrize(
    "how",
    [
        *("grant", "grant of a toolset", "approval rule", "first time"),
        *("another trial", "deleted since", "changed since"),
    ],
)
def test_numbers_that_would_tell_arguments_are_not_shown(tool: Tool, denial: Grant, alice: User, how: str) -> None:
    log(alice, (denial, "allow", "deny"))
    hide(tool, how)
    factories.load()
    text = read(staff("sam", "view_grant"))
    assert READ_NO_CALLS in text
    assert "would have been" not in text


def test_who_may_not_read_calls_does_not_hear_of_each_one(tool: Tool, denial: Grant, alice: User) -> None:
    factories.grant(None, tool, conditions=ON_A)
    sam = staff("sam", "view_grant")
    answers = []
    for number in range(2):
        found = re.search(r'data-version="([^"]+)"', read(sam))
        assert found is not None
        call = log(alice, (denial, "allow", "deny"), number=number)
        answers.append((sam.get(f"{PAGE}?version={found[1]}").status_code, call.pk.hex in read(sam)))
    assert (204, False) in answers, answers  # one of them may be in the next minute


def test_a_rule_with_conditions_has_no_numbers_for_who_may_not_read_calls(tool: Tool, alice: User) -> None:
    own = begin(factories.deny(None, tool, trial=True, conditions=ON_A))
    replaced = factories.deny(None, tool, conditions=ON_A)
    free = begin(factories.deny(None, tool, trial=True, replaces=replaced))
    ask = begin(ask_rule(tool, trial=True, first_time="/a"))
    log(alice, (own, "allow", "deny"), (free, "deny", "allow"), (ask, "allow", "ask"))
    text = read(staff("sam", "view_grant", "view_approvalrule"))
    assert text.count(READ_NO_CALLS) == 3 and "would have" not in text


def test_conditions_of_another_item_hide_nothing(tool: Tool, denial: Grant, alice: User) -> None:
    factories.grant(None, factories.make_tool("other"), conditions=ON_A)
    log(alice, (denial, "allow", "deny"))
    assert "1 call would have been denied." in read(staff("sam", "view_grant"))


# --- what it shows -----------------------------------------------------------------------------------------------


def test_without_trials_it_says_what_one_is_and_where_to_begin(browser: Client, tool: Tool) -> None:
    text = read(browser)
    assert "No rule is in trial." in text
    assert '/admin/catalog/grant/add/?trial=1"' in text and '/admin/catalog/limit/add/?trial=1"' in text
    viewer = read(staff("sam", "view_grant"))
    assert "No rule is in trial." in viewer and "/add/?trial=1" not in viewer


def test_each_rule_says_what_it_would_have_changed_with_links_to_the_calls(
    browser: Client, tool: Tool, denial: Grant, alice: User
) -> None:
    replaced = factories.grant(None, tool)
    narrowed = begin(factories.grant(alice, tool, trial=True, replaces=replaced), days=2)
    call = log(alice, (denial, "allow", "deny"), (narrowed, "allow", "ask"))
    text = read(browser)
    assert text.index(f"trial-grant-{denial.pk}") < text.index(f"trial-grant-{narrowed.pk}")
    assert "1 call would have been denied." in text and "1 call would have asked for approval." in text
    assert "allowed → denied" in text and "allowed → asks for approval" in text
    assert reverse("admin:audit_call_change", args=[call.pk]) in text
    assert f"Grant {replaced.pk}: allow tool calculate_sum to everyone" in text


def test_a_rule_that_changed_nothing_says_so(browser: Client, denial: Grant) -> None:
    assert "No call would have had another answer so far." in read(browser)


@pytest.mark.parametrize(
    ("permissions", "texts"),
    [
        ((), []),
        (("delete_grant",), ["End trial"]),
        (("change_grant",), ["Replay"]),
        (("change_grant", "delete_grant"), ["Put in force", "End trial", "Replay"]),
    ],
)
def test_only_decisions_that_the_viewer_may_make_are_offered(
    tool: Tool, permissions: tuple[str, ...], texts: list[str]
) -> None:
    factories.deny(None, tool, trial=True, replaces=factories.grant(None, tool))
    text = read(staff("sam", "view_grant", *permissions))
    assert re.findall(r'aria-describedby="trial-grant-[0-9]+-title">([^<]+)</a>', text) == texts


def test_texts_of_calls_are_shown_as_text(browser: Client, denial: Grant, alice: User) -> None:
    log(alice, (denial, "allow", "deny"), name="<script>x</script>\u202e")
    text = read(browser)
    assert "<script>x" not in text and "&lt;script&gt;x&lt;/script&gt;" in text and "\u202e" not in text


def test_a_rule_that_was_changed_during_its_trial_says_when(browser: Client, denial: Grant) -> None:
    Grant.history.update(history_date=denial.trial_since)
    assert "earlier calls were decided by the rule as it was" not in read(browser)
    denial.note = "Narrower."
    denial.save()
    assert "earlier calls were decided by the rule as it was" in read(browser)


def test_more_calls_than_are_counted_are_said(
    browser: Client, denial: Grant, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MAX_READ_CALLS", 2)
    for number in range(3):
        log(alice, (denial, "allow", "deny"), number=number)
    text = read(browser)
    assert "The newest 2 calls are counted, back to" in text and "2 calls would have been denied." in text


def test_a_page_that_is_up_to_date_gets_no_other_one(browser: Client, denial: Grant, alice: User) -> None:
    found = re.search(r'data-version="([^"]+)"', read(browser))
    assert found is not None
    address = f"{PAGE}?version={found[1]}"
    assert browser.get(address).status_code == 204
    log(alice, (denial, "allow", "deny"))
    again = browser.get(address)
    assert again.status_code == 200 and "1 call would have been denied." in WORDS.sub(" ", again.content.decode())
    assert browser.get(f"{PAGE}?version=nonsense").status_code == 200


def test_more_rules_than_fit_are_on_further_pages(browser: Client, tool: Tool) -> None:
    rows = [factories.deny(None, tool, trial=True) for _ in range(25)]
    first, second = read(browser), read(browser, "?page=2")
    assert first.count("data-trial ") == 20 and second.count("data-trial ") == 5
    assert f"trial-grant-{rows[-1].pk}" in first and f"trial-grant-{rows[0].pk}" in second


def test_more_rules_cost_no_more_queries(browser: Client, tool: Tool, alice: User) -> None:
    def measure() -> int:
        factories.load()
        with CaptureQueriesContext(connection) as captured:
            browser.get(PAGE)
        return len(captured)

    for _ in range(2):
        log(alice, (begin(factories.deny(None, tool, trial=True)), "allow", "deny"))
    before = measure()
    for number in range(8):
        log(alice, (begin(factories.deny(None, tool, trial=True)), "allow", "deny"), number=number + 1)
    assert measure() <= before


def test_the_sidebar_leads_there_for_who_may_view_rules_of_any_kind(browser: Client) -> None:
    link = f'href="{PAGE}"'
    assert link in browser.get("/admin/").content.decode()
    assert link in staff("limits", "view_limit").get("/admin/").content.decode()
    assert link not in staff("tools", "view_tool").get("/admin/").content.decode()


@pytest.fixture
def auditor_client(db: None) -> Client:
    return staff("audrey", "view_call")
