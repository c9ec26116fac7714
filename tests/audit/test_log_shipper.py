"""The call log: every finished call as a line, and nothing it does can hold up the audit log."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from audit import recorder
from audit.export import log_shipper
from audit.models import Call
from audit.writing.entries import Entry
from tests.audit import attempts
from tests.audit_log import replace_audit_log


class Log:
    """A shipper and what it has written."""

    def __init__(self, path: Path) -> None:
        self.path, self.shipper = path, log_shipper.Shipper(str(path))

    def lines(self) -> list[Any]:
        assert self.shipper.flush(60)
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "calls.log")
    yield made
    made.shipper.flush(60)


def test_nothing_is_written_when_no_log_is_configured():
    assert recorder.AuditLog("").shipper is None
    assert recorder.AuditLog("-").shipper is not None


def test_each_row_is_one_line_in_order(log):
    log.shipper.put([{"id": "1", "text": "two\nlines"}, {"id": "2"}])
    log.shipper.put([{"id": "3"}])
    assert [row["id"] for row in log.lines()] == ["1", "2", "3"]
    assert os.stat(log.path).st_mode & 0o077 == 0


def test_a_file_that_was_rotated_away_is_made_again(log):
    log.shipper.put([{"id": "1"}])
    assert len(log.lines()) == 1
    log.path.rename(log.path.with_suffix(".1"))
    log.shipper.put([{"id": "2"}])
    assert [row["id"] for row in log.lines()] == ["2"]


def test_a_log_that_cannot_be_written_is_reported_once_and_stops_nothing(tmp_path, caplog):
    shipper = log_shipper.Shipper(str(tmp_path / "no folder" / "calls.log"))
    with caplog.at_level(logging.WARNING, logger="audit.export.log_shipper"):
        for number in range(50):
            shipper.put([{"id": str(number)}])
            assert shipper.flush(60)
    assert len([record for record in caplog.records if record.name == "audit.export.log_shipper"]) == 1
    assert "No such file" in caplog.text


def test_an_unread_pipe_blocks_nothing_and_memory_stays_bounded(tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    shipper = log_shipper.Shipper(str(path))
    monkeypatch.setattr(log_shipper, "MAX_WAITING_ROWS", 100)
    done = threading.Event()

    def many():
        for number in range(1000):
            shipper.put([{"id": str(number)}])
        done.set()

    threading.Thread(target=many, daemon=True).start()
    assert done.wait(60), "put() waited for a reader"
    assert len(shipper._rows) <= 100
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # lets the thread go on, and end
    try:
        while not shipper.flush(0.05):
            try:
                os.read(reader, 1 << 20)
            except BlockingIOError:
                continue
    finally:
        os.close(reader)


@pytest.mark.django_db(transaction=True)
async def test_every_ended_call_is_shipped_after_it_is_durable(tmp_path):
    path = tmp_path / "calls.log"
    with replace_audit_log(str(path)) as log:
        key = await attempts.call()
        refused = await recorder.deny(attempts.intent(name="secret_tool"), attempts.ending("refused", ""))
        await recorder.stop(60)
        assert log.shipper is not None
        assert log.shipper.flush(60)
    rows = {row["id"].replace("-", ""): row for row in map(json.loads, path.read_text().splitlines())}
    assert rows.keys() == {key, refused.hex}
    row, call = rows[key], await Call.objects.aget(pk=key)
    for name in ("username", "name", "arguments", "outcome", "result", "rule", "transport", "result_bytes"):
        assert row[name] == getattr(call, name)
    assert rows[refused.hex]["outcome"] == "refused"
    assert {"writer", "link", "end_link", "body_state"}.isdisjoint(row)


@pytest.mark.django_db(transaction=True)
async def test_a_call_whose_beginning_is_not_in_memory_is_read_back(log):
    key = await attempts.call()
    await recorder.stop(60)
    call = await Call.objects.aget(pk=key)
    entry = Entry(1, call.pk, None, None, 0, 0.0)
    log.shipper.put([entry])
    [row] = log.lines()
    assert row["id"] == str(call.pk) and row["username"] == "alice"
