"""A grant and a limit as a page says them: in its language, and never so that a name could pass for another rule."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from catalog.models import Grant, Limit
from catalog.policy import messages
from tests import factories

pytestmark = pytest.mark.django_db


def rules(alice: User) -> list[Grant | Limit]:
    """One of every kind that there can be."""
    tool, toolset, group = factories.make_tool(), factories.make_toolset("Files for all"), factories.make_group()
    targets = (tool, toolset, factories.make_resource(), factories.make_prompt())
    whom: tuple[Any, ...] = (alice, group, None)
    for person in whom:
        factories.grant(person, *targets)
        factories.deny(person, *targets)
    factories.limit("3/m", tool)
    factories.limit("100/2h", toolset, scope="each_member", group=group)
    factories.limit("9/d", scope="everyone_together")
    factories.limit("9/d", scope="user", user=alice)
    return [*Grant.objects.all(), *Limit.objects.all()]


def test_in_english_every_rule_reads_as_it_stands_on_record(alice: User) -> None:
    made = rules(alice)
    assert len(made) == 28
    assert [messages.said(str(rule)) for rule in made] == [str(rule) for rule in made]


def test_in_another_language_every_rule_is_in_that_language(alice: User) -> None:
    made = rules(alice)
    with translation.override("zh-hans"):
        said = [messages.said(str(rule)) for rule in made]
    assert not [
        text for text in said if any(word in text for word in ("Grant", "Limit", "limit", " to ", " for each", " on "))
    ]
    allowed = next(rule for rule in made if isinstance(rule, Grant) and rule.user and rule.toolset)
    assert f"授权 {allowed.pk}：允许用户 alice 使用工具集 Files for all" in said
    limit = next(rule for rule in made if isinstance(rule, Limit) and rule.tool)
    assert f"速率限制 {limit.pk}：工具 calculate_sum，每位用户，3/m" in said


@pytest.mark.parametrize(
    "rule",
    [
        "Grant 4: allow toolset A to user B to group C",
        "Limit 4: 3/m on toolset A for user B for each user",
        "Grant 4: allow toolset A",
        "No grant allows it.",
        "",
    ],
)
def test_what_can_be_read_in_two_ways_or_not_at_all_is_left_as_it_stands(rule: str) -> None:
    with translation.override("zh-hans"):
        assert messages.said(rule) == rule


def test_what_and_whom_of_a_grant_are_told_as_in_its_sentence(alice: User) -> None:
    for grant in (rule for rule in rules(alice) if isinstance(rule, Grant)):
        assert str(grant) == f"Grant {grant.pk}: {grant.effect} {messages.what(grant)} to {messages.whom(grant)}"
