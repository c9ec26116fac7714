"""What the server of the walks through requests holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import PASSWORD


def seed() -> dict[str, Any]:
    """A toolset that is open for requests and one that is not; people with a token and no access; root."""
    from django.contrib.auth.models import User

    from tests import factories
    from toolhub.access.models import AccessToken

    User.objects.create_superuser("root", password=PASSWORD)
    numbers = factories.make_toolset("Numbers", requestable=True, request_text="For people who close the quarter.")
    factories.make_tool("calculate_sum", toolset=numbers, read_only=True, open_world=False)
    factories.make_tool("wipe_disk", toolset="Closed")
    sums = factories.make_toolset("Small sums", requestable=True)
    factories.make_tool("add_small", toolset=sums, read_only=True, open_world=False)
    people = [User.objects.create_user(name, password=PASSWORD) for name in ("alice", "bob", "charlie", "dora")]
    return {user.username: AccessToken.objects.issue(user, "laptop")[1] for user in people}


def list_grants() -> list[list[Any]]:
    """Who has what, whether the grant ends, and its note."""
    from catalog.models import Grant

    rows = Grant.objects.order_by("pk").select_related("user", "toolset")
    return [[row.user and row.user.username, str(row.toolset), row.ends is not None, row.note] for row in rows]


def list_conditions() -> dict[str, list[Any]]:
    """The conditions of the grants that have some, by the name of their person."""
    from catalog.models import Grant

    return {row.user.username: row.conditions for row in Grant.objects.select_related("user") if row.conditions}


def count_open() -> int:
    from catalog.models import AccessRequest

    return AccessRequest.objects.filter(state="open").count()
