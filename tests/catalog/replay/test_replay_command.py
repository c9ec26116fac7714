"""`importtools FILE --plan --replay 30d`: calls of the log that a whole catalogue file would give another answer."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from catalog.models import Grant, Limit, Tool
from tests import factories
from tests.catalog.replay.logged import call, log

TOOL = {"name": "add", "description": "Adds.", "settings": {"function": "calculate_sum"}}


def plan(path: Path, *options: str, **sections: Any) -> str:
    path.write_text(json.dumps({"toolhub": 1, **sections}), encoding="utf-8")
    out = StringIO()
    call_command("importtools", str(path), "--plan", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def catalogue_file(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.json"


@pytest.mark.django_db
@pytest.mark.parametrize("period", ["30", "0d", "91d", "d", "1.5d", "-1d", "30 d", "１d", "", "100d"])
def test_a_period_that_is_none_is_refused(catalogue_file: Path, period: str) -> None:
    with pytest.raises(CommandError, match="give a number of days from 1d to 90d, such as --replay 30d"):
        plan(catalogue_file, f"--replay={period}")


@pytest.mark.django_db
def test_a_replay_of_an_import_that_is_made_is_refused(catalogue_file: Path) -> None:
    catalogue_file.write_text(json.dumps({"toolhub": 1, "tools": [TOOL]}), encoding="utf-8")
    with pytest.raises(CommandError, match="--replay needs --plan"):
        call_command("importtools", str(catalogue_file), "--replay", "30d")
    assert not Tool.objects.exists()


@pytest.mark.django_db
def test_the_file_is_compared_with_the_catalogue_as_it_is(catalogue_file: Path, alice: User, bob: User) -> None:
    tool = factories.make_tool("add")
    factories.grant(None, tool)
    log(
        *(call(3_600, alice.pk, tool, username="alice") for _ in range(3)),
        call(1_800, bob.pk, tool, '{"$redacted":"too large to record"}', username="bob\u202e"),
        call(90_000, alice.pk, tool),
    )
    denial = {"effect": "deny", "tool": "add", "user": "alice"}
    unclear = {
        "effect": "deny",
        "tool": "add",
        "user": "bob",
        "conditions": [{"path": "/a", "op": "equals", "value": 1}],
    }
    said = plan(catalogue_file, "--replay", "1d", grants=[denial, unclear])
    assert "Would create 2, change 0, remove 0; 0 unchanged.\n" in said
    replayed = said.partition("unchanged.\n")[2].splitlines()
    assert replayed[:5] == [
        "Replay of the last day: 4 calls, of which the changes reach 4.",
        "3 calls would have another answer:",
        "  3 allowed -> denied",
        "By user and item, the most calls first:",
        "  alice, tool add: 3 allowed -> denied",
    ]
    assert replayed[5].startswith("    the newest: http") and "/admin/audit/call/" in replayed[5]
    assert replayed[6:] == [
        "Cannot tell: 1 call. The log does not show an argument or an error that a rule looks at.",
        "Both answers are those of now: with the groups, value lists, flags and definitions of now.",
    ]
    assert Grant.objects.count() == 1, "nothing was imported"


@pytest.mark.django_db
def test_limits_and_first_times_say_how_they_were_counted(catalogue_file: Path, alice: User) -> None:
    tool = factories.make_tool("add")
    factories.grant(None, tool)
    log(*(call(3_600, alice.pk, tool, {"a": 1}) for _ in range(4)))
    limits = [{"tool": "add", "scope": "each_user", "rate": "3/90d"}]
    rules = [{"name": "New numbers", "tool": "add", "asks": "person", "first_time": "/a"}]
    said = plan(catalogue_file, "--replay", "30d", limits=limits, approval_rules=rules)
    assert "2 calls would have another answer:\n  1 allowed -> asked about\n  1 allowed -> rate limited\n" in said
    assert "Rate limits were counted from the start of the period" in said
    assert "A rule for the first time with a value asks once" in said


@pytest.mark.django_db
def test_a_file_that_changes_no_rule_has_nothing_to_replay(catalogue_file: Path, alice: User) -> None:
    tool = factories.make_tool("add")
    log(call(3_600, alice.pk, tool))
    said = plan(catalogue_file, "--replay", "7d", tools=[{**TOOL, "name": "other"}])
    assert said.endswith("Replay of the last 7 days: 1 call, of which the changes reach 0.\n")


@pytest.mark.django_db
def test_a_rule_in_trial_changes_no_answer(catalogue_file: Path, alice: User) -> None:
    tool = factories.make_tool("add")
    factories.grant(None, tool)
    log(call(3_600, alice.pk, tool))
    said = plan(
        catalogue_file, "--replay", "7d", limits=[{"tool": "add", "scope": "each_user", "rate": "0/d", "trial": True}]
    )
    assert said.endswith("the changes reach 0.\n")


@pytest.mark.django_db(transaction=True)
def test_calls_are_read_from_the_log_itself_where_the_plan_is_made_on_a_copy(catalogue_file: Path) -> None:
    user = User.objects.create_user("dora")
    tool = factories.make_tool("add")
    log(
        call(3_600, user.pk, tool, username="dora", outcome="refused"),
        call(1_800, user.pk, tool, username="dora", name="new", target_id=None, outcome="unknown_tool"),
    )
    grants = [{"tool": name, "user": "dora"} for name in ("add", "new")]
    said = plan(catalogue_file, "--replay", "30d", tools=[{**TOOL, "name": "new"}], grants=grants)
    assert "2 denied -> allowed" in said
    assert "  dora, tool add: 1 denied -> allowed\n" in said and "  dora, tool new: 1 denied -> allowed\n" in said
    assert not Grant.objects.exists() and not Limit.objects.exists()
