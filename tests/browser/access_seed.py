"""What the server of the walks through giving access holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.browser.seed import PASSWORD


def seed() -> dict[str, Any]:
    """root, the auditor, people with a token and no access; a group and a toolset, empty; tools with similar names."""
    from django.contrib.auth.models import Group, User

    from tests import factories
    from toolhub.access.models import AccessToken

    User.objects.create_superuser("root", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    people = [User.objects.create_user(name, password=PASSWORD) for name in ("alice", "bob", "malice")]
    keepers = factories.make_group("keepers")
    pets = factories.make_toolset("Pets")
    tools = {name: factories.make_tool(name, read_only=True) for name in ("overfeed", "the_feed", "feed_pet", "feed")}
    tools["wash_pet"] = factories.make_tool("wash_pet")
    tools["drop_pet"] = factories.make_tool("drop_pet", destructive=True)
    return {
        "tokens": {user.username: AccessToken.objects.issue(user, "laptop")[1] for user in people},
        "tools": {name: tool.pk for name, tool in tools.items()},
        "keepers": keepers.pk,
        "pets": pets.pk,
    }


def list_tools(toolset: str) -> list[str]:
    from catalog.models import Tool

    return list(Tool.objects.filter(toolsets__name=toolset).order_by("name").values_list("name", flat=True))
