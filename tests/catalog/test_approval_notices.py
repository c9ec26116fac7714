"""Before a call: the pages that show a tool say whom its calls ask for approval, and whether it is for some alone."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from catalog.models import Tool
from tests import factories
from tests.catalog.approval_rules import HOURS, LARGE, make_customer_tool, make_rule

pytestmark = pytest.mark.django_db


@pytest.fixture
def tool(alice: User) -> Tool:
    made = make_customer_tool(toolset="Customers")
    factories.grant(alice, made)
    return made


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code
    return html.unescape(answer.content.decode())


def read_own(client: Client, user: User, tool: Tool) -> tuple[str, str]:
    """Their list of tools, and the page of this one."""
    client.force_login(user)
    return read(client, reverse("catalog:tools")), read(client, reverse("catalog:tool", args=[tool.name]))


def read_staff(browser: Client, user: User, tool: Tool) -> tuple[str, str]:
    """View as this user, and the page to try the tool as them."""
    seen = read(browser, f"{reverse('pages:view-as')}?user={user.username}")
    return seen, read(browser, f"{reverse('pages:try', args=[tool.pk])}?user={user.username}")


def test_a_tool_without_rules_says_nothing_of_approvals(
    browser: Client, client: Client, alice: User, tool: Tool
) -> None:
    ops = factories.make_group("ops")
    make_rule(ops, name="Off", tool=tool, enabled=False)
    make_rule(ops, name="Of another tool", tool=make_customer_tool("other"))
    for page in (*read_own(client, alice, tool), *read_staff(browser, alice, tool)):
        assert "for approval" not in page


def test_a_tool_that_somebody_cannot_use_says_nothing_of_approvals(browser: Client, bob: User, tool: Tool) -> None:
    make_rule(factories.make_group("ops"), tool=tool)
    for page in read_staff(browser, bob, tool):
        assert "Asks for approval" not in page


@pytest.mark.parametrize(
    ("rule", "own", "others"),
    [
        ({}, "Asks for approval by ops.", "Asks for approval by ops."),
        ({"conditions": [LARGE]}, "Asks for approval by ops, for some calls.", None),
        ({"windows": [HOURS]}, "Asks for approval by ops, for some calls.", None),
        ({"asks": "person"}, "It asks you to approve each call.", "Asks for approval by the user."),
        (
            {"asks": "person", "conditions": [LARGE]},
            "For some calls, it asks you to approve.",
            "Asks for approval by the user, for some calls.",
        ),
    ],
)
def test_every_page_of_a_tool_says_whom_its_calls_ask(
    browser: Client, client: Client, alice: User, tool: Tool, rule: dict[str, Any], own: str, others: str | None
) -> None:
    make_rule(factories.make_group("ops") if "asks" not in rule else None, toolset=tool.toolsets.get(), **rule)
    listed, page = read_own(client, alice, tool)
    assert ">Asks for approval</span>" in listed and own in listed and f"<li>{own}</li>" in page
    seen, tried = read_staff(browser, alice, tool)
    assert (others or own) in seen
    assert own in tried, "who tries it as somebody else confirms in their place"


def test_a_group_that_is_gone_is_said(browser: Client, client: Client, alice: User, tool: Tool) -> None:
    group = factories.make_group("ops")
    make_rule(group, tool=tool)
    group.delete()
    for page in (*read_own(client, alice, tool), *read_staff(browser, alice, tool)):
        assert "Asks for approval. Nobody can approve: the group was deleted." in page


def test_a_rule_of_a_grant_is_said_only_where_no_other_grant_allows_every_call(
    browser: Client, client: Client, alice: User, tool: Tool
) -> None:
    make_rule(factories.make_group("ops"), grant=tool.grants.get())
    narrow = factories.grant(alice, tool, conditions=[LARGE])
    for page in (*read_own(client, alice, tool), *read_staff(browser, alice, tool)):
        assert "Asks for approval by ops" in page
    narrow.conditions = []
    narrow.save()
    for page in (*read_own(client, alice, tool), *read_staff(browser, alice, tool)):
        assert "Asks for approval" not in page
