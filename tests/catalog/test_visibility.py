"""What the holder of a credential sees: remembered, and forgotten at the right moment."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalog.models import Flag, Tool
from catalog.policy import snapshot, visibility
from tests import factories
from tests.process import replace_part

pytestmark = pytest.mark.django_db


def test_each_person_sees_their_own_and_a_superuser_nothing(alice: User, bob: User, charlie: User, root: User) -> None:
    one, two = factories.make_tool("one"), factories.make_tool("two", toolset="Files")
    factories.grant(alice, one)
    factories.grant(factories.make_group("writers", [bob]), factories.make_toolset("Files"))
    factories.load()
    seen = {
        user.username: list(visibility.for_credential(factories.credential(user)).tools)
        for user in (alice, bob, charlie, root)
    }
    assert seen == {"alice": ["one"], "bob": ["two"], "charlie": [], "root": []}
    assert two.name == "two"


def test_the_deciding_rule_is_a_sentence(alice: User) -> None:
    factories.make_tool(toolset="Files")
    rule = factories.grant(factories.make_group("analysts", [alice]), factories.make_toolset("Files"))
    factories.load()
    _, decided = visibility.for_credential(factories.credential(alice)).tools["calculate_sum"]
    assert decided.english == f"Grant {rule.pk}: allow toolset Files to group analysts" == str(rule)


def test_the_answer_is_remembered_until_the_catalogue_changes(alice: User) -> None:
    tool = factories.make_tool()
    factories.grant(alice, tool)
    factories.load()
    mine = factories.credential(alice)
    first = visibility.for_credential(mine)
    assert visibility.for_credential(factories.credential(alice)) is first
    Tool.objects.update(title="Other")
    factories.load()
    second = visibility.for_credential(mine)
    assert second is not first
    assert second.fingerprints["tools"] != first.fingerprints["tools"]


def test_a_grant_that_ends_takes_the_tool_away_without_any_change(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    end = timezone.now() + timedelta(hours=1)
    factories.grant(alice, factories.make_tool(), ends=end)
    factories.load()
    mine = factories.credential(alice)
    found = visibility.for_credential(mine)
    assert list(found.tools) == ["calculate_sum"]
    assert found.changes_at == end.timestamp()
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3601)
    assert visibility.for_credential(mine).tools == {}


def test_an_inactive_user_and_one_who_left_the_group_see_nothing(alice: User) -> None:
    group = factories.make_group("analysts", [alice])
    factories.grant(group, factories.make_tool())
    mine = factories.credential(alice)
    for change, undo in (
        (lambda: User.objects.filter(pk=alice.pk).update(is_active=False), lambda: User.objects.update(is_active=True)),
        (lambda: alice.groups.clear(), lambda: alice.groups.add(group)),
    ):
        factories.load()
        assert visibility.for_credential(mine).tools
        change()
        factories.load()
        assert not visibility.for_credential(mine).tools
        undo()


def test_grants_of_another_environment_do_not_count(alice: User, settings: Any) -> None:
    factories.grant(alice, factories.make_tool(), environments=["production"])
    factories.load()
    mine = factories.credential(alice)
    assert not visibility.for_credential(mine).tools
    settings.ENVIRONMENT = "production"
    assert visibility.for_credential(mine).tools


def test_resources_templates_and_prompts_follow_the_same_policy(alice: User, charlie: User) -> None:
    page = factories.make_resource(uri_template="docs://{page}", name="page", function="page")
    factories.grant(alice, factories.make_resource(), page, factories.make_prompt())
    factories.load()
    mine = visibility.for_credential(factories.credential(alice))
    assert (list(mine.resources), list(mine.templates), list(mine.prompts)) == (
        ["docs://handbook"],
        ["docs://{page}"],
        ["greeting"],
    )
    nothing = visibility.for_credential(factories.credential(charlie))
    assert not (nothing.resources or nothing.templates or nothing.prompts)


def test_the_audience_of_an_item_and_of_a_toolset_follows_flags_windows_and_conditions(
    alice: User, bob: User, charlie: User
) -> None:
    tool = factories.make_tool(toolset="Numbers")
    numbers, other = tool.toolsets.get(), factories.make_tool("other", toolset="Other").toolsets.get()
    day = (timezone.now() + timedelta(days=3)).strftime("%a").lower()
    one = [{"path": "/a", "op": "equals", "value": 1}]
    Flag.objects.create(name="on", percentage=100)
    flag = Flag.objects.create(name="beta", percentage=0)
    factories.grant(bob, numbers, flags=["beta", "on"])
    factories.grant(charlie, numbers, windows=[{"days": [day], "from": "00:00", "to": "24:00", "zone": "UTC"}])
    granted = factories.grant(alice, numbers, other, conditions=one, flags=["on"])
    first = granted.pk - 1

    def find() -> tuple[list[tuple[str, str]], int]:
        return visibility.find_audience("tool", tool.pk).users, visibility.count_toolset_audience(numbers.pk)

    rule = f"Grant {first}: allow toolset Numbers to user alice, with conditions"
    assert find() == ([("alice", rule)], 1)
    flag.percentage = 100
    flag.save()
    users, count = find()
    assert ([name for name, _rule in users], count) == (["alice", "bob"], 2)
    factories.deny(alice, tool, conditions=one)
    users, count = find()
    assert ([name for name, _rule in users], count) == (["bob"], 2), "denials are not subtracted from a toolset's"


def test_a_token_restricted_to_a_toolset_sees_only_that(alice: User) -> None:
    tools = [factories.make_tool("one", toolset="Files"), factories.make_tool("two", toolset="Numbers")]
    factories.grant(alice, *tools)
    factories.load()
    files = frozenset({factories.make_toolset("Files").pk})
    assert list(visibility.for_credential(factories.credential(alice, toolset_ids=files)).tools) == ["one"]
    assert list(visibility.for_credential(factories.credential(alice)).tools) == ["one", "two"]


def test_before_the_first_load_there_is_an_error_and_not_an_empty_list(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_part(monkeypatch, snapshot.SnapshotStore())
    with pytest.raises(snapshot.NotLoaded):
        visibility.for_credential(factories.credential(alice))
