"""The example tools: what they refuse, that they work, and the catalogue that publishes them."""

from __future__ import annotations

import asyncio
import base64
import email
import inspect
import io
import json
import os
import wave
from collections.abc import Callable, Iterator
from email.header import decode_header, make_header
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from catalog import workspace
from catalog.calls import call_tool
from catalog.errors import InvalidArguments, ToolError, UnknownTool
from catalog.examples import catalogue
from catalog.functions import Context, registry
from catalog.functions.content import Structured
from catalog.models import Grant, Limit, Prompt, Resource, Tool, Toolset
from tests.catalog.pipeline import RecordingChannel, call, caller, run_in_database, text
from tests.catalog.services import MailSink, WeatherService
from tests.factories import grant, make_tool


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.WORKSPACE_DIR = tmp_path / "hub" / "workspace"
    inside = workspace.root()
    (tmp_path / "hub" / "secret.txt").write_text("outside")
    (tmp_path / "hub" / "workspace-secret").mkdir()
    (tmp_path / "hub" / "workspace-secret" / "secret.txt").write_text("outside")
    return inside


def run(name: str, **arguments: Any) -> Any:
    """What the function returns: its sentence where it has one."""
    function = registry.lookup("tool", name)
    if function.context is not None:
        arguments[function.context] = Context(SimpleNamespace(), RecordingChannel({}), name, uuid4())  # type: ignore[arg-type]
    made = function.call(**arguments)
    made = asyncio.run(made) if inspect.iscoroutine(made) else made
    return made.content[0] if isinstance(made, Structured) and made.content else made


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
    with pytest.raises(ToolError, match="There is no"):
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
        assert (summary.results[0].result, summary.rows) == (result, 5)
    assert run("analyze_csv", path="t.csv", column="n").results[0].skipped == 3
    assert run("analyze_csv", path="t.csv", column="name", operation="average").results[0].result is None
    with pytest.raises(ToolError, match="name, n"):
        run("analyze_csv", path="t.csv", column="nothing")
    with pytest.raises(ToolError, match="no column of numbers"):
        run("analyze_csv", path="t.csv")
    (folder / "empty.csv").write_text("")
    with pytest.raises(ToolError, match="no columns"):
        run("analyze_csv", path="empty.csv", column="n")
    (folder / "broken.csv").write_text('a\n"open')
    with pytest.raises(ToolError, match="line"):
        run("analyze_csv", path="broken.csv", column="a")
    (folder / "wide.csv").write_text(",".join(f"c{number}" for number in range(201)))
    with pytest.raises(ToolError, match="201 columns"):
        run("analyze_csv", path="wide.csv")


def test_a_table_is_summarised_in_the_form_that_people_try_first(folder: Path) -> None:
    (folder / "sales.csv").write_text("day,units,revenue\n2026-01-01,2,10.5\n2026-01-02,4,1\n")
    summary = run("analyze_csv", filepath="sales.csv", operations=["sum", "average", "count"])
    assert {(one.column, one.operation): one.result for one in summary.results} == {
        ("units", "sum"): 6,
        ("units", "average"): 3,
        ("units", "count"): 2,
        ("revenue", "sum"): 11.5,
        ("revenue", "average"): 5.75,
        ("revenue", "count"): 2,
    }
    both = run("analyze_csv", path="sales.csv", filepath="sales.csv", column="units", columns=["revenue"])
    assert [one.column for one in both.results] == ["units", "revenue"]
    for wrong in ({}, {"path": "a.csv", "filepath": "b.csv"}):
        with pytest.raises(ToolError, match=r"path|two files"):
            run("analyze_csv", **wrong)


