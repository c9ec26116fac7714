"""The catalogue as a file: refusals with their place, plans that change nothing, and a round trip without loss."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.utils.translation import override

from audit.models import Action
from catalog import quarantine
from catalog.examples import catalogue
from catalog.exchange import files
from catalog.exchange.kinds import KINDS
from catalog.models import (
    ApprovalRule,
    Flag,
    Grant,
    ImportedDocument,
    Limit,
    Prompt,
    Resource,
    Secret,
    Tool,
    Toolset,
    Upstream,
    ValueList,
    ValueListPart,
)
from tests import factories
from tests.catalog.approval_rules import make_rule

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def operators_networks(settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = ["10.0.0.0/8"]


def import_file(path: Path, content: Any, *options: str) -> str:
    if not isinstance(content, str):
        content = json.dumps(content)
    path.write_text(content, encoding="utf-8")
    out = StringIO()
    call_command("importtools", str(path), *options, stdout=out)
    return out.getvalue()


def export() -> str:
    out = StringIO()
    call_command("exporttools", stdout=out)
    return out.getvalue()


def tool(**fields: Any) -> dict[str, Any]:
    return {"name": "add", "description": "Adds.", "settings": {"function": "calculate_sum"}, **fields}


IN_OURS = {"path": "/a", "op": "belongs_to", "list": "ours"}


def rule(**fields: Any) -> dict[str, Any]:
    return {"name": "Ask", "tool": "add", "asks": "person", **fields}


def make_document(*tools: Any, **sections: Any) -> dict[str, Any]:
    return {"toolhub": 1, "tools": list(tools), **sections}


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "must be an object"),
        ("tools: [", "not valid YAML"),
        ('{"toolhub": 1, "toolhub": 1}', "twice"),
        ({"tools": []}, "toolhub: this must be 1"),
        ({"toolhub": 1, "tool": []}, "tool: this section is unknown"),
        ({"toolhub": 1, "tools": {}}, "tools: this must be a list"),
        (make_document(tool(), tool(name="b", colour="red")), "tools[1].colour: a tool has no member with this name"),
        (make_document(tool(), {"name": "b"}), "tools[1].description: this is missing"),
        (make_document(tool(enabled="yes")), "tools[0].enabled: this must be true or false"),
        (make_document(tool(position=True)), "tools[0].position: this must be a whole number"),
        (make_document(tool(timeout="5")), "tools[0].timeout: this must be a number"),
        (make_document(tool(description=None)), "tools[0].description: this must not be null"),
        (make_document(tool(version=3)), "tools[0].version: this is not part of a file"),
        (make_document(tool(toolsets="x")), "tools[0].toolsets: this must be a list of names"),
        (make_document(tool(toolsets=["Nowhere"])), "tools[0] (add).toolsets: there is no toolset 'Nowhere'"),
        (make_document(tool(name="a b")), "tools[0] (a b).name: A name has 1 to 128 characters"),
        (make_document(tool(runner="magic")), "tools[0] (add).runner: There is no tool type"),
        (make_document(tool(input_schema={"type": "array"})), 'tools[0] (add).input_schema: A schema needs "type"'),
        (make_document(tool(), tool()), "tools[1]: tool add already exists, at tools[0]"),
        (make_document(tool(origin="moon:1")), "tools[0] (add).origin: an origin starts with"),
        (make_document(secrets=[{"name": "key", "value": "hunter2"}]), "secrets[0].value: this is not part of a file"),
        (
            make_document(grants=[{"tool": "none", "everyone": True}]),
            "grants[0] (allow tool none, everyone).tool: there",
        ),
        (make_document(tool(), grants=[{"tool": "add", "user": "nobody"}]), "there is no user 'nobody'"),
        (make_document(tool(), grants=[{"tool": "add"}]), "grants[0]"),
        (
            make_document(tool(), grants=[{"tool": "add", "everyone": True, "starts": "soon"}]),
            "must be a date and time",
        ),
        (make_document(tool(), limits=[{"tool": "add", "rate": "often"}]), "Enter a rate such as"),
        (make_document(value_lists=[{"name": "a b"}]), "value_lists[0] (a b).name: A name has 1 to 128 characters"),
        (
            make_document(value_lists=[{"name": "ours"}, {"name": "ours"}]),
            "value_lists[1]: value list ours already exists, at value_lists[0]",
        ),
        (
            make_document(value_list_parts=[{"value_list": "ours", "everyone": True}]),
            "value_list_parts[0] (ours, everyone).value_list: there is no value list 'ours'",
        ),
        (
            make_document(value_lists=[{"name": "ours"}], value_list_parts=[{"value_list": "ours"}]),
            "Choose exactly one of user, group and everyone.",
        ),
        (
            make_document(
                value_lists=[{"name": "ours"}],
                value_list_parts=[{"value_list": "ours", "everyone": True, "entries": ["a"]}] * 2,
            ),
            "The list already has values for this user or group, or for everyone.",
        ),
        (
            make_document(
                value_lists=[{"name": "ours"}],
                value_list_parts=[{"value_list": "ours", "everyone": True, "entries": ["a", "b\nc"]}],
            ),
            "value_list_parts[0] (ours, everyone).entries: Value 2 must be one line",
        ),
        (make_document(flags=[{"name": "beta", "percentage": 101}]), "flags[0] (beta).percentage: "),
        (
            make_document(tool(), grants=[{"tool": "add", "everyone": True, "flags": ["beta"]}]),
            "grants[0] (allow tool add, everyone).flags: There is no flag “beta”.",
        ),
        (
            make_document(tool(), grants=[{"tool": "add", "everyone": True, "conditions": [IN_OURS]}]),
            "grants[0] (allow tool add, everyone).conditions: Condition 1: There is no value list “ours”.",
        ),
        (
            make_document(tool(), grants=[{"tool": "add", "everyone": True, "conditions": [{"path": "a"}]}]),
            "grants[0] (allow tool add, everyone).conditions: Condition 1: ",
        ),
        (
            make_document(tool(), grants=[{"tool": "add", "everyone": True, "windows": [{"days": ["mon"]}]}]),
            "grants[0] (allow tool add, everyone).windows: Time window 1: ",
        ),
        (make_document(approval_rules=[{"tool": "add"}]), "approval_rules[0].name: this is missing"),
        (make_document(approval_rules=[rule(), rule()]), "approval rule Ask already exists, at approval_rules[0]"),
        (make_document(approval_rules=[rule()]), "approval_rules[0] (Ask).tool: there is no tool 'add'"),
        (make_document(approval_rules=[rule(toolset="X")]), "approval_rules[0] (Ask).tool: there is no tool"),
        (
            make_document(tool(), approval_rules=[rule(tool=None, toolset="X")]),
            "(Ask).toolset: there is no toolset 'X'",
        ),
        (make_document(tool(), approval_rules=[rule(tool=None)]), "Choose exactly one of grant, tool, toolset"),
        (make_document(tool(), approval_rules=[rule(all_tools=True)]), "Choose exactly one of grant, tool, toolset"),
        (
            make_document(tool(), approval_rules=[rule(asks="approvers", group="nobody")]),
            "approval_rules[0] (Ask).group: there is no group 'nobody'",
        ),
        (make_document(tool(), approval_rules=[rule(asks="approvers")]), "Choose the group whose members approve."),
        (
            make_document(tool(), approval_rules=[rule(conditions=[IN_OURS])]),
            "approval_rules[0] (Ask).conditions: Condition 1: There is no value list “ours”.",
        ),
        (
            make_document(tool(), approval_rules=[rule(conditions=[{"path": "/zip"}])]),
            "(Ask).conditions: Condition 1: ",
        ),
        (make_document(tool(), approval_rules=[rule(minutes=0)]), "approval_rules[0] (Ask).minutes: "),
        (make_document(tool(), approval_rules=[rule(tool=None, grant="add")]), "(Ask).grant: this must be an object"),
        (
            make_document(tool(), approval_rules=[rule(tool=None, grant={"tool": "add", "everyone": True})]),
            "approval_rules[0] (Ask).grant: no grant in force is like this.",
        ),
        (
            make_document(
                tool(),
                grants=[{"tool": "add", "everyone": True, "effect": "deny"}],
                approval_rules=[rule(tool=None, grant={"tool": "add", "everyone": True})],
            ),
            "approval_rules[0] (Ask).grant: no grant in force is like this.",
        ),
        (
            make_document(tool(), approval_rules=[rule(tool=None, grant={"tool": "add", "colour": "x"})]),
            "approval_rules[0] (Ask).grant.colour: a grant is not found by a member with this name",
        ),
        (
            make_document(tool(), approval_rules=[rule(tool=None, grant={"tool": "add", "user": "nobody"})]),
            "approval_rules[0] (Ask).grant.user: there is no user 'nobody'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_nothing_is_imported(
    tmp_path: Path, content: Any, says: str
) -> None:
    factories.make_tool("standing")
    before = export()
    with pytest.raises(CommandError) as refused:
        import_file(tmp_path / "catalogue.yaml", content)
    assert says in str(refused.value)
    assert "Nothing was imported" in str(refused.value)
    assert export() == before


def test_commands_report_errors_in_english_in_every_language(tmp_path: Path) -> None:
    wrong = {"runner": "http_api", "settings": {"url": "http://u@h/", "timeout": 0}}
    with override("zh-hans"), pytest.raises(CommandError) as refused:
        import_file(tmp_path / "catalogue.yaml", make_document(tool(**wrong)))
    said = str(refused.value)
    assert "the URL must not contain a user name" in said and "Input should be greater than 0" in said
    assert not re.search("[一-鿿]", said)


def test_a_missing_file_is_reported_in_a_sentence(tmp_path: Path) -> None:
    for command in ("importtools", "exporttools"):
        with pytest.raises(CommandError, match="cannot be"):
            call_command(command, str(tmp_path / "no" / "such.yaml"))


# --- what it does ----------------------------------------------------------------------------------------------------


def fill_catalogue(alice: User) -> None:
    """One of everything, with text that is hard to write."""
    catalogue.load(alice.username)
    secret = Secret(name="forge_token", description="From the forge.\n  Second line: 1e5")
    secret.enter("hunter2-hunter2")
    secret.save()
    Upstream.objects.create(
        name="forge",
        url="https://mcp.example.com/mcp",
        headers={"Authorization": {"secret": "forge_token", "prefix": "Bearer "}},
        secrets_of=alice,
        allowed_networks=["10.1.2.0/24:8080"],
    )
    document = ImportedDocument.objects.create(
        name="Pets", title="Pets", source="pets.json", sha256="ab", imported_by=alice, imported_at=datetime.now(UTC)
    )
    nasty = Tool(
        name="nasty",
        runner="http_api",
        origin=document.origin,
        record_bodies="digests",
        enabled=False,
        fill_defaults=False,
        timeout=1e3,
        max_argument_bytes=99,
        polling=True,
        cost=0,
        cost_argument="/n",
        cost_per_kilobyte=7,
        title="yes",
    )
    definition = {
        "name": "GET /pets",
        "description": 'trailing \nlines\n\n  "quotes" \u202e and\ttabs: #\x85 1e5\n',
        "inputSchema": {
            "type": "object",
            "properties": {
                "no": {"enum": ["NO", "1e5", "~", "", " x", "010", "0x1f", "1_000", "2020-01-01", "1:30", "=", "<<"]},
                "n": {"type": "number", "maximum": 18446744073709551615, "minimum": -1.5e-7, "default": 1e22},
                "\u00e9\U0001f600": {"type": ["string", "null"], "default": None, "const": False},
                "tree": {},
            },
        },
        "settings": {"url": "https://pets.example.com/pets", "query": {"n": "n"}},
    }
    quarantine.adopt(nasty, definition)
    nasty.save()
    quarantine.propose(nasty, {**definition, "title": "Other"})
    group = factories.make_group("staff", [alice])
    examples = Toolset.objects.get(name="Examples")
    factories.deny(group, nasty, note="why: #1", environments=["production"])
    factories.grant(None, examples, starts=datetime(2030, 1, 31, 12, tzinfo=UTC))
    factories.grant(alice, Resource.objects.exclude(uri="").get(), Prompt.objects.get())
    factories.grant(alice, nasty)
    factories.grant(alice, nasty)
    repositories = {None: ["no", "1e5", "# x"], group: ["\u00e9\U0001f600", "a: b"], alice: ["~"]}
    factories.make_value_list("repositories", repositories)
    factories.make_value_list("nothing_yet", {})
    Flag.objects.create(name="new_crm", percentage=25, description="The new CRM.")
    factories.grant(
        alice,
        nasty,
        conditions=[{"path": "/n", "op": "range", "maximum": 1.5}],
        windows=[{"days": ["mon", "fri"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}],
        flags=["new_crm"],
    )
    factories.grant(None, nasty, conditions=[{"path": "/no", "op": "belongs_to", "list": "repositories"}])
    whole = {"path": "/tree", "op": "equals", "value": {"\u00e9": [1e5, "1e5", None, {"~": "no"}]}}
    factories.grant(group, nasty, conditions=[{"path": "", "op": "only", "names": ["tree", "no", "1e5", "#"]}, whole])
    factories.limit("5/m", nasty, user=alice)
    factories.limit("100/2h", examples, group=group)
    factories.limit("9/d")
    factories.limit("60/m", "completion/complete")
    factories.limit("600/h", "tools/list", user=alice)
    fill_approval_rules(nasty, examples, group)
    fill_trials(nasty, examples)
    fill_measures(nasty, examples, group, alice)


def fill_measures(nasty: Tool, examples: Toolset, group: Group, alice: User) -> None:
    """A limit of each measure: a quota beside the rate of the same subject, with a change of it in trial."""
    quota = factories.limit("1000/day", nasty, user=alice, zone="Europe/Berlin", advice="1e5")
    factories.limit("2000/day", nasty, user=alice, trial=True, replaces=quota)
    factories.limit("5000/month", examples, group=group, scope="group_together", measure="cost", advice="Ask: #1")
    factories.limit("3", measure="running", scope="everyone_together")
    factories.limit("5/10m", measure="repeats")
    factories.limit("3/10m", measure="errors")


def fill_approval_rules(nasty: Tool, examples: Toolset, group: Group) -> None:
    """One for each target; grants of the same tool to the same person are told apart."""
    large = {"path": "/n", "op": "range", "exclusiveMinimum": 1.5}
    ours = {"path": "/no", "op": "belongs_to", "list": "repositories"}
    hours = {"days": ["mon", "fri"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}
    make_rule(group, name="of a tool: #1", tool=nasty, conditions=[large, ours], minutes=1, four_eyes=False)
    make_rule(name="of a toolset", toolset=examples, windows=[hours], outside_windows=True, accepts_client=True)
    make_rule(group, name="1e5", all_tools=True, destructive_only=True, enabled=False, note="why")
    for number, grant in enumerate(Grant.objects.filter(effect="allow", prompt=None, resource=None)):
        make_rule(group, name=f"of grant {number}", grant=grant)


def fill_trials(nasty: Tool, examples: Toolset) -> None:
    """Rules in trial: further ones, and one in the place of every rule that can be tried."""
    factories.deny(None, nasty, trial=True)
    factories.limit("9/d", trial=True)
    make_rule(name="tried", tool=nasty, trial=True)
    for grant in Grant.objects.order_by("pk"):
        values = {name: getattr(grant, name) for name in ("tool", "toolset", "resource", "prompt", "user", "group")}
        Grant.objects.create(**values, everyone=grant.everyone, trial=True, replaces=grant, note="tried: #1")
    for limit in Limit.objects.filter(method=""):
        factories.limit("1/d", examples, trial=True, replaces=limit)
    for number, rule in enumerate(ApprovalRule.objects.order_by("pk")):
        make_rule(name=f"tried {number}", toolset=examples, trial=True, replaces=rule)


def wipe() -> None:
    for model in (
        ApprovalRule,
        Grant,
        Limit,
        Tool,
        Resource,
        Prompt,
        Toolset,
        Upstream,
        ImportedDocument,
        Secret,
        ValueList,
        Flag,
    ):
        model._base_manager.all().delete()


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_export_wipe_import_export_is_the_same_file(tmp_path: Path, alice: User, ending: str) -> None:
    fill_catalogue(alice)
    before = Tool.objects.get(name="nasty")
    first, second = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    call_command("exporttools", str(first))
    text = first.read_text(encoding="utf-8")
    assert "hunter2" not in text
    wipe()
    import_file(first, text)
    call_command("exporttools", str(second))
    assert second.read_text(encoding="utf-8") == text
    after = Tool.objects.get(name="nasty")
    assert (after.input_schema, after.description) == (before.input_schema, before.description)
    assert after.quarantined_since == before.quarantined_since
    assert after.origin == ImportedDocument.objects.get().origin
    assert Grant.objects.filter(tool=after, user=alice, conditions=[]).count() == 2
    assert Grant.objects.get(tool=after, everyone=True).conditions[0]["list"] == "repositories"
    assert set(ValueListPart.objects.values_list("everyone", "group__name", "user__username")) == {
        (True, None, None), (False, "staff", None), (False, None, "alice"),
    }  # fmt: skip
    assert Secret.objects.get(name="forge_token").value == ""
    for model in (Grant, Limit, ApprovalRule):
        tried = model.everything.filter(trial=True)
        assert tried.filter(replaces=None).count() == 1 and not model.objects.filter(replaces__isnull=False).exists()
        assert all(row.trial_since is not None for row in tried)
    assert Grant.everything.filter(trial=True).count() == Grant.objects.count() + 1
    assert "Created 0, changed 0, removed 0" in import_file(first, text)


def test_a_file_says_the_same_to_other_readers_of_yaml(alice: User) -> None:
    """But for words that YAML 1.1 takes for dates or numbers, which are quoted."""
    fill_catalogue(alice)
    text = export()
    assert json.dumps(yaml.safe_load(text)) == json.dumps(files.read(text))


def test_importing_existing_items_keeps_the_values_of_secrets(tmp_path: Path, alice: User) -> None:
    fill_catalogue(alice)
    before = Secret.objects.get(name="forge_token").value
    import_file(tmp_path / "x.yaml", export().replace("From the forge", "From another"))
    assert Secret.objects.get(name="forge_token").description.startswith("From another")
    assert Secret.objects.get(name="forge_token").value == before


def test_a_plan_shows_the_difference_and_changes_nothing(tmp_path: Path, alice: User) -> None:
    fill_catalogue(alice)
    before, recorded = export(), Action.objects.count()
    wanted = yaml.safe_load(before)
    search = next(entry for entry in wanted["tools"] if entry["name"] == "web_search")
    search["settings"]["timeout"] = 9
    search["enabled"] = False
    wanted["tools"].append({"name": "new_one", "description": "New.", "settings": {"function": "calculate_sum"}})
    wanted["tools"] = [entry for entry in wanted["tools"] if entry["name"] != "add_log"]
    about = [(entry, entry.get("replaces") or entry) for entry in wanted["limits"]]
    wanted["limits"] = [entry for entry, named in about if named.get("tool") != "add_log"]
    said = import_file(tmp_path / "x.json", wanted, "--plan")
    assert "~ tool web_search\n" in said
    assert "    settings.timeout: 15 -> 9\n" in said
    assert "    enabled: true -> false\n" in said
    assert "+ tool new_one\n" in said
    assert "Would create 1, change 1, remove 0" in said
    assert "- tool add_log" in import_file(tmp_path / "x.json", wanted, "--plan", "--prune")
    assert export() == before
    assert Action.objects.count() == recorded


def test_an_import_is_logged_and_deletes_only_on_request(tmp_path: Path) -> None:
    factories.make_tool("old")
    import_file(tmp_path / "x.json", make_document(tool()))
    assert set(Tool.objects.values_list("name", flat=True)) == {"old", "add"}
    assert Action.objects.filter(kind="tool", target__startswith="add", verb="created").exists()
    import_file(tmp_path / "x.json", make_document(tool(title="Add")), "--prune")
    assert list(Tool.objects.values_list("name", "title")) == [("add", "Add")]


def text_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_second_grant_with_other_conditions_is_added_and_an_edited_one_is_changed(tmp_path: Path) -> None:
    tools = [tool(input_schema=text_schema())]
    one, other = ({"path": "/a", "op": "equals", "value": value} for value in "xy")
    grants = [{"tool": "add", "everyone": True, "conditions": [one]}]
    import_file(tmp_path / "x.json", make_document(*tools, grants=grants))
    first = Grant.objects.get()
    grants.insert(0, {"tool": "add", "everyone": True, "conditions": [other]})
    for options, says in ((["--plan"], "Would create 1, change 0, remove 0"), ([], "Created 1, changed 0, removed 0")):
        assert says in import_file(tmp_path / "x.json", make_document(*tools, grants=grants), *options)
    assert "Created 0, changed 0, removed 0" in import_file(tmp_path / "x.json", make_document(*tools, grants=grants))
    assert Grant.objects.get(conditions=[one]) == first and Grant.objects.filter(conditions=[other]).count() == 1
    grants[0]["conditions"] = [{**other, "value": "z"}]
    said = import_file(tmp_path / "x.json", make_document(*tools, grants=grants))
    assert "~ grant allow tool add, everyone\n    conditions: " in said and '"z"' in said
    assert Grant.objects.count() == 2 and Grant.objects.get(conditions=[one]) == first


def test_values_of_a_person_are_changed_in_place_and_a_plan_names_them(tmp_path: Path, alice: User, bob: User) -> None:
    factories.make_value_list("ours", {alice: ["a"], bob: ["b"]})
    wanted = yaml.safe_load(export())
    wanted["value_list_parts"][0]["entries"].append("c")
    said = import_file(tmp_path / "x.json", wanted, "--plan")
    assert '~ value list part ours, user alice\n    entries: ["a"] -> ["a","c"]\n' in said
    assert "Created 0, changed 1, removed 0" in import_file(tmp_path / "x.json", wanted)
    assert [part.entries for part in ValueListPart.objects.order_by("user__username")] == [["a", "c"], ["b"]]


def test_a_list_that_grants_use_goes_with_them_and_never_before(tmp_path: Path) -> None:
    factories.make_value_list("ours", {None: ["x"]})
    Flag.objects.create(name="beta")
    used = factories.grant(
        None, factories.make_tool("add", input_schema=text_schema()), conditions=[IN_OURS], flags=["beta"]
    )
    for section in ("value_lists", "flags"):
        with pytest.raises(CommandError, match=f"{section}: .* is used by grant {used.pk}. Change or delete"):
            import_file(tmp_path / "x.json", {"toolhub": 1, section: []}, "--prune")
    assert ValueList.objects.count() == Flag.objects.count() == Grant.objects.count() == 1
    nothing: dict[str, Any] = {"toolhub": 1, "value_lists": [], "value_list_parts": [], "flags": [], "grants": []}
    assert "Created 0, changed 0, removed 4" in import_file(tmp_path / "x.json", nothing, "--prune")
    assert not ValueList.objects.exists() and not Flag.objects.exists() and not Grant.objects.exists()


def test_an_approval_rule_keeps_its_grant_among_grants_that_look_alike(tmp_path: Path, alice: User) -> None:
    added = factories.make_tool("add", input_schema=text_schema())
    other = {"path": "/a", "op": "equals", "value": "x"}
    factories.grant(alice, added, note="plain")
    narrow = factories.grant(alice, added, conditions=[other])
    make_rule(name="Ask", grant=narrow)
    wanted = yaml.safe_load(export())
    assert wanted["approval_rules"][0]["grant"] == {"tool": "add", "user": "alice", "conditions": [other]}
    Grant.objects.all().delete()
    assert "Created 3, changed 0, removed 0" in import_file(tmp_path / "x.json", wanted)
    assert ApprovalRule.objects.get().grant == Grant.objects.get(conditions=[other])
    assert "Created 0, changed 0, removed 0" in import_file(tmp_path / "x.json", wanted)
    wanted["approval_rules"][0] |= {"grant": {"tool": "add", "user": "alice", "note": "plain"}, "minutes": 5}
    said = import_file(tmp_path / "x.json", wanted, "--plan")
    assert "~ approval rule Ask\n" in said and "minutes: 60 -> 5" in said and "grant" in said
    wanted["approval_rules"][0]["grant"] = {"tool": "add", "user": "alice"}
    with pytest.raises(CommandError, match="no grant in force is like this"):
        import_file(tmp_path / "x.json", wanted)


def test_approval_rules_are_removed_with_prune_alone(tmp_path: Path) -> None:
    make_rule(name="Ask", tool=factories.make_tool("add"))
    nothing: dict[str, Any] = {"toolhub": 1, "approval_rules": []}
    assert "removed 0" in import_file(tmp_path / "x.json", nothing)
    assert "- approval rule Ask" in import_file(tmp_path / "x.json", nothing, "--prune")
    assert not ApprovalRule.objects.exists()


# --- rules in trial ---------------------------------------------------------------------------------------------------


def tried(**fields: Any) -> dict[str, Any]:
    return {"tool": "add", "everyone": True, "effect": "deny", "trial": True, **fields}


STANDING = {"tool": "add", "everyone": True}


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"grants": [tried(trial_since="2030-01-31T12:00:00Z")]}, "grants[0].trial_since: this is not part of a file."),
        ({"grants": [tried(trial="yes")]}, "grants[0].trial: this must be true or false."),
        ({"grants": [tried(replaces=STANDING)]}, "in trial).replaces: no grant in force is like this."),
        ({"grants": [tried(), tried(replaces=STANDING | {"effect": "deny"})]}, "no grant in force is like this."),
        ({"grants": [tried(replaces=1)]}, "replaces: this must be an object"),
        ({"grants": [tried(replaces={"colour": "red"})]}, "a grant is not found by a member with this name."),
        ({"grants": [STANDING, tried(trial=False, replaces=STANDING)]}, "Only a rule in trial"),
        (
            {"limits": [{"rate": "3/m", "method": "tools/list", "trial": True}]},
            "A limit of a method cannot be in trial",
        ),
        ({"approval_rules": [rule(trial=True, replaces="Other")]}, "replaces: there is no approval rule 'Other'."),
        ({"approval_rules": [rule(trial=True), rule(name="B", trial=True, replaces="Ask")]}, "no approval rule 'Ask'"),
        (
            {"grants": [tried(effect="allow")], "approval_rules": [rule(tool=None, grant=STANDING)]},
            "no grant in force is like this.",
        ),
        ({"grants": [tried(note=str(number)) for number in range(51)]}, "50 rules are in trial"),
    ],
)
def test_a_trial_that_could_not_be_is_refused_with_its_place(
    tmp_path: Path, sections: dict[str, Any], says: str
) -> None:
    with pytest.raises(CommandError) as refused:
        import_file(tmp_path / "x.json", make_document(tool(), **sections))
    assert says in str(refused.value)
    assert not Tool.objects.exists() and not Grant.everything.exists()


def test_a_file_tries_a_change_of_a_rule_that_it_brings_and_leaves_the_rule_alone(tmp_path: Path) -> None:
    content = make_document(tool(), grants=[tried(replaces=STANDING), STANDING])
    assert "Created 3" in import_file(tmp_path / "x.json", content)
    standing, row = Grant.objects.get(), Grant.everything.get(trial=True)
    assert (standing.effect, row.effect, row.replaces) == ("allow", "deny", standing)
    assert "Created 0, changed 0, removed 0" in import_file(tmp_path / "x.json", content)
    content["grants"][0]["note"] = "TICKET-1"
    said = import_file(tmp_path / "x.json", content)
    assert "~ grant deny tool add, everyone, in trial\n" in said and "Created 0, changed 1, removed 0" in said
    assert (Grant.objects.get().note, Grant.everything.get(trial=True).pk) == ("", row.pk)


def test_a_file_without_the_replaced_rule_does_not_lose_its_trial_unsaid(tmp_path: Path) -> None:
    content = make_document(tool(), grants=[STANDING, tried(replaces=STANDING)])
    import_file(tmp_path / "x.json", content)
    del content["grants"][0]
    with pytest.raises(CommandError, match=r"grants\[0\]\.replaces: no grant in force is like this"):
        import_file(tmp_path / "x.json", content, "--prune")
    assert Grant.everything.count() == 2
    content["grants"] = []
    assert "removed 2" in import_file(tmp_path / "x.json", content, "--prune")


def test_a_file_puts_an_approval_rule_in_force_and_never_back_in_trial(tmp_path: Path) -> None:
    content = make_document(tool(), approval_rules=[rule(trial=True)])
    import_file(tmp_path / "x.json", content)
    row = ApprovalRule.everything.get()
    content["approval_rules"] = [rule()]
    assert "trial: true -> false" in import_file(tmp_path / "x.json", content)
    assert ApprovalRule.objects.get().pk == row.pk
    content["approval_rules"] = [rule(trial=True)]
    with pytest.raises(CommandError, match="it would stop to apply"):
        import_file(tmp_path / "x.json", content)


def test_a_grant_may_name_a_flag_that_the_environment_alone_defines(tmp_path: Path, settings: Any) -> None:
    settings.FLAGS = {"beta": 50}
    import_file(
        tmp_path / "x.json", make_document(tool(), grants=[{"tool": "add", "everyone": True, "flags": ["beta"]}])
    )
    assert Grant.objects.get().flags == ["beta"]


def test_no_column_is_left_out_without_a_reason() -> None:
    for kind in KINDS:
        columns = {column.name for column in kind.model._meta.concrete_fields if not column.primary_key}
        assert set(kind.excluded) <= columns
        assert all(reason.endswith(".") for reason in kind.excluded.values())
        assert {column.name for column in kind.columns()} == columns - set(kind.excluded)
        assert set(kind.many) == {relation.name for relation in kind.model._meta.many_to_many}
