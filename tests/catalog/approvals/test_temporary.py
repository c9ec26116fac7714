"""Temporary approvals: what runs without asking again, and how that ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from catalog.approvals import decisions, temporary
from catalog.models import Approval, Grant, TemporaryApproval, Tool
from tests import factories
from tests.catalog import tools
from tests.catalog.approvals.waiting import NAME, approve, ask, attempt, change, make_rule, newest
from tests.catalog.pipeline import logged_calls, publish, run_in_database

pytestmark = pytest.mark.django_db(transaction=True)
ALIKE = {"region": "emea", "amount": 8}


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()


@pytest.fixture
def approvers(bob: Any) -> Any:
    return factories.make_group("approvers", [bob])


async def give(alice: Any, bob: Any, approvers: Any, same: tuple[str, ...] = ("region",), minutes: int = 15) -> Any:
    """A temporary approval of alice's tickets of one region, by bob, whose one approval has been used."""
    tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers)
    await ask(alice)
    await approve(bob, minutes=minutes, same=same)
    await attempt(alice)
    return await TemporaryApproval.objects.select_related("tool", "user").aget()


@pytest.mark.parametrize("minutes", [-1, 61, 100_000])
async def test_nobody_gives_more_than_an_hour(alice: Any, bob: Any, approvers: Any, minutes: int) -> None:
    tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers)
    await ask(alice)
    with pytest.raises(ValueError, match=str(minutes)):
        await approve(bob, minutes=minutes)
    assert (await newest()).state == "waiting" and not await TemporaryApproval.objects.aexists()


async def test_calls_like_it_run_and_name_who_approved_them(alice: Any, bob: Any, approvers: Any) -> None:
    given = await give(alice, bob, approvers)
    await attempt(alice, ALIKE)
    await attempt(alice, ALIKE)
    assert tools.RAN == [NAME] * 3 and await Approval.objects.acount() == 1
    last = (await logged_calls())[-1]
    assert last.rule.endswith("approved by bob") and f"temporary {given.pk}" in last.rule_reason


@pytest.mark.parametrize(
    "arguments",
    [{"region": "apac", "amount": 7}, {"amount": 7, "region": "Emea"}, {"region": "emea", "amount": 7, "note": "x"}],
)
async def test_other_values_and_further_arguments_ask_again(
    alice: Any, bob: Any, approvers: Any, arguments: dict[str, Any]
) -> None:
    await give(alice, bob, approvers)
    await ask(alice, arguments)


async def test_an_argument_that_must_be_the_same_must_be_there(alice: Any, bob: Any, approvers: Any) -> None:
    await give(alice, bob, approvers, same=("region", "amount"))
    await attempt(alice)
    await ask(alice, {"region": "emea"})


async def test_it_is_for_one_credential_of_one_person(alice: Any, bob: Any, charlie: Any, approvers: Any) -> None:
    await give(alice, bob, approvers)
    await ask(alice, ALIKE, id="token:99")
    await run_in_database(lambda: factories.grant(charlie, Tool.objects.get(name=NAME)))
    await ask(charlie, ALIKE)


async def test_it_ends_with_its_time_and_when_it_is_revoked(alice: Any, bob: Any, charlie: Any, approvers: Any) -> None:
    given = await give(alice, bob, approvers)
    assert given.expires - given.created == timedelta(minutes=15)
    assert not temporary.is_in_force(given, await run_in_database(_snapshot), given.expires)
    assert not await run_in_database(temporary.revoke, given.pk, charlie)
    await attempt(alice, ALIKE)
    assert await run_in_database(temporary.revoke, given.pk, bob)
    assert not await run_in_database(temporary.revoke, given.pk, bob)
    await ask(alice, ALIKE)


def _snapshot() -> Any:
    from catalog.policy import snapshot

    return snapshot.latest()


async def test_it_ends_when_its_approver_may_no_longer_approve(alice: Any, bob: Any, approvers: Any) -> None:
    await give(alice, bob, approvers)
    await change(approvers.user_set.remove, bob)
    await ask(alice, ALIKE)
    await change(approvers.user_set.add, bob)
    await attempt(alice, ALIKE)


async def test_it_ends_when_the_tool_or_the_grant_changes(alice: Any, bob: Any, approvers: Any) -> None:
    await give(alice, bob, approvers)
    await change(Tool.objects.filter(name=NAME).update, description="Write another ticket.")
    await ask(alice, ALIKE)
    await change(
        Tool.objects.filter(name=NAME).update, description="Write a ticket; return the arguments as they came."
    )
    await change(Grant.objects.filter(user=alice).update, ends=timezone.now() + timedelta(days=1))
    await ask(alice, {"region": "emea", "amount": 9})


@pytest.mark.parametrize(
    "edit",
    [
        {"expires": timezone.now() + timedelta(days=300)},
        {"argument_digests": {}, "free_arguments": ["region", "amount"]},
        {"credential": "token:99"},
        {"seal": "0" * 64},
    ],
    ids=["expires", "arguments", "credential", "seal"],
)
async def test_one_that_was_edited_in_the_database_is_not_believed(
    alice: Any, bob: Any, approvers: Any, edit: dict[str, Any]
) -> None:
    await give(alice, bob, approvers)
    await TemporaryApproval.objects.aupdate(**edit)
    await ask(alice, ALIKE, **({"id": "token:99"} if "credential" in edit else {}))


async def test_whoever_may_not_decide_gives_none(alice: Any, charlie: Any, approvers: Any) -> None:
    tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers)
    await ask(alice)
    for person in (alice, charlie):
        with pytest.raises(decisions.Refused, match="gone"):
            await approve(person, minutes=15)
    assert not await TemporaryApproval.objects.aexists()
