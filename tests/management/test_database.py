"""A database that another version made is refused before anything is changed, with the next step."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.management.test_quickstart import manage
from tests.real_servers import Hub

COMMANDS = (("migrate",), ("serve", "--port", "0"), ("mcpstdio",), ("quickstart", "--no-serve"))
OLDER = [("catalog", "0002_secrets"), ("catalog", "0007_try_tool_permissions"), ("audit", "0003_tallies")]
"""What databases from before the release have applied, and no release knows."""
WRITE = "INSERT INTO django_migrations (app, name, applied) VALUES ({0}, {0}, '2026-11-01')"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    assert manage("migrate", "--verbosity", "0", TOOLHUB_DATA_DIR=str(folder)).returncode == 0
    (file,) = folder.glob("*.sqlite3")
    with sqlite3.connect(file) as database:
        database.executemany(WRITE.format("?"), OLDER)
    database.close()
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_database_of_another_version_is_refused_with_the_next_step(older: Path, command: tuple[str, ...]) -> None:
    (file,) = older.glob("*.sqlite3")
    before = file.read_bytes()
    done = manage(*command, TOOLHUB_DATA_DIR=str(older), TOOLHUB_TOKEN="thp_" + "a" * 43)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "made by another version" in done.stderr and "catalog.0002_secrets" in done.stderr
    assert "exporttools" in done.stderr and "TOOLHUB_DATABASE_URL" in done.stderr
    assert file.read_bytes() == before


@pytest.mark.postgres
def test_on_postgresql_too(tmp_path: Path) -> None:
    hub = Hub(postgres=True)
    try:
        hub.prepare()
        address = hub.environment()["TOOLHUB_DATABASE_URL"]
        with psycopg.connect(address, autocommit=True) as database:
            database.cursor().executemany(WRITE.format("%s").encode(), OLDER)
        done = manage("migrate", TOOLHUB_DATA_DIR=str(tmp_path), TOOLHUB_DATABASE_URL=address)
    finally:
        hub.remove()
    assert done.returncode != 0
    assert "made by another version" in done.stderr and "Traceback" not in done.stderr
