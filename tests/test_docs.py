"""What the README promises is there, and what is there is in the README."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
READERS = {
    *("text", "secret", "boolean", "integer", "words", "url", "database", "rate", "redis", "networks"),
    *("choice", "schemes", "certificates", "line", "contact_address", "issuer", "flags"),
}


def settings_read() -> set[str]:
    tree = ast.parse((ROOT / "toolhub" / "settings.py").read_text(encoding="utf-8"))
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def table(column: str) -> set[str]:
    return set(re.findall(rf"^\| `({column})`", README, re.MULTILINE))


def test_every_setting_is_in_the_readme_and_every_one_there_exists():
    assert len(settings_read()) > 20
    assert table("TOOLHUB_[A-Z_]+") == settings_read()


def test_every_command_is_in_the_readme_and_every_one_there_exists():
    apps = {
        "toolhub",
        "toolhub.access",
        "toolhub.identity",
        "toolhub.people",
        "toolhub.scim",
        "toolhub.oauth",
        "catalog",
        "audit",
    }
    ours = {name for name, app in get_commands().items() if str(app) in apps}
    assert {"quickstart", "serve", "createtoken", "verifycalls"} <= ours
    section = README.split("## Commands")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z]+)[^`]*` \|", section, re.MULTILINE)) == ours


def test_every_promise_names_a_test_that_exists():
    section = README.split("## Promises")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)`", row)
        assert named, row
        for name in named:
            assert (ROOT / name).is_file(), name


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/python manage.py quickstart",
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest",
    ],
)
def test_the_two_commands_of_a_fresh_machine_are_in_the_readme(command):
    assert command in README


def test_the_second_command_is_the_one_that_ci_runs():
    command = "python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/pytest"
    assert command in (ROOT / ".ci" / "run").read_text()
