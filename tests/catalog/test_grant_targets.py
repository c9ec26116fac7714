"""Whether one user reaches more than another: in doubt, yes. Who could take over an account depends on it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalog.models import ApprovalRule, Flag, Tool, ValueList
from catalog.policy.grant_targets import reaches_more
from tests import factories

pytestmark = pytest.mark.django_db
EMEA = [{"path": "/region", "op": "equals", "value": "emea"}]
APAC = [{"path": "/region", "op": "equals", "value": "apac"}]
LISTED = [{"path": "/region", "op": "belongs_to", "list": "regions"}]
DAY = timedelta(days=1)


def make_windows(*days_from_now: int) -> list[dict[str, Any]]:
    days = [(timezone.now() + number * DAY).strftime("%a").lower() for number in days_from_now]
    return [{"days": days, "from": "00:00", "to": "24:00", "zone": "UTC"}]


OPEN, SHUT = make_windows(-1, 0, 1), make_windows(3)


@pytest.fixture
def tool() -> Tool:
    return factories.make_tool()


@pytest.fixture(autouse=True)
def catalogue() -> None:
    Flag.objects.create(name="on", percentage=100)
    Flag.objects.create(name="off", percentage=0)


def list_for(**parts: list[str]) -> ValueList:
    """The list of regions: values by user name."""
    made = ValueList.objects.create(name="regions")
    for name, entries in parts.items():
        made.parts.create(user=User.objects.get(username=name), entries=entries)
    return made


# alice is the person whose account bob would take over.


@pytest.mark.parametrize(
    ("hers", "his"),
    [
        ({}, {"conditions": EMEA}),
        ({"conditions": EMEA}, {"conditions": APAC}),
        ({"conditions": [{"op": "belongs_to"}]}, {"conditions": [{"op": "belongs_to"}]}),
        ({}, {"windows": OPEN}),
        ({}, {"windows": SHUT}),
        ({"windows": SHUT}, {"windows": OPEN}),
        ({"windows": SHUT}, {"windows": SHUT}),
        ({}, {"flags": ["off"]}),
        ({"flags": ["off"]}, {"flags": ["off"]}),
        ({}, {"flags": ["on", "off"]}),
        ({}, {"flags": ["gone"]}),
        ({"conditions": EMEA, "flags": ["off"]}, {"conditions": EMEA, "flags": ["on", "off"]}),
        ({"conditions": EMEA, "windows": OPEN}, {"conditions": APAC, "windows": OPEN}),
    ],
)
def test_a_restricted_grant_does_not_reach_what_another_one_does(
    alice: User, bob: User, tool: Tool, hers: dict[str, Any], his: dict[str, Any]
) -> None:
    factories.grant(alice, tool, **hers)
    factories.grant(bob, tool, **his)
    assert reaches_more(alice.pk, bob.pk)


@pytest.mark.parametrize(
    ("hers", "his"),
    [
        ({}, {}),
        ({"conditions": EMEA, "windows": SHUT, "flags": ["off"]}, {}),
        ({"conditions": EMEA}, {"conditions": EMEA}),
        ({"windows": OPEN}, {"windows": OPEN}),
        ({"conditions": EMEA, "windows": OPEN}, {"conditions": EMEA}),
        ({"flags": ["off"]}, {"flags": ["on"]}),
    ],
)
def test_an_unrestricted_grant_or_the_same_restrictions_reach_as_much(
    alice: User, bob: User, tool: Tool, hers: dict[str, Any], his: dict[str, Any]
) -> None:
    factories.grant(alice, tool, **hers)
    factories.grant(bob, tool, **his)
    assert not reaches_more(alice.pk, bob.pk)


def test_the_same_conditions_by_a_list_reach_as_much_only_with_the_same_values(
    alice: User, bob: User, tool: Tool
) -> None:
    factories.grant(None, tool, conditions=LISTED)
    regions = list_for(alice=["emea", "apac"], bob=["emea"])
    assert reaches_more(alice.pk, bob.pk)
    group = factories.make_group("sales", [bob])
    regions.parts.create(group=group, entries=["apac"])
    assert not reaches_more(alice.pk, bob.pk)
    regions.parts.create(everyone=True, entries=["latam"])
    assert not reaches_more(alice.pk, bob.pk)


def test_a_flag_that_is_on_for_some_counts_as_it_is_for_the_second_person(alice: User, bob: User, tool: Tool) -> None:
    factories.grant(alice, tool)
    factories.grant(None, tool, flags=["part"])
    flag = Flag.objects.create(name="part", percentage=99)
    found = [reaches_more(alice.pk, other) for other in range(1_000, 1_200)]
    assert any(found) and not all(found), "some of two hundred are among the hundredth without it"
    flag.percentage = 100
    flag.save()
    assert not reaches_more(alice.pk, bob.pk)


@pytest.mark.parametrize(
    "protection",
    [
        {"conditions": EMEA},
        {"windows": OPEN},
        {"flags": ["off"]},
        {"ends": timezone.now() - DAY},
        {"ends": timezone.now() + DAY},
        {"starts": timezone.now() + DAY},
        {"environments": ["staging"]},
    ],
)
def test_a_restricted_denial_protects_less_than_a_whole_one(
    alice: User, bob: User, tool: Tool, protection: dict[str, Any]
) -> None:
    factories.grant(None, tool)
    factories.deny(bob, tool)
    factories.deny(alice, tool, **protection)
    assert reaches_more(alice.pk, bob.pk)


def test_denials_to_the_second_person_count_however_restricted_they_are(alice: User, bob: User, tool: Tool) -> None:
    factories.grant(None, tool)
    denied = factories.deny(bob, tool, conditions=EMEA)
    assert reaches_more(alice.pk, bob.pk)
    mine = factories.deny(alice, tool, conditions=APAC)
    assert reaches_more(alice.pk, bob.pk)
    mine.conditions = EMEA
    mine.save()
    assert not reaches_more(alice.pk, bob.pk), "both are denied the same"
    mine.conditions = []
    mine.save()
    assert not reaches_more(alice.pk, bob.pk)
    denied.conditions, denied.flags = [], ["off"]
    denied.save()
    assert not reaches_more(alice.pk, bob.pk)


def test_the_same_denial_protects_both_unless_flags_or_lists_tell_them_apart(
    alice: User, bob: User, tool: Tool
) -> None:
    factories.grant(None, tool)
    denied = factories.deny(None, tool, windows=SHUT, ends=timezone.now() + DAY)
    assert not reaches_more(alice.pk, bob.pk)
    denied.flags = ["off"]
    denied.save()
    assert reaches_more(alice.pk, bob.pk), "the flag may be on for one of them alone"
    denied.flags, denied.conditions = [], LISTED
    denied.save()
    list_for(alice=["emea"], bob=["emea", "apac"])
    assert reaches_more(alice.pk, bob.pk)
    assert reaches_more(bob.pk, alice.pk), "in doubt"


def test_without_anything_to_use_no_denial_matters(alice: User, bob: User, tool: Tool) -> None:
    factories.deny(bob, tool)
    assert not reaches_more(alice.pk, bob.pk)


def test_a_grant_whose_calls_ask_gives_less_than_one_whose_calls_do_not(alice: User, bob: User) -> None:
    tool = factories.make_tool("report")
    factories.grant(alice, tool)
    his = factories.grant(bob, tool)
    assert not reaches_more(alice.pk, bob.pk)
    ApprovalRule.objects.create(name="Ask first", grant=his, asks="person")
    assert reaches_more(alice.pk, bob.pk) and not reaches_more(bob.pk, alice.pk)
