"""`migrate` runs the libraries' migrations first where there is nothing yet, and otherwise is Django's command."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.management.test_quickstart import manage
from tests.real_servers import DATABASE_FILE, migrated_sqlite


def read(file: Path, statement: str) -> list[str]:
    with sqlite3.connect(file) as database:
        found = [value for (value,) in database.execute(statement)]
    database.close()
    return found


def tables(folder: Path) -> list[str]:
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
    return read(folder / DATABASE_FILE, statement)


def test_the_libraries_migrations_come_before_ours() -> None:
    order = read(migrated_sqlite(), "SELECT app FROM django_migrations ORDER BY id")
    last = {app: place for place, app in enumerate(order)}
    assert max(last[app] for app in ("account", "mfa", "oauth2_provider", "socialaccount")) < order.index("catalog")


def test_a_database_of_another_version_is_refused_before_the_libraries_migrate(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / DATABASE_FILE) as database:
        database.execute("CREATE TABLE django_migrations (id integer PRIMARY KEY, app text, name text, applied text)")
        database.execute("INSERT INTO django_migrations VALUES (1, 'catalog', '0002_secrets', '2026-11-01')")
    database.close()
    done = manage("migrate", TOOLHUB_DATA_DIR=str(tmp_path))
    assert done.returncode != 0 and "made by another version" in done.stderr
    assert tables(tmp_path) == ["django_migrations"]


def test_one_application_is_migrated_alone(tmp_path: Path) -> None:
    assert manage("migrate", "auth", TOOLHUB_DATA_DIR=str(tmp_path)).returncode == 0
    assert "auth_user" in tables(tmp_path) and "account_emailaddress" not in tables(tmp_path)


def test_a_plan_makes_no_table(tmp_path: Path) -> None:
    done = manage("migrate", "--plan", TOOLHUB_DATA_DIR=str(tmp_path))
    assert done.returncode == 0 and "catalog.0001_squashed_0023_lasting_approvals" in done.stdout
    assert tables(tmp_path) == []
