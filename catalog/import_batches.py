"""Batches of imported items: what one import made, and its undo.

    batch = record(ImportBatch.Source.OPENAPI, "petstore.yaml", rows)
    find_states(batch)     each item with the reasons that keep it from being undone
    undo(batch)            remove exactly the items without a reason, in one transaction, logged

An item stays when somebody changed it, gave access to it alone, limited or tested it, or called it. A toolset that it
was put into is no reason: the toolset stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from audit.actions import actor, log
from audit.format import uuid7
from audit.models import Call
from audit.redaction.redactor import redact_label
from catalog.models import Grant, ImportBatch, ImportedItem, Limit, ToolTest
from catalog.models.base import CatalogueItem
from catalog.policy import large_changes

CHANGED, GRANTED, LIMITED, TESTED, CALLED = "changed", "granted", "limited", "tested", "called"
"""Codes of the reasons that keep an item."""
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
            stored = model._default_manager.filter(pk__in=keys[start : start + CHUNK_ROWS])
            ImportedItem.objects.bulk_create(
                ImportedItem(batch=batch, digest=digest(row), **{name: row}) for row in stored
            )
    return batch


def find_states(batch: ImportBatch, kinds: Collection[str] = ImportedItem.ITEM_FIELDS) -> list[ItemState]:
    """Return every item of these kinds that the import made and that still exists, by kind and name."""
    found: list[ItemState] = []
    for kind in ImportedItem.ITEM_FIELDS:
        if kind in kinds:
            rows = batch.items.filter(**{f"{kind}__isnull": False}).select_related(kind)
            found += _find_states(kind, list(rows), batch.made_at)
    return found


def undo(batch: ImportBatch, kinds: Collection[str] = ImportedItem.ITEM_FIELDS) -> Undone:
    """Remove the items that nobody has used or changed since the import. Calls are logged meanwhile.

    `kinds`: those that the caller may delete. Raises AlreadyUndone, and large_changes.Stale.
    """
    # The copy in which a large change is prepared has no calls.
    called = {(state.kind, state.item.pk) for state in find_states(batch, kinds) if CALLED in state.reasons}

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


def _find_states(kind: str, rows: Sequence[ImportedItem], since: datetime) -> list[ItemState]:
    items = {row.item.pk: row for row in rows}
    grants = _find_keys(Grant, kind, items)
    limits = _find_keys(Limit, kind, items) if kind == "tool" else set()
    tests = _find_keys(ToolTest, kind, items) if kind == "tool" else set()
    called = _find_called(kind, [row.item for row in rows], since)
    found = []
    for key, row in items.items():
        facts = (
            (CHANGED, row.digest != digest(row.item)),
            (GRANTED, key in grants),
            (LIMITED, key in limits),
            (TESTED, key in tests),
            (CALLED, key in called),
        )
        found.append(ItemState(row.item, kind, tuple(code for code, holds in facts if holds)))
    return sorted(found, key=lambda state: str(state.item))


def _find_keys(model: Any, kind: str, keys: Iterable[int]) -> set[int]:
    """Return those of the keys that a row of this model refers to."""
    wanted, found = list(keys), set()
    for start in range(0, len(wanted), CHUNK_ROWS):
        chunk = {f"{kind}__in": wanted[start : start + CHUNK_ROWS]}
        found |= set(model._default_manager.filter(**chunk).order_by().values_list(kind, flat=True))
    return found


def _find_called(kind: str, items: Sequence[CatalogueItem], since: datetime) -> set[int]:
    """Return the keys of the items that somebody called since the import, as the audit log has it."""
    calls = Call.objects.filter(id__gte=uuid7.first_id_of(int(since.timestamp() * 1000)), method=METHODS[kind])
    found: set[int] = set()
    for start in range(0, len(items), CHUNK_ROWS):
        chunk = items[start : start + CHUNK_ROWS]
        rows = calls.filter(target_id__in=[item.pk for item in chunk]).order_by()
        # A call of a template has the address that it was filled to; every other one has the name, which has an index.
        if not any(getattr(item, "uri_template", "") for item in chunk):
            # The log has names without secrets, as in the address of a resource, and cuts long ones.
            rows = rows.filter(name__in=[redact_label(str(item))[:500] for item in chunk])
        found |= {key for key in rows.values_list("target_id", flat=True).distinct() if key is not None}
    return found


def digest(row: CatalogueItem) -> str:
    """Return a digest of all that people can change of an item, except its toolsets."""
    fields = (field for field in row._meta.concrete_fields if field.name not in IGNORED_COLUMNS)
    values = {field.attname: getattr(row, field.attname) for field in fields}
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, cls=DjangoJSONEncoder)
    return hashlib.sha256(text.encode()).hexdigest()
