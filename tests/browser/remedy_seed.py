"""What the server of the walk through one-click changes holds: run inside it by `Hub.call`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.browser.seed import PASSWORD


def seed() -> dict[str, Any]:
    """root, and alice, whose grant of `get_report` ended; nobody has `calculate_sum`; Sales has `list_orders`."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from tests import factories

    User.objects.create_superuser("root", password=PASSWORD)
    alice = User.objects.create_user("alice", password=PASSWORD)
    report = factories.make_tool("get_report")
    now = timezone.now()
    ended = factories.grant(alice, report, starts=now - timedelta(days=90), ends=now - timedelta(days=1))
    sales = factories.make_group("Sales")
    orders = factories.make_tool("list_orders", toolset="Orders")
    factories.grant(sales, orders.toolsets.get())
    factories.deny(alice, factories.make_tool("delete_orders", toolset="Orders"))
    factories.make_tool("send_invoice", enabled=False)
    return {"sum": factories.make_tool("calculate_sum").pk, "report": report.pk, "ended": ended.pk}


def list_grants() -> list[dict[str, Any]]:
    from catalog.models import Grant

    return [
        {"user": row.user and row.user.username, "tool": row.tool and row.tool.name, "ended": bool(row.ends)}
        for row in Grant.objects.order_by("pk").select_related("user", "tool")
    ]
