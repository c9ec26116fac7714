"""The server log: no text of a tool or a client looks like a line of the server."""

from __future__ import annotations

import copy
import io
import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from audit.integrity import checkpoints
from toolhub import log_lines
from toolhub import settings as toolhub_settings

FORGED = {"checkpoint": 9, "at": 1, "heads": {}, "previous": "0", "hash": "0", "key": "0", "signature": "0"}
LINE = json.dumps(FORGED, separators=(",", ":"))
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
NASTY = [*BREAKS, "\0", "\x08", "\x1b[2K", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"]


def _reject(record: logging.LogRecord) -> bool:
    return False


@pytest.fixture
def console(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What every logger prints with the handlers, filters and formatters of the real settings."""
    logging_settings: Any = copy.deepcopy(toolhub_settings.LOGGING)  # the configurator takes it apart
    configurator: Any = logging.config.DictConfigurator({**logging_settings, "handlers": {}})
    configurator.config["formatters"] = {
        name: configurator.configure_formatter(one) for name, one in logging_settings["formatters"].items()
    }
    stream, described = io.StringIO(), logging_settings["handlers"]["console"]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(configurator.config["formatters"][described["formatter"]])
    for name in described["filters"]:
        handler.addFilter(configurator.configure_filter(logging_settings["filters"][name]))
    root = logging.getLogger()
    root.addHandler(handler)
    # What pytest captures is sent from its workers, and a record that is no UTF-8 cannot be.
    capturing: Any = request.config.pluginmanager.getplugin("logging-plugin")
    handlers = (capturing.caplog_handler, capturing.report_handler)
    for other in handlers:
        other.addFilter(_reject)
    yield stream
    for other in handlers:
        other.removeFilter(_reject)
    root.removeHandler(handler)


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_every_record_is_one_line_whatever_its_text(console: io.StringIO, nasty: str) -> None:
    logging.getLogger("catalog.test").warning("the tool said: %s", f"no{nasty}{LINE}")
    printed = console.getvalue()
    assert printed.count("\n") == 1 and len(printed.splitlines()) == 1
    assert nasty[0] not in printed[:-1]


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_no_line_of_a_traceback_begins_like_a_record(console: io.StringIO, nasty: str) -> None:
    try:
        raise RuntimeError(f"no{nasty}2026-11-23 01:02:03,004 INFO audit: {LINE}")
    except RuntimeError:
        logging.getLogger("catalog.test").exception("a tool failed", stack_info=True)
    first, *further = console.getvalue().removesuffix("\n").split("\n")
    assert first.endswith("ERROR catalog.test: a tool failed") and len(further) > 3
    assert all(line.startswith("  | ") for line in further)
    assert not any(character in console.getvalue() for character in nasty if character not in "\n[2K")


@pytest.mark.parametrize("nasty", [" ", *NASTY], ids=ascii)
@pytest.mark.parametrize("prefix", ["", "2026-11-23 01:02:03,004 INFO audit: "], ids=["bare", "like a record"])
def test_a_checkpoint_in_the_text_of_a_tool_is_none(
    console: io.StringIO, tmp_path: Any, nasty: str, prefix: str
) -> None:
    genuine = json.dumps({**FORGED, "checkpoint": 1}, separators=(",", ":"))
    logging.getLogger("audit").info("%s", genuine)
    text = f"no{nasty}{prefix}{LINE}"
    logging.getLogger("catalog.test").warning("the tool said: %s", text)
    try:
        raise RuntimeError(text)
    except RuntimeError:
        logging.getLogger("catalog.test").exception("a tool failed")
    kept = tmp_path / "server.log"
    for outer in ("", "Nov 23 01:02:03 host toolhub[7]: "):
        kept.write_text("".join(f"{outer}{line}\n" for line in console.getvalue().splitlines()), encoding="utf-8")
        assert [found.number for found in checkpoints.read_file(kept)] == [1]


@pytest.mark.django_db
def test_a_foreign_host_a_missing_permission_and_a_missing_csrf_token_log_one_line_each(
    console: io.StringIO, client: Client, charlie: Any, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    assert client.get("/accounts/login/", headers={"host": "evil.example"}).status_code == 400
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(charlie)
    assert strict.post("/account/", {}).status_code == 403
    charlie.is_staff = True
    charlie.save()
    client.force_login(charlie)
    assert client.get("/admin/catalog/tool/").status_code == 403
    lines = console.getvalue().splitlines()
    assert len(lines) >= 3 and "Traceback" not in console.getvalue()
    assert not any(line.startswith("  | ") for line in lines)
    assert any("evil.example" in line for line in lines)


def test_a_flood_of_pages_that_are_not_there_is_some_lines_a_minute(
    console: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("toolhub.log_lines.time.monotonic", lambda: clock[0])
    missing = {"status_code": 404}
    for number in range(5000):
        logging.getLogger("django.request").warning("Not Found: /%d", number, extra=missing)
    logging.getLogger("django.request").error("Internal Server Error: /", extra={"status_code": 500})
    lines = console.getvalue().splitlines()
    assert len(lines) == log_lines.MAX_EXPECTED_LINES + 1 and "Internal Server Error" in lines[-1]
    clock[0] += log_lines.INTERVAL_SECONDS
    for _ in range(2):
        logging.getLogger("django.request").warning("Not Found: /%s", "next", extra=missing)
    first, second = console.getvalue().splitlines()[-2:]
    assert first.endswith("(4940 lines were left out) Not Found: /next")
    assert second.endswith("django.request: Not Found: /next")


def test_the_address_that_a_client_asks_for_does_not_make_a_line_longer_than_a_line(console: io.StringIO) -> None:
    logging.getLogger("django.request").warning("Not Found: /%s", "A" * 16_000, extra={"status_code": 404})
    assert len(console.getvalue()) < 700 and console.getvalue().endswith("A…\n")


def test_a_bug_keeps_its_traceback(console: io.StringIO) -> None:
    try:
        raise PermissionDenied("inner")
    except PermissionDenied:
        logging.getLogger("django.request").exception("Internal Server Error: /", extra={"status_code": 500})
        logging.getLogger("toolhub.server").exception("A request failed")
    assert console.getvalue().count("Traceback") == 2


@pytest.mark.parametrize(
    "line",
    [
        "Not Found: /invitation/{}",
        "Forbidden (CSRF token missing.): /invitation/{}/",
        "Internal Server Error: /password/new/MQ/{}",
        "GET http://localhost:8000/invitation/{}?next=/ HTTP/1.1",
    ],
)
def test_tokens_of_links_are_in_no_line_and_in_no_traceback(line: str) -> None:
    token = "dineep-02f66f7017919db167c3982c0d15dd26"
    try:
        raise ValueError(line.format(token))
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "%s", (line.format(token),), sys.exc_info())
    text = log_lines.LineFormatter("{message}", style="{").format(record)
    assert token not in text and text.count("[hidden]") >= 2
