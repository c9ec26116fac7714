"""What the browser tests of the tool editor make and look up: run inside the server's process by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import HOSTILE, seed_users


def seed_editor() -> dict[str, Any]:
    """The people of all browser tests, a group that alice is in, and a tool whose every text is hostile."""
    from tests import factories

    seeded = seed_users()
    factories.make_group("analysts", [_user("alice")])
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE], "default": HOSTILE, "pattern": "x"},
            "nested": {"type": "object", "properties": {HOSTILE: {"$ref": "#/$defs/part"}}},
        },
        "$defs": {"part": {"description": HOSTILE}},
    }
    settings = {"url": "https://api.example.com/", "static_headers": {"X-Note": HOSTILE}, "query": {HOSTILE: HOSTILE}}
    tool = factories.make_tool(
        "hostile_tool", title=HOSTILE, description=HOSTILE, input_schema=schema, runner="http_api", settings=settings
    )
    return {**seeded, "hostile": tool.pk}


def _user(name: str) -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(username=name)


def tool(name: str) -> dict[str, Any] | None:
    """Its columns as they are stored, who sees it now, and how many versions there are."""
    from catalog.models import Tool
    from catalog.policy import snapshot, visibility

    row = Tool.objects.filter(name=name).first()
    if row is None:
        return None
    snapshot.refresh()
    return {
        "pk": row.pk,
        "description": row.description,
        "input_schema": row.input_schema,
        "runner": row.runner,
        "settings": row.settings,
        "enabled": row.enabled,
        "seen_by": [user for user, _ in visibility.find_audience("tool", row.pk).users],
        "versions": row.history.count(),
    }


def make_tool(name: str, schema: str) -> int:
    """A tool with this schema, as text."""
    import json

    from tests import factories

    return int(factories.make_tool(name, input_schema=json.loads(schema)).pk)
