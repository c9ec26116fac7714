"""Batches of imported items: what one import made, and its undo.

    batch = record(ImportBatch.Source.OPENAPI, "petstore.yaml", rows)
    find_states(batch)     each item with the reasons that keep it from being undone; `find_page`: so many of them
    undo(batch)            remove exactly the items without a reason, in one transaction, logged

An item stays when somebody changed it, gave access to it alone, limited or tested it, or called it. A toolset that it
was put into is no reason: the toolset stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Count, QuerySet
from django.utils import timezone

from audit.actions import actor, log
from audit.format import uuid7
from audit.models import Call
from audit.redaction.redactor import redact_label
from catalog.models import Grant, ImportBatch, ImportedItem, Limit, ToolTest
from catalog.models.base import CatalogueItem
from catalog.policy import large_changes

CHANGED, GRANTED, LIMITED, TESTED, CALLED = "changed", "granted", "limited", "tested", "called"
MAYBE_CALLED = "maybe_called"
"""Codes of the reasons that keep an item. MAYBE_CALLED: a template, and more calls than are looked through."""
CALL_REASONS: Final = frozenset({CALLED, MAYBE_CALLED})
MAX_SCANNED_CALLS = 100_000
"""Maximum calls since an import that are looked through for a template: no index has their addresses."""
IGNORED_COLUMNS: Final = frozenset({"version", "proposed", "quarantined_since"})
"""Columns that no person changes: the revision, and a change that the source made."""
CHUNK_ROWS = 500
METHODS: Final = {"tool": "tools/call", "resource": "resources/read", "prompt": "prompts/get"}


class AlreadyUndone(Exception):
    """An error for an import that was undone before."""


@dataclass(frozen=True, slots=True)
class ItemState:
    """One item of a batch, and why an undo leaves it; empty: the undo removes it."""

    item: CatalogueItem
    kind: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """The names of what an undo removed and of what it left."""

    removed: list[str]
    kept: list[str]


def record(kind: str, source: str, rows: Iterable[CatalogueItem]) -> ImportBatch | None:
    """Keep which items one import made, in the transaction of the import; None when it made nothing."""
    by_model: dict[type[CatalogueItem], list[int]] = {}
    for row in rows:
        by_model.setdefault(type(row), []).append(row.pk)
    if not by_model:
        return None
    number = sum(len(keys) for keys in by_model.values())
    batch = ImportBatch.objects.create(
        kind=kind, source=source[:300], made_by=actor.current().name[:200], number=number
    )
    for model, keys in by_model.items():
        # As the database returns them: their digest is compared later.
        name = str(model._meta.model_name)
        for start in range(0, len(keys), CHUNK_ROWS):
            stored = model._default_manager.in_bulk(keys[start : start + CHUNK_ROWS])
            ordered = (stored[key] for key in keys[start : start + CHUNK_ROWS])
            ImportedItem.objects.bulk_create(
                ImportedItem(batch=batch, digest=digest(row), **{name: row}) for row in ordered
            )
    return batch


def find_states(
    batch: ImportBatch, kinds: Collection[str] = ImportedItem.ITEM_FIELDS, *, calls: bool = True
) -> list[ItemState]:
    """Return every item of these kinds that the import made and that still exists, by kind and name.

    Without `calls`, no state says that an item was called: this is for those who may not read the audit log.
    """
    found: list[ItemState] = []
    for kind in ImportedItem.ITEM_FIELDS:
        if kind in kinds:
            states = _find_states(kind, _read_items(batch, kind), batch.made_at if calls else None)
            found += sorted(states, key=lambda state: str(state.item))
    return found


def count_items(batch: ImportBatch, kinds: Collection[str] = ImportedItem.ITEM_FIELDS) -> dict[str, int]:
    """Return how many items of each of these kinds the import made that still exist; a kind without any is left out."""
    counts = batch.items.aggregate(**{kind: Count(kind) for kind in ImportedItem.ITEM_FIELDS if kind in kinds})
    return {kind: number for kind, number in counts.items() if number}


def find_page(
    batch: ImportBatch, counts: Mapping[str, int], start: int, number: int, *, calls: bool
) -> list[ItemState]:
    """Return so many states from this position on, by kind and in the order in which the import made the items.

    `counts`: as from `count_items`. `calls`: as for `find_states`.
    """
    found: list[ItemState] = []
    for kind, count in counts.items():
        if start < count and number > 0:
            chosen = _read_items(batch, kind, start, start + number)
            found += _find_states(kind, chosen, batch.made_at if calls else None)
            number -= len(chosen)
        start = max(0, start - count)
    return found


def undo(batch: ImportBatch, kinds: Collection[str] = ImportedItem.ITEM_FIELDS) -> Undone:
    """Remove the items that nobody has used or changed since the import. Calls are logged meanwhile.

    `kinds`: those that the caller may delete. Raises AlreadyUndone, and large_changes.Stale.
    """
    # The copy in which a large change is prepared has no calls.
    states = find_states(batch, kinds)
    called = {(state.kind, state.item.pk) for state in states if not CALL_REASONS.isdisjoint(state.reasons)}

    def work() -> Undone:
        row = ImportBatch.objects.select_for_update().filter(pk=batch.pk, undone_at=None).first()
        if row is None:
            raise AlreadyUndone
        result = Undone([], [])
        for state in find_states(row, kinds):
            if state.reasons or (state.kind, state.item.pk) in called:
                result.kept.append(str(state.item))
            else:
                result.removed.append(str(state.item))
                state.item.delete()
        row.undone_at = timezone.now()
        row.save(update_fields=["undone_at"])
        after = {"removed": result.removed, "kept": result.kept}
        log.record("undone", "import", f"{row.source} (id {row.pk})", None, after)
        return result

    return large_changes.run(work)


def _read_items(
    batch: ImportBatch, kind: str, start: int | None = None, end: int | None = None
) -> list[tuple[CatalogueItem, str]]:
    """Return the items of a kind from one position to another, each with its digest at the import."""
    rows = batch.items.filter(**{f"{kind}__isnull": False}).order_by("pk").values_list(kind, "digest")
    digests = dict(rows[start:end])
    # One object for each item: one for its place in the import as well would take half as long again.
    stored: dict[int, CatalogueItem] = apps.get_model("catalog", kind)._default_manager.in_bulk(list(digests))
    return [(stored[key], digests[key]) for key in digests if key in stored]


def _find_states(kind: str, rows: Sequence[tuple[CatalogueItem, str]], since: datetime | None) -> list[ItemState]:
    items = {item.pk: item for item, _digest in rows}
    grants = _find_keys(Grant, kind, items)
    limits = _find_keys(Limit, kind, items) if kind == "tool" else set()
    tests = _find_keys(ToolTest, kind, items) if kind == "tool" else set()
    called = _find_called(kind, list(items.values()), since) if since is not None else {}
    found = []
    for item, imported in rows:
        key = item.pk
        facts = (
            (CHANGED, imported != digest(item)),
            (GRANTED, key in grants),
            (LIMITED, key in limits),
            (TESTED, key in tests),
            (called.get(key, CALLED), key in called),
        )
        found.append(ItemState(item, kind, tuple(code for code, holds in facts if holds)))
    return found


def _find_keys(model: Any, kind: str, keys: Iterable[int]) -> set[int]:
    """Return those of the keys that a row of this model refers to."""
    wanted, found = list(keys), set()
    for start in range(0, len(wanted), CHUNK_ROWS):
        chunk = {f"{kind}__in": wanted[start : start + CHUNK_ROWS]}
        found |= set(model._base_manager.filter(**chunk).order_by().values_list(kind, flat=True))
    return found


def _find_called(kind: str, items: Sequence[CatalogueItem], since: datetime) -> dict[int, str]:
    """Return the items that somebody called since the import, as the audit log has it: key -> CALLED or MAYBE_CALLED.

    A call of a template has the address that it was filled to; every other one has the name, which has an index.
    """
    calls = Call.objects.filter(id__gte=uuid7.first_id_of(int(since.timestamp() * 1000)))
    templates = [item for item in items if getattr(item, "uri_template", "")]
    named = [item for item in items if not getattr(item, "uri_template", "")]
    found: dict[int, str] = {}
    for start in range(0, len(named), CHUNK_ROWS):
        chunk = named[start : start + CHUNK_ROWS]
        # The log has names without secrets, as in the address of a resource, and cuts long ones.
        rows = calls.filter(
            method=METHODS[kind],
            target_id__in=[item.pk for item in chunk],
            name__in=[redact_label(str(item))[:500] for item in chunk],
        )
        keys = rows.order_by().values_list("target_id", flat=True).distinct()
        found |= {key: CALLED for key in keys if key is not None}
    if templates:
        found |= _find_called_templates(kind, {item.pk for item in templates}, calls)
    return found


def _find_called_templates(kind: str, keys: set[int], calls: QuerySet[Call]) -> dict[int, str]:
    newest = calls.order_by("-id").values_list("method", "target_id")[: MAX_SCANNED_CALLS + 1]
    scanned, called = 0, set[int]()
    for method, target in newest.iterator(CHUNK_ROWS):
        scanned += 1
        if method == METHODS[kind] and target in keys:
            called.add(target)
    found = dict.fromkeys(called, CALLED)
    return found if scanned <= MAX_SCANNED_CALLS else {**dict.fromkeys(keys, MAYBE_CALLED), **found}


def digest(row: CatalogueItem) -> str:
    """Return a digest of all that people can change of an item, except its toolsets."""
    values = {name: getattr(row, name) for name in _list_columns(type(row))}
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, cls=DjangoJSONEncoder)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _list_columns(model: type[CatalogueItem]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if field.name not in IGNORED_COLUMNS)
