"""Admin activity for an auditor's own tools: JSON Lines or CSV of any size, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q, QuerySet

from audit.export import rows
from audit.models import Action
from audit.queries.spans import Span

FIELDS = ("id", "at", "actor", "verb", "kind", "target", "before", "after", "link")


def serialize(action: Action) -> dict[str, Any]:
    """Return every column as a JSON value: the texts that the hash chain covers."""
    return {name: rows.serialize_value(getattr(action, name)) for name in FIELDS}


def iterate_batches(found: QuerySet[Action], span: Span, rest: Q | None = None) -> Iterator[list[Action]]:
    """Yield the matching changes of an interval, newest first, in batches that limit memory and locks."""
    found = found.order_by("-pk") if rest is None else found.filter(rest).order_by("-pk")
    while batch := list(span.of(found)[: rows.BATCH_ROWS]):
        yield batch
        span = span.before(batch[-1].pk)


def chunks(found: QuerySet[Action], span: Span, rest: Q | None, kind: str) -> Iterator[bytes]:
    """Yield the encoded changes, newest first, a batch at a time. `kind` is one of `rows.FORMATS`."""
    if kind == "csv":
        yield rows.encode_csv([FIELDS])
    for batch in iterate_batches(found, span, rest):
        values = [serialize(action) for action in batch]
        if kind == "csv":
            yield rows.encode_csv([[rows.safe_cell(value) for value in one.values()] for one in values])
        else:
            yield "".join(f"{rows.encode_json(one)}\n" for one in values).encode()
