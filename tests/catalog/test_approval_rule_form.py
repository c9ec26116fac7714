"""Approval rules in the admin: refusals, the form, what a rule means, the list, and the pages that name the rules."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog.models import ApprovalRule, Grant
from tests import factories
from tests.catalog.approval_rules import HOURS, LARGE, make_customer_tool, make_rule, sign_in
from tests.catalog.test_admin import errors

pytestmark = pytest.mark.django_db
ADD = "admin:catalog_approvalrule_add"
LIST = "admin:catalog_approvalrule_changelist"
MEANING = "admin:catalog_approvalrule_meaning"
ARGUMENTS = "admin:catalog_grant_arguments"


def fill(**changes: Any) -> dict[str, Any]:
    """The form of a rule that asks whoever calls any tool; `changes` may be JSON data."""
    sent = {"name": "Second person", "enabled": "on", "all_tools": "on", "asks": "person", "minutes": "60"}
    sent |= {"four_eyes": "on", "conditions": "[]", "windows": "[]", "note": ""}
    texts = {name: value if isinstance(value, str | int) else json.dumps(value) for name, value in changes.items()}
    return {name: value for name, value in {**sent, **texts}.items() if value != ""}


def change_page(rule: ApprovalRule) -> str:
    return reverse("admin:catalog_approvalrule_change", args=[rule.pk])


def read(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200, answer.status_code
    return html.unescape(answer.content.decode())


def tell(browser: Client, **changes: Any) -> Any:
    answer = browser.post(reverse(MEANING), fill(**changes))
    assert answer.status_code == 200, answer.status_code
    return answer.json()


# --- refusals --------------------------------------------------------------------------------------------------------


def test_staff_without_a_permission_see_and_change_no_rule() -> None:
    rule = make_rule(factories.make_group("ops"))
    client = sign_in("view_grant", "add_grant", "change_grant", "delete_grant", "view_limit")
    for address in (reverse(LIST), reverse(ADD), change_page(rule), change_page(rule).replace("change", "delete")):
        assert client.get(address).status_code == 403
        assert client.post(address, fill()).status_code == 403
    assert client.post(reverse(MEANING), fill()).status_code == 403
    assert ApprovalRule.objects.get().name == rule.name


def test_who_may_view_rules_changes_none() -> None:
    rule = make_rule(factories.make_group("ops"))
    client = sign_in("view_approvalrule")
    page = read(client, change_page(rule))
    assert "Calls of all tools do not run: nobody can approve them." in page and 'id="grant-form"' not in page
    assert client.post(change_page(rule), fill(enabled="")).status_code == 403
    assert client.post(reverse(MEANING), fill()).status_code == 403
    assert client.get(reverse(MEANING)).status_code in (403, 405)
    rule.refresh_from_db()
    assert rule.enabled


@pytest.mark.parametrize(
    ("field", "written", "sentence"),
    [
        ("name", " ", "required"),
        ("name", "a\u202eb", "a⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b"),
        ("conditions", '[{"path": "/amount",\n oops}]', "line 2"),
        ("conditions", [{**LARGE, "path": "/place"}], "There is no argument /place."),
        ("conditions", [{"path": "/region", "op": "fixed", "value": "emea"}], "A rule that asks cannot fix a value."),
        ("windows", [{**HOURS, "zone": "Mars/Base"}], 'There is no time zone "Mars/Base".'),
        ("minutes", 1441, "1440"),
        ("asks", "approvers", ""),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(
    browser: Client, field: str, written: Any, sentence: str
) -> None:
    make_customer_tool()
    answer = browser.post(reverse(ADD), fill(**{field: written, "note": "typed for long"}))
    found = errors(answer)
    assert list(found) == ["group" if field == "asks" else field] and sentence in " ".join(*found.values())
    assert not ApprovalRule.objects.exists()
    page = html.unescape(answer.content.decode())
    assert "typed for long" in page
    if field == "conditions":
        kept = answer.context["adminform"].form["conditions"].value()
        assert ("oops" in kept) if isinstance(written, str) else (json.loads(kept) == written)


def test_a_rule_with_two_targets_is_refused_at_the_second(browser: Client) -> None:
    tool = make_customer_tool(toolset="Customers")
    answer = browser.post(reverse(ADD), fill(tool=tool.pk))
    assert "Choose exactly one of grant, tool, toolset and all tools." in str(errors(answer)["all_tools"])


def test_arguments_are_offered_to_who_may_view_the_tools_alone(alice: User) -> None:
    tool = make_customer_tool(toolset="Customers")
    toolset, grant = tool.toolsets.get(), factories.grant(alice, tool)
    for query, permissions in (
        ({"toolset": toolset.pk}, ("view_toolset", "view_tool")),
        ({"grant": grant.pk}, ("view_grant", "view_tool", "view_toolset")),
    ):
        for missing in permissions:
            some = sign_in(*(one for one in permissions if one != missing), "add_approvalrule")
            assert some.get(reverse(ARGUMENTS), query).status_code == 403
        allowed = sign_in(*permissions)
        assert "/amount" in allowed.get(reverse(ARGUMENTS), query).content.decode()
    allowed = sign_in("view_toolset", "view_tool")
    assert allowed.get(reverse(ARGUMENTS), {"toolset": 99}).status_code == 404


# --- the form --------------------------------------------------------------------------------------------------------


def test_a_rule_is_saved_without_scripts_and_logged(browser: Client) -> None:
    tool, group = make_customer_tool(), factories.make_group("ops")
    sent = fill(all_tools="", tool=tool.pk, asks="approvers", group=group.pk, conditions=[LARGE], windows=[HOURS])
    assert browser.post(reverse(ADD), {**sent, "outside_windows": "on"}).status_code == 302
    rule = ApprovalRule.objects.get()
    assert (rule.tool, rule.group, rule.conditions, rule.windows) == (tool, group, [LARGE], [HOURS])
    assert (rule.four_eyes, rule.outside_windows, rule.minutes) == (True, True, 60)
    logged = Action.objects.get(kind="approval rule")
    assert (logged.verb, logged.actor) == ("created", "root")
    history = read(browser, reverse("admin:catalog_approvalrule_history", args=[rule.pk]))
    assert "root" in history


@pytest.mark.parametrize("kind", ["tool", "toolset", "grant"])
def test_the_address_of_the_form_chooses_what_the_rule_is_for(browser: Client, alice: User, kind: str) -> None:
    tool = make_customer_tool(toolset="Customers")
    rows = {"tool": tool, "toolset": tool.toolsets.get(), "grant": factories.grant(alice, tool)}
    form = browser.get(reverse(ADD), {kind: rows[kind].pk}).context["adminform"].form
    assert str(form[kind].value()) == str(rows[kind].pk)


def test_a_grant_is_chosen_among_those_that_allow_tools(browser: Client, alice: User) -> None:
    tool = make_customer_tool()
    allowed = factories.grant(alice, tool)
    factories.grant(alice, factories.make_prompt())
    factories.deny(alice, tool)
    query = {"app_label": "catalog", "model_name": "approvalrule", "field_name": "grant", "term": "alice"}
    found = browser.get(reverse("admin:autocomplete"), query).json()["results"]
    assert found == [{"id": str(allowed.pk), "text": f"Grant {allowed.pk}: allow tool delete_customer to user alice"}]


def test_the_arguments_of_the_tools_of_a_toolset_are_offered_together(browser: Client, alice: User) -> None:
    tool = make_customer_tool(toolset="Customers")
    toolset = tool.toolsets.get()
    schema = {"type": "object", "properties": {"amount": {"type": "string"}, "place": {"type": "string"}}}
    factories.make_tool("other", input_schema=schema, toolset=toolset)
    for query in ({"toolset": toolset.pk}, {"grant": factories.grant(alice, toolset).pk}):
        found = browser.get(reverse(ARGUMENTS), query).json()
        kinds = {one["path"]: one["kinds"] for one in found["arguments"]}
        assert kinds["/amount"] == ["integer", "string"] and kinds["/place"] == ["string"]
        assert "/api_key" not in kinds and not found["is_complete"]
    of_prompt = factories.grant(alice, factories.make_prompt())
    assert browser.get(reverse(ARGUMENTS), {"grant": of_prompt.pk}).json()["arguments"] == []


# --- what a rule means -----------------------------------------------------------------------------------------------


def test_the_page_says_in_one_sentence_what_a_rule_means(
    browser: Client, alice: User, bob: User, charlie: User
) -> None:
    tool = make_customer_tool()
    group = factories.make_group("ops", [alice, bob, charlie])
    User.objects.create_user("gone", is_active=False).groups.add(group)
    rule = make_rule(group, tool=tool, conditions=[LARGE])
    sentence = "Calls of tool delete_customer where amount is more than 1000 ask one of 3 approvers in ops."
    assert sentence in read(browser, change_page(rule))
    rule.enabled = False
    rule.save()
    assert f"Switched off: {sentence}" in read(browser, change_page(rule))


def test_the_sentence_follows_the_form_that_is_not_saved(browser: Client, alice: User) -> None:
    tool = make_customer_tool(toolset="Customers")
    group = factories.make_group("ops", [alice])
    grant = factories.grant(alice, tool)
    to_ops = {"asks": "approvers", "group": group.pk}
    hours = "Mon, Fri from 09:00 to 17:30 (Europe/Berlin)"
    for changes, sentence in (
        ({}, "Calls of all tools ask the person who calls."),
        ({"destructive_only": "on"}, "Calls of all destructive tools ask the person who calls."),
        (to_ops, "Calls of all tools ask the only approver in ops."),
        ({"windows": [HOURS]}, f"Calls of all tools, {hours}, ask the person who calls."),
        (
            {"windows": [HOURS], "outside_windows": "on"},
            f"Calls of all tools, outside {hours}, ask the person who calls.",
        ),
        ({"all_tools": "", "toolset": tool.toolsets.get().pk}, "Calls of toolset Customers ask the person who calls."),
        (
            {"all_tools": "", "grant": grant.pk},
            f"Calls of tool delete_customer that only grant {grant.pk} allows ask the person who calls.",
        ),
        (
            {"all_tools": "", "tool": tool.pk, "first_time": "/customer"},
            "Calls of tool delete_customer, the first time with a value of customer, ask the person who calls.",
        ),
        ({"name": "", "minutes": "0"}, "Calls of all tools ask the person who calls."),
        ({"all_tools": ""}, ""),
        ({"conditions": "[oops"}, ""),
    ):
        assert tell(browser, **changes) == {"sentence": sentence, "warning": ""}
    assert not ApprovalRule.objects.exists()


def test_a_group_in_which_nobody_can_approve_is_a_warning_before_and_after_saving(browser: Client) -> None:
    group = factories.make_group("ops")
    User.objects.create_user("gone", is_active=False).groups.add(group)
    sent = {"asks": "approvers", "group": group.pk}
    warning = "Nobody can approve: the group has no active member. Add people to it."
    assert tell(browser, **sent)["warning"] == warning
    answer = browser.post(reverse(ADD), fill(**sent), follow=True)
    assert warning in html.unescape(answer.content.decode())
    group.delete()
    page = read(browser, change_page(ApprovalRule.objects.get()))
    assert "Nobody can approve: the group was deleted. Choose another one." in page


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_list_says_what_asks_whom_when_and_where_nobody_can_approve(browser: Client, alice: User) -> None:
    tool = make_customer_tool()
    ops, empty = factories.make_group("ops", [alice]), factories.make_group("empty")
    make_rule(ops, name="Large", tool=tool, conditions=[LARGE], windows=[HOURS], outside_windows=True)
    make_rule(empty, name="Stuck", destructive_only=True)
    make_rule(name="Own", grant=factories.grant(alice, tool))
    make_rule(name="Resting", enabled=False)
    gone = factories.make_group("gone")
    make_rule(gone, name="Orphan")
    gone.delete()
    page = read(browser, reverse(LIST))
    for text in (
        *("tool delete_customer", "ops (1 approver)", "amount is more than 1000; outside Mon, Fri from 09:00"),
        *("all destructive tools", "empty (0 approvers)", f"grant {Grant.objects.get().pk}", "the person who calls"),
        *("switched off", "a group that was deleted", "nobody can approve"),
    ):
        assert text in page, text
    stuck = browser.get(reverse(LIST), {"approvers": "none"}).context["cl"].queryset
    assert {rule.name for rule in stuck} == {"Orphan", "Stuck"}
    found = browser.get(reverse(LIST), {"q": "delete_customer"}).context["cl"].queryset
    assert {rule.name for rule in found} == {"Large", "Own"}
    on = browser.get(reverse(LIST), {"enabled__exact": "0"}).context["cl"].queryset
    assert [rule.name for rule in on] == ["Resting"]


def test_the_list_takes_as_many_queries_for_many_rules(browser: Client, django_assert_max_num_queries: Any) -> None:
    group = factories.make_group("ops")
    for number in range(12):
        grant = factories.grant(group, make_customer_tool(f"tool_{number}"))
        make_rule(group, name=f"Rule {number}", grant=grant)
    with django_assert_max_num_queries(25):
        browser.get(reverse(LIST))


def test_the_sidebar_leads_to_the_rules_of_who_may_view_them(browser: Client) -> None:
    assert f'href="{reverse(LIST)}"' in read(browser, reverse("admin:index"))
    assert f'href="{reverse(LIST)}"' not in read(sign_in("view_limit"), reverse("admin:index"))


# --- the pages of what rules are about -------------------------------------------------------------------------------


def test_the_page_of_a_tool_names_the_rules_that_can_ask_about_its_calls(browser: Client, alice: User) -> None:
    tool = make_customer_tool(toolset="Customers")
    reads = make_customer_tool("read_customer", destructive=None, read_only=True)
    make_rule(name="Of this tool", tool=tool)
    make_rule(name="Of its toolset", toolset=tool.toolsets.get())
    make_rule(name="Of all that destroy", destructive_only=True)
    make_rule(name="Of another tool", tool=reads)
    page = read(browser, reverse("admin:catalog_tool_change", args=[tool.pk]))
    for name in ("Of this tool", "Of its toolset", "Of all that destroy"):
        assert f">{name}</a>: Calls of" in page
    assert "Of another tool" not in page
    assert f'href="{reverse(ADD)}?tool={tool.pk}"' in page
    other = read(browser, reverse("admin:catalog_tool_change", args=[reads.pk]))
    assert ">Of another tool</a>" in other and "Of all that destroy" not in other


def test_the_pages_of_a_toolset_and_of_a_grant_name_their_rules(browser: Client, alice: User) -> None:
    tool = make_customer_tool(toolset="Customers")
    toolset, grant = tool.toolsets.get(), factories.grant(alice, tool)
    make_rule(name="Of the toolset", toolset=toolset)
    make_rule(name="Of the grant", grant=grant)
    page = read(browser, reverse("admin:catalog_toolset_change", args=[toolset.pk]))
    assert ">Of the toolset</a>" in page and f'href="{reverse(ADD)}?toolset={toolset.pk}"' in page
    page = read(browser, reverse("admin:catalog_grant_change", args=[grant.pk]))
    assert ">Of the grant</a>" in page and f'href="{reverse(ADD)}?grant={grant.pk}"' in page
    denial = factories.deny(alice, tool)
    assert f"{reverse(ADD)}?grant" not in read(browser, reverse("admin:catalog_grant_change", args=[denial.pk]))


def test_who_may_not_view_rules_reads_their_number_alone(alice: User) -> None:
    tool = make_customer_tool()
    make_rule(name="Nobody else reads this", tool=tool)
    page = read(sign_in("view_tool"), reverse("admin:catalog_tool_change", args=[tool.pk]))
    assert "1 approval rule" in page and "Nobody else reads this" not in page and reverse(ADD) not in page
