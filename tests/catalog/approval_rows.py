"""Requests for approval, made by calls: a tool, its rule, and people who call it.

The calls have the transport "test", which does not wait for an answer.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, User

from audit.types import Caller
from catalog.calls import call_tool
from catalog.errors import NotApproved
from catalog.functions import tool
from catalog.functions.results import ToolResult
from catalog.models import Approval, ApprovalRule, Tool
from tests import factories
from tests.catalog.pipeline import RecordingChannel

TOOL = "delete_rows"
RAN: list[str] = []
"""The tables of the calls that ran."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "table": {"type": "string", "description": "The table to delete from."},
        "where": {"type": "object", "description": "Which rows."},
        "password": {"type": "string"},
        "rows": {"type": "integer", "description": "How many rows at most."},
    },
}
MANY = {"path": "/rows", "op": "range", "minimum": 1000}
CALL: dict[str, Any] = {"table": "invoices", "rows": 5000}


@tool(TOOL)
def delete_rows(table: str = "", where: Any = None, password: str = "", rows: int = 0) -> str:
    """Delete rows."""
    RAN.append(table)
    return f"deleted {rows} rows of {table}"


def make_tool(**fields: Any) -> Tool:
    """The tool that the rules of these tests ask about, once."""
    found = Tool.objects.filter(name=TOOL).first()
    if found is not None:
        return found
    about = {"title": "Delete rows", "description": "Deletes rows for good.", "destructive": True}
    return factories.make_tool(TOOL, function="delete_rows", input_schema=SCHEMA, **{**about, **fields})


def make_rule(group: Group | None = None, **fields: Any) -> ApprovalRule:
    """A rule for the tool that asks this group; without one, the person who calls."""
    fields.setdefault("name", "Deletions need a second person" if group else "Deletions are confirmed")
    fields.setdefault("asks", "approvers" if group else "person")
    return ApprovalRule.objects.create(tool=make_tool(), group=group, **fields)


def call(user: User, arguments: dict[str, Any] | None = None, **credential: Any) -> ToolResult:
    """The tool's answer to a call of this user. Raises NotApproved for one that asks."""
    factories.load()
    caller = Caller(factories.credential(user, **credential), "test", "2025-11-25", "192.0.2.7", "Claude Code", "2.1")
    found: ToolResult = async_to_sync(call_tool.call_tool)(
        caller, TOOL, CALL if arguments is None else arguments, RecordingChannel()
    )
    return found


def ask(user: User, arguments: dict[str, Any] | None = None, **credential: Any) -> Approval:
    """The request that a call of this user makes."""
    made = make_tool()
    if not made.grants.filter(user=user).exists():
        factories.grant(user, made)
    before = set(Approval.objects.values_list("pk", flat=True))
    try:
        call(user, arguments, **credential)
    except NotApproved:
        return Approval.objects.exclude(pk__in=before).get()
    raise AssertionError("the call asked nobody")
