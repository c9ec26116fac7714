"""Exports for an auditor's own tools: JSON Lines or CSV of any size, in constant memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.actions import log
from audit.models import Call
from audit.queries.search import CallSearch
from audit.results import kept
from audit.types import Ending

COLUMNS = tuple(field.attname for field in Call._meta.concrete_fields)
FIELDS = (*COLUMNS, "result_kept_bytes", "result_complete")
"""The columns of a call, and how much of its result is in them."""
FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
BATCH_ROWS = 1_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def serialize(call: Call) -> dict[str, Any]:
    """Return every column as a JSON value. Arguments and result remain the text that the hash chain covers."""
    return {name: _serialize_value(getattr(call, name)) for name in COLUMNS} | say_kept(call)


def say_kept(row: Call | Ending) -> dict[str, Any]:
    """Return how many bytes of the result the row has, and whether these are all."""
    kept_bytes, is_all = kept.measure_result(row)
    return {"result_kept_bytes": kept_bytes, "result_complete": is_all}


def _serialize_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return str(value) if isinstance(value, UUID) else value


def safe_cell(value: Any) -> Any:
    """Return the value, with an apostrophe before a text that a spreadsheet would interpret as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def log_export(search: CallSearch, kind: str, destination: str) -> None:
    """Log the export itself, before its first line."""
    log.record("exported", "calls", destination, None, {"format": kind, "filters": search.to_parameters()})


def chunks(search: CallSearch, kind: str) -> Iterator[bytes]:
    """Yield the encoded calls of the search, newest first, a batch at a time."""
    if kind == "jsonl":
        for batch in search.iterate_batches(BATCH_ROWS):
            yield "".join(f"{_encode(serialize(call))}\n" for call in batch).encode()
        return
    yield _csv([FIELDS])
    for batch in search.iterate_batches(BATCH_ROWS):
        yield _csv([[safe_cell(value) for value in serialize(call).values()] for call in batch])


def _csv(rows: Any) -> bytes:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return lines.getvalue().encode("utf-8", "backslashreplace")
