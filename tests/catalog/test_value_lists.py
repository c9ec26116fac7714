"""Value lists: what they refuse, who keeps them, and their pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.test import Client

from audit.models import Action
from catalog.models import Grant, Tool, ValueList, ValueListPart
from tests import factories
from tests.catalog.approval_rules import make_rule

pytestmark = pytest.mark.django_db
LISTS = "/admin/catalog/valuelist/"
IN_OURS = {"path": "/repository", "op": "belongs_to", "list": "ours"}


def make_tool() -> Tool:
    schema = {"type": "object", "properties": {"repository": {"type": "string"}}}
    return factories.make_tool("open_issue", input_schema=schema)


def change_page(row: ValueList) -> str:
    return f"{LISTS}{row.pk}/change/"


def fill(row: ValueList | None = None, *parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """What the form of a list sends with these parts, the stored ones among them first."""
    stored = sum("id" in part for part in parts)
    sent = {"name": row.name if row else "ours", "description": "", **fields}
    sent |= {"parts-TOTAL_FORMS": len(parts), "parts-INITIAL_FORMS": stored}
    for number, part in enumerate(parts):
        own = {"value_list": row.pk if row else "", **part}
        sent |= {f"parts-{number}-{name}": value for name, value in own.items()}
    return sent


def sign_in(*codenames: str) -> Client:
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(staff)
    return client


def find_errors(row: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    return dict(refused.value.message_dict)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (7, "Enter a list of texts."),
        ({}, "This must be a list."),
        (["a", 1], "Value 2 must be a text of 1 to 500 characters."),
        (["a", ""], "Value 2 must be a text of 1 to 500 characters."),
        (["a" * 501], "Value 1 must be a text of 1 to 500 characters."),
        (["a", "b\nc"], "Value 2 must be one line, without blanks around it."),
        ([" a"], "Value 1 must be one line, without blanks around it."),
        (["a\u2028b"], "Value 1 must be one line, without blanks around it."),
        (["a", "b", "a"], "The value “a” is there twice. Remove one."),
        ([str(number) for number in range(10_001)], "A list can have at most 10,000 values."),
    ],
)
def test_values_that_no_condition_or_form_could_hold_are_refused(entries: Any, says: str) -> None:
    part = ValueListPart(value_list=factories.make_value_list("ours", {}), everyone=True, entries=entries)
    errors = find_errors(part)
    assert list(errors) == ["entries"] and errors["entries"][0] == says


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("core\n\nsite\tx", "Line 3 has a control character, such as a tab. Remove it."),
        (f"core\r\n{'x' * 1_501}", "Line 2 has 1,501 characters. The maximum is 500. Shorten it."),
        ("core\n\n site\n core ", "Line 4 repeats line 1: “core”. Remove one."),
        ("\n".join(map(str, range(10_001))), "A list can have at most 10,000 values."),
    ],
)
def test_a_wrong_line_is_named_and_what_was_entered_stays(browser: Client, lines: str, says: str) -> None:
    answer = browser.post(f"{LISTS}add/", fill(None, {"everyone": "on", "entries": lines}))
    assert answer.status_code == 200 and not ValueList.objects.exists()
    (form,) = answer.context["inline_admin_formsets"][0].formset.forms
    assert form.errors == {"entries": [says]}
    assert says in answer.content.decode()
    assert form["entries"].value() == lines


@pytest.mark.parametrize("subjects", [{}, {"everyone": "on", "user": "{alice}"}])
def test_values_are_for_exactly_one_user_group_or_everyone(
    browser: Client, alice: User, subjects: dict[str, str]
) -> None:
    chosen = {name: value.format(alice=alice.pk) for name, value in subjects.items()}
    answer = browser.post(f"{LISTS}add/", fill(None, {"entries": "core", **chosen}))
    assert "Choose exactly one of user, group and everyone." in answer.content.decode()
    assert not ValueList.objects.exists()


def test_nobody_has_two_entries_in_a_list_neither_new_ones_nor_a_stored_one(browser: Client, alice: User) -> None:
    new = {"user": alice.pk, "entries": "core"}
    answer = browser.post(f"{LISTS}add/", fill(None, new, {**new, "entries": "site"}))
    assert "The list has two entries for the same user or group, or for everyone. Join them." in answer.content.decode()
    assert not ValueList.objects.exists()
    ours = factories.make_value_list("ours", {alice: ["core"], None: ["wiki"], factories.make_group(): ["site"]})
    for who in ({"user": alice.pk}, {"everyone": "on"}, {"group": factories.make_group().pk}):
        answer = browser.post(change_page(ours), fill(ours, {"entries": "more", **who}))
        says = "The list already has values for this user or group, or for everyone."
        assert says in answer.content.decode(), who
    assert ours.parts.count() == 3
    with pytest.raises(IntegrityError), transaction.atomic():
        ours.parts.create(user=alice, entries=["past every form"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("our lists", "A name has 1 to 128 characters: letters A-Z and a-z, digits, underscore, hyphen and dot."),
        ("Ours", 'The name "ours" already exists. Two names cannot differ only in upper and lower case.'),
        ("ours", "Value list with this Name already exists."),
        ("x" * 101, "Ensure this value has at most 100 characters (it has 101)."),
    ],
)
def test_a_name_that_is_taken_or_no_name_is_refused(browser: Client, name: str, says: str) -> None:
    factories.make_value_list("ours", {})
    answer = browser.post(f"{LISTS}add/", fill(name=name))
    assert answer.context["adminform"].form.errors == {"name": [says]}


def test_a_list_that_grants_use_keeps_its_name(browser: Client) -> None:
    ours = factories.make_value_list("ours", {None: ["core"]})
    tool = make_tool()
    used = [factories.grant(None, tool, conditions=[IN_OURS]) for _ in range(12)]
    answer = browser.post(change_page(ours), fill(ours, name="theirs"))
    numbers = ", ".join(str(grant.pk) for grant in used[:10])
    says = f"“ours” is used by grants {numbers} .... Change or delete these grants first."
    assert answer.context["adminform"].form.errors == {"name": [says]}
    for grant in used:
        grant.delete()
    assert browser.post(change_page(ours), fill(ours, name="theirs")).status_code == 302
    assert ValueList.objects.get().name == "theirs"


def test_a_list_that_grants_use_is_not_deleted_by_any_way(browser: Client) -> None:
    ours, other = (factories.make_value_list(name, {None: ["core"]}) for name in ("ours", "other"))
    grant = factories.grant(None, make_tool(), conditions=[IN_OURS])
    says = f"“ours” is used by grant {grant.pk}. Change or delete that grant first."
    page = browser.post(f"{LISTS}{ours.pk}/delete/", {"post": "yes"}).content.decode()
    assert says in page and 'The value list "ours" is in use.' in page
    both = {"action": "delete_selected", "_selected_action": [ours.pk, other.pk], "post": "yes"}
    assert says in browser.post(LISTS, both).content.decode()
    for delete in (ours.delete, ValueList.objects.all().delete):
        with pytest.raises(ProtectedError, match=says), transaction.atomic():
            delete()
    renamed_in_memory = ValueList(pk=ours.pk, name="other_name")
    with pytest.raises(ProtectedError), transaction.atomic():
        renamed_in_memory.delete()
    assert ValueList.objects.count() == ValueListPart.objects.count() == 2
    grant.delete()
    assert browser.post(LISTS, both).status_code == 302
    assert not ValueList.objects.exists() and not ValueListPart.objects.exists()


def test_a_list_that_an_approval_rule_uses_keeps_its_name_and_stays(browser: Client) -> None:
    ours = factories.make_value_list("ours", {None: ["x"]})
    tool = make_tool()
    rule = make_rule(name="Deletions <b>", tool=tool, conditions=[IN_OURS])
    says = f"“ours” is used by approval rule {rule.pk}. Change or delete that rule first."
    ours.name = "theirs"
    assert find_errors(ours) == {"name": [says]}
    ours.refresh_from_db()
    for delete in (ours.delete, ValueList.objects.all().delete):
        with pytest.raises(ProtectedError) as refused, transaction.atomic():
            delete()
        assert refused.value.args[0] == says and refused.value.protected_objects == {rule}
    assert says in browser.get(f"{LISTS}{ours.pk}/delete/").content.decode()
    browser.post(f"{LISTS}{ours.pk}/delete/", {"post": "yes"})
    assert ValueList.objects.exists()
    grant = factories.grant(None, tool, conditions=[IN_OURS])
    says = f"“ours” is used by grant {grant.pk}. Change or delete that grant first. {says}"
    assert says in browser.get(f"{LISTS}{ours.pk}/delete/").content.decode()
    grant.delete()
    rule.delete()
    ours.delete()


def test_a_list_shows_the_approval_rules_that_use_it_to_who_may_view_them(browser: Client) -> None:
    ours = factories.make_value_list("ours", {None: ["x"]})
    rule = make_rule(name="Deletions <b>", tool=make_tool(), conditions=[IN_OURS])
    link = f'<a class="underline" href="/admin/catalog/approvalrule/{rule.pk}/change/">Deletions &lt;b&gt;</a>'
    for page in (LISTS, change_page(ours)):
        assert link in browser.get(page).content.decode()
        found = sign_in("view_valuelist", "view_grant").get(page).content.decode()
        assert "1 approval rule" in found and "Deletions" not in found
        User.objects.filter(username="staff").delete()


def test_values_are_deleted_with_their_list_only_by_who_may_delete_values(alice: User) -> None:
    ours = factories.make_value_list("ours", {alice: ["core"]})
    client = sign_in("view_valuelist", "delete_valuelist")
    page = client.get(f"{LISTS}{ours.pk}/delete/").content.decode()
    assert "you need permission to delete what belongs to it" in page
    assert client.post(f"{LISTS}{ours.pk}/delete/", {"post": "yes"}).status_code == 403
    ours.parts.all().delete()
    assert client.post(f"{LISTS}{ours.pk}/delete/", {"post": "yes"}).status_code == 302


def test_values_are_hidden_from_staff_who_may_not_view_them(alice: User) -> None:
    ours = factories.make_value_list("ours", {alice: ["zanzibar"]})
    client = sign_in("view_valuelist", "change_valuelist")
    assert "zanzibar" not in client.get(change_page(ours)).content.decode()
    for lookup in ("parts__entries__contains=zan", "parts__user__username=alice", "q=zanzibar"):
        answer = client.get(f"{LISTS}?{lookup}")
        assert answer.status_code == 400 or answer.context["cl"].result_count == 0, lookup
    (stored,) = ours.parts.all()
    part = {"id": stored.pk, "user": alice.pk, "entries": "mine"}
    assert client.post(change_page(ours), fill(ours, part)).status_code == 302
    assert ours.parts.get().entries == ["zanzibar"]


def test_staff_who_may_view_values_read_them_line_by_line_and_change_nothing(alice: User) -> None:
    ours = factories.make_value_list("ours", {alice: ["core<b>", "si\u202ete"], None: []})
    client = sign_in("view_valuelist", "view_valuelistpart")
    page = client.get(change_page(ours)).content.decode()
    assert "core&lt;b&gt;<br>si" in page and "\u202e" not in page and "<textarea" not in page
    assert client.post(change_page(ours), fill(ours)).status_code == 403


# --- what they do ----------------------------------------------------------------------------------------------------


def test_an_administrator_enters_values_for_everyone_a_group_and_a_user(browser: Client, alice: User) -> None:
    group = factories.make_group("engineers")
    sent = fill(
        None,
        {"everyone": "on", "entries": " core \r\n\r\nsite, and more\r\n"},
        {"group": group.pk, "entries": "\u00e9\U0001f600"},
        {"user": alice.pk, "entries": ""},
        description="Our repositories.",
    )
    assert browser.post(f"{LISTS}add/", sent).status_code == 302
    ours = ValueList.objects.get(name="ours", description="Our repositories.")
    whole, theirs, hers = ours.parts.order_by("pk")
    assert (whole.entries, theirs.entries, hers.entries) == (["core", "site, and more"], ["\u00e9\U0001f600"], [])
    page = browser.get(change_page(ours)).content.decode()
    assert "core\nsite, and more</textarea>" in page
    for title in ("everyone", "group engineers", "user alice"):
        assert title in page
    parts = [
        {"id": whole.pk, "everyone": "on", "entries": "core\nwiki"},
        {"id": theirs.pk, "group": group.pk, "entries": "\u00e9\U0001f600"},
        {"id": hers.pk, "user": alice.pk, "entries": "", "DELETE": "on"},
    ]
    assert browser.post(change_page(ours), fill(ours, *parts)).status_code == 302
    assert [part.entries for part in ours.parts.order_by("pk")] == [["core", "wiki"], ["\u00e9\U0001f600"]]
    assert [part.history.count() for part in (whole, theirs)] == [2, 1], "what did not change has no new version"


def test_a_list_shows_the_grants_that_use_it_to_who_may_view_grants(browser: Client) -> None:
    ours = factories.make_value_list("ours", {})
    factories.make_value_list("other", {})
    grants = [factories.grant(None, make_tool(), conditions=[IN_OURS])]
    grants += [factories.grant(None, Tool.objects.get(), conditions=[IN_OURS]) for _ in range(10)]
    link = f'href="/admin/catalog/grant/{grants[0].pk}/change/"'
    for path in (LISTS, change_page(ours)):
        page = browser.get(path).content.decode()
        assert link in page and "and 1 more" in page
        assert f'href="/admin/catalog/grant/{grants[10].pk}/change/"' not in page
    assert "no grant" in browser.get(LISTS).content.decode()
    client = sign_in("view_valuelist")
    for path in (LISTS, change_page(ours)):
        page = client.get(path).content.decode()
        assert "11 grants" in page and link not in page


def test_every_change_is_in_the_admin_activity_with_the_values_before_and_after(browser: Client, alice: User) -> None:
    browser.post(f"{LISTS}add/", fill(None, {"user": alice.pk, "entries": "core"}))
    ours, part = ValueList.objects.get(), ValueListPart.objects.get()
    sent = fill(ours, {"id": part.pk, "user": alice.pk, "entries": "core\nsite"}, description="Repositories.")
    browser.post(change_page(ours), sent)
    browser.post(f"{LISTS}{ours.pk}/delete/", {"post": "yes"})
    found = [
        (action.verb, action.target, json.loads(action.before or "null"), json.loads(action.after or "null"))
        for action in Action.objects.filter(kind="value list part", actor="root").order_by("id")
    ]
    target = f"ours for user alice (id {part.pk})"
    assert [(verb, name) for verb, name, _, _ in found] == [
        ("created", target), ("changed", target), ("deleted", target),
    ]  # fmt: skip
    assert found[1][2:] == ({"entries": ["core"]}, {"entries": ["core", "site"]})
    assert found[2][2]["entries"] == ["core", "site"]
    verbs = Action.objects.filter(kind="value list", actor="root").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["created", "changed", "deleted"]
    page = browser.get("/admin/audit/action/?kind=value+list+part").content.decode()
    assert "values in a value list" in page and "ours for user alice" in page


def test_an_earlier_version_of_a_list_can_be_restored_but_not_its_name_while_grants_use_it(browser: Client) -> None:
    browser.post(f"{LISTS}add/", fill(name="theirs", description="Then."))
    ours = ValueList.objects.get()
    ours.name, ours.description = "ours", "Now."
    ours.save()
    version = ours.history.earliest()
    page = f"{LISTS}{ours.pk}/history/{version.pk}/"
    grant = factories.grant(None, make_tool(), conditions=[IN_OURS])
    answer = browser.post(page, {"name": "theirs", "description": "Then."})
    assert answer.status_code == 200 and f"is used by grant {grant.pk}." in answer.content.decode()
    assert Grant.objects.get().conditions == [IN_OURS]
    grant.delete()
    assert browser.post(page, {"name": "theirs", "description": "Then."}).status_code == 302
    assert ValueList.objects.values_list("name", "description").get() == ("theirs", "Then.")
