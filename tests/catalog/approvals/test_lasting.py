"""Lasting grants: exactly one approved call runs without approval from then on, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.utils import timezone

from audit.models import Action
from audit.types import Reason
from catalog.approvals import bindings, decisions, lasting
from catalog.approvals.lasting import NotPossible
from catalog.errors import InvalidArguments
from catalog.models import Approval, Grant, Tool
from catalog.policy import messages
from tests import factories
from tests.catalog import tools
from tests.catalog.approvals.waiting import ARGUMENTS, NAME, approve, ask, attempt, change, make_rule, newest, start
from tests.catalog.pipeline import logged_calls, publish, run_in_database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()


@pytest.fixture
def approvers(bob: Any) -> Any:
    give_access(bob)
    return factories.make_group("approvers", [bob])


def give_access(user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="add_grant"))


async def asked(alice: Any, approvers: Any, arguments: Mapping[str, Any] = ARGUMENTS, **rule: Any) -> Tool:
    """A tool of which every call needs an approval; alice has called it."""
    tool: Tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers, **rule)
    await ask(alice, arguments)
    return tool


async def make(user: Any, row: Approval | None = None, **options: Any) -> Grant:
    key = (row or await newest()).pk
    made: Grant = await change(lambda: lasting.make(key, User.objects.get(pk=user.pk), **options))
    return made


async def end(user: Any, row: Approval) -> bool:
    done: bool = await change(lambda: lasting.end(row.pk, User.objects.get(pk=user.pk)))
    return done


async def test_exactly_the_approved_call_runs_without_approval(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    grant = await make(bob, note="Every Monday")
    for _ in range(2):
        await attempt(alice)
    assert tools.RAN == [NAME] * 2 and await Approval.objects.acount() == 1
    assert (grant.skips_approval, grant.note, grant.ends) == (True, "Every Monday", None)
    last = (await logged_calls())[-1]
    assert last.rule.startswith("Grant ") and last.rule.endswith(f" to user alice, without approval (grant {grant.pk})")
    reason = Reason.read(last.rule_reason)
    assert reason is not None and reason.params["lifted_by"] == grant.pk
    assert messages.translate_reason(reason) == last.rule
    row = await newest()
    assert (row.state, row.decided_by_name, row.lasting_grant_id) == ("approved", "bob", grant.pk)


@pytest.mark.parametrize(
    "arguments",
    [
        {"region": "apac", "amount": 7},
        {"region": "emea", "amount": 8},
        {"region": "emea"},
        {"region": "emea", "amount": 7, "note": "x"},
        {"region": "EMEA", "amount": 7},
    ],
)
async def test_any_other_call_asks(alice: Any, bob: Any, approvers: Any, arguments: dict[str, Any]) -> None:
    await asked(alice, approvers)
    await make(bob)
    await ask(alice, arguments)


@pytest.mark.parametrize("further", [{"note": None}, {"Region": "emea"}])
async def test_one_with_an_argument_that_the_tool_does_not_take_is_refused(
    alice: Any, bob: Any, approvers: Any, further: dict[str, Any]
) -> None:
    await asked(alice, approvers)
    await make(bob)
    with pytest.raises(InvalidArguments):
        await attempt(alice, {**ARGUMENTS, **further})
    assert not tools.RAN


async def test_an_equal_number_is_the_same_call(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    await make(bob)
    await attempt(alice, {"amount": 7.0, "region": "emea"})
    assert tools.RAN == [NAME]


async def test_it_is_for_one_person_with_every_credential(alice: Any, bob: Any, charlie: Any, approvers: Any) -> None:
    tool = await asked(alice, approvers)
    await make(bob)
    await attempt(alice, id="token:99")
    await run_in_database(factories.grant, charlie, tool)
    await ask(charlie)


async def test_a_call_that_waits_runs_when_its_approver_makes_it_lasting(alice: Any, bob: Any, approvers: Any) -> None:
    tool: Tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers)
    task = await start(alice)
    await make(bob)
    await task
    assert tools.RAN == [NAME]


async def test_an_approval_that_was_used_can_be_made_lasting(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    await approve(bob)
    await attempt(alice)
    await make(bob)
    await attempt(alice)
    assert tools.RAN == [NAME] * 2 and await Approval.objects.acount() == 1


async def test_it_ends(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    await make(bob, ends=timezone.now() + timedelta(days=7))
    await attempt(alice)
    row = await newest()
    assert await end(bob, row)
    await ask(alice)
    assert not await end(bob, row), "it has ended already"


async def test_it_is_in_admin_activity(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    grant = await make(bob)
    row = await newest()
    await end(bob, row)
    found = [one async for one in Action.objects.filter(kind="approval").order_by("pk")]
    verbs = [one.verb for one in found]
    assert verbs[-4:] == ["approved", "made lasting", "voided", "ended"]
    assert {one.actor for one in found[-4:]} == {"bob"}
    assert json.loads(found[-3].after or "")["grant"] == grant.pk


# --- what lets nobody do more than they may ---------------------------------------------------------------------------


async def refused(user: Any, code: str, row: Approval | None = None) -> None:
    with pytest.raises((NotPossible, decisions.Refused)) as caught:
        await make(user, row)
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert not await Grant.objects.filter(skips_approval=True).aexists()


async def test_an_approver_who_may_not_give_access_makes_none(alice: Any, bob: Any) -> None:
    approvers = await run_in_database(factories.make_group, "approvers", [bob])
    await asked(alice, approvers)
    await refused(bob, "gone")
    assert (await newest()).state == "waiting"


async def test_who_may_give_access_and_is_no_approver_makes_none(alice: Any, charlie: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    await run_in_database(give_access, charlie)
    await refused(charlie, "gone")


@pytest.mark.parametrize("four_eyes", [True, False])
async def test_nobody_makes_their_own_call_lasting(bob: Any, approvers: Any, four_eyes: bool) -> None:
    await asked(bob, approvers, four_eyes=four_eyes)
    await refused(bob, "gone")


async def test_a_question_to_the_person_themself_is_made_lasting_by_nobody(alice: Any, bob: Any) -> None:
    await run_in_database(give_access, alice)
    await asked(alice, None)
    await refused(alice, "gone")


async def test_one_group_does_not_lift_the_rule_of_another(alice: Any, bob: Any, charlie: Any, approvers: Any) -> None:
    tool = await asked(alice, approvers)
    others = await run_in_database(factories.make_group, "others", [charlie])
    outside = [{"path": "/amount", "op": "range", "minimum": 1000}]
    await run_in_database(make_rule, tool, others, name="Large ones", conditions=outside)
    await ask(alice)
    await refused(bob, "others", await Approval.objects.order_by("-created").filter(group=approvers).afirst())


async def test_it_lifts_no_question_to_the_person(alice: Any, bob: Any, approvers: Any) -> None:
    tool = await asked(alice, approvers)
    await run_in_database(make_rule, tool, None, name="Confirm")
    await ask(alice)
    await refused(bob, "others", await Approval.objects.order_by("-created").filter(group=approvers).afirst())


async def test_a_denied_or_withdrawn_request_cannot_be_made_lasting(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    row = await newest()
    await sync_to_async(lambda: decisions.deny(row.pk, User.objects.get(pk=bob.pk)))()
    await refused(bob, "decided")


async def test_one_whose_time_is_over_cannot_be_made_lasting(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    row = await newest()
    row.expires = timezone.now() - timedelta(seconds=1)
    row.seal = bindings.seal(row)
    await row.asave()
    await refused(bob, "expired")


async def test_arguments_that_somebody_wrote_into_the_table_give_nothing(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    row = await approve(bob)
    await attempt(alice)
    forged = row.arguments.replace("emea", "apac")
    await Approval.objects.filter(pk=row.pk).aupdate(arguments=forged)
    await refused(bob, "unsealed")


async def test_a_second_one_is_not_made(alice: Any, bob: Any, approvers: Any) -> None:
    await asked(alice, approvers)
    await make(bob)
    with pytest.raises(NotPossible, match="exists"):
        await make(bob)
    assert await Grant.objects.filter(skips_approval=True).acount() == 1


async def test_a_tool_that_has_changed_voids_the_request(alice: Any, bob: Any, approvers: Any) -> None:
    tool = await asked(alice, approvers)
    await change(Tool.objects.filter(pk=tool.pk).update, description="Another one")
    with pytest.raises(decisions.Refused):
        await make(bob)
    assert not await Grant.objects.filter(skips_approval=True).aexists()


async def test_more_arguments_than_conditions_can_name_are_refused_with_nothing_done(
    alice: Any, bob: Any, approvers: Any
) -> None:
    await asked(alice, approvers, {"region": "emea", "amount": 7, "note": "x" * 501})
    with pytest.raises(ValidationError):
        await make(bob)
    assert (await newest()).state == "waiting"
    assert not await Grant.objects.filter(skips_approval=True).aexists()


async def test_a_denial_overrides_it(alice: Any, bob: Any, approvers: Any) -> None:
    tool = await asked(alice, approvers)
    await make(bob)
    await run_in_database(factories.grant, alice, tool, effect="deny")
    with pytest.raises(Exception, match="Unknown tool"):
        await attempt(alice)
    assert not tools.RAN
