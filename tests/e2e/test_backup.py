"""The backup that the admin describes: its commands are taken from the page, run, and what they restore is complete."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests.e2e import proofs
from tests.e2e.test_quickstart import use_as_demo
from tests.quickstart import Quickstart
from tests.real_servers import DATABASE_FILE, POSTGRES, Hub, postgres
from toolhub.pages import backups

SECRET = "a value that only the key can read"


def store_secret() -> None:
    from catalog.models import Secret

    secret = Secret(name="kept")
    secret.enter(SECRET)
    secret.save()


def read_secret() -> str:
    from catalog import encryption
    from catalog.models import Secret

    secret = Secret.objects.get(name="kept")
    return encryption.decrypt(secret.value, secret.owner)


def read_commands(page: str, name: str) -> list[str]:
    found = re.search(rf'<pre[^>]* id="{name}"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found[1]).strip().splitlines()


def run(commands: list[str], places: dict[str, Path | str]) -> None:
    """Run the lines as a shell does, with real folders in place of those that the page leaves to its reader."""
    for command in commands:
        for placeholder, path in places.items():
            command = command.replace(placeholder, str(path))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


class Restored(Hub):
    """A hub on what a restore left: nothing is prepared."""

    def prepare(self) -> None:
        """Nothing."""


async def call(client: Client) -> None:
    result: Any = await client.call_tool("calculate_sum", {"a": 20, "b": 22})
    assert result.content[0].text == "42"


@pytest.mark.parametrize(
    ("is_postgres", "name"),
    [
        pytest.param(False, "copy", id="sqlite3"),
        pytest.param(False, "copy-with-python", id="python"),
        pytest.param(True, "copy", marks=pytest.mark.postgres, id="pg_dump"),
    ],
)
async def test_a_backup_taken_while_the_hub_serves_is_restored_and_verified(
    tmp_path: Path, is_postgres: bool, name: str
) -> None:
    places: dict[str, Path | str] = {backups.FOLDER: tmp_path, backups.RESTORED: tmp_path / "restored"}
    database = f"toolhub_test_restored_{tmp_path.name.replace('-', '_')}"
    restored = Restored()
    with Quickstart(postgres=is_postgres) as hub:
        hub.call(store_secret)
        await use_as_demo(hub, call)
        pages = await hub.sign_in()
        async with pages:
            page = await pages.get("/admin/backups/")
        places["toolhub_restored"] = database
        run(read_commands(page, name), places)
        await use_as_demo(hub, call)
        assert len(hub.call(proofs.list_calls, name="calculate_sum")) == 2
        hub.stop()
        try:
            run(read_commands(page, "restore"), places)
            data = tmp_path / "restored"
            data.mkdir(exist_ok=True)
            for key in ("encryption-key", "record-key", "secret-key"):
                assert str(hub.folder / "data" / key) in page, "the page names every generated key file"
                shutil.copy(hub.folder / "data" / key, data)
            restored.extra = {"TOOLHUB_DATA_DIR": str(data), "TOOLHUB_CHECKPOINT_FILE": str(tmp_path / "new.jsonl")}
            if is_postgres:
                restored.extra["TOOLHUB_DATABASE_URL"] = f"{POSTGRES}/{database}"
            for command in read_commands(page, "check")[:2]:
                restored.manage(*command.partition("manage.py ")[2].split())
            report = json.loads(restored.manage("verifycalls", "--json"))
            assert report["ok"] and report["calls"] == 1, report
            assert restored.call(read_secret) == SECRET
            with restored:
                assert restored.get("/readyz")[0] == 200
        finally:
            restored.remove()
            if is_postgres:
                postgres(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')


async def test_without_the_keys_the_copy_cannot_be_verified(tmp_path: Path) -> None:
    with Quickstart() as hub:
        await use_as_demo(hub, call)
        pages = await hub.sign_in()
        async with pages:
            page = await pages.get("/admin/backups/")
        run(read_commands(page, "copy"), {backups.FOLDER: tmp_path})
    restored = Restored()
    try:
        data = restored.folder / "data"
        data.mkdir()
        shutil.copy(tmp_path / DATABASE_FILE, data)
        with pytest.raises(AssertionError, match="verifycalls"):
            restored.manage("verifycalls")
    finally:
        restored.remove()
