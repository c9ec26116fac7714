"""What the server of the walks through approvals holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import PASSWORD


def seed() -> dict[str, Any]:
    """Alice and charlie, whose sums the group finance approves: bob, and dora, who may give access. Their tokens."""
    from django.contrib.auth.models import Permission, User

    from catalog.models import ApprovalRule
    from tests import factories
    from toolhub.access.models import AccessToken

    people = {name: User.objects.create_user(name, password=PASSWORD) for name in ("alice", "bob", "charlie", "dora")}
    finance = factories.make_group("finance", [people["bob"], people["dora"]])
    people["dora"].user_permissions.add(Permission.objects.get(codename="add_grant"))
    tool = factories.make_tool("calculate_sum", title="Calculate a sum", read_only=True, open_world=False)
    for name in ("alice", "charlie"):
        factories.grant(people[name], tool)
    ApprovalRule.objects.create(
        name="Large sums",
        tool=tool,
        group=finance,
        conditions=[{"path": "/a", "op": "range", "minimum": 100}],
    )
    return {name: AccessToken.objects.issue(user, "laptop")[1] for name, user in people.items()}


def list_states() -> list[list[Any]]:
    """The first number of each request, its state and the reason, the oldest first."""
    import json

    from catalog.models import Approval

    rows = Approval.objects.order_by("created").values_list("arguments", "state", "reason")
    return [[json.loads(arguments)["a"], state, reason] for arguments, state, reason in rows]


def withdraw_all() -> int:
    """End what waits, so that the next test begins with nothing; how many did."""
    from catalog.approvals import decisions
    from catalog.models import Approval

    rows = list(Approval.objects.filter(state__in=Approval.LIVE).select_related("user"))
    for row in rows:
        decisions.withdraw(row.pk, row.user)
    return len(rows)
