"""Fill a hub as its users would and keep its database: `python -m tests.upgrade.fill` writes the snapshot anew.

Run it when a version is released, never to make a failing test pass: the snapshot is what installations have.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from pathlib import Path
from typing import Any

from tests.client import HttpClient, RpcError
from tests.real_servers import DATABASE_FILE, Hub
from tests.upgrade import snapshots

MODERN = "2026-07-28"


def seed_users_and_tools() -> dict[str, Any]:
    """Every kind of row of the catalogue, people with tokens, an administrator, personal and shared secrets."""
    from datetime import timedelta

    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.utils import timezone

    from audit.models import SavedView
    from catalog.models import PersonalSecret, Resource, Secret, Tool
    from tests import factories
    from toolhub.access.models import AccessToken

    root = User.objects.create_superuser("root", password="correct horse battery")
    alice, bob = (User.objects.create_user(name, password="correct horse battery") for name in ("alice", "bob"))
    auditor = User.objects.create_user("auditor", is_staff=True)
    numbers = factories.make_toolset("Numbers")
    analysts = factories.make_group("analysts", [bob])
    total = factories.make_tool("calculate_sum", toolset=numbers)
    gone = factories.make_tool("switched_off", enabled=False)
    shared = Secret(name="weather_token", kind="shared")
    shared.enter("a shared value")
    shared.save()
    personal = Secret.objects.create(name="mail_password", kind="personal")
    own = PersonalSecret(secret=personal, user=alice)
    own.enter("a personal value")
    own.save()
    api = {
        "method": "GET",
        "url": "https://weather.invalid/v1",
        "static_headers": {"Authorization": {"secret": "weather_token", "prefix": "Bearer "}},
    }
    weather = factories.make_tool("weather", runner="http_api", settings=api, input_schema={"type": "object"})
    factories.make_resource("docs://handbook", toolset=numbers)
    factories.make_prompt("greeting", toolset=numbers)
    factories.grant(alice, numbers)
    factories.grant(analysts, total, ends=timezone.now() + timedelta(days=3650), note="until the audit")
    factories.deny(bob, gone, environments=["production"])
    factories.grant(None, Resource.objects.get())
    factories.limit("1000/d", total)
    factories.limit("5/m", group=analysts)
    weather.description += " Now in Celsius."
    weather.save()
    Tool.objects.get(name="switched_off").delete()
    token = AccessToken.objects.issue(alice, "laptop", days=3650)[1]
    AccessToken.objects.issue(bob, "restricted", days=3650)[0].toolsets.add(numbers)
    SavedView.objects.create(owner=auditor, name="Failures", filters="outcome=not_ok", shared=True)
    assert root.is_superuser
    call_command("rotatesecrets", verbosity=0)
    return {"token": token}


async def make_calls(hub: Hub, token: str) -> None:
    """A success, wrong arguments, an unknown tool, a resource and a prompt."""
    async with HttpClient(hub.mcp_url, token, MODERN) as client:
        await client.call("calculate_sum", {"a": 1, "b": 2})
        await client.call("calculate_sum", {"a": "one"})
        with contextlib.suppress(RpcError):
            await client.call("no_such_tool", {})
        await client.request("resources/read", {"uri": "docs://handbook"})
        await client.request("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}})


def main() -> None:
    with Hub(env=snapshots.KEYS, seed=seed_users_and_tools) as hub:
        asyncio.run(make_calls(hub, hub.seeded["token"]))
        hub.stop()
        exported = hub.manage("exporttools")
        found = snapshots.read_tables(Path(hub.environment()["TOOLHUB_DATA_DIR"]) / DATABASE_FILE)
    kept = {"token": hub.seeded["token"], "exported": exported, **found}
    snapshots.FILE.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    # As a module with a name, whose functions a server can be told to run.
    importlib.import_module("tests.upgrade.fill").main()
