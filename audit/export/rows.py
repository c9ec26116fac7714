"""Exports for an auditor's own tools: JSON Lines or CSV of any size, in constant memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import local_time
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
encode_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def serialize(call: Call) -> dict[str, Any]:
    """Return every column as a JSON value. Arguments and result remain the text that the hash chain covers."""
    return {name: serialize_value(getattr(call, name)) for name in COLUMNS} | say_kept(call)


def say_kept(row: Call | Ending) -> dict[str, Any]:
    """Return how many bytes of the result the row has, and whether these are all."""
    kept_bytes, is_all = kept.measure_result(row)
    return {"result_kept_bytes": kept_bytes, "result_complete": is_all}


def serialize_value(value: Any) -> Any:
    """Return a column as a JSON value: times in ISO format, ids as text."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return str(value) if isinstance(value, UUID) else value


def safe_cell(value: Any) -> Any:
    """Return the value, with an apostrophe before a text that a spreadsheet would interpret as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def log_export(search: CallSearch, kind: str, destination: str) -> None:
    """Log the export itself, before its first line."""
    filters = search.to_parameters()
    if search.period:
        # A period says later what it meant today.
        for name, time in zip(("since", "until"), search.interval(), strict=True):
            filters |= {name: local_time.format_for_url(time)} if time is not None else {}
    log.record("exported", "calls", destination, None, {"format": kind, "filters": filters})


def chunks(search: CallSearch, kind: str) -> Iterator[bytes]:
    """Yield the encoded calls of the search, newest first, a batch at a time."""
    if kind == "jsonl":
        for batch in search.iterate_batches(BATCH_ROWS):
            yield "".join(f"{encode_json(serialize(call))}\n" for call in batch).encode()
        return
    yield encode_csv([FIELDS])
    for batch in search.iterate_batches(BATCH_ROWS):
        yield encode_csv([[safe_cell(value) for value in serialize(call).values()] for call in batch])


def encode_csv(rows: Any) -> bytes:
    """Return the rows as lines of a table, for `safe_cell` values."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return lines.getvalue().encode("utf-8", "backslashreplace")
