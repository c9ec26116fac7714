"""What the README promises is there, and what is there is in the README."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command, get_commands

from catalog.models import Grant
from catalog.policy import asking, snapshot, visibility
from catalog.policy.rules import Requester
from tests import factories

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


CATALOGUES = re.findall(r"^```yaml\n(toolhub: 1\n.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.django_db
@pytest.mark.parametrize("content", CATALOGUES, ids=range(len(CATALOGUES)))
def test_every_catalogue_in_the_readme_can_be_imported(content, tmp_path):
    User.objects.create_user("demo")
    for group in ("support", "support-emea", "support-leads", "finance"):
        factories.make_group(group)
    file = tmp_path / "catalogue.yaml"
    file.write_text(content, encoding="utf-8")
    call_command("importtools", str(file), stdout=StringIO())
    assert Grant.objects.count() == content.count("{tool: ") + content.count("- tool: ")


@pytest.mark.django_db
def test_support_reads_any_customer_and_changes_only_those_of_its_region_as_the_readme_says(tmp_path):
    (content,) = [one for one in CATALOGUES if "support-emea" in one]
    member, other = User.objects.create_user("member"), User.objects.create_user("other")
    for group, people in (("support", [member, other]), ("support-emea", [member])):
        factories.make_group(group, people)
    file = tmp_path / "catalogue.yaml"
    file.write_text(content, encoding="utf-8")
    call_command("importtools", str(file), stdout=StringIO())
    catalogue = snapshot.refresh()
    monday, sunday = (datetime(2026, 11, day, 9, tzinfo=UTC).timestamp() for day in (23, 22))

    def see(user, now):
        found = visibility.in_snapshot(catalogue, visibility.page_credential(user.pk), now)
        return {name: sorted(tool.input_schema["properties"]) for name, (tool, _rule) in found.tools.items()}

    assert see(member, monday) == {"read_customer": ["number"], "update_customer": ["email", "number"]}
    assert see(member, sunday) == see(other, monday) == {"read_customer": ["number"]}


@pytest.mark.django_db
def test_deletions_and_large_payments_at_night_ask_as_the_readme_says(tmp_path):
    (content,) = [one for one in CATALOGUES if "approval_rules:" in one]
    member = User.objects.create_user("member")
    for group in ("support", "support-leads", "finance"):
        factories.make_group(group, [member])
    file = tmp_path / "catalogue.yaml"
    file.write_text(content, encoding="utf-8")
    call_command("importtools", str(file), stdout=StringIO())
    catalogue = snapshot.refresh()
    monday, sunday = (datetime(2026, 11, day, 9, tzinfo=UTC).timestamp() for day in (23, 22))

    def ask(name, now, **arguments):
        found = asking.find_asks(
            catalogue, Requester(member.pk), catalogue.tools[name], now, "production", arguments, arguments
        )
        return [one.group_name for one in found.asks]

    assert ask("delete_customer", monday, number=7) == ["support-leads"]
    for now, amount, asked in ((sunday, 1001, ["finance"]), (sunday, 1000, []), (monday, 1001, [])):
        assert ask("pay_invoice", now, invoice="7", amount=amount) == asked
