"""Approval rules for tests, and the tool that most of them are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests import factories

if TYPE_CHECKING:
    from django.contrib.auth.models import Group
    from django.test import Client

    from catalog.models import ApprovalRule, Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "title": "Sales region", "enum": ["emea", "apac"]},
        "amount": {"type": "integer"},
        "customer": {"type": "string"},
        "api_key": {"type": "string", "writeOnly": True},
    },
    "required": ["region"],
    "additionalProperties": False,
}
LARGE = {"path": "/amount", "op": "range", "exclusiveMinimum": 1000}
HOURS = {"days": ["mon", "fri"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}


def make_customer_tool(name: str = "delete_customer", **fields: Any) -> Tool:
    return factories.make_tool(name, **{"input_schema": SCHEMA, "destructive": True, **fields})


def build_rule(group: Group | None = None, **fields: Any) -> ApprovalRule:
    """A rule that is not saved: for all tools unless a target is given. Without a group it asks the person."""
    from catalog.models import ApprovalRule

    fields.setdefault("name", "Second person")
    fields.setdefault("asks", "approvers" if group is not None else "person")
    if not any(fields.get(name) for name in ApprovalRule.TARGETS):
        fields.setdefault("all_tools", True)
    return ApprovalRule(group=group, **fields)


def make_rule(group: Group | None = None, **fields: Any) -> ApprovalRule:
    """Like `build_rule`, checked and saved."""
    rule = build_rule(group, **fields)
    rule.full_clean()
    rule.save()
    return rule


def sign_in(*permissions: str) -> Client:
    """A member of the staff with these permissions alone, signed in."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    staff = User.objects.get_or_create(username="staff", is_staff=True)[0]
    staff.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(staff)
    return client
