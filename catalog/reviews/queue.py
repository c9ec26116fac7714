"""The items that wait for a reviewer, the oldest first: their order, their neighbours, and decisions about several."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError

from catalog import quarantine
from catalog.models import Prompt, Resource, ReviewDecision, Tool
from catalog.models.base import CatalogueItem
from catalog.reviews import risks

MODELS: Final[Mapping[str, type[CatalogueItem]]] = {"tool": Tool, "resource": Resource, "prompt": Prompt}
WAITING, REJECTED = "waiting", "rejected"
APPROVE, REJECT = "approve", "reject"


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the queue, before its row is read."""

    kind: str
    pk: int
    since: datetime
    origin: str


def list_entries(state: str = WAITING) -> list[Entry]:
    """Return the items in a state (WAITING or REJECTED)."""
    found = []
    for kind, model in MODELS.items():
        rows = model.objects.rejected_in_review() if state == REJECTED else model.objects.needing_review()
        columns = rows.order_by().values_list("pk", "quarantined_since", "origin")
        found += [Entry(kind, pk, since, source) for pk, since, source in columns]
    return sorted(found, key=lambda entry: (entry.since, entry.kind, entry.pk))


def read_items(entries: Iterable[Entry]) -> list[CatalogueItem]:
    """Return the rows of the entries in their order, without those that are gone."""
    wanted = list(entries)
    rows = {
        (kind, pk): row
        for kind, model in MODELS.items()
        for pk, row in model.objects.in_bulk([entry.pk for entry in wanted if entry.kind == kind]).items()
    }
    return [rows[entry.kind, entry.pk] for entry in wanted if (entry.kind, entry.pk) in rows]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an item among those that wait."""

    number: int
    """From 1; 0 for an item that does not wait."""
    total: int
    before: Entry | None
    after: Entry | None
    """Its neighbours; for an item that does not wait, `after` is the first that does."""


def find_place(item: CatalogueItem) -> Place:
    entries = list_entries()
    at = next((n for n, one in enumerate(entries) if (one.kind, one.pk) == (item._meta.model_name, item.pk)), None)
    if at is None:
        return Place(0, len(entries), None, entries[0] if entries else None)
    after = entries[at + 1] if at + 1 < len(entries) else None
    return Place(at + 1, len(entries), entries[at - 1] if at else None, after)


DANGEROUS: Final = "dangerous"
"""The code of a ValidationError about an item that has to be reviewed alone."""


@dataclass(slots=True)
class Outcome:
    decided: list[CatalogueItem] = field(default_factory=list)
    refused: list[tuple[CatalogueItem, Exception]] = field(default_factory=list)
    """StaleReview, PermissionDenied or ValidationError for each item that stays as it was."""
    batch: uuid.UUID = field(default_factory=uuid.uuid4)


def decide_all(chosen: Sequence[tuple[CatalogueItem, str]], decision: str, by: str) -> Outcome:
    """Approve or reject several items, given with the fingerprint that the reviewer saw; each by itself.

    An item with a warning of the highest level is not approved among others: its difference has to be read.
    """
    outcome = Outcome()
    for item, reviewed in chosen:
        try:
            if decision == APPROVE:
                if risks.is_dangerous(risks.find_risks(item)):
                    raise ValidationError("", code=DANGEROUS)
                quarantine.approve(item, by, reviewed, outcome.batch)
            else:
                quarantine.reject(item, by, reviewed, outcome.batch)
        except (quarantine.StaleReview, ValidationError, PermissionDenied) as error:
            outcome.refused.append((item, error))
        else:
            outcome.decided.append(item)
    return outcome


def undo_all(decisions: Iterable[ReviewDecision], by: str) -> Outcome:
    """Undo decisions, each by itself."""
    outcome = Outcome()
    for decision in decisions:
        item = decision.item
        try:
            quarantine.undo(item, by)
        except (quarantine.StaleReview, PermissionDenied) as error:
            outcome.refused.append((item, error))
        else:
            outcome.decided.append(item)
    return outcome


def list_origins(*groups: Iterable[Entry]) -> dict[str, str]:
    """Return {origin: name of the source} of these entries."""
    origins = dict.fromkeys(entry.origin for entry in chain(*groups))
    return {origin: quarantine.name_origin(origin) for origin in origins if origin}


def select_decisions(**filters: Any) -> list[ReviewDecision]:
    """Return decisions, the newest first, with their items."""
    rows = ReviewDecision.objects.filter(**filters).select_related("tool", "resource", "prompt")
    return list(rows.order_by("-made_at", "-pk"))


def list_decisions(since: datetime, most: int) -> list[ReviewDecision]:
    """Return the decisions since then, the newest first, at most `most`; without what it takes to undo them."""
    rows = ReviewDecision.objects.filter(made_at__gte=since).defer("before")
    return list(rows.order_by("-made_at", "-pk")[:most])


def name_items(decisions: Iterable[ReviewDecision]) -> dict[int, str]:
    """Return {key of the decision: name of its item}, with one query for each kind of item."""
    wanted = list(decisions)
    found: dict[int, str] = {}
    for kind, model in MODELS.items():
        keys = {getattr(decision, f"{kind}_id"): decision.pk for decision in wanted if getattr(decision, f"{kind}_id")}
        columns = ("uri", "uri_template", "name") if model is Resource else ("name",)
        for row in model.objects.filter(pk__in=keys).only(*columns):
            found[keys[row.pk]] = str(row)
    return found
