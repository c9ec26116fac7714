from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.management import first_data
from tests.real_servers import POSTGRES, Hub, postgres

ROOT = Path(__file__).resolve().parents[2]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with nothing of toolhub in its environment but `environment`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLHUB_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=300,  # a few seconds of the processor make all tables
        check=False,
    )


def test_the_first_run_makes_accounts_and_a_token_and_a_later_run_keeps_them(tmp_path):
    first = manage("quickstart", "--json", "--no-serve", "--data", str(tmp_path / "hub"), "--port", "8123")
    assert first.returncode == 0, first.stderr
    facts = json.loads(first.stdout.splitlines()[0])
    assert "Example upstream" in first.stderr and "TOOLHUB_COMMANDS" in first.stderr
    assert set(facts) == {
        "url",
        "admin_url",
        "admin_username",
        "admin_password",
        "mcp_url",
        "websocket_url",
        "username",
        "password",
        "token",
    }
    assert facts["mcp_url"] == "http://localhost:8123/mcp"
    assert facts["websocket_url"] == "ws://localhost:8123/ws/mcp"
    assert facts["token"].startswith("thp_") and len(facts["token"]) == 47
    assert len(facts["admin_password"]) >= 12 and len(facts["password"]) >= 12
    assert facts["password"] != facts["admin_password"]
    names = {path.name for path in (tmp_path / "hub").iterdir()}
    assert {"secret-key", "record-key", "toolhub.sqlite3"} <= names
    placed = {"TOOLHUB_DATA_DIR": str(tmp_path / "hub"), "TOOLHUB_PUBLIC_URL": "http://localhost:8123"}
    assert "- name: calculate_sum" in manage("exporttools", **placed).stdout
    away = "from catalog.models import Tool, Toolset; Tool.objects.all().delete(); Toolset.objects.all().delete()"
    assert manage("shell", "-c", away, **placed).returncode == 0
    second = manage("quickstart", "--json", "--no-serve", **placed)
    assert second.returncode == 0, second.stderr
    left = manage("exporttools", **placed).stdout
    assert "secrets:" in left and "tools:" not in left.replace("Tools", "") and "toolsets:" not in left
    again = json.loads(second.stdout.splitlines()[0])
    assert again == {**facts, "admin_password": None, "password": None, "token": None}
    token = manage("createtoken", "demo", "--name", "more", **placed)
    assert token.stdout.strip().startswith("thp_") and len(token.stdout.splitlines()) == 1
    spoken = manage("quickstart", "--no-serve", **placed)
    assert "http://localhost:8123/mcp" in spoken.stdout and "thp_" not in spoken.stdout


def test_a_port_in_use_is_reported_before_anything_is_created(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = manage("quickstart", "--data", str(tmp_path / "hub"), "--port", port)
    assert done.returncode != 0
    assert port in done.stderr and "--port" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "hub" / "toolhub.sqlite3").exists()


IN_USE = "This database was in use before: no demo user and no example tool was added."
SECRET = "keep-this-out-of-messages"


