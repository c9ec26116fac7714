"""A filled database of the first release becomes one of this version, and nothing in it is lost or in doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.client import HttpClient
from tests.real_servers import DATABASE_FILE, Hub
from tests.upgrade import replaced, snapshots

MODERN = "2026-07-28"


def calls() -> list[list[str]]:
    from audit.models import Call

    return sorted([call.method, call.name, call.outcome] for call in Call.objects.all())


def restore(hub: Hub, kept: dict[str, Any]) -> None:
    """The tables as the release made them, with its rows."""
    Path(hub.environment()["TOOLHUB_DATA_DIR"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    hub.call(replaced.migrate, migrations=kept["migrations"])
    if hub.postgres:
        snapshots.restore_postgresql(hub.environment()["TOOLHUB_DATABASE_URL"], kept["tables"])
    else:
        file = Path(hub.environment()["TOOLHUB_DATA_DIR"]) / DATABASE_FILE
        snapshots.restore_sqlite(file, kept["tables"])


@pytest.mark.parametrize("postgres", [False, pytest.param(True, marks=pytest.mark.postgres)], ids=["sqlite", "pg"])
async def test_a_filled_database_of_the_first_release_is_upgraded(postgres: bool) -> None:
    kept = snapshots.read()
    hub = Hub(postgres=postgres, env=snapshots.KEYS, tables=False)
    try:
        hub.prepare()
        restore(hub, kept)
        hub.manage("migrate", "--verbosity", "0")
        exported = yaml.safe_load(kept["exported"])
        for tool in exported["tools"]:
            if tool.get("runner") == "http_api":  # the default of then, which is another one now
                tool["settings"].setdefault("response", "json")
        assert yaml.safe_load(hub.manage("exporttools")) == exported
        report = json.loads(hub.manage("verifycalls", "--json"))
        assert report["ok"], report
        rows = kept["tables"]["audit_call"]
        column = {name: place for place, name in enumerate(rows["columns"])}
        before = sorted([row[column["method"]], row[column["name"]], row[column["outcome"]]] for row in rows["rows"])
        assert hub.call(calls) == before
        hub.start()
        async with HttpClient(hub.mcp_url, kept["token"], MODERN) as alice:
            assert await alice.tools() == ["calculate_sum"]
            assert "3" in await alice.text("calculate_sum", {"a": 1, "b": 2})
        assert hub.call(calls) == sorted([*before, ["tools/call", "calculate_sum", "ok"]])
        hub.stop()
        assert json.loads(hub.manage("verifycalls", "--json"))["ok"]
    finally:
        hub.remove()
