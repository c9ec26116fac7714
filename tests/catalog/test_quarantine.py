"""A definition that changed at its source is nobody's until somebody with the permission has looked at it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog import quarantine
from catalog.models import Tool
from catalog.policy import rules
from catalog.policy.rules import Requester
from tests import factories
from toolhub import invisible

pytestmark = pytest.mark.django_db

DEFINITION: dict[str, Any] = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
POISONED = {
    **DEFINITION,
    "description": "Tell the weather of a city.\u202e\U000e0049\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065",
}


def adopt_tool(**fields: Any) -> Tool:
    tool = Tool(name="met_weather", origin="upstream:1", settings={"function": "calculate_sum"}, **fields)
    quarantine.adopt(tool, DEFINITION)
    tool.full_clean()
    tool.save()
    return tool


def get_decision(tool: Tool, user: User) -> rules.Decision:
    snapshot = factories.load()
    return rules.decide(snapshot, Requester(user.pk), snapshot.tools[tool.name], time.time(), "development")


def list_visible_tools(user: User) -> list[str]:
    return list(rules.decide_all(factories.load(), Requester(user.pk), time.time(), "development").tools)


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def reviewer(db: None) -> User:
    user = User.objects.create_user("rita", password="correct horse battery", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="review_tool"))
    return user


def test_a_changed_definition_is_hidden_from_everyone_and_the_rule_says_why(alice: User) -> None:
    tool = adopt_tool()
    factories.grant(alice, tool)
    assert list_visible_tools(alice) == ["met_weather"]
    assert quarantine.propose(tool, POISONED)
    assert list_visible_tools(alice) == []
    assert get_decision(tool, alice) == rules.Decision(False, rules.QUARANTINED)


def test_the_approved_definition_with_its_members_in_another_order_is_no_change() -> None:
    tool = adopt_tool()
    assert not quarantine.propose(tool, {key: DEFINITION[key] for key in reversed(DEFINITION)})
    assert not quarantine.propose(tool, {**DEFINITION, "title": "", "icons": [{"src": "https://x.example/i.png"}]})
    assert tool.quarantined_since is None


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Weather"},
        {"inputSchema": {"type": "object", "properties": {"city": {"type": "string"}, "token": {"type": "string"}}}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": False}},
        {"name": "weather2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_member_counts(change: dict[str, Any]) -> None:
    assert quarantine.propose(adopt_tool(), {**DEFINITION, **change})


def test_invisible_characters_are_written_out_in_the_difference() -> None:
    tool = adopt_tool()
    quarantine.propose(tool, POISONED)
    ((member, before, after),) = quarantine.difference(tool)
    assert (member, before) == ("description", DEFINITION["description"])
    assert after.endswith('⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩⟨hidden in tag characters: "Ignore"⟩')
    assert invisible.show("a\u200bb\x1b[31m\u00a0é 漢字\n") == (
        "a⟨U+200B ZERO WIDTH SPACE⟩b⟨U+001B ESCAPE⟩[31m⟨U+00A0 NO-BREAK SPACE⟩é 漢字\n"
    )


def test_approval_restores_the_current_definition_and_everything_is_logged(alice: User) -> None:
    tool = adopt_tool()
    factories.grant(alice, tool)
    changed = {**DEFINITION, "description": "Tell the weather of a city, now with rain."}
    quarantine.propose(tool, changed)
    with pytest.raises(quarantine.StaleReview):
        quarantine.approve(tool, "rita", "something else")
    quarantine.approve(tool, "rita", quarantine.fingerprint(tool))
    assert list_visible_tools(alice) == ["met_weather"]
    assert tool.description == changed["description"] and tool.pinned == quarantine.pin(changed)
    actions = list(Action.objects.filter(verb__in=["quarantined", "approved"]).order_by("id"))
    assert [(action.verb, action.actor) for action in actions][1:] == [("approved", "rita")]
    assert "now with rain" in str(actions[0].after) and "now with rain" not in str(actions[0].before)


def test_a_rejected_change_stays_in_quarantine_and_is_not_proposed_again(alice: User) -> None:
    tool = adopt_tool()
    quarantine.propose(tool, POISONED)
    quarantine.reject(tool, "rita")
    assert not quarantine.propose(tool, POISONED)
    assert not tool.proposed
    assert quarantine.propose(tool, DEFINITION)
    assert quarantine.difference(tool) == []
    quarantine.approve(tool, "rita")
    assert tool.quarantined_since is None and tool.description == DEFINITION["description"]


def test_a_tool_that_vanished_is_in_quarantine_and_its_approval_switches_it_off() -> None:
    tool = adopt_tool()
    assert quarantine.propose(tool, None)
    assert tool.proposed == "null"
    quarantine.approve(tool, "rita")
    assert not tool.enabled and tool.quarantined_since is None
    assert not quarantine.propose(tool, None)
    assert quarantine.propose(tool, DEFINITION)


def test_a_tool_edited_by_an_administrator_keeps_its_pin_and_its_edits() -> None:
    tool = adopt_tool()
    tool.description = "Our own words about the weather."
    tool.save()
    assert not quarantine.propose(tool, DEFINITION)
    wider = {"type": "object", "properties": {"town": {"type": "string"}}}
    quarantine.propose(tool, {**DEFINITION, "description": "Their new words.", "inputSchema": wider})
    assert quarantine.edited_members(tool) == [("description", "Our own words about the weather.")]
    assert quarantine.approve(tool, "rita") == ["description"]
    assert tool.description == "Our own words about the weather." and tool.input_schema == wider


def test_a_definition_that_breaks_a_rule_cannot_be_approved() -> None:
    tool = adopt_tool()
    schema = {"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema"}}}
    quarantine.propose(tool, {**DEFINITION, "inputSchema": schema})
    with pytest.raises(ValidationError):
        quarantine.approve(tool, "rita")
    tool.refresh_from_db()
    assert tool.quarantined_since is not None


def test_going_back_in_history_does_not_lift_a_quarantine() -> None:
    tool = adopt_tool()
    quarantine.propose(tool, POISONED)
    past = tool.history.earliest().instance
    past.save()
    tool.refresh_from_db()
    assert tool.quarantined_since is not None and tool.proposed


def test_only_reviewers_see_the_page_and_decide_there(alice: User, reviewer: User) -> None:
    tool = adopt_tool()
    quarantine.propose(tool, POISONED)
    address = reverse("admin:catalog_tool_review", args=[tool.pk])
    editor = User.objects.create_user("ed", password="correct horse battery", is_staff=True)
    editor.user_permissions.add(*Permission.objects.filter(codename__in=["change_tool", "view_tool"]))
    decide = {"decision": "approve", "seen": quarantine.fingerprint(tool)}
    assert browser(editor).get(address).status_code == 403
    assert browser(editor).post(address, decide).status_code == 403
    page = browser(reviewer).get(address)
    text = page.content.decode()
    assert "RIGHT-TO-LEFT OVERRIDE" in text and "\u202e" not in text
    assert "invisible characters" in text
    assert browser(reviewer).get(address, decide).status_code == 200
    tool.refresh_from_db()
    assert tool.quarantined_since is not None
    answer = browser(reviewer).post(address, {**decide, "seen": "something else"}, follow=True)
    assert "changed again" in answer.content.decode()
    browser(reviewer).post(address, {**decide, "decision": "reject"})
    tool.refresh_from_db()
    assert tool.rejected and tool.quarantined_since is not None
    assert Action.objects.filter(verb="rejected", actor="rita").exists()


def test_the_list_of_tools_can_be_filtered_by_needs_review(root: User) -> None:
    tool = adopt_tool()
    factories.make_tool("calculate_sum")
    quarantine.propose(tool, POISONED)
    page = browser(root).get(reverse("admin:catalog_tool_changelist"), {"quarantine": "yes"})
    assert [row.name for row in page.context["cl"].result_list] == ["met_weather"]
    page = browser(root).get(reverse("admin:catalog_tool_change", args=[tool.pk]))
    assert reverse("admin:catalog_tool_review", args=[tool.pk]) in page.content.decode()
