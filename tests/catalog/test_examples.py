"""The example tools: what they refuse, that they work, and the catalogue that publishes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog import workspace
from catalog.calls import call_tool
from catalog.errors import ToolError, UnknownTool
from catalog.examples import catalogue
from catalog.functions import registry
from catalog.models import Grant, Limit, Prompt, Resource, Tool, Toolset
from tests.catalog.pipeline import RecordingChannel, call, caller, run_in_database, text
from tests.factories import grant


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.WORKSPACE_DIR = tmp_path / "hub" / "workspace"
    inside = workspace.root()
    (tmp_path / "hub" / "secret.txt").write_text("outside")
    (tmp_path / "hub" / "workspace-secret").mkdir()
    (tmp_path / "hub" / "workspace-secret" / "secret.txt").write_text("outside")
    return inside


def run(name: str, **arguments: Any) -> Any:
    return registry.lookup("tool", name).call(**arguments)


OUTSIDE = [
    "../secret.txt",
    "..",
    "a/../../secret.txt",
    "/etc/passwd",
    "~/x",
    "..\\secret.txt",
    "C:/x",
    "../workspace-secret/secret.txt",
    "nul\0byte",
    "d/" * 40 + "x",
    "x" * 1001,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_out_of_the_workspace_is_refused_by_every_file_tool(path: str, folder: Path) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: run("read_file", path=path),
        lambda: run("write_file", path=path, content="x"),
        lambda: run("write_file", path=path, content="x", append=True),
        lambda: run("delete_file", path=path),
        lambda: run("list_directory", path=path),
        lambda: run("analyze_csv", path=path, column="a"),
    ]
    for attempt in attempts:
        with pytest.raises(ToolError):
            attempt()
    assert (folder.parent / "secret.txt").read_text() == "outside"


def test_a_link_is_never_followed_wherever_it_stands(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "inside.txt").write_text("inside")
    (folder / "to_inside.txt").symlink_to(folder / "inside.txt")
    (folder / "out").symlink_to(folder.parent)
    for path in ("link.txt", "to_inside.txt", "out/secret.txt"):
        for attempt in (
            lambda path=path: run("read_file", path=path),
            lambda path=path: run("write_file", path=path, content="x"),
            lambda path=path: run("write_file", path=path, content="x", append=True),
            lambda path=path: run("delete_file", path=path),
        ):
            with pytest.raises(ToolError):
                attempt()
    with pytest.raises(ToolError):
        run("list_directory", path="out")
    listed = run("list_directory", recursive=True)
    assert {entry.path: entry.type for entry in listed.entries} == {
        "inside.txt": "file",
        "link.txt": "other",
        "out": "other",
        "to_inside.txt": "other",
    }
    assert (folder.parent / "secret.txt").read_text() == "outside" and (folder / "inside.txt").read_text() == "inside"


def test_a_folder_swapped_for_a_link_during_the_call_leads_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "safe").mkdir()
    (folder / "safe" / "secret.txt").write_text("inside")
    really, swapped = os.open, []

    def swap(path: Any, flags: int, *args: Any, **options: Any) -> int:
        descriptor = really(path, flags, *args, **options)
        if path == "safe":
            (folder / "safe").rename(folder / "moved")
            (folder / "safe").symlink_to(folder.parent)
            swapped.append(path)
        return descriptor

    monkeypatch.setattr(os, "open", swap)
    assert run("read_file", path="safe/secret.txt") == "inside"
    assert swapped == ["safe"]


def test_special_files_are_refused_without_waiting_for_them(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for attempt in (
        lambda: run("read_file", path="pipe"),
        lambda: run("write_file", path="pipe", content="x"),
        lambda: run("write_file", path="pipe", content="x", append=True),
        lambda: run("delete_file", path="pipe"),
    ):
        with pytest.raises(ToolError):
            attempt()
    (folder / "dir").mkdir()
    for path in ("dir", "dir/", "dir/nothing.txt", "nothing/at/all", ""):
        with pytest.raises(ToolError):
            run("read_file", path=path)
    for path in ("dir", ""):
        with pytest.raises(ToolError):
            run("delete_file", path=path)
        with pytest.raises(ToolError):
            run("write_file", path=path, content="x")


def test_files_that_are_too_large_are_refused_with_the_number(folder: Path) -> None:
    with (folder / "large.bin").open("wb") as file:
        file.truncate(workspace.MAX_READ_BYTES + 1)
    with pytest.raises(ToolError, match="1000001 bytes"):
        run("read_file", path="large.bin")
    with pytest.raises(ToolError, match="at once"):
        run("write_file", path="x.txt", content="ä" * 600_000)
    with (folder / "log.txt").open("wb") as file:
        file.truncate(workspace.MAX_FILE_BYTES)
    with pytest.raises(ToolError, match="beyond"):
        run("add_log", message="one more")
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ToolError, match="not a text file"):
        run("read_file", path="binary")


def test_files_are_written_read_listed_and_deleted(folder: Path) -> None:
    assert "5 bytes" in run("write_file", path="a/b/c.txt", content="hello")
    assert "11 bytes" in run("write_file", path="a/b/c.txt", content=" world", append=True)
    assert run("read_file", path="./a//b/c.txt") == "hello world"
    run("write_file", path="a/b/c.txt", content="new")
    assert run("read_file", path="a/b/c.txt") == "new"
    assert [entry.path for entry in run("list_directory").entries] == ["a"]
    assert [entry.path for entry in run("list_directory", path="a", recursive=True).entries] == ["a/b", "a/b/c.txt"]
    run("delete_file", path="a/b/c.txt")
    with pytest.raises(ToolError, match="no file"):
        run("delete_file", path="a/b/c.txt")
    assert run("list_directory", path="a/b").entries == []


def test_a_very_full_folder_is_listed_up_to_a_bound_and_says_so(folder: Path) -> None:
    for number in range(workspace.MAX_ENTRIES + 5):
        (folder / f"{number:05}").touch()
    listed = run("list_directory", recursive=True)
    assert len(listed.entries) == workspace.MAX_ENTRIES and listed.truncated


def test_a_column_is_summarised_and_what_is_no_number_is_counted(folder: Path) -> None:
    (folder / "t.csv").write_text("\ufeffname, n\na,1\nb,2.5\nc,\nd,many\ne,nan\n", encoding="utf-8")
    expected = {"sum": 3.5, "average": 1.75, "min": 1.0, "max": 2.5, "count": 4}
    for operation, result in expected.items():
        summary = run("analyze_csv", path="t.csv", column="n", operation=operation)
        assert (summary.result, summary.rows) == (result, 5)
    assert run("analyze_csv", path="t.csv", column="n").skipped == 3
    assert run("analyze_csv", path="t.csv", column="name", operation="average").result is None
    with pytest.raises(ToolError, match="name, n"):
        run("analyze_csv", path="t.csv", column="nothing")
    (folder / "empty.csv").write_text("")
    with pytest.raises(ToolError, match="no columns"):
        run("analyze_csv", path="empty.csv", column="n")
    (folder / "broken.csv").write_text('a\n"open')
    with pytest.raises(ToolError, match="line"):
        run("analyze_csv", path="broken.csv", column="a")


def test_a_record_is_added_and_then_replaced(folder: Path) -> None:
    assert run("upsert_record", id="a.1", title="Paint it", status="open") == "Added a.1."
    assert run("upsert_record", id="a.1", title="Paint it", status="done") == "Replaced a.1."
    assert json.loads((folder / "records.json").read_text()) == {"a.1": {"title": "Paint it", "status": "done"}}
    (folder / "records.json").write_text("[]")
    with pytest.raises(ToolError, match="damaged"):
        run("upsert_record", id="b", title="x")


@pytest.mark.django_db(transaction=True)
async def test_programs_and_the_sample_database_are_there_for_whom_they_are_granted(
    folder: Path, settings: Any, tmp_path: Path, alice: Any, bob: Any
) -> None:
    settings.SAMPLES_FILE = tmp_path / "samples.sqlite3"
    settings.SQL_DATABASES = {"samples": f"sqlite:///{settings.SAMPLES_FILE}"}
    settings.COMMANDS = ["date", "uname", "wc", "ls"]

    def load() -> None:
        catalogue.load("alice")
        Tool.objects.update(timeout=120)  # a program starts late on a machine that is busy with other tests

    await run_in_database(load)
    everything = await call(alice, "run_sql_query", {})
    assert everything.structured is not None
    assert [row["product"] for row in everything.structured["rows"]] == ["chair", "lamp", "desk"]
    north = await call(alice, "run_sql_query", {"region": "north"})
    assert north.structured is not None
    assert {row["product"]: row["units"] for row in north.structured["rows"]} == {"chair": 3, "lamp": 12}
    with pytest.raises(UnknownTool):
        await call(alice, "execute_command", {"command": "date"})
    await run_in_database(lambda: grant(bob, Tool.objects.get(name="execute_command")))
    listed = text(await call(bob, "execute_command", {"command": "ls", "path": "samples"}))
    assert "sales.csv" in listed
    counted = text(await call(bob, "execute_command", {"command": "wc", "path": "samples/sales.csv"}))
    assert counted.split()[:2] == ["7", "7"]
    assert text(await call(bob, "execute_command", {"command": "uname"})).startswith(os.uname().sysname)
    assert (await call(bob, "execute_command", {"command": "wc", "path": "../secret.txt"})).is_error


@pytest.mark.django_db
def test_programs_are_off_until_they_are_listed(settings: Any, folder: Path) -> None:
    settings.COMMANDS = []
    catalogue.load("alice")
    assert not Tool.objects.get(name="execute_command").enabled


def test_a_setting_is_added_once_and_a_log_entry_every_time(folder: Path) -> None:
    assert run("set_config", key="theme", value="dark").startswith("Added")
    assert run("set_config", key="theme", value="light").startswith("Replaced")
    assert json.loads((folder / "config.json").read_text()) == {"theme": "light"}
    (folder / "config.json").write_text("[1]")
    with pytest.raises(ToolError, match="damaged"):
        run("set_config", key="theme", value="dark")
    for _ in range(2):
        run("add_log", message="a\nb", level="warning")
    lines = (folder / "log.txt").read_text().splitlines()
    assert len(lines) == 2 and all(line.endswith("WARNING a b") for line in lines)


@pytest.mark.django_db(transaction=True)
async def test_the_example_catalogue_is_made_once_and_works_for_its_user(folder: Path, alice: Any, bob: Any) -> None:
    await run_in_database(catalogue.load, "alice")
    assert await Tool.objects.acount() == len(catalogue.read()["tools"]) == 16
    assert text(await call(alice, "calculate_sum", {"a": 1, "b": 2})) == "3"
    arguments = {"path": catalogue.SAMPLE_PATH, "column": "revenue", "operation": "average"}
    average = await call(alice, "analyze_csv", arguments)
    assert average.structured is not None and average.structured["result"] == pytest.approx(378.416666)
    channel = RecordingChannel()
    assert "Done" in text(await call(alice, "long_task", {"seconds": 0.3, "steps": 3}, channel))
    assert [report[0] for report in channel.reports] == [0, 1, 2, 3]
    too_large = await call(alice, "calculate_sum", {"a": 1e308, "b": 1e308})
    assert too_large.is_error
    for name in ("delete_file", "nothing"):
        with pytest.raises(UnknownTool):
            await call(alice, name, {"path": "x"})
    with pytest.raises(UnknownTool):
        await call(bob, "calculate_sum", {"a": 1, "b": 2})
    guide = await call_tool.read_resource(caller(alice), "toolhub-examples://guide", RecordingChannel())
    assert guide.contents[0]["mimeType"] == "text/markdown" and "calculate_sum" in guide.contents[0]["text"]
    run("write_file", path="note.txt", content="remember {braces}")
    note = await call_tool.read_resource(caller(alice), "workspace://note.txt", RecordingChannel())
    assert note.contents[0]["text"] == "remember {braces}"
    explained = await call_tool.get_prompt(caller(alice), "explain_file", {"path": "note.txt"}, RecordingChannel())
    assert "remember {braces}" in explained.messages[0]["content"]["text"]
    suggested = await call_tool.complete(
        caller(alice), {"type": "ref/prompt", "name": "explain_file"}, {"name": "path", "value": "no"}, {}
    )
    assert suggested[0] == ["note.txt"]


@pytest.mark.django_db
def test_loading_again_restores_nothing_that_an_administrator_removed(alice: Any) -> None:
    catalogue.load("alice")
    assert [limit.rate for limit in Limit.objects.all()] == ["6/m"]
    assert Limit.objects.get().tool == Tool.objects.get(name="long_task")
    Grant.objects.all().delete()
    Tool.objects.get(name="add_log").delete()
    Tool.objects.filter(name="read_file").update(description="Mine.")
    catalogue.load("alice")
    assert not Grant.objects.exists() and not Tool.objects.filter(name="add_log").exists()
    assert Tool.objects.get(name="read_file").description == "Mine."
    counted = (Toolset.objects.count(), Resource.objects.count(), Prompt.objects.count(), Limit.objects.count())
    assert counted == (3, 2, 1, 1)


def test_every_parameter_of_every_example_is_described_and_bounded() -> None:
    for row in catalogue.read()["tools"]:
        assert len(row["description"]) > 60 and None not in (row["read_only"], row["idempotent"], row["open_world"])
        assert row["input_schema"]["additionalProperties"] is False
        for parameter in row["input_schema"]["properties"].values():
            assert parameter["description"]
            if parameter.get("type") == "string" and "enum" not in parameter:
                assert "maxLength" in parameter or "pattern" in parameter


@pytest.mark.django_db
def test_the_fixtures_of_the_conformance_suite_can_be_published(alice: Any, settings: Any) -> None:
    settings.TOOL_MODULES = [*settings.TOOL_MODULES, "tests.conformance.fixtures"]
    from tests.conformance import fixtures

    fixtures.load("alice")
    fixtures.load("alice")
    assert Tool.objects.count() >= 35 and Prompt.objects.count() == 6 and Resource.objects.count() == 5
    assert Tool.objects.order_by("position", "name")[0].name == "test_simple_text"
