"""A grant and a limit as a page says them: in its language, and never so that a name could pass for another rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from audit import hooks
from audit.types import Reason
from catalog.errors import CANCELLATIONS, Cancellation
from catalog.models import Grant, Limit
from catalog.policy import messages
from catalog.policy import rules as policy
from catalog.policy.definitions import Rule
from tests import factories
from tests.catalog.approval_rules import make_rule

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


def list_deciding_rules() -> list[Rule]:
    """Every rule as it decides calls."""
    loaded = factories.load()
    return [grant.rule for grant in loaded.grants] + [limit.rule for limit in loaded.limits]


def test_in_english_every_rule_reads_as_its_row_does(alice: User) -> None:
    made = rules(alice)
    assert len(made) == 28
    assert [messages.rule_of(rule).english for rule in made] == [str(rule) for rule in made]
    grants = [rule for rule in made if isinstance(rule, Grant)]
    assert [messages.name_row(rule) for rule in grants] == [str(rule) for rule in grants]


def test_the_rule_of_a_row_is_the_one_that_decides(alice: User) -> None:
    made = rules(alice)
    assert list_deciding_rules() == [messages.rule_of(row) for row in made]


def test_in_another_language_every_rule_is_in_that_language(alice: User) -> None:
    made = rules(alice)
    with translation.override("zh-hans"):
        said = [messages.name_row(rule) for rule in made]
    assert not [
        text for text in said if any(word in text for word in ("Grant", "Limit", "limit", " to ", " for each", " on "))
    ]
    allowed = next(rule for rule in made if isinstance(rule, Grant) and rule.user and rule.toolset)
    assert f"授权 {allowed.pk}：允许用户 alice 使用工具集 Files for all" in said
    limit = next(rule for rule in made if isinstance(rule, Limit) and rule.tool)
    assert f"限制 {limit.pk}：工具 calculate_sum，每位用户，3/m" in said


ODD = ("Welcome to group B", "A to user B", "for each user", "%(what)s", "x: deny tool y to everyone")


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_reads_like_a_rule_is_shown_as_a_name(alice: User, name: str) -> None:
    toolset, group = factories.make_toolset(name), factories.make_group(name, [alice])
    factories.make_tool(toolset=toolset)
    grant = factories.grant(group, toolset)
    limit = factories.limit("3/m", toolset, scope="each_member", group=group)
    made = list_deciding_rules()
    with translation.override("zh-hans"):
        assert [messages.translate(rule) for rule in made] == [
            f"授权 {grant.pk}：允许用户组 {name} 使用工具集 {name}",
            f"限制 {limit.pk}：工具集 {name}，{name} 的每位成员，3/m",
        ]
        for rule in made:
            kept = Reason.read(rule.text)
            assert kept is not None and messages.translate_reason(kept) == messages.translate(rule)


def test_every_code_of_a_rule_has_a_sentence_in_both_languages() -> None:
    for rule in (value for value in vars(policy).values() if isinstance(value, Rule)):
        assert rule.english and messages.translate(rule)
        with translation.override("zh-hans"):
            assert rule.english.isascii() and messages.translate(rule)


def test_an_edited_reason_keeps_its_english_sentence() -> None:
    for text in ("", "{}", "[1, 2]", '["rule.grant", {}]', '["rule.grant", {"kind": []}]', '["arguments.type", {}]'):
        assert hooks.sentence(text, "in English") == "in English"


def test_target_and_subject_of_a_grant_read_as_in_its_sentence(alice: User) -> None:
    for grant in (rule for rule in rules(alice) if isinstance(rule, Grant)):
        assert (
            str(grant)
            == f"Grant {grant.pk}: {grant.effect} {messages.name_target(grant)} to {messages.name_subject(grant)}"
        )


@pytest.mark.parametrize("code", CANCELLATIONS)
def test_a_cancellation_keeps_its_code_and_the_name_in_it_from_worker_to_worker(code: str) -> None:
    params = {"name": "li by wei"} if "{name}" in CANCELLATIONS[code] else {}
    here = Cancellation(code, **params)
    there = Cancellation.read(here.reason.encode())
    assert there is not None
    assert (there, there.reason.code, there.reason.params) == (str(here), code, params)
    assert ("li by wei" in messages.translate_reason(here.reason)) == bool(params)


@pytest.mark.parametrize(
    "text", ["", "[]", '["cancelled.unheard_of", {}]', '["cancelled.in_browser", {}]', "cancelled"]
)
def test_a_cancellation_that_this_version_does_not_know_is_none(text: str) -> None:
    assert Cancellation.read(text) is None


def test_every_reason_in_the_code_has_a_sentence_in_both_languages() -> None:
    root = Path(__file__).parents[2]
    code = re.compile(r'"((?:rule|unknown|run|cancelled)\.[a-z_]+)"')
    found = {text for folder in ("audit", "catalog") for path in (root / folder).rglob("*.py")
             for text in code.findall(path.read_text())}  # fmt: skip
    assert found >= {*CANCELLATIONS, "run.process_ended", "run.client_left", "unknown.tool"}
    params = {"number": 1, "effect": "allow", "kind": "tool", "name": "a", "by": "everyone", "whom": "", "rate": "3/m"}
    for text in found:
        assert messages.translate_reason(
            Reason(text, {**params, "seconds": 3, "keys": "a", "names": "b", "scope": "mcp:write"})
        ), text


def test_an_approval_rule_reads_as_the_one_that_asks(alice: User) -> None:
    rule = make_rule(name="Deletions need %(what)s", grant=factories.grant(alice, factories.make_tool()))
    (asking,) = factories.load().asks_by_grant.values()
    assert asking[0].rule == messages.rule_of(rule)
    said = f"Approval rule {rule.pk}: Deletions need %(what)s"
    assert messages.name_row(rule) == messages.translate(asking[0].rule) == asking[0].rule.english == said


def test_a_grant_that_needed_an_approval_names_who_gave_it(alice: User) -> None:
    rule = messages.rule_of(factories.grant(alice, factories.make_tool()))
    approved = Reason(rule.code, {**rule.params, "approved_by": "bob, wei", "approvals": ["1"]})
    assert messages.translate_reason(approved) == f"{messages.translate(rule)}, approved by bob, wei"


@pytest.mark.parametrize(
    ("code", "params", "sentence"),
    [
        ("approval.waiting", {"rules": "Deletions"}, "It waits for an approval: Deletions."),
        ("approval.denied", {"by": "bob", "reason": ""}, "bob denied it."),
        ("approval.denied", {"by": "bob", "reason": "100%(by)s"}, "bob denied it: 100%(by)s"),
        ("approval.expired", {}, "It did not run: no approval in time."),
        ("approval.too_many", {"most": 20}, "It did not run: 20 calls of the user wait for an approval"),
        ("approval.lost", {}, "It did not run: its approval was withdrawn, used by another call, or is void."),
    ],
)
def test_why_a_call_has_no_approval_is_said(code: str, params: dict[str, Any], sentence: str) -> None:
    assert messages.translate_reason(Reason(code, params)).startswith(sentence)
    if params:
        assert messages.translate_reason(Reason(code, {})) == ""
