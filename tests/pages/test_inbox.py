"""The administrators' inbox: who reads requests and reported calls, who decides, and what a decision does."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.access_requests import decisions, requestable, submissions
from catalog.models import AccessRequest, CallReport, Flag, Grant, Tool, Toolset
from catalog.views.tools import visible_to
from tests import factories
from tests.audit import rows

pytestmark = pytest.mark.django_db
REASON = "The quarterly <b>report</b>\u202e."


@pytest.fixture
def numbers(db: None) -> Toolset:
    toolset = factories.make_toolset("Numbers", requestable=True)
    factories.make_tool("calculate_sum", toolset=toolset, read_only=True)
    return toolset


def staff(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return sign_in(user)


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def approver(db: None) -> Client:
    return staff("rita", "view_accessrequest", "add_grant", "delete_grant", "view_grant", "view_tool")


def ask(user: User, toolset: Toolset, tool: str = "") -> AccessRequest:
    choice = requestable.find_toolset(visible_to(user), toolset.pk)
    assert choice is not None
    return submissions.submit(user, choice, choice.find(tool) if tool else None, REASON)


def read(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def page(row: AccessRequest) -> str:
    return reverse("pages:request", args=[row.pk])


def decide(client: Client, row: AccessRequest, decision: str, **fields: Any) -> Any:
    return client.post(page(row) + "decide/", {"decision": decision, "note": REASON, **fields}, follow=True)


def test_who_may_only_view_requests_decides_nothing(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    reader = staff("reader", "view_accessrequest")
    assert "Only administrators who may add grants" in read(reader, page(made))
    assert 'name="decision"' not in read(reader, page(made)) + read(reader, "/admin/requests/")
    assert decide(reader, made, "approve").status_code == 403
    assert reader.post("/admin/requests/decide/", {"decision": "approve", "request": made.pk}).status_code == 403
    for client in (sign_in(charlie), staff("granter", "add_grant")):
        assert client.get("/admin/requests/").status_code in (302, 403)
        assert client.post(page(made) + "decide/", {"decision": "approve"}).status_code in (302, 403)
    made.refresh_from_db()
    assert made.is_open and not Grant.objects.exists()


def test_the_reason_is_shown_as_text_with_invisible_characters_made_visible(
    approver: Client, charlie: User, numbers: Toolset
) -> None:
    made = ask(charlie, numbers)
    for text in (read(approver, "/admin/requests/"), read(approver, page(made))):
        assert "The quarterly &lt;b&gt;report&lt;/b&gt;⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩." in text


def test_the_sidebar_and_the_overview_count_open_requests(approver: Client, charlie: User, numbers: Toolset) -> None:
    assert "waiting for an answer" not in read(approver, "/admin/")
    ask(charlie, numbers)
    text = read(approver, "/admin/")
    item = text[text.index("how_to_reg") :]
    assert re.sub(r"<[^>]*>", " ", item[: item.index("</a>")]).split() == ["how_to_reg", "Access", "requests", "1"]
    assert "waiting for an answer" in text
    assert "how_to_reg" not in read(staff("other", "view_tool"), "/admin/")


def test_an_approval_gives_access_until_its_end_and_leads_to_the_next_request(
    approver: Client, charlie: User, bob: User, numbers: Toolset
) -> None:
    made, other = ask(charlie, numbers), ask(bob, numbers)
    answer = decide(approver, made, "approve", end="7", here_only="1", note="Ticket 12", answer="Here you are.")
    assert answer.redirect_chain == [(page(other), 302)]
    assert "Access to Numbers given to charlie." in answer.content.decode()
    grant = Grant.objects.get()
    assert grant.ends is not None and timedelta(days=6) < grant.ends - timezone.now() <= timedelta(days=7)
    assert (grant.user, grant.toolset, grant.note) == (charlie, numbers, "Ticket 12") and len(grant.environments) == 1
    made.refresh_from_db()
    assert (made.state, made.decided_by, made.answer) == ("approved", "rita", "Here you are.")
    assert list(visible_to(charlie).tools) == ["calculate_sum"]


def test_the_note_is_prefilled_with_the_reason_and_the_last_day_is_included(
    approver: Client, charlie: User, numbers: Toolset
) -> None:
    made = ask(charlie, numbers)
    assert 'name="note" maxlength="500" value="The quarterly' in read(approver, page(made))
    day = timezone.now().date() + timedelta(days=3)
    for wrong in ("", "tomorrow", "2020-01-01"):
        text = decide(approver, made, "approve", end="date", last_day=wrong).content.decode()
        assert "Enter a date from today on." in text and not Grant.objects.exists()
    decide(approver, made, "approve", end="date", last_day=day.isoformat())
    ends = Grant.objects.get().ends
    assert ends is not None and ends.date() == day + timedelta(days=1)


def test_a_decline_tells_the_person_why(approver: Client, charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    decide(approver, made, "decline", answer="Not without a ticket.", end="date")
    assert "Not without a ticket." in read(sign_in(charlie), "/requests/")
    assert not Grant.objects.exists()


def test_the_second_of_two_administrators_is_told(approver: Client, charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    decisions.decline(made.pk, "root", "No.")
    assert "Somebody answered it" in decide(approver, made, "approve").content.decode()
    made.refresh_from_db()
    assert made.state == "declined" and not Grant.objects.exists()


def test_a_decision_is_undone_by_who_may_delete_the_grant(approver: Client, charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    decide(approver, made, "approve")
    adder = staff("adder", "view_accessrequest", "add_grant")
    assert 'name="undo"' not in read(adder, page(made)) + read(adder, "/admin/requests/")
    assert adder.post(page(made) + "decide/", {"undo": made.pk}).status_code == 403
    assert adder.post("/admin/requests/decide/", {"undo": made.pk}).status_code == 403
    assert Grant.objects.exists()
    text = approver.post("/admin/requests/decide/", {"undo": made.pk}, follow=True).content.decode()
    assert "is open again" in text and not Grant.objects.exists()
    made.refresh_from_db()
    assert made.is_open


@pytest.mark.parametrize("place", ["request", "list"])
def test_an_undo_on_an_old_page_does_not_take_back_a_later_decision(
    approver: Client, charlie: User, numbers: Toolset, place: str
) -> None:
    made = ask(charlie, numbers)
    decisions.decline(made.pk, "root", "No.")
    address = page(made) if place == "request" else "/admin/requests/"
    (seen,) = re.findall(r'name="undo" value="([^"]+)"', read(approver, address))
    decisions.undo(made.pk)
    decisions.approve(made.pk, "root")
    answer = approver.post(f"{address}decide/", {"undo": seen}, follow=True)
    assert "Somebody answered it, withdrew it or deleted it meanwhile." in answer.content.decode()
    made.refresh_from_db()
    assert made.state == "approved" and Grant.objects.exists()
    (seen,) = re.findall(r'name="undo" value="([^"]+)"', read(approver, address))
    assert "is open again" in approver.post(f"{address}decide/", {"undo": seen}, follow=True).content.decode()


def test_several_requests_are_decided_at_once_but_none_with_warnings(
    approver: Client, charlie: User, bob: User, alice: User, numbers: Toolset
) -> None:
    danger = factories.make_toolset("Danger", requestable=True)
    factories.make_tool("delete_rows", toolset=danger, destructive=True)
    factories.deny(alice, numbers)
    safe = [ask(charlie, numbers), ask(bob, numbers)]
    risky = [ask(alice, numbers), ask(charlie, danger)]
    text = read(approver, "/admin/requests/")
    assert text.count("data-dangerous") == 2 and "1 tool may delete or overwrite data" in text
    keys = [row.pk for row in (*safe, *risky)]
    data = {"decision": "approve", "request": [*keys, "x", "999999999"], "end": "30"}
    text = approver.post("/admin/requests/decide/", data, follow=True).content.decode()
    assert "2 requests approved: Numbers (charlie), Numbers (bob)." in text
    assert "Danger (charlie): It has warnings. Open it to decide." in text
    assert set(Grant.objects.filter(effect="allow").values_list("user__username", flat=True)) == {"charlie", "bob"}
    assert all(grant.ends is not None for grant in Grant.objects.filter(effect="allow"))
    text = approver.post(
        "/admin/requests/decide/", {"decision": "decline", "request": keys}, follow=True
    ).content.decode()
    assert "2 requests declined" in text and text.count("Somebody answered it") == 2
    assert (
        "Select at least one request."
        in approver.post("/admin/requests/decide/", {"decision": "approve"}, follow=True).content.decode()
    )


def test_a_denial_that_the_flags_switch_off_for_the_person_is_no_warning(
    approver: Client, charlie: User, numbers: Toolset
) -> None:
    flag = Flag.objects.create(name="beta", percentage=0)
    denied = factories.deny(charlie, numbers, flags=["beta"])
    made, warning = ask(charlie, numbers), "A grant denies some of it."
    assert warning not in read(approver, page(made))
    flag.percentage = 100
    flag.save()
    assert warning in read(approver, page(made))
    denied.conditions = [{"path": "/a", "op": "equals", "value": 1}]
    denied.save()
    assert warning in read(approver, page(made)), "it denies some of the calls"


def test_the_page_shows_what_the_person_has_now_and_the_nearest_obstacle(
    approver: Client, charlie: User, numbers: Toolset
) -> None:
    factories.make_tool("delete_rows", toolset=numbers, destructive=True)
    made = ask(charlie, numbers)
    factories.grant(charlie, Tool.objects.get(name="calculate_sum"))
    factories.deny(charlie, Tool.objects.get(name="delete_rows"))
    text = read(approver, page(made))
    assert "has access" in text and "Deny always overrides allow." in text
    assert re.search(r"Grant \d+ denies|denies", text) and "may delete or overwrite data" in text
    reader = staff("reader", "view_accessrequest")
    assert "calculate_sum" not in read(reader, page(made)), "tools are for those who may view them"


def test_warnings_name_what_changed_since_the_request(approver: Client, charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers, "calculate_sum")
    assert "th-note warn" not in read(approver, page(made))
    Toolset.objects.update(requestable=False)
    Tool.objects.get(name="calculate_sum").toolsets.clear()
    User.objects.filter(pk=charlie.pk).update(is_active=False)
    text = read(approver, page(made))
    for warning in ("closed for requests now", "no longer in the toolset", "account is not active"):
        assert warning in text
    assert "The account is not active. Activate it first" in decide(approver, made, "approve").content.decode()
    Tool.objects.update(enabled=False)
    assert "nothing in it that can be used now" in read(approver, page(made))
    assert not Grant.objects.exists()


def test_groups_and_accounts_are_for_those_who_may_view_them(approver: Client, charlie: User, numbers: Toolset) -> None:
    factories.make_group("analysts", [charlie])
    made = ask(charlie, numbers)
    assert "analysts" not in read(approver, page(made)) and "User account" not in read(approver, page(made))
    text = read(staff("seer", "view_accessrequest", "view_group", "view_user"), page(made))
    assert "Groups: analysts." in text and "User account" in text


# --- reported calls ---------------------------------------------------------------------------------------------------


def make_call(user: User, outcome: str = "timeout", number: int = 1, **fields: Any) -> Any:
    return rows.save(rows.build_call(number, user=user, outcome=outcome, detail="It took too long.", **fields))[0]


def report(client: Client, call: Any, comment: str = "It never works.") -> Any:
    return client.post(f"/calls/{call.pk}/report/", {"comment": comment}, follow=True)


def test_a_failed_call_is_reported_from_its_page_and_answered_there(alice: User, root: User) -> None:
    call, client = make_call(alice), sign_in(alice)
    assert f'href="/calls/{call.pk}/#report"' in read(client, "/calls/")
    assert f'action="/calls/{call.pk}/report/"' in read(client, f"/calls/{call.pk}/")
    assert "The call was reported." in report(client, call, "It \u202enever works.").content.decode()
    made = CallReport.objects.get()
    assert (made.person, made.call_id, made.outcome, made.is_open) == (alice, call.pk, "timeout", True)
    admin = sign_in(root)
    text = read(admin, reverse("pages:report", args=[made.pk]))
    assert "It took too long." in text and "It ⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩never works." in text
    assert reverse("admin:audit_call_change", args=[call.pk]) in text
    admin.post(reverse("pages:report-close", args=[made.pk]), {"answer": "Fixed now."})
    assert "There are new answers to your requests." in read(client, "/tools/")
    assert "Fixed now." in read(client, f"/calls/{call.pk}/")
    assert "Fixed now." in read(client, "/requests/") and "new answers" not in read(client, "/tools/")


@pytest.mark.parametrize("outcome", ["ok", "running", "input_required"])
def test_a_call_that_did_not_fail_is_not_reported(alice: User, outcome: str) -> None:
    call, client = make_call(alice, outcome), sign_in(alice)
    assert "#report" not in read(client, "/calls/") and "/report/" not in read(client, f"/calls/{call.pk}/")
    assert "Only a call that ended without success" in report(client, call).content.decode()
    assert not CallReport.objects.exists()


def test_the_call_of_another_person_reads_as_absent(alice: User, bob: User, root: User) -> None:
    call = make_call(alice)
    for user in (bob, root):
        client = sign_in(user)
        absent = client.post("/calls/01900000-0000-7000-8000-000000000000/report/", {"comment": "x"})
        refused = client.post(f"/calls/{call.pk}/report/", {"comment": "x"})
        assert refused.status_code == absent.status_code == 404 and refused.content == absent.content
    assert not CallReport.objects.exists()


def test_a_call_is_reported_once_and_again_after_the_answer(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MAX_OPEN", 2)
    calls, client = [make_call(alice, number=number) for number in range(3)], sign_in(alice)
    report(client, calls[0])
    assert "/report/" not in read(client, f"/calls/{calls[0].pk}/")
    assert "You reported this call already." in report(client, calls[0]).content.decode()
    report(client, calls[1])
    assert "You have 2 open requests, which is the maximum." in report(client, calls[2]).content.decode()
    assert CallReport.objects.count() == 2
    decisions.close(CallReport.objects.get(call_id=calls[0].pk).pk, "root", "")
    assert "closed the report without an answer" in read(client, f"/calls/{calls[0].pk}/")
    report(client, calls[0], "Still.")
    assert CallReport.objects.filter(call_id=calls[0].pk).count() == 2


def test_a_denied_call_is_reported_as_an_unknown_tool_for_those_who_may_not_read_the_log(alice: User) -> None:
    call = make_call(alice, "refused", detail_reason='["rule.no_grant",{}]')
    report(sign_in(alice), call)
    made = CallReport.objects.get()
    helper = staff("helper", "view_callreport", "change_callreport")
    text = read(helper, reverse("pages:report", args=[made.pk])) + read(helper, "/admin/requests/calls/")
    assert "Unknown tool" in text and "Denied" not in text and "No grant allows it" not in text
    assert "It took too long." not in text and "View call" not in text
    auditor = staff("log-reader", "view_callreport", "view_call")
    assert reverse("admin:audit_call_change", args=[call.pk]) in read(auditor, reverse("pages:report", args=[made.pk]))


def test_a_report_is_closed_once_and_only_with_the_permission(alice: User) -> None:
    report(sign_in(alice), make_call(alice))
    made = CallReport.objects.get()
    reader, helper = staff("reader", "view_callreport"), staff("helper", "view_callreport", "change_callreport")
    address = reverse("pages:report-close", args=[made.pk])
    assert reader.post(address, {"answer": "x"}).status_code == 403
    assert "Close report" not in read(reader, reverse("pages:report", args=[made.pk]))
    assert "at most 500" in helper.post(address, {"answer": "x" * 501}, follow=True).content.decode()
    made.refresh_from_db()
    assert made.is_open
    helper.post(address, {"answer": "First."})
    assert (
        "Somebody closed this report meanwhile." in helper.post(address, {"answer": "2"}, follow=True).content.decode()
    )
    made.refresh_from_db()
    assert (made.answer, made.closed_by) == ("First.", "helper")
    assert "First." in read(reader, "/admin/requests/calls/?state=closed")
    assert "No reports are open." in read(reader, "/admin/requests/calls/")


def test_a_report_outlives_its_call_in_the_log(alice: User, root: User) -> None:
    call = make_call(alice)
    report(sign_in(alice), call)
    call.delete()
    text = read(sign_in(root), reverse("pages:report", args=[CallReport.objects.get().pk]))
    assert "It took too long." in text and "View call" not in text


def test_who_may_see_one_list_finds_no_link_to_the_other(numbers: Toolset) -> None:
    assert "/admin/requests/calls/" not in read(staff("one", "view_accessrequest"), "/admin/requests/")
    text = read(staff("two", "view_callreport"), "/admin/requests/calls/")
    assert 'href="/admin/requests/"' not in text


def test_view_as_names_an_open_request_to_those_who_may_see_requests(charlie: User, numbers: Toolset) -> None:
    made = ask(charlie, numbers)
    needed = ("view_user", "view_tool", "view_grant", "view_limit")
    address = "/admin/view-as/?user=charlie&sees=no"
    assert "charlie requested it." not in read(staff("viewer", *needed), address)
    viewer = staff("inbox-viewer", *needed, "view_accessrequest")
    text = read(viewer, address)
    assert "charlie requested it." in text and f'href="{page(made)}"' in text
    decisions.decline(made.pk, "root")
    assert "charlie requested it." not in read(viewer, address)


def test_an_approval_of_something_else_than_was_shown_is_asked_again(
    approver: Client, charlie: User, numbers: Toolset
) -> None:
    made = ask(charlie, numbers)
    address = f"/admin/requests/{made.pk}/"
    reviewed = approver.get(address).context["reviewed"]
    factories.make_tool("drop_all", toolset=numbers, destructive=True)
    page = approver.post(f"{address}decide/", {"decision": "approve", "reviewed": reviewed})
    assert "Review it again." in page.content.decode() and not Grant.objects.exists()
    approver.post(f"{address}decide/", {"decision": "approve", "reviewed": page.context["reviewed"]})
    assert Grant.objects.filter(user=charlie, toolset=numbers).exists()


def read_open_pages(page: str) -> list[str]:
    """The pages of the sidebar that are marked as open."""
    return re.findall(r'<a href="([^"]+)" class="[^"]* active"', page)


def test_the_sidebar_marks_the_open_inbox_only(root: User, numbers: Toolset) -> None:
    client = sign_in(root)
    assert read_open_pages(client.get("/admin/requests/").content.decode()) == ["/admin/requests/"]
    assert read_open_pages(client.get("/admin/requests/calls/").content.decode()) == ["/admin/requests/calls/"]


def test_the_page_of_a_request_keeps_the_badge_of_the_installation(
    root: User, charlie: User, numbers: Toolset, settings: Any
) -> None:
    settings.ENVIRONMENT = "staging"
    made = AccessRequest.objects.create(
        person=charlie, kind="toolset", toolset=numbers, name="Numbers", reason="For a report."
    )
    page = sign_in(root).get(f"/admin/requests/{made.pk}/").content.decode()
    (links,) = re.findall(r'th-header-links">(.*?)</div>', page, re.DOTALL)
    assert re.sub(r"<[^>]+>", " ", links).split()[0] == "staging"
    assert "Only in the environment staging" in page


def test_a_call_without_a_name_is_reported_and_answered_too(alice: User) -> None:
    report(sign_in(alice), make_call(alice, "unknown_tool", name=""))
    decisions.close(CallReport.objects.get().pk, "root", "Ask for a tool by its name.")
    assert not CallReport.objects.get().is_open
