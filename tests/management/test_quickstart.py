from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

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
        timeout=180,
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


def test_a_configured_postgresql_is_not_filled_with_examples(tmp_path):
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    done = manage("quickstart", "--no-serve", "--data", str(tmp_path), TOOLHUB_DATABASE_URL=url)
    assert done.returncode != 0
    assert "TOOLHUB_DATABASE_URL" in done.stderr and "Traceback" not in done.stderr
