"""What the server of the walks through rules in trial holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import PASSWORD


def seed() -> dict[str, Any]:
    """alice may use two tools and nobody else does; denying one of them to everyone is in trial. Her token; root."""
    from django.contrib.auth.models import User

    from tests import factories
    from toolhub.access.models import AccessToken

    User.objects.create_superuser("root", password=PASSWORD)
    alice = User.objects.create_user("alice", password=PASSWORD)
    tool = factories.make_tool("calculate_sum", read_only=True, open_world=False)
    factories.grant(alice, tool)
    denial = factories.deny(None, tool, trial=True)
    return {"alice": AccessToken.objects.issue(alice, "laptop")[1], "tool": tool.pk, "denial": denial.pk}


def add_trial() -> int:
    """Try a rate limit of all tools as well; return its number."""
    from tests import factories

    return int(factories.limit("100/d", trial=True).pk)


def end_trial(key: int) -> None:
    from catalog.models import Limit
    from catalog.trials import decisions

    decisions.end(Limit.everything.get(pk=key))


def count_grants() -> int:
    from catalog.models import Grant

    return int(Grant.everything.count())
