"""Functions in a process of their own: however they end, the hub says so and goes on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from catalog.errors import ToolError
from catalog.functions.content import ABSENT
from catalog.processes import launch
from tests.runners.harness import MARK, RecordingChannel, cancel_run, produce_result, run, wait_until_nothing_left
from toolhub import env


@pytest.fixture(autouse=True)
def modules(settings: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    settings.TOOL_MODULES = ["catalog.examples", "tests.runners.functions"]
    monkeypatch.setenv("TOOLHUB_TOOL_MODULES", "catalog.examples,tests.runners.functions")
    settings.ISOLATED_ENVIRONMENT = [MARK]
    mark = uuid4().hex
    monkeypatch.setenv(MARK, mark)
    return mark


def make_settings(function: str, **more: Any) -> dict[str, Any]:
    return {"function": function, "isolated": True, **more}


@pytest.mark.parametrize(
    ("how", "limits", "says"),
    [
        ("exit", {}, "ended its process (status 3)"),
        ("at once", {}, "exited with status 4"),
        ("crash", {}, "crashed (SIGSEGV)"),
        ("memory", {}, "exceeded its memory limit"),
        ("fork bomb", {}, "more than 16 processes"),
        ("raise", {}, "failed unexpectedly"),
        ("sentence", {}, "A sentence for the model."),
        ("nan", {}, "cannot be written as JSON"),
        ("cycle", {}, "cannot be written as JSON"),
        ("object", {}, "cannot be written as JSON"),
        ("huge", {"max_output_bytes": 1_000_000}, "more than the 1000000 bytes"),
        ("values", {}, "more than 200,000 values"),
    ],
)
async def test_a_bad_end_is_a_sentence_and_nothing_is_left(
    how: str, limits: dict[str, Any], says: str, modules: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await run("python_function", make_settings("bad_end", **limits), {"how": how})
    assert says in str(caught.value) and "hunter2" not in str(caught.value)
    await wait_until_nothing_left()


async def test_null_of_an_isolated_function_is_not_the_same_as_no_structured_content(modules: str) -> None:
    assert (await run("python_function", make_settings("bad_end"), {"how": "null"})).structured is None
    assert (await run("python_function", make_settings("good_image"), {})).structured is ABSENT


async def test_processor_time_is_bounded() -> None:
    with pytest.raises(ToolError, match="more than 1 s of processor time"):
        await run("python_function", make_settings("bad_loop", cpu_seconds=1), {})


@pytest.mark.parametrize("function", ["bad_loop", "bad_deaf"])
async def test_a_cancelled_call_kills_functions_that_cannot_be_stopped(
    function: str, tmp_path: Path, modules: str
) -> None:
    started = tmp_path / "started"
    await cancel_run("python_function", make_settings(function), {"started": str(started)}, started)
    await wait_until_nothing_left()


async def test_questions_to_the_client_are_refused_with_the_reason() -> None:
    with pytest.raises(ToolError, match="cannot ask the client"):
        await run("python_function", make_settings("good_ask"), {}, channel=RecordingChannel())


async def test_progress_and_log_lines_pass_and_arguments_arrive() -> None:
    channel = RecordingChannel()
    arguments = {"n": 5, "words": ["a", "ä\u2028", "$(id)"]}
    value = await run("python_function", make_settings("good_steps"), arguments, channel=channel)
    assert value == "alice 5 ['a', 'ä\\u2028', '$(id)']"
    assert channel.reports == [(1, 2, "half")] and channel.lines == [("warning", {"n": 5}, "steps")]


async def test_results_of_every_kind_come_back_and_printed_output_is_not_one() -> None:
    found = await run("python_function", make_settings("bad_end"), {"how": "fine"})
    assert found["how"] == "fine" and found["pid"] != os.getpid()
    assert await run("python_function", make_settings("bad_end"), {"how": "noise"}) == "noisy"
    blocks = (await produce_result("python_function", make_settings("good_image"), {})).content
    assert [block["type"] for block in blocks] == ["text", "image"]
    assert await run("python_function", make_settings("calculate_sum"), {"a": 1.5, "b": 2}) == 3.5


async def test_background_processes_of_a_function_end_with_it() -> None:
    assert await run("python_function", make_settings("bad_end"), {"how": "orphan"}) == "left one"
    assert not launch.count_running()


async def test_several_run_beside_each_other() -> None:
    values = await asyncio.gather(*(run("python_function", make_settings("quick"), {"n": n}) for n in range(3)))
    assert values == [1, 2, 3]


# --- what it is given ------------------------------------------------------------------------------------------------

SECRETS = {
    "TOOLHUB_SECRET_KEY": "the secret key hunter2",
    "TOOLHUB_SECRET_KEY_FILE": "/run/hunter2/secret-key",
    "TOOLHUB_RECORD_KEY": "the record key hunter2",
    "TOOLHUB_RECORD_OLD_KEYS": "the old record key hunter2",
    "TOOLHUB_ENCRYPTION_KEYS": "the encryption key hunter2",
    "TOOLHUB_REDIS_URL": "redis://:hunter2@h:6379/0",
    "TOOLHUB_SQL_DATABASES": "sales=postgresql://u:hunter2@h/d",
    "TOOLHUB_REDACT_VALUES": "hunter2",
    "TOOLHUB_TOKEN": "thp_hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "HTTPS_PROXY": "http://u:hunter2@h:1",
    "PYTHONSTARTUP": "/tmp/hunter2.py",
}
DATABASE = {"TOOLHUB_DATABASE_URL": "postgresql://u:hunter2@h/d", "PGPASSWORD": "hunter2"}


@pytest.mark.parametrize("place", ["development", "production"])
async def test_the_environment_of_a_function_is_a_list_without_any_key_of_the_hub(
    place: str, modules: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    for name, value in {**SECRETS, **DATABASE, "TOOLHUB_ENVIRONMENT": place, "LC_TIME": "C"}.items():
        monkeypatch.setenv(name, value)
    hubs_keys = {settings.SECRET_KEY, settings.RECORD_KEY, *settings.ENCRYPTION_KEYS} - {""}
    assert len(hubs_keys) == 3
    found = await run("python_function", make_settings("good_environment"), {})
    assert "hunter2" not in str(found)
    assert not any(key in str(found) for key in hubs_keys)
    assert {name: found["environment"][name] for name in ("LC_TIME", "PATH", "TOOLHUB_ENVIRONMENT", MARK)} == {
        "LC_TIME": "C",
        "PATH": os.environ["PATH"],
        "TOOLHUB_ENVIRONMENT": place,
        MARK: modules,
    }
    secret_key, *others = found["keys"]
    assert len(secret_key) > 32 and others == [""], "made for this process alone"


async def test_the_operator_lists_more_variables_and_never_those_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ISOLATED_ENVIRONMENT = ["HTTPS_PROXY", "SESSION_SIGNER", "NOT_SET"]
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("SESSION_SIGNER", f"key={settings.SECRET_KEY}")
    found = (await run("python_function", make_settings("good_environment"), {}))["environment"]
    assert found["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert "SESSION_SIGNER" not in found and "NOT_SET" not in found
    for names in (["TOOLHUB_RECORD_KEY"], ["A", "TOOLHUB_X"], ["A B"], ["A=1"], ["*"]):
        with pytest.raises(ImproperlyConfigured, match="TOOLHUB_ISOLATED_ENVIRONMENT"):
            env.variables("TOOLHUB_ISOLATED_ENVIRONMENT", names)


@pytest.mark.django_db(transaction=True)
async def test_a_function_with_django_reads_the_database_and_changes_nothing_that_must_be_logged(
    alice: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the process opens the test's file")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOOLHUB_DATABASE_URL", f"sqlite:///{connection.settings_dict['NAME']}")
    function = make_settings("good_database", django=True)
    assert await run("python_function", function, {}) == [alice.username]
    with pytest.raises(ToolError, match="failed unexpectedly"):
        await run("python_function", function, {"name": "mallory"})
    assert "an isolated function has no key of the audit log" in caplog.text
    assert await run("python_function", function, {}) == [alice.username]
