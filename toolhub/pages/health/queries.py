"""The newest calls of the record, as far back as a page may look: at most so many days, calls and milliseconds.

Tools that nobody called, and what usually is behind it: nobody may, or another tool sounds the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, TextField
from django.db.models.functions import MD5, Cast
from django.utils import timezone

from audit.models import Call
from audit.queries import statistics
from audit.queries.search import id_at, moment_of
from catalog import lint
from catalog.models import Grant, Tool

CALLS = 10_000
SECONDS = 0.13
_FIRST, _LARGEST = 250, 4_000


class Attempt(NamedTuple):
    """One call of a tool."""

    hex: str
    """The call's id. A UUID object of every row would cost more than all the rest of it."""
    name: str
    known: bool
    """Whether it was a tool of the catalogue that the caller may use."""
    user: str
    credential: str
    client: str
    outcome: str
    error_class: str
    detail: str
    reason: str
    """What `detail` says, as code and parameters."""
    took: int | None
    """Microseconds."""
    digest: str
    """Of the arguments."""
    at: float
    """When it began, in Unix seconds."""

    @property
    def id(self) -> UUID:
        return UUID(self.hex)

    @property
    def caller(self) -> tuple[str, str]:
        return self.credential, self.client


@dataclass(slots=True)
class Looked:
    """What was looked at."""

    attempts: list[Attempt]
    """Oldest first."""
    since: datetime
    cut: bool
    """Whether there are older ones in the days that were asked for."""


def newest(days: int) -> Looked:
    """The calls of tools in the last so many days, from the newest back until one of the bounds is met."""
    now = timezone.now()
    since = now - timedelta(days=days)
    rows = (
        Call.objects.filter(pk__gte=id_at(since))
        .order_by("-pk")
        .annotate(digest=MD5("arguments"), hex=Cast("pk", TextField()))
        .values_list(
            "hex",
            "name",
            "target_id",
            "username",
            "credential_id",
            "client_name",
            "outcome",
            "error_class",
            "detail",
            "detail_reason",
            "duration_us",
            "digest",
            "method",
        )
    )
    deadline = time.monotonic() + SECONDS
    found: list[Attempt] = []
    looked, size, below = 0, _FIRST, None
    while True:
        began = time.monotonic()
        part: list[Any] = list((rows if below is None else rows.filter(pk__lt=below))[:size])
        found += [
            Attempt(
                (hex := key.replace("-", "")),
                name,
                target is not None,
                user,
                credential,
                client,
                outcome,
                kind,
                detail,
                reason,
                took,
                digest,
                int(hex[:12], 16) / 1000,
            )
            for key, name, target, user, credential, client, outcome, kind, detail, reason, took, digest, method in part
            if method == "tools/call"
        ]
        looked += len(part)
        ended = len(part) < size
        if part:
            below = UUID(part[-1][0])
        if ended or looked >= CALLS or time.monotonic() >= deadline:
            found.reverse()
            return Looked(found, since if ended or below is None else moment_of(below), not ended)
        # Arguments may be large: what the last slice cost says how many rows the time that is left is good for.
        now_, spent = time.monotonic(), max(time.monotonic() - began, 0.001)
        fits = int(size * max(0.0, deadline - now_) / spent)
        size = max(50, min(size * 2, _LARGEST, CALLS - looked, fits))


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
    called, counted, live = statistics.called_since(timezone.now() - timedelta(days=DAYS - 1))
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
