"""What asks before it deletes says what its buttons do, and always leads back."""

from __future__ import annotations

import html

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from tests import factories
from tests.catalog.approval_rules import make_rule, sign_in


def test_the_buttons_of_a_confirmation_say_what_they_do(browser: Client) -> None:
    tool = factories.make_tool()
    one = browser.get(reverse("admin:catalog_tool_delete", args=[tool.pk])).content.decode()
    chosen = {"action": "delete_selected", "_selected_action": tool.pk}
    several = browser.post(reverse("admin:catalog_tool_changelist"), chosen).content.decode()
    for page in (one, several):
        assert "sure</button>" not in page.replace("\n", "") and "take me back" not in page
        assert "Cancel" in page and "Delete" in page
    assert f'href="{reverse("admin:catalog_tool_change", args=[tool.pk])}" class="' in one
    assert f'href="{reverse("admin:catalog_tool_changelist")}" class="' in several


def test_a_refused_deletion_names_what_is_in_the_way_and_leads_back(alice: User) -> None:
    tool = factories.make_tool()
    factories.grant(alice, tool)
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=["view_tool", "delete_tool"]))
    browser = Client()
    browser.force_login(clerk)
    page = browser.get(reverse("admin:catalog_tool_delete", args=[tool.pk])).content.decode()
    assert "you need permission to delete what belongs to it:" in page and "<li>grant</li>" in page
    assert "Go back" in page and f'href="{reverse("admin:catalog_tool_change", args=[tool.pk])}" class="' in page


def test_the_chinese_question_has_no_blank_between_its_words(browser: Client) -> None:
    tool = factories.make_tool("calculate_sum")
    address = reverse("admin:catalog_tool_delete", args=[tool.pk])
    page = browser.get(address, headers={"accept-language": "zh-hans"}).content.decode()
    assert "删除工具" in page and "？ " not in page


def test_the_chinese_name_of_a_page_that_adds_has_no_blank_between_its_words(browser: Client) -> None:
    page = browser.get(reverse("admin:catalog_grant_add"), headers={"accept-language": "zh-hans"}).content.decode()
    assert "增加授权</span>" in page


def test_the_button_that_adds_has_a_name_and_is_not_on_the_page_that_adds(browser: Client) -> None:
    listed = browser.get(reverse("admin:catalog_grant_changelist"), headers={"accept-language": "zh-hans"})
    assert 'aria-label="添加授权"' in listed.content.decode()
    assert "addlink" not in browser.get(reverse("admin:catalog_grant_add")).content.decode()


@pytest.mark.parametrize("several", [False, True])
def test_who_deletes_a_group_that_approves_reads_what_nobody_can_approve_any_more(
    browser: Client, several: bool
) -> None:
    group, other = factories.make_group("ops"), factories.make_group("other")
    make_rule(group, name="Deletions <b>", all_tools=True)
    make_rule(group, name="Large sums", all_tools=True)

    def ask(client: Client, chosen: Group) -> str:
        if several:
            sent = {"action": "delete_selected", "_selected_action": [chosen.pk]}
            return html.unescape(client.post(reverse("admin:auth_group_changelist"), sent).content.decode())
        return html.unescape(client.get(reverse("admin:auth_group_delete", args=[chosen.pk])).content.decode())

    says = "Without this group, nobody can approve the calls of 2 approval rules: they do not run."
    page = ask(browser, group)
    assert says in page and "The rules: “Deletions <b>”, “Large sums”." in page
    assert "nobody can approve" not in ask(browser, other)
    rules = [f"{verb}_approvalrule" for verb in ("add", "change", "delete")]
    page = ask(sign_in("view_group", "delete_group", "add_grant", "change_grant", "delete_grant", *rules), group)
    assert says in page and "Large sums" not in page
    assert browser.post(reverse("admin:auth_group_delete", args=[group.pk]), {"post": "yes"}).status_code == 302
