"""Requests for some calls of a tool in the administrators' inbox: what they read, change and approve."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog.access_requests import decisions, requestable, submissions
from catalog.models import AccessRequest, Grant, Tool, Toolset, ValueList
from catalog.views.tools import visible_to
from tests import factories

pytestmark = pytest.mark.django_db
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["region"],
}
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
APAC = {**EMEA, "value": "apac"}
HOSTILE = {**EMEA, "value": "<script>p()</script>\u202e"}


@pytest.fixture
def sales(db: None) -> Toolset:
    toolset = factories.make_toolset("Sales", requestable=True)
    factories.make_tool("report_sales", toolset=toolset, input_schema=SCHEMA, read_only=True)
    return toolset


@pytest.fixture
def approver(db: None) -> Client:
    user = User.objects.create_user("rita", is_staff=True)
    names = ("view_accessrequest", "add_grant", "delete_grant", "view_grant", "view_tool")
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


def ask(user: User, toolset: Toolset, *conditions: dict[str, Any], tool: str = "report_sales") -> AccessRequest:
    choice = requestable.find_toolset(visible_to(user), toolset.pk)
    assert choice is not None
    return submissions.submit(user, choice, choice.find(tool) if tool else None, "A report.", list(conditions))


def page(row: AccessRequest) -> str:
    return reverse("pages:request", args=[row.pk])


def read(client: Client, path: str) -> str:
    return unescape(client.get(path).content.decode())


def approve(client: Client, row: AccessRequest, **fields: Any) -> str:
    sent = {"decision": "approve", "note": "Kept note.", **fields}
    return unescape(client.post(page(row) + "decide/", sent, follow=True).content.decode())


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ("[", "This is not valid JSON"),
        ("{}", "Conditions are a list of objects"),
        ('"x"', "Conditions are a list of objects"),
        ('[{"path": "/region"}]', "Condition 1:"),
        (json.dumps([{**EMEA, "path": "/planet"}]), "There is no argument /planet."),
        (json.dumps([{"path": "/region", "op": "belongs_to", "list": "absent"}]), "There is no value list “absent”."),
        ("[" * 100_000, "This is not valid JSON"),
    ],
)
def test_conditions_that_no_grant_can_have_are_refused_at_their_field_and_nothing_is_lost(
    approver: Client, charlie: User, sales: Toolset, sent: str, sentence: str
) -> None:
    made = ask(charlie, sales, EMEA)
    text = approve(approver, made, conditions=sent)
    assert sentence in re.findall(r'id="conditions-error">(.*?)</div>', text, re.DOTALL)[0]
    assert f"\n{sent}</textarea>" in text and 'value="Kept note."' in text
    made.refresh_from_db()
    assert made.is_open and not Grant.objects.exists()


def test_conditions_for_a_toolset_are_refused(approver: Client, charlie: User, sales: Toolset) -> None:
    made = ask(charlie, sales, tool="")
    assert 'name="conditions"' not in read(approver, page(made))
    assert "Only access to one tool can have conditions here." in approve(approver, made, conditions=json.dumps([EMEA]))
    assert not Grant.objects.exists()
    with pytest.raises(submissions.Refused, match="one tool only"):
        ask(charlie, sales, EMEA, tool="")


def test_the_list_and_the_page_say_the_conditions_in_words(approver: Client, charlie: User, sales: Toolset) -> None:
    made = ask(charlie, sales, HOSTILE)
    for path in ("/admin/requests/", page(made)):
        raw = approver.get(path).content.decode()
        assert "<script>p()" not in raw and "\u202e" not in raw
        assert 'region is "<script>p()</script>⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩"' in unescape(raw)
    approve(
        approver,
        made,
        conditions=re.findall(r'data-conditions="[^>]*>\n(.*?)</textarea>', read(approver, page(made)), re.DOTALL)[0],
    )
    assert Grant.objects.get().conditions == [HOSTILE]


def test_an_approval_gives_what_was_asked_for(approver: Client, charlie: User, sales: Toolset) -> None:
    made = ask(charlie, sales, EMEA)
    text = approve(approver, made)
    assert 'Only for calls with: region is "emea".' in text
    assert Grant.objects.get().conditions == [EMEA]


def test_the_approver_changes_the_conditions_and_what_was_given_is_logged(
    approver: Client, charlie: User, sales: Toolset
) -> None:
    made = ask(charlie, sales, EMEA)
    text = approve(approver, made, conditions=json.dumps([APAC]))
    assert 'Only for calls with: region is "apac".' in text
    assert Grant.objects.get().conditions == [APAC]
    logged = Action.objects.get(kind="access request", verb="approved")
    assert "emea" in logged.before and "apac" in logged.after
    assert 'region is "apac"' in read(approver, page(made))
    approver.post(page(made) + "decide/", {"undo": f"{made.pk} {decisions.name_decision(AccessRequest.objects.get())}"})
    made.refresh_from_db()
    assert made.is_open and made.conditions == [EMEA] and not Grant.objects.exists()


def test_without_conditions_the_grant_is_for_all_calls_and_the_message_says_so(
    approver: Client, charlie: User, sales: Toolset
) -> None:
    assert "It is for all calls." in approve(approver, ask(charlie, sales, EMEA), conditions="")
    assert Grant.objects.get().conditions == []


def test_conditions_that_no_longer_fit_are_refused_in_words(approver: Client, charlie: User, sales: Toolset) -> None:
    made = ask(charlie, sales, EMEA)
    tool = Tool.objects.get()
    tool.input_schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    tool.save()
    assert "There is no argument /region." in approve(approver, made)
    sent = {"decision": "approve", "request": made.pk}
    text = unescape(approver.post("/admin/requests/decide/", sent, follow=True).content.decode())
    assert "There is no argument /region." in text and not Grant.objects.exists()


def test_several_approved_at_once_get_what_they_asked_for(
    approver: Client, alice: User, charlie: User, sales: Toolset
) -> None:
    made = [ask(alice, sales, EMEA), ask(charlie, sales, APAC)]
    sent = {"decision": "approve", "request": [row.pk for row in made], "conditions": "[]"}
    approver.post("/admin/requests/decide/", sent)
    assert dict(Grant.objects.values_list("user__username", "conditions")) == {"alice": [EMEA], "charlie": [APAC]}


def test_a_request_is_declined_whatever_the_field_has(approver: Client, charlie: User, sales: Toolset) -> None:
    made = ask(charlie, sales, EMEA)
    approver.post(page(made) + "decide/", {"decision": "decline", "conditions": "["})
    made.refresh_from_db()
    assert made.state == "declined"


def test_the_editor_has_the_arguments_address_and_the_names_of_value_lists(
    approver: Client, charlie: User, sales: Toolset
) -> None:
    ValueList.objects.create(name="regions")
    made = ask(charlie, sales, EMEA)
    found = re.search(r'data-conditions="([^"]*)"', approver.get(page(made)).content.decode())
    assert found is not None
    data = json.loads(unescape(found[1]))
    assert data["lists"] == ["regions"]
    assert [one["path"] for one in approver.get(data["arguments"]).json()["arguments"]] == ["/region", "/amount"]


def test_conditions_of_the_list_take_no_query_for_each_request(
    approver: Client, alice: User, bob: User, charlie: User, sales: Toolset, django_assert_max_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    ask(alice, sales, EMEA)
    approver.get("/admin/requests/")
    with CaptureQueriesContext(
        connection,
    ) as before:
        approver.get("/admin/requests/")
    ask(bob, sales, EMEA)
    ask(charlie, sales, APAC)
    with django_assert_max_num_queries(len(before)):
        approver.get("/admin/requests/")
