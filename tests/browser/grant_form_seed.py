"""Rows that the browser tests of the form of a grant need and look up: run inside the server by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import seed_users

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "title": "Sales region", "enum": ["emea", "apac", "amer"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "customer": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}},
        "password": {"type": "string", "format": "password"},
    },
    "required": ["region"],
    "additionalProperties": False,
}


def seed_grants() -> dict[str, Any]:
    """The people of all browser tests, a tool with arguments of several types, a value list and two flags."""
    from catalog.models import Flag, ValueList
    from tests import factories

    seeded = seed_users()
    tool = factories.make_tool("find_customers", input_schema=SCHEMA)
    ValueList.objects.create(name="customers")
    Flag.objects.create(name="early-access", percentage=100)
    Flag.objects.create(name="pilot", percentage=100)
    return {**seeded, "customers_tool": tool.pk}


def find_grant(note: str) -> dict[str, Any] | None:
    """Return the columns of the grant with this note."""
    from catalog.models import Grant

    row = Grant.objects.filter(note=note).first()
    if row is None:
        return None
    return {"pk": row.pk, "conditions": row.conditions, "windows": row.windows, "flags": row.flags}
