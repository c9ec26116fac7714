"""Output of every finished call as one JSON line to a file or standard output, for a log shipper.

The lines have the columns of an export, without those that only the hash chain needs. The database is the audit log;
this is a copy of it. So nothing here may delay or stop logging: a separate thread writes the lines, a pipe without
reader fills a bounded queue, and lines that do not fit are dropped and counted in the server log.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from threading import Condition, Thread
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection

from audit.export.rows import say_kept, serialize
from audit.format.timestamps import from_ms
from audit.models import Call
from audit.redaction.redactor import redact_label
from audit.writing.entries import Entry
from toolhub.log_throttle import ThrottledWarning

logger = logging.getLogger(__name__)

MAX_WAITING_ROWS = 20_000
"""Maximum rows that wait to be written."""
_CHAIN_COLUMNS = {"writer", "link", "end_link", "body_state"}
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


class Shipper:
    """The queue of finished calls and the thread that writes them."""

    def __init__(self, target: str) -> None:
        self.target = target
        """Path of a file, or "-" for standard output."""
        self._rows: deque[Mapping[str, Any] | Entry] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._writing = False
        self._dropped = 0
        self._failure = ""
        self._warning = ThrottledWarning(logger)

    def put(self, rows: Iterable[Mapping[str, Any] | Entry]) -> None:
        """Queue finished calls: entries of the writer, or rows. Return at once and never raise."""
        with self._changed:
            for row in rows:
                if len(self._rows) < MAX_WAITING_ROWS:
                    self._rows.append(row)
                else:
                    self._dropped += 1
            if self._thread is None:
                self._thread = Thread(target=self._run, name="call-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds, and return whether everything is written."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._rows and not self._writing, timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._rows)
                rows = [self._rows.popleft() for _ in range(min(len(self._rows), 500))]
                self._writing = True
            try:
                self._write(b"".join(f"{_encode(row)}\n".encode() for row in _complete_rows(rows)))
            except (OSError, ValueError, TypeError, DatabaseError) as error:
                self._dropped += len(rows)
                self._failure = str(error)
            if self._dropped:
                self._warn_about_dropped()
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write(self, lines: bytes) -> None:
        if self.target == "-":
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
            return
        # Opened for every batch, so that log rotation needs no signal. O_APPEND keeps the lines of several processes
        # apart as long as each batch is one write.
        descriptor = os.open(self.target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while lines:
                lines = lines[os.write(descriptor, lines) :]
        finally:
            os.close(descriptor)

    def _warn_about_dropped(self) -> None:
        why = self._failure or "more calls end than can be written"
        if self._warning.warn("the call log %s misses %d calls: %s", self.target, self._dropped, why):
            self._dropped, self._failure = 0, ""


def _complete_rows(rows: list[Mapping[str, Any] | Entry]) -> Iterator[Mapping[str, Any]]:
    unknown: list[UUID] = []
    for row in rows:
        if not isinstance(row, Entry):
            yield row
        elif (known := build_row(row)) is not None:
            yield known
        else:
            unknown.append(row.id)
    if unknown:
        yield from _read_rows(unknown)


def build_row(entry: Entry) -> dict[str, Any] | None:
    """Return the row of an ended call from memory; None when the data of its start is no longer available."""
    intent, ending = entry.intent, entry.ending
    if intent is None or ending is None:
        return None
    caller = intent.caller
    credential = caller.credential
    return {
        "id": str(entry.id),
        "user_id": credential.user_id,
        "username": credential.username,
        "credential_id": credential.id,
        "credential": credential.label,
        "client_name": redact_label(caller.client_name),
        "client_version": redact_label(caller.client_version),
        "transport": caller.transport,
        "revision": caller.revision,
        "address": caller.address,
        "method": intent.method,
        "name": redact_label(intent.name),
        "target_id": intent.target_id,
        "definition": intent.definition,
        "rule": intent.rule,
        "rule_reason": intent.rule_reason,
        "request_id": redact_label(intent.request_id),
        "arguments": intent.arguments,
        "outcome": ending.outcome,
        "error_class": ending.error_class,
        "detail": ending.detail,
        "detail_reason": ending.detail_reason,
        "result": ending.result,
        "result_bytes": ending.result_bytes,
        "result_sha256": ending.result_sha256,
        "started_at": _format_time(entry.id.int >> 80),
        "ended_at": _format_time(entry.ms),
        "duration_us": entry.duration,
        **say_kept(ending),
    }


def _format_time(ms: int) -> str:
    return from_ms(ms).isoformat(timespec="milliseconds")


def _read_rows(ids: list[UUID]) -> Iterator[dict[str, Any]]:
    """Yield the rows of calls that another process started: their outcome came from a spool, or is unknown."""
    try:
        for call in Call.objects.filter(pk__in=ids).order_by("pk"):
            yield {name: value for name, value in serialize(call).items() if name not in _CHAIN_COLUMNS}
    finally:
        connection.close()
