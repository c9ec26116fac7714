"""For tests of approvals: rules, calls that ask, and the people who answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User

from catalog.approvals import decisions
from catalog.calls import call_tool
from catalog.errors import NotApproved
from catalog.functions.results import ToolResult
from catalog.models import Approval, ApprovalRule, Grant, Tool, Toolset
from tests.catalog import tools
from tests.catalog.pipeline import HANDSHAKE, RecordingChannel, caller, run_in_database
from tests.polling import wait_until_async

NAME = "call_ticket"
ARGUMENTS: Mapping[str, Any] = {"region": "emea", "amount": 7}


def make_rule(target: Tool | Toolset | Grant | None = None, group: Group | None = None, **fields: Any) -> ApprovalRule:
    """A rule for a tool, a toolset, a grant or all tools, that asks the group, or else the person who calls."""
    kind = "all_tools" if target is None else type(target).__name__.lower()
    fields.setdefault("name", "Tickets need a second person")
    fields.setdefault("asks", "approvers" if group is not None else "person")
    made = ApprovalRule(**{kind: True if target is None else target}, group=group, **fields)
    made.full_clean()
    made.save()
    return made


async def attempt(user: Any, arguments: Mapping[str, Any] = ARGUMENTS, name: str = NAME, **options: Any) -> ToolResult:
    """One call that does not wait for an answer."""
    made = replace(caller(user, options.pop("revision", HANDSHAKE), **options), transport="test")
    return await call_tool.call_tool(made, name, dict(arguments), RecordingChannel())


async def ask(user: Any, arguments: Mapping[str, Any] = ARGUMENTS, name: str = NAME, **options: Any) -> NotApproved:
    """The answer to a call that has not run."""
    before = list(tools.RAN)
    try:
        await attempt(user, arguments, name, **options)
    except NotApproved as error:
        assert before == tools.RAN
        return error
    raise AssertionError("the call ran without an approval")


async def start(
    user: Any, arguments: Mapping[str, Any] = ARGUMENTS, channel: Any = None, revision: str = HANDSHAKE, **options: Any
) -> asyncio.Task[ToolResult]:
    """A call that waits for an answer, once it has asked."""
    count = await Approval.objects.acount()
    made = caller(user, revision)
    work = call_tool.call_tool(made, NAME, dict(arguments), channel or RecordingChannel(), **options)
    task = asyncio.ensure_future(work)
    await wait_until_async(lambda: _has_asked(task, count))
    return task


async def _has_asked(task: asyncio.Task[Any], count: int) -> bool:
    return task.done() or await Approval.objects.acount() > count


async def newest() -> Approval:
    found = await Approval.objects.select_related("user").order_by("-created", "-id").afirst()
    assert found is not None
    return found


async def approve(user: Any, row: Approval | None = None, **options: Any) -> Approval:
    """This person approves; the newest request, unless one is given."""
    key = (row or await newest()).pk
    return await sync_to_async(lambda: decisions.approve(key, _fresh(user), **options))()


async def deny(user: Any, reason: str = "", row: Approval | None = None) -> Approval:
    key = (row or await newest()).pk
    return await sync_to_async(lambda: decisions.deny(key, _fresh(user), reason))()


async def change(work: Any, *args: Any, **options: Any) -> Any:
    return await run_in_database(work, *args, **options)


def _fresh(user: User) -> User:
    """The person as the database has them now, as a request's session does."""
    return User.objects.get(pk=user.pk)
