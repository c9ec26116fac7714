"""The call log: every finished call as a line, and nothing it does can hold up the record."""

from __future__ import annotations

import json
import logging
import os
import threading

import pytest

from audit import recorder
from audit.export import log_shipper
from audit.models import Call
from audit.writing.entries import Entry
from tests.audit import attempting


@pytest.fixture
def log(settings, tmp_path):
    settings.CALL_LOG = str(tmp_path / "calls.log")
    yield tmp_path / "calls.log"
    log_shipper.flush(60)


def lines(path):
    assert log_shipper.flush(60)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_nothing_is_written_when_no_log_is_configured(settings, monkeypatch):
    settings.CALL_LOG = ""
    monkeypatch.setattr(log_shipper, "_shipper", None)
    log_shipper.ship([{"id": "1"}])
    assert log_shipper._shipper is None and not log_shipper.wanted()


def test_each_row_is_one_line_in_order(log):
    log_shipper.ship([{"id": "1", "text": "two\nlines"}, {"id": "2"}])
    log_shipper.ship([{"id": "3"}])
    assert [row["id"] for row in lines(log)] == ["1", "2", "3"]
    assert os.stat(log).st_mode & 0o077 == 0


def test_a_file_that_was_rotated_away_is_made_again(log):
    log_shipper.ship([{"id": "1"}])
    assert len(lines(log)) == 1
    log.rename(log.with_suffix(".1"))
    log_shipper.ship([{"id": "2"}])
    assert [row["id"] for row in lines(log)] == ["2"]


def test_a_log_that_cannot_be_written_is_reported_once_and_stops_nothing(settings, tmp_path, caplog):
    settings.CALL_LOG = str(tmp_path / "no folder" / "calls.log")
    with caplog.at_level(logging.WARNING, logger="audit.export.log_shipper"):
        for number in range(50):
            log_shipper.ship([{"id": str(number)}])
            assert log_shipper.flush(60)
    assert len([record for record in caplog.records if record.name == "audit.export.log_shipper"]) == 1
    assert "No such file" in caplog.text


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_memory_stays_bounded(settings, tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    settings.CALL_LOG = str(path)
    monkeypatch.setattr(log_shipper, "WAITING", 100)
    done = threading.Event()

    def many():
        for number in range(1000):
            log_shipper.ship([{"id": str(number)}])
        done.set()

    threading.Thread(target=many, daemon=True).start()
    assert done.wait(60), "ship() waited for a reader"
    assert log_shipper._shipper is not None and len(log_shipper._shipper._rows) <= 100
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # lets the thread go on, and end
    try:
        while not log_shipper.flush(0.05):
            try:
                os.read(reader, 1 << 20)
            except BlockingIOError:
                continue
    finally:
        os.close(reader)


@pytest.mark.django_db(transaction=True)
async def test_every_ended_call_is_shipped_after_it_is_durable(log, monkeypatch):
    monkeypatch.setattr(recorder, "_listeners", [log_shipper.ship])
    key = await attempting.call()
    refused = await recorder.refuse(attempting.intent(name="secret_tool"), attempting.ending("refused", ""))
    await recorder.stop(60)
    rows = {row["id"].replace("-", ""): row for row in lines(log)}
    assert rows.keys() == {key, refused.hex}
    row, call = rows[key], await Call.objects.aget(pk=key)
    for name in ("username", "name", "arguments", "outcome", "result", "rule", "transport", "result_bytes"):
        assert row[name] == getattr(call, name)
    assert rows[refused.hex]["outcome"] == "refused"
    assert {"writer", "link", "end_link", "body_state"}.isdisjoint(row)


@pytest.mark.django_db(transaction=True)
async def test_a_call_whose_beginning_is_not_in_memory_is_read_back(log):
    key = await attempting.call()
    await recorder.stop(60)
    call = await Call.objects.aget(pk=key)
    entry = Entry(1, call.pk, None, None, 0, 0.0)
    log_shipper.ship([entry])
    [row] = lines(log)
    assert row["id"] == str(call.pk) and row["username"] == "alice"
