"""Which rules in trial tell somebody who may not read calls nothing about their arguments.

A number of calls tells what their arguments are where a rule looked at them: the rule in trial, or any rule that
decides about the same calls, also one that was changed or deleted since the trial began. Conditions do, and limits that
measure cost units (by an argument, or by the result), the same call or the same error. Whoever edits rules could
otherwise count the calls of others that have a certain argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, TypeAlias

from django.db.models import Q

from catalog.conditions.measures import LOOKS_AT_BODIES
from catalog.models import ApprovalRule, Grant, Limit
from catalog.policy.definitions import Item, Snapshot, Trial

Target: TypeAlias = tuple[str, int | None]
_ALL: Final[Target] = ("all", None)
_LOOKS_AT_ARGUMENTS: Final = {
    Grant: ~Q(conditions=[]),
    ApprovalRule: ~Q(conditions=[]) | ~Q(first_time=""),
    Limit: Q(measure__in=LOOKS_AT_BODIES),
}
"""The rules of each model whose answer depends on arguments."""


class Readability:
    """The answer for the rules in trial of one catalogue, from two queries of each model."""

    def __init__(self, catalogue: Snapshot, since: datetime) -> None:
        self._catalogue = catalogue
        self._targets = frozenset(_find_targets(since))

    def tells_arguments(self, trial: Trial) -> bool:
        """Return whether the number of calls that this rule would change can tell what their arguments are."""
        reached = (key for key, found in self._catalogue.trials_by_item.items() if trial in found)
        items = (self._catalogue.items[key] for key in reached if key in self._catalogue.items)
        return any(not self._targets.isdisjoint(_list_targets(item)) for item in items)


def _list_targets(item: Item) -> list[Target]:
    """Return every target by which a rule can be about an item."""
    return [(item.kind, item.id), *(("toolset", key) for key in item.toolset_ids), _ALL]


def _find_targets(since: datetime) -> Iterable[Target]:
    """Yield the targets of the rules that look at arguments, now or at any time since."""
    for model, looks in _LOOKS_AT_ARGUMENTS.items():
        rows: Any = model
        yield from map(_target_of, rows.everything.filter(looks).iterator())
        versions = rows.history.model.objects
        changed = versions.filter(history_date__gte=since).values("id")
        yield from map(_target_of, versions.filter(looks, id__in=changed).iterator())


def _target_of(row: Any) -> Target:
    for kind in ("tool", "toolset", "resource", "prompt"):
        key = getattr(row, f"{kind}_id", None)
        if key is not None:
            return kind, key
    grant_id = getattr(row, "grant_id", None)
    grant = Grant.everything.filter(pk=grant_id).first() if grant_id is not None else None
    return _target_of(grant) if grant is not None else _ALL
