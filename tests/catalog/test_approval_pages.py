"""The pages on which people approve calls: whose requests they show, who may decide, and what they read before."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone

from audit.models import Call
from catalog.approvals import bindings, decisions, inbox
from catalog.errors import InvalidArguments, NotApproved
from catalog.models import Approval, ApprovalRule, Tool
from tests import factories
from tests.catalog import approval_rows
from tests.catalog.approval_rows import CALL, RAN, ask, call, make_rule

pytestmark = pytest.mark.django_db(transaction=True)
VERBS = ("approve", "deny", "withdraw")
Open = Callable[..., Client]


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    RAN.clear()


@pytest.fixture
def finance(bob: User) -> Group:
    """Bob approves."""
    return factories.make_group("finance", [bob])


@pytest.fixture
def rule(finance: Group) -> ApprovalRule:
    return make_rule(finance)


@pytest.fixture
def row(alice: User, rule: ApprovalRule) -> Approval:
    """Alice's call waits for finance."""
    return ask(alice)


@pytest.fixture
def sign_in() -> Open:
    def open_browser(user: User, **options: Any) -> Client:
        client = Client(**options)
        client.force_login(user)
        return client

    return open_browser


def address(row: Approval, verb: str = "") -> str:
    return f"/approvals/{row.pk}/{verb + '/' if verb else ''}"