def test_any_file_is_read_as_base64_and_a_text_says_so(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    assert run("read_file", path="binary", encoding="base64") == "//4A"
    with pytest.raises(ToolError, match="base64"):
        run("read_file", path="binary")
    (folder / "report.md").write_text("# Report")
    assert run("read_file", path="report.md", encoding="base64") == "IyBSZXBvcnQ="


def test_files_are_searched_by_name_and_line(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "Needle.txt").write_text("nothing")
    (folder / "a.txt").write_text("first\n  the NEEDLE is here \n")
    (folder / "picture").write_bytes(b"\xffneedle")
    (folder.parent / "needle.txt").write_text("needle")
    (folder / "out").symlink_to(folder.parent)
    found = run("search_files", query="needle")
    assert [(one.path, one.line, one.text) for one in found.matches] == [
        ("a.txt", 2, "the NEEDLE is here"),
        ("deep/Needle.txt", 0, ""),
    ]
    assert found.searched == 3 and not found.truncated
    (folder / "many.txt").write_text("needle\n" * 500)
    assert len(run("search_files", query="needle").matches) == 100 and run("search_files", query="needle").truncated


@pytest.mark.parametrize(
    "path",
    [".env", "deploy/.env.production", "server.key", "tls/cert.pem", "id_rsa", ".ssh/config", "credentials.json",
     "my_passwords.txt", "api-token.txt", ".netrc", "vault.kdbx", "SECRETS.YAML"],
)  # fmt: skip
def test_a_file_that_looks_like_a_secret_is_not_deleted(folder: Path, path: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("x")
    with pytest.raises(ToolError, match="keys, passwords or tokens"):
        run("delete_file", path=path)
    assert (folder / path).exists()


@pytest.mark.parametrize("path", ["keynote.txt", "environment.txt", "monkey.txt", "tokenizer.py", "passage.txt"])
def test_a_name_that_only_resembles_a_secret_is_deleted(folder: Path, path: str) -> None:
    (folder / path).write_text("x")
    run("delete_file", path=path)
    assert not (folder / path).exists()


@pytest.mark.django_db(transaction=True)
async def test_a_large_file_is_deleted_only_when_its_person_agrees(folder: Path, alice: Any) -> None:
    def publish() -> None:
        grant(alice, make_tool(**registry.tool_row("delete_file")))

    await run_in_database(publish)
    (folder / "large.bin").write_bytes(b"x" * 100_001)
    cannot = await call(alice, "delete_file", {"path": "large.bin"}, RecordingChannel({}))
    assert cannot.is_error and "this client cannot ask" in text(cannot)
    for answer, gone in (
        ({"action": "decline"}, False),
        ({"action": "accept", "content": {"delete": False}}, False),
        ({"action": "accept", "content": {"delete": True}}, True),
    ):
        channel = RecordingChannel(answers={"delete": answer})
        result = await call(alice, "delete_file", {"path": "large.bin"}, channel)
        assert result.structured == {"path": "large.bin", "deleted": gone}
        assert (folder / "large.bin").exists() is not gone


def test_issues_are_numbered_for_each_repository(folder: Path) -> None:
    assert "o/r#1" in run("create_issue", owner="o", repo="r", title="t")
    assert "o/r#2" in run("create_issue", owner="o", repo="r", title="t")
    assert "o/other#1" in run("create_issue", owner="o", repo="other", title="t")
    assert json.loads((folder / "issues.json").read_text())["o/r#2"] == {"title": "t", "body": "", "state": "open"}


@pytest.mark.django_db(transaction=True)
async def test_pictures_sounds_resources_and_questions_reach_the_client(folder: Path, alice: Any) -> None:
    await run_in_database(catalogue.load, "alice")
    chart = await call(alice, "draw_chart", {"values": [3, 1, 4]})
    assert chart.structured == {"width": 104, "height": 120, "mime_type": "image/png"}
    picture = base64.b64decode(chart.content[1]["data"])
    assert chart.content[1]["mimeType"] == "image/png" and picture.startswith(b"\x89PNG\r\n\x1a\n")
    tone = await call(alice, "play_tone", {"hertz": 440, "seconds": 0.5})
    with wave.open(io.BytesIO(base64.b64decode(tone.content[1]["data"]))) as sound:
        assert (sound.getnframes(), sound.getframerate()) == (4000, 8000)
    guide = await call(alice, "attach_guide", {})
    assert [block["type"] for block in guide.content] == ["text", "resource", "resource_link"]
    assert (await call_tool.read_resource(caller(alice), guide.content[2]["uri"], RecordingChannel())).contents
    answered = RecordingChannel(answers={"name": {"action": "accept", "content": {"name": "Ann"}}})
    assert text(await call(alice, "ask_me", {}, answered)) == "Hello, Ann."
    declined = RecordingChannel(answers={"name": {"action": "decline"}})
    assert (await call(alice, "ask_me", {}, declined)).structured == {"action": "decline", "name": ""}


# --- weather and mail ------------------------------------------------------------------------------------------------


@pytest.fixture
def weather(settings: Any) -> Iterator[WeatherService]:
    with WeatherService() as service:
        settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8"]
        settings.WEATHER_URL, settings.GEOCODING_URL = f"{service.url}/forecast", f"{service.url}/search"
        yield service


@pytest.mark.django_db(transaction=True)
async def test_the_weather_at_a_place_comes_by_name_or_by_coordinates(
    folder: Path, alice: Any, weather: WeatherService
) -> None:
    await run_in_database(catalogue.load, "alice")
    found = await call(alice, "get_weather", {"location": "New York"})
    assert not found.is_error, text(found)
    assert text(found).startswith("New York, United States: 12.5 °C, wind 7 km/h, precipitation 0.2 mm")
    assert found.structured["latitude"] == 40.71
    in_texas = await call(alice, "get_weather", {"location": "New York, Texas", "temperature_unit": "fahrenheit"})
    assert in_texas.structured["latitude"] == 32.17 and in_texas.structured["temperature_unit"] == "fahrenheit"
    await call(alice, "get_weather", {"latitude": 46.95, "longitude": 7.45})
    assert "latitude=46.95&longitude=7.45" in weather.asked[-1]
    for arguments, says in (
        ({"location": "Nowhere"}, "No place is called"),
        ({}, "Give the name of a place"),
        ({"latitude": 1}, "both latitude and longitude"),
    ):
        refused = await call(alice, "get_weather", arguments)
        assert refused.is_error and says in text(refused)
    for broken, says in (("status", "HTTP status 503"), ("text", "not JSON"), ("empty", "without the weather")):
        weather.broken = broken
        failed = await call(alice, "get_weather", {"latitude": 1, "longitude": 1})
        assert failed.is_error and says in text(failed), broken


@pytest.mark.django_db
def test_mail_is_off_without_a_server_and_goes_to_the_one_that_is_set(
    settings: Any, folder: Path, mail_sink: MailSink
) -> None:
    settings.EMAIL_HOST = ""
    catalogue.load("alice")
    assert not Tool.objects.get(name="send_email").enabled
    with pytest.raises(ToolError, match="TOOLHUB_SMTP_URL"):
        run("send_email", to=["ann@example.com"], subject="s", body="b")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail_sink.port
    settings.DEFAULT_FROM_EMAIL = "hub@example.com"
    sent = run("send_email", to=["ann@example.com", "bob@example.com"], subject="Grüße", body="Hello.\n.\nBye.")
    assert sent == "Sent 'Grüße' to ann@example.com, bob@example.com."
    (mail,) = mail_sink.mails
    assert mail["recipients"] == ["ann@example.com", "bob@example.com"] and mail["sender"] == "hub@example.com"
    parsed = email.message_from_string(mail["data"])
    assert str(make_header(decode_header(parsed["Subject"]))) == "Grüße" and "Bye." in str(parsed.get_payload())
    with pytest.raises(ToolError, match=r"refused these recipients: nobody@example\.com"):
        run("send_email", to=["nobody@example.com"], subject="s", body="b")
    mail_sink.stop()
    with pytest.raises(ToolError, match="could not be sent"):
        run("send_email", to=["ann@example.com"], subject="s", body="b")


@pytest.fixture
def mail_sink() -> Iterator[MailSink]:
    with MailSink() as sink:
        yield sink


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
    lines = text(await call(bob, "execute_command", {"command": "wc", "args": ["-l"], "path": "samples/sales.csv"}))
    assert lines.split() == ["7"]
    system = await call(bob, "execute_command", {"command": "uname"})
    assert text(system).startswith(os.uname().sysname) and system.structured["status"] == 0
    shown = await call(bob, "execute_command", {"command": "ls", "args": ["-la"]})
    assert not shown.is_error and "samples" in text(shown) and text(shown).startswith("total")
    for args in (["-R"], ["-lR"], ["-l", "-R"]):
        refused = await call(bob, "execute_command", {"command": "ls", "args": args})
        assert refused.is_error and "is not an option of this tool" in text(refused)
    for wrong in (["/etc"], ["--color"], ["-"], "-l"):
        with pytest.raises(InvalidArguments):
            await call(bob, "execute_command", {"command": "ls", "args": wrong})
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
    assert await Tool.objects.acount() == len(catalogue.read()["tools"]) == 24
    assert text(await call(alice, "calculate_sum", {"a": 1, "b": 2})) == "3"
    arguments = {"path": catalogue.SAMPLE_PATH, "column": "revenue", "operation": "average"}
    average = await call(alice, "analyze_csv", arguments)
    assert average.structured["results"][0]["result"] == pytest.approx(378.416666)
    channel = RecordingChannel()
    assert "Done" in text(await call(alice, "long_task", {"seconds": 0.3, "steps": 3}, channel))
    assert [report[0] for report in channel.reports] == [0, 1, 2, 3]
    too_large = await call(alice, "calculate_sum", {"a": 1e308, "b": 1e308})
    assert too_large.is_error
    for name in ("delete_file", "write_file", "upsert_record", "send_email", "execute_command", "nothing"):
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
    assert Limit.objects.get(tool__name="long_task").rate == "6/m"
    limited = set(Limit.objects.values_list("tool__name", flat=True))
    assert set(Tool.objects.values_list("name", flat=True)) - limited == {"calculate_sum"}
    Grant.objects.all().delete()
    Tool.objects.get(name="add_log").delete()
    Tool.objects.filter(name="read_file").update(description="Mine.")
    catalogue.load("alice")
    assert not Grant.objects.exists() and not Tool.objects.filter(name="add_log").exists()
    assert Tool.objects.get(name="read_file").description == "Mine."
    counted = (Toolset.objects.count(), Resource.objects.count(), Prompt.objects.count(), Limit.objects.count())
    assert counted == (3, 2, 1, 22)


def test_every_parameter_of_every_example_is_described_and_bounded() -> None:
    for row in catalogue.read()["tools"]:
        assert len(row["description"]) > 60 and None not in (row["read_only"], row["idempotent"], row["open_world"])
        assert row["input_schema"]["additionalProperties"] is False and row["output_schema"], row["name"]
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
