"""Tools that nobody called, and what usually is behind it: nobody may, or another tool sounds the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from django.db.models import Q
from django.utils import timezone

from audit import counts
from catalog import lint
from catalog.models import Grant, Tool

DAYS = 30
SHOWN = 20
_NEAR = 50
"""Tools with a word of the name in common whose descriptions are compared."""


@dataclass(slots=True)
class Unused:
    tool: str
    granted: bool
    """Whether any grant allows it to somebody."""
    twins: list[str]
    """Sentences about tools that sound the same."""


def unused() -> tuple[list[Unused], int, datetime, bool]:
    """The first few enabled tools without a call in 30 days, how many there are, and until when that was counted.

    The last value is whether that is now.
    """
    called, counted, live = counts.called_since(timezone.now() - timedelta(days=DAYS - 1))
    offered = Tool.objects.filter(enabled=True, quarantined_since__isnull=True).order_by("name")
    names = list(offered.values_list("name", flat=True))
    never = [name for name in names if name not in called]
    rows = list(Tool.objects.filter(name__in=never[:SHOWN]).order_by("name"))
    granted = _granted([row.pk for row in rows])
    near = _near([row.name for row in rows], names)
    wanted = {name for group in near.values() for name in group}
    said = dict(Tool.objects.filter(name__in=wanted).values_list("name", "description"))
    found = [
        Unused(
            row.name,
            row.pk in granted,
            lint.twins_of(row, [(name, said[name]) for name in near[row.name] if name in said])[:3],
        )
        for row in rows
    ]
    return found, len(never), counted, live


def _granted(ids: list[int]) -> set[int]:
    allowing = Q(effect=Grant.Effect.ALLOW)
    direct = Grant.objects.filter(allowing, tool__in=ids).values_list("tool_id", flat=True)
    through = Tool.toolsets.through.objects.filter(
        tool_id__in=ids, toolset_id__in=Grant.objects.filter(allowing).exclude(toolset=None).values("toolset_id")
    )
    return {pk for pk in direct if pk is not None} | set(through.values_list("tool_id", flat=True))


def _near(wanted: list[str], names: list[str]) -> dict[str, list[str]]:
    """For each of `wanted` the names that share a word which is more than a verb, or are spelt alike."""
    words = {name: _words(name) - lint.VERBS or _words(name) for name in wanted}
    telling = frozenset().union(*words.values())
    at: dict[str, list[str]] = {word: [] for word in telling}
    for other in names:
        for word in _words(other) & telling:
            if len(at[word]) <= _NEAR:
                at[word].append(other)
    found: dict[str, list[str]] = {}
    for name in wanted:
        # The rarest words first: they say the most.
        others = (other for word in sorted(words[name], key=lambda word: len(at[word])) for other in at[word])
        found[name] = [other for other in dict.fromkeys(others) if other != name][:_NEAR]
    return found


@lru_cache(maxsize=20_000)
def _words(name: str) -> frozenset[str]:
    # The last one is the whole name, so that order_status meets orderStatus and orders_status.
    words = lint.words_of(name)
    return frozenset((*words, "".join(words).rstrip("s")))