@dataclass
class Place:
    """A database, and a data folder."""

    environment: dict[str, str]
    hub: Hub

    def quickstart(self, *arguments: str) -> str:
        done = manage("quickstart", "--no-serve", *arguments, **self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def first_facts(self) -> dict[str, str | None]:
        facts: dict[str, str | None] = json.loads(self.quickstart("--json").splitlines()[0])
        return facts


@contextmanager
def placed(postgres: bool, tables: bool) -> Iterator[Place]:
    hub = Hub(postgres=postgres, tables=tables)
    try:
        hub.prepare()
        everything = hub.environment()
        names = ("TOOLHUB_DATA_DIR", "TOOLHUB_DATABASE_URL", "TOOLHUB_RECORD_TIMEOUT_MS")
        yield Place({name: everything[name] for name in names}, hub)
    finally:
        hub.remove()


on_both = pytest.mark.parametrize(
    "postgres", [False, pytest.param(True, marks=pytest.mark.postgres)], ids=["sqlite", "pg"]
)


@on_both
def test_an_empty_database_gets_accounts_a_token_and_the_examples_once(postgres: bool) -> None:
    with placed(postgres, tables=False) as place:
        first = place.first_facts()
        assert first["admin_username"] == "admin" and first["username"] == "demo"
        assert all(first[name] for name in ("admin_password", "password", "token"))
        assert place.hub.call(first_data.list_accounts) == ["admin", "demo"]
        exported = place.hub.call(first_data.export)
        assert "- name: calculate_sum" in exported and "user: demo" in exported
        assert place.first_facts() == {**first, "admin_password": None, "password": None, "token": None}
        assert place.hub.call(first_data.export) == exported
        assert IN_USE not in place.quickstart()


@on_both
def test_a_database_with_accounts_gets_no_account_and_no_example(postgres: bool) -> None:
    with placed(postgres, tables=True) as place:
        place.hub.call(first_data.add_account)
        as_json = place.quickstart("--json")
        facts = json.loads(as_json.splitlines()[0])
        names = ("admin_username", "admin_password", "username", "password", "token")
        assert {facts[name] for name in names} == {None}
        assert place.hub.call(first_data.list_accounts) == ["alice"]
        assert "calculate_sum" not in place.hub.call(first_data.export)
        for said in (as_json, place.quickstart()):
            assert IN_USE in said and "python manage.py createsuperuser" in said
            assert "thp_" not in said and "demo /" not in said and "admin /" not in said


@on_both
def test_imported_tools_get_an_administrator_and_no_example(postgres: bool) -> None:
    with placed(postgres, tables=True) as place:
        place.hub.call(first_data.add_tool)
        said = place.quickstart()
        assert IN_USE in said and "createsuperuser" not in said and "admin / " in said and "thp_" not in said
        assert place.hub.call(first_data.list_accounts) == ["admin"]
        assert "calculate_sum" not in place.hub.call(first_data.export).replace("function: calculate_sum", "")


@on_both
def test_a_demo_user_that_was_removed_does_not_come_back(postgres: bool) -> None:
    with placed(postgres, tables=False) as place:
        place.quickstart()
        place.hub.call(first_data.remove_demo_user)
        facts = place.first_facts()
        assert facts["admin_username"] == "admin" and facts["username"] is facts["token"] is None
        assert place.hub.call(first_data.list_accounts) == ["admin"]


@pytest.mark.parametrize("command", [("quickstart", "--no-serve"), ("serve", "--port", "0")], ids=lambda one: one[0])
def test_a_database_out_of_reach_is_one_sentence_without_the_password(tmp_path: Path, command: tuple[str, ...]) -> None:
    url = f"postgresql://nobody:{SECRET}@127.0.0.1:1/nothing"
    done = manage(*command, TOOLHUB_DATA_DIR=str(tmp_path), TOOLHUB_DATABASE_URL=url)
    assert done.returncode != 0
    assert "The database cannot be opened: " in done.stderr and "Connection refused" in done.stderr
    assert "Check TOOLHUB_DATABASE_URL" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert SECRET not in done.stderr + done.stdout


@pytest.mark.postgres
def test_a_database_that_does_not_exist_is_named(tmp_path: Path) -> None:
    postgres("SELECT 1")
    done = manage(
        "quickstart", "--no-serve", TOOLHUB_DATA_DIR=str(tmp_path), TOOLHUB_DATABASE_URL=f"{POSTGRES}/not_here"
    )
    assert done.returncode != 0 and 'database "not_here" does not exist' in done.stderr
    assert "createdb NAME" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.postgres
def test_a_user_who_may_not_create_tables_is_told_so(tmp_path: Path) -> None:
    hub = Hub(postgres=True, tables=False)
    role = f"toolhub_test_{secrets.token_hex(6)}"
    try:
        hub.prepare()
        postgres(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'")
        address = urlsplit(hub.environment()["TOOLHUB_DATABASE_URL"])
        url = address._replace(netloc=f"{role}:{SECRET}@{address.hostname}:{address.port}").geturl()
        done = manage("quickstart", "--no-serve", TOOLHUB_DATA_DIR=str(tmp_path), TOOLHUB_DATABASE_URL=url)
    finally:
        postgres(f"DROP ROLE IF EXISTS {role}")
        hub.remove()
    assert done.returncode != 0 and "Traceback" not in done.stderr and SECRET not in done.stderr
    assert "The tables cannot be created: " in done.stderr and "must own the database" in done.stderr