def read(client: Client, path: str = "/approvals/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def send(client: Client, row: Approval, verb: str, **fields: str) -> str:
    """The page after a decision."""
    answer = client.post(address(row, verb), fields, follow=True)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def state_of(row: Approval) -> str:
    return str(Approval.objects.values_list("state", flat=True).get(pk=row.pk))


def section(text: str, name: str) -> str:
    """The part of a page below this heading; empty when the page has none."""
    _before, found, after = text.partition(f'id="{name}-title"')
    return after.partition("</section>")[0] if found else ""


# --- refusals ------------------------------------------------------------------------------------------------------


def test_nobody_who_is_not_signed_in_reads_counts_or_decides(row: Approval) -> None:
    for path in ("/approvals/", "/approvals/count/", address(row)):
        assert Client().get(path)["Location"].startswith("/sign-in/")
    for verb in VERBS:
        assert Client().post(address(row, verb))["Location"].startswith("/sign-in/")
    assert state_of(row) == "waiting"


def test_a_request_of_others_reads_as_one_that_does_not_exist(
    row: Approval, charlie: User, root: User, sign_in: Open
) -> None:
    for user in (charlie, root):
        client = sign_in(user)
        assert approval_rows.TOOL not in read(client)
        for path in (address(row), f"/approvals/{uuid.uuid4()}/"):
            assert client.get(path).status_code == 404
            assert {client.post(f"{path}{verb}/").status_code for verb in VERBS} == {404}
            assert client.post(f"{path}deny/", {"reason": "x" * 501}).status_code == 404
    assert state_of(row) == "waiting"


def test_who_leaves_the_group_has_nothing_to_read_or_decide(
    row: Approval, bob: User, finance: Group, sign_in: Open
) -> None:
    client = sign_in(bob)
    assert approval_rows.TOOL in read(client)
    bob.groups.remove(finance)
    assert approval_rows.TOOL not in read(client)
    assert client.get(address(row)).status_code == client.post(address(row, "approve")).status_code == 404
    assert state_of(row) == "waiting"


def test_a_decision_takes_a_post_with_the_token_of_a_form(row: Approval, bob: User, sign_in: Open) -> None:
    client = sign_in(bob, enforce_csrf_checks=True)
    for verb in VERBS:
        assert client.get(address(row, verb)).status_code == 405
        assert client.post(address(row, verb)).status_code == 403
    for path in ("/approvals/", "/approvals/count/", address(row)):
        assert sign_in(bob).post(path).status_code == 405
    assert state_of(row) == "waiting"


def test_with_four_eyes_nobody_approves_or_denies_their_own_call(
    row: Approval, alice: User, finance: Group, sign_in: Open
) -> None:
    alice.groups.add(finance)
    client = sign_in(alice)
    text = read(client, address(row))
    assert "You cannot approve your own call." in text
    assert address(row, "approve") not in text and address(row, "deny") not in text
    assert address(row) not in section(read(client), "waiting")
    for verb in ("approve", "deny"):
        assert "You cannot approve your own call." in send(client, row, verb)
    assert state_of(row) == "waiting"


def test_nobody_approves_a_call_that_they_made_in_the_name_of_another(
    rule: ApprovalRule, alice: User, root: User, finance: Group, sign_in: Open
) -> None:
    root.groups.add(finance)
    row = ask(alice, maker_id=root.pk)
    client = sign_in(root)
    text = read(client, address(row))
    assert "You cannot approve your own call." in text and "Made by" in text
    assert "You cannot approve your own call." in send(client, row, "approve")
    assert state_of(row) == "waiting"


def test_the_person_who_calls_decides_nothing_that_a_group_is_asked(row: Approval, alice: User, sign_in: Open) -> None:
    client = sign_in(alice)
    text = read(client, address(row))
    assert "waits for one member of the group finance" in text and address(row, "approve") not in text
    assert client.post(address(row, "approve")).status_code == client.post(address(row, "deny")).status_code == 404
    assert state_of(row) == "waiting"


def test_a_reason_that_is_too_long_denies_nothing_and_is_still_in_the_form(
    row: Approval, bob: User, sign_in: Open
) -> None:
    reason = "x" * 501
    text = send(sign_in(bob), row, "deny", reason=reason)
    assert reason in text and "at most 500 characters" in text and state_of(row) == "waiting"


def test_nobody_but_the_person_who_calls_withdraws(row: Approval, bob: User, sign_in: Open) -> None:
    client = sign_in(bob)
    assert client.post(address(row, "withdraw")).status_code == 404
    assert address(row, "withdraw") not in read(client, address(row)) + read(client)
    assert state_of(row) == "waiting"


# --- the second decision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "said"), [("approve", "bob approved this call"), ("deny", "bob denied this call")])
@pytest.mark.parametrize("second", ["approve", "deny"])
def test_the_second_of_two_approvers_is_told_who_decided_and_when(
    row: Approval, bob: User, charlie: User, finance: Group, sign_in: Open, first: str, said: str, second: str
) -> None:
    charlie.groups.add(finance)
    send(sign_in(bob), row, first)
    decided = state_of(row)
    text = send(sign_in(charlie), row, second)
    assert f"{said} before you, on {timezone.localtime():%Y-%m-%d}" in text and "Nothing changed." in text
    assert state_of(row) == decided and address(row, "approve") not in text


def test_what_changed_after_the_call_asked_is_void_and_the_page_says_so(
    row: Approval, bob: User, sign_in: Open
) -> None:
    Tool.objects.filter(name=approval_rows.TOOL).update(description="Deletes everything.")
    client = sign_in(bob)
    text = send(client, row, "approve")
    assert "so the request is void" in text and "alice calls the tool again" in text
    assert state_of(row) == "void" and address(row, "approve") not in text
    assert address(row) not in section(read(client), "waiting")


def test_a_request_whose_time_is_over_cannot_be_decided(row: Approval, bob: User, alice: User, sign_in: Open) -> None:
    row.expires = timezone.now() - timedelta(seconds=1)
    row.seal = bindings.seal(row)  # as if it had been made earlier
    row.save()
    client = sign_in(bob)
    assert "Nobody decided in time." in read(client, address(row))
    assert "The time for this request is over." in send(client, row, "approve")
    assert state_of(row) != "approved"
    assert address(row) not in section(read(client), "waiting")
    assert address(row) in section(read(sign_in(alice)), "recent")


def test_a_withdrawn_request_cannot_be_approved(row: Approval, alice: User, bob: User, sign_in: Open) -> None:
    text = send(sign_in(alice), row, "withdraw")
    assert "You withdrew this request." in text and state_of(row) == "withdrawn"
    assert "alice withdrew this request." in send(sign_in(bob), row, "approve")
    assert "alice withdrew this request." in send(sign_in(alice), row, "withdraw")
    assert state_of(row) == "withdrawn"


def test_an_approval_that_was_used_is_over_for_everybody(row: Approval, alice: User, bob: User, sign_in: Open) -> None:
    send(sign_in(bob), row, "approve")
    call(alice)
    assert "has run already" in send(sign_in(bob), row, "deny")
    assert "has run already" in send(sign_in(alice), row, "withdraw")
    assert state_of(row) == "used"


# --- decisions -----------------------------------------------------------------------------------------------------


def test_an_approved_call_runs_once_and_both_calls_lead_to_the_approval(
    row: Approval, alice: User, bob: User, charlie: User, sign_in: Open
) -> None:
    assert "You approved this call. It can run once." in send(sign_in(bob), row, "approve")
    assert RAN == []
    result = call(alice)
    assert RAN == ["invoices"] and state_of(row) == "used"
    with pytest.raises(NotApproved):
        call(alice)
    assert RAN == ["invoices"]
    mine = sign_in(alice)
    assert f'href="{address(row)}"' in read(mine, f"/calls/{result.call_id}/")
    waited = read(mine, f"/calls/{row.call_id}/")
    assert f'href="{address(row)}"' in waited and "Waiting for approval" in waited and 'id="report"' not in waited
    assert f"/calls/{result.call_id}/" in read(mine, address(row))
    assert "/calls/" not in read(sign_in(bob), address(row)).replace('href="/calls/"', "")


def test_a_denial_has_the_reason_that_the_model_reads(row: Approval, alice: User, bob: User, sign_in: Open) -> None:
    text = send(sign_in(bob), row, "deny", reason="Use <b>archive_rows</b> instead.")
    assert "You denied this call." in text and "Use &lt;b&gt;archive_rows&lt;/b&gt; instead." in text
    with pytest.raises(NotApproved, match="bob denied this call: Use <b>archive_rows</b> instead"):
        call(alice)
    assert RAN == [] and state_of(row) == "denied"
    assert "bob denied this call" in read(sign_in(alice), address(row))


def test_a_person_confirms_their_own_call_where_the_rule_asks_them(alice: User, sign_in: Open) -> None:
    make_rule()
    row = ask(alice)
    client = sign_in(alice)
    assert address(row) in section(read(client), "waiting") and section(read(client), "own") == ""
    send(client, row, "approve")
    assert address(row) in section(read(client), "own"), "it can still be withdrawn"
    call(alice)
    assert RAN == ["invoices"]


def test_an_approval_that_was_not_used_can_be_withdrawn(row: Approval, alice: User, bob: User, sign_in: Open) -> None:
    send(sign_in(bob), row, "approve")
    send(sign_in(alice), row, "withdraw")
    assert state_of(row) == "withdrawn"
    with pytest.raises(NotApproved):
        call(alice)
    assert RAN == []


# --- what the pages say --------------------------------------------------------------------------------------------


def test_the_list_names_the_tool_the_person_the_client_the_rule_and_the_arguments(
    row: Approval, bob: User, alice: User, sign_in: Open
) -> None:
    waiting = section(read(sign_in(bob)), "waiting")
    rule = "Rule: Deletions need a second person"
    for words in ("delete_rows", "alice", "Claude Code 2.1", rule, "rows: 5000", "Time left"):
        assert words in waiting
    mine = read(sign_in(alice))
    assert address(row, "withdraw") in section(mine, "own") and address(row) not in section(mine, "waiting")


def test_an_empty_page_says_what_it_is_for(charlie: User, sign_in: Open) -> None:
    text = read(sign_in(charlie))
    assert "Some calls ask a person before they run." in text and "Nothing waits for you." in text
    assert 'href="/calls/"' in text and section(text, "own") == section(text, "recent") == ""


def test_the_page_says_what_the_tool_does_who_asks_with_what_and_why(
    alice: User, bob: User, finance: Group, sign_in: Open
) -> None:
    make_rule(finance, conditions=[approval_rows.MANY])
    row = ask(alice)
    text = read(sign_in(bob), address(row))
    for words in ("Delete rows", "Deletes rows for good.", "may delete or overwrite data", "alice", "Claude Code 2.1",
                  "laptop", "Deletions need a second person", "rows is at least 1000"):  # fmt: skip
        assert words in text, words
    arguments = section(text, "arguments")
    assert arguments.index(">rows<") < arguments.index(">table<"), "what the rule asks about is first"
    assert "the rule asks about this" in arguments and "The table to delete from." in arguments


def test_arguments_are_text_with_their_invisible_characters_and_nested_ones_are_indented(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open
) -> None:
    row = ask(alice, {"table": "a<script>\u202eb", "where": {"id": [1, {"deep": True}]}, "rows": 1})
    arguments = section(read(sign_in(bob), address(row)), "arguments")
    assert "a&lt;script&gt;⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b" in arguments and "\u202e" not in arguments
    assert "      &quot;deep&quot;: true" in arguments


def test_secrets_are_hidden_and_the_page_says_so(rule: ApprovalRule, alice: User, bob: User, sign_in: Open) -> None:
    row = ask(alice, {"table": "invoices", "password": "correct-horse"})
    text = read(sign_in(bob), address(row))
    assert "correct-horse" not in text and "Secret values are hidden here." in text
    assert "hidden, 13 characters" in section(text, "arguments")
    plain = ask(alice, {"table": "orders"})
    assert "Secret values are hidden here." not in read(sign_in(bob), address(plain))


def test_arguments_that_are_too_large_to_be_stored_are_named_as_such(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open
) -> None:
    row = ask(alice)
    with pytest.raises(InvalidArguments):
        call(alice, {"table": "x" * 70_000})
    row.arguments = '{"$redacted":"too large to record"}'
    row.seal = bindings.seal(row)
    row.save()
    text = read(sign_in(bob), address(row))
    assert "nobody can read them here" in text
    assert "too large to show" in read(sign_in(bob))


def test_nothing_of_what_is_stored_is_cut(rule: ApprovalRule, alice: User, bob: User, sign_in: Open) -> None:
    row = ask(alice, {"table": "x" * 50_000 + "end", "where": {"n": ["y"] * 500 + ["last"]}})
    arguments = section(read(sign_in(bob), address(row)), "arguments")
    assert "xend" in arguments and "last" in arguments


def test_earlier_calls_show_status_and_time_and_their_arguments_only_to_who_may_read_them(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open
) -> None:
    first = ask(alice, {"table": "orders"})
    client = sign_in(bob)
    send(client, first, "approve")
    ran = call(alice, {"table": "orders"}).call_id
    row = ask(alice)
    text = read(client, address(row))
    earlier = section(text, "calls")
    assert "Success" in earlier and "orders" not in earlier and str(ran) not in earlier
    assert "Waiting for approval" not in earlier, "what came of it is another call"
    assert address(first) in section(text, "similar") and "used" in section(text, "similar")
    mine = section(read(sign_in(alice), address(row)), "calls")
    assert "orders" in mine and f"/calls/{ran}/" in mine
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(Permission.objects.get(codename="view_call"))
    audited = section(read(sign_in(bob), address(row)), "calls")
    assert "orders" in audited and f"/admin/audit/call/{ran}/" in audited


def test_an_earlier_call_that_was_denied_by_the_policy_reads_as_an_unknown_tool(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open
) -> None:
    factories.load()
    with pytest.raises(Exception, match="Unknown tool"):
        call(alice)
    assert Call.objects.get().outcome in {"refused", "unknown_tool"}
    row = ask(alice)
    earlier = section(read(sign_in(bob), address(row)), "calls")
    assert "Unknown tool" in earlier and "Denied" not in earlier


def test_the_requests_that_wait_are_walked_through_in_a_circle(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open
) -> None:
    rows = [ask(alice, {"table": name}) for name in ("a", "b", "c")]
    client = sign_in(bob)

    def links(row: Approval) -> tuple[str, ...]:
        text = read(client, address(row))
        found = {name: re.search(rf'href="([^"]+)" id="{name}"', text) for name in ("previous", "next")}
        return tuple(match[1] if match else "" for match in found.values())

    assert links(rows[0]) == (address(rows[2]), address(rows[1]))
    assert links(rows[1]) == (address(rows[0]), address(rows[2]))
    send(client, rows[1], "approve")
    assert links(rows[1]) == (address(rows[0]), address(rows[2])), "from one that is decided to its neighbours"
    send(client, rows[2], "deny")
    assert links(rows[0]) == ("", "")


# --- the number ----------------------------------------------------------------------------------------------------


def test_people_without_anything_to_approve_have_no_link_and_no_script(
    row: Approval, charlie: User, sign_in: Open
) -> None:
    client = sign_in(charlie)
    text = read(client, "/tools/")
    assert "/approvals/" not in text and "approvals.js" not in text
    assert "approvals.js" not in read(client)


def test_the_navigation_counts_what_the_person_can_decide(row: Approval, alice: User, bob: User, sign_in: Open) -> None:
    for user, number in ((bob, 1), (alice, 0)):
        client = sign_in(user)
        assert f'data-waiting="{number}"' in read(client, "/tools/")
        answer = client.get("/approvals/count/")
        assert answer.json()["waiting"] == number and "no-store" in answer["Cache-Control"]
    assert sign_in(bob).get("/approvals/count/").json()["newest"] == str(row.pk)


def test_the_version_changes_when_the_page_would_show_something_else(
    row: Approval, alice: User, bob: User, sign_in: Open
) -> None:
    def versions() -> tuple[str, str]:
        found = [inbox.summarise(user).version for user in (alice, bob)]
        return found[0], found[1]

    seen = [versions()]
    assert versions() == seen[0], "and not by itself"
    send(sign_in(bob), row, "approve")
    seen.append(versions())
    call(alice)
    seen.append(versions())
    other = ask(alice, {"table": "orders"})
    seen.append(versions())
    decisions.withdraw(other.pk, alice)
    seen.append(versions())
    assert all(before[0] != after[0] for before, after in itertools.pairwise(seen)), seen
    assert all(before[1] != after[1] for before, after in itertools.pairwise(seen)), seen


def test_the_number_costs_one_query(row: Approval, bob: User, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        found = inbox.summarise(bob)
    assert found.waiting == 1 and found.takes_part


def test_the_lists_cost_the_same_whatever_they_hold(
    rule: ApprovalRule, alice: User, bob: User, sign_in: Open, django_assert_max_num_queries: Any
) -> None:
    client = sign_in(bob)
    for number in range(8):
        ask(alice, {"table": f"t{number}"})
    read(client)
    with django_assert_max_num_queries(12):
        text = read(client)
    assert section(text, "waiting").count("<article") == 8
    assert CALL["table"] not in text
