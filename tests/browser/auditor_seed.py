"""What the server of the walk through the ten questions of an auditor holds: run inside it by `Hub.call`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from tests.browser.seed import PASSWORD

TICKET = "OPS-118: the books of the quarter"
TUESDAY = datetime.fromisoformat("2026-03-03T00:00:00+00:00")


def seed() -> dict[str, Any]:
    """alice with a grant that root gave for a reason, charlie with none, and an auditor who may make case files."""
    from django.contrib.auth.models import Group, Permission, User

    from tests import factories
    from toolhub.access.models import AccessToken

    alice, charlie = (User.objects.create_user(name, password=PASSWORD) for name in ("alice", "charlie"))
    root = User.objects.create_superuser("root", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    auditor.user_permissions.add(Permission.objects.get(codename="make_casefile"))
    grant = factories.grant(alice, factories.make_tool("calculate_sum"), note=TICKET)
    grant.history.update(history_user=root)
    return {user.username: AccessToken.objects.issue(user, "laptop")[1] for user in (alice, charlie)}


def add_older_calls() -> None:
    """Calls of a Tuesday in spring, and of last month and the one before."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from tests.audit.rows import build_call, save

    alice = User.objects.get(username="alice")
    afternoon = {9: "morning-client", 14: "claude-code", 15: "claude-code", 16: "Cursor", 20: "evening-client"}
    made = [
        build_call(hour, user=alice, started_at=TUESDAY + timedelta(hours=hour), client_name=client)
        for hour, client in afternoon.items()
    ]
    month = timezone.now().replace(day=1, hour=12)
    last, before = month - timedelta(days=2), month - timedelta(days=40)
    for number, (at, tool, customer) in enumerate(
        ((last, "find_invoice", "Miller"), (last, "find_invoice", "Smith"), (last, "other", "Miller"),
         (before, "find_invoice", "Miller"))
    ):  # fmt: skip
        values = {"arguments": json.dumps({"customer": customer}), "name": tool, "request_id": f"{number}"}
        made.append(build_call(100 + number, user=alice, started_at=at + timedelta(seconds=number), **values))
    save(*made)
