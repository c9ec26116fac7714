"""Queries for tool health: the newest calls of the audit log, and the tools without calls.

A query reads at most a number of days, calls and milliseconds. Tools without calls come with the usual causes: no grant
allows them, or another tool has a similar name or description.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery, TextField
from django.db.models.functions import MD5, Cast
from django.utils import timezone

from audit.models import Call
from audit.queries import statistics
from audit.queries.search import id_at, time_of
from catalog.advice import beside, words
from catalog.advice.suggestions import Suggestion
from catalog.models import Grant, Tool
from catalog.tool_tests.run import TRANSPORT

MAX_CALLS = 10_000
MAX_SECONDS = 0.08
_FIRST_ROWS, _MAX_ROWS = 250, 4_000


class Attempt(NamedTuple):
    """One call of a tool."""

    hex: str
    """The call's id as hex: creating a UUID object for every row would cost more than all other work on it."""
    name: str
    known: bool
    """Whether the call named a tool of the catalogue that the caller may use."""
    user: str
    credential: str
    client: str
    outcome: str
    error_class: str
    detail: str
    reason: str
    """The stored `detail`: a code and its parameters."""
    took: int | None
    """Duration in microseconds."""
    digest: str
    """The hash of the arguments."""
    at: float
    """Start, in Unix seconds."""

    @property
    def id(self) -> UUID:
        return UUID(self.hex)

    @property
    def caller(self) -> tuple[str, str]:
        return self.credential, self.client


@dataclass(slots=True)
class CallSample:
    """The calls that were read, and the extent of the reading."""

    attempts: list[Attempt]
    """The attempts, oldest first."""
    since: datetime
    cut: bool
    """Whether the requested days contain older calls that were not read."""


def read_newest(days: int) -> CallSample:
    """Read the tool calls of the last `days` days, from the newest back until a bound is reached."""
    now = timezone.now()
    since = now - timedelta(days=days)
    rows = (
        Call.objects.filter(pk__gte=id_at(since))
        .exclude(transport=TRANSPORT)  # what test cases expect to fail says nothing about clients
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
    deadline = time.monotonic() + MAX_SECONDS
    found: list[Attempt] = []
    rows_read, size, below = 0, _FIRST_ROWS, None
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
        rows_read += len(part)
        ended = len(part) < size
        if part:
            below = UUID(part[-1][0])
        if ended or rows_read >= MAX_CALLS or time.monotonic() >= deadline:
            found.reverse()
            return CallSample(found, since if ended or below is None else time_of(below), not ended)
        # Arguments may be large: the cost of the last slice tells how many rows fit into the remaining time.
        now_, spent = time.monotonic(), max(time.monotonic() - began, 0.001)
        fits = int(size * max(0.0, deadline - now_) / spent)
        size = max(50, min(size * 2, _MAX_ROWS, MAX_CALLS - rows_read, fits))


# --- names that clients call in vain -----------------------------------------------------------------------------

NO_ACCESS, OFF, QUARANTINED, RENAMED, DELETED, SIMILAR, ABSENT = (
    "no access", "off", "quarantined", "renamed", "deleted", "similar", "absent",
)  # fmt: skip
MIN_NAME_SIMILARITY = 0.6
MIN_SPELLING_SIMILARITY = 0.75
_MAX_SPELLED_TOOLS = 2_000
"""Maximum number of tools whose spelling is compared with a name, which takes about a microsecond for each."""


@dataclass(frozen=True, slots=True)
class NameFact:
    """Why clients are told that there is no tool of this name."""

    state: str
    tool: str = ""
    """The name of the tool that exists: itself, the one it was renamed to, or the most similar one."""
    at: datetime | None = None
    """For DELETED, when."""


def explain_names(names: list[str]) -> dict[str, NameFact]:
    """Return for each name why no tool of this name was found, from the catalogue and its history."""
    rows = {row.name: row for row in Tool.objects.filter(name__in=names)}
    available = list(Tool.objects.filter(enabled=True, quarantined_since__isnull=True).values_list("name", flat=True))
    absent = [name for name in names if name not in rows]
    former = _find_former(absent)
    sharing = _find_similar_names(absent, available)
    found = {}
    for name in absent:
        spelled = get_close_matches(name, available[:_MAX_SPELLED_TOOLS], cutoff=MIN_SPELLING_SIMILARITY)
        found[name] = former.get(name) or _find_most_similar(name, [*sharing[name], *spelled])
    for name, row in rows.items():
        state = OFF if not row.enabled else QUARANTINED if row.quarantined_since is not None else NO_ACCESS
        found[name] = NameFact(state, name)
    return found


def _find_former(names: list[str]) -> dict[str, NameFact]:
    """Return what became of tools that had these names."""
    had = dict(Tool.history.filter(name__in=names).order_by("history_date").values_list("name", "id"))
    now = dict(Tool.objects.filter(pk__in=had.values()).values_list("pk", "name"))
    gone = dict(
        Tool.history.filter(id__in=had.values(), history_type="-")
        .order_by("history_date")
        .values_list("id", "history_date")
    )
    found = {}
    for name, key in had.items():
        if key in now:
            found[name] = NameFact(RENAMED, now[key])
        elif key in gone:
            found[name] = NameFact(DELETED, at=gone[key])
    return found


def _find_most_similar(name: str, candidates: list[str]) -> NameFact:
    def similarity(other: str) -> float:
        one, two = set(words.split_name(name)), set(words.split_name(other))
        shared = len({words.stem(word) for word in one} & {words.stem(word) for word in two}) / len(one | two)
        return max(shared, SequenceMatcher(None, name.lower(), other.lower()).ratio())

    best = max(candidates, key=lambda other: (similarity(other), other), default="")
    if not best or similarity(best) < MIN_NAME_SIMILARITY:
        return NameFact(ABSENT)
    return NameFact(SIMILAR, best)


CHANGE_WINDOW = timedelta(hours=1)
"""A change of the definition this long before the first failure may be its cause."""


def find_change_before(tool: str, at: float) -> datetime | None:
    """Return when the definition of a tool was saved last before this time, in Unix seconds, if within an hour."""
    end = datetime.fromtimestamp(at, UTC)
    saved = Tool.history.filter(name=tool, history_type="~", history_date__range=(end - CHANGE_WINDOW, end))
    newest: datetime | None = saved.order_by("-history_date").values_list("history_date", flat=True).first()
    return newest


# --- tools without calls -----------------------------------------------------------------------------------------

UNUSED_DAYS = 30
"""Days for which a tool must have been enabled without a call before it is reported as unused."""
YOUNG_AGE = timedelta(days=1)
MAX_LISTED_TOOLS = 20
_MAX_COMPARED_TOOLS = 50
"""Maximum number of tools with a shared word in the name whose descriptions are compared."""


@dataclass(slots=True)
class Unused:
    tool: str
    granted: bool
    """Whether a grant allows the tool to any user."""
    similar_tools: list[Suggestion]


def find_unused() -> tuple[list[Unused], int, datetime, bool]:
    """Return the first few tools that were enabled for 30 days without a call, and their total.

    The third value is the end of the counted time, the fourth is True when that is now.
    """
    called, counted, live = statistics.find_called_tools(timezone.now() - timedelta(days=UNUSED_DAYS - 1))
    now = timezone.now()
    available = Tool.objects.filter(enabled=True, quarantined_since__isnull=True).order_by("name")
    names = list(available.values_list("name", flat=True))
    recent = _find_recent(now - timedelta(days=UNUSED_DAYS))
    uncalled = [name for name in names if name not in called and name not in recent]
    rows = list(Tool.objects.filter(name__in=uncalled[:MAX_LISTED_TOOLS]).order_by("name"))
    granted = _find_granted([row.pk for row in rows])
    similar = _find_similar_names([row.name for row in rows], names)
    wanted = {name for group in similar.values() for name in group}
    descriptions = dict(Tool.objects.filter(name__in=wanted).values_list("name", "description"))
    found = [
        Unused(
            row.name,
            row.pk in granted,
            beside.describe_similar(
                row, [(name, descriptions[name]) for name in similar[row.name] if name in descriptions]
            )[:3],
        )
        for row in rows
    ]
    return found, len(uncalled), counted, live


def find_young() -> frozenset[str]:
    """Return the names of the tools in their first day."""
    made = Tool.history.filter(history_type="+", history_date__gte=timezone.now() - YOUNG_AGE).values("id")
    return frozenset(Tool.objects.filter(pk__in=made).values_list("name", flat=True))


def _find_recent(since: datetime) -> set[str]:
    """Return the names of the tools that were created or switched on since then."""
    later = Tool.history.filter(history_date__gte=since).order_by()
    made = later.filter(Q(history_type="+") | Q(enabled=False)).values("id")
    # A tool that was saved since then can have been off before.
    newest_before = (
        Tool.history.filter(id=OuterRef("pk"), history_date__lt=since)
        .order_by("-history_date", "-history_id")
        .values("enabled")[:1]
    )
    tools = Tool.objects.order_by()
    before = tools.filter(pk__in=later.values("id")).exclude(pk__in=made).annotate(was_on=Subquery(newest_before))
    names = tools.filter(pk__in=made).values_list("name", flat=True)
    return {*names, *before.filter(was_on=False).values_list("name", flat=True)}


def _find_granted(ids: list[int]) -> set[int]:
    allowing = Q(effect=Grant.Effect.ALLOW)
    direct = Grant.objects.filter(allowing, tool__in=ids).values_list("tool_id", flat=True)
    through = Tool.toolsets.through.objects.filter(
        tool_id__in=ids, toolset_id__in=Grant.objects.filter(allowing).exclude(toolset=None).values("toolset_id")
    )
    return {pk for pk in direct if pk is not None} | set(through.values_list("tool_id", flat=True))


def _find_similar_names(wanted: list[str], names: list[str]) -> dict[str, list[str]]:
    """Return, for each of `wanted`, the names that share a word, or have a similar spelling."""
    parts = {name: _words(name) for name in wanted}
    significant = frozenset[str]().union(*parts.values())
    at: dict[str, list[str]] = {word: [] for word in significant}
    for other in names:
        for word in _words(other) & significant:
            if len(at[word]) <= _MAX_COMPARED_TOOLS:
                at[word].append(other)
    found: dict[str, list[str]] = {}
    for name in wanted:
        # Rare words first: they carry the most meaning.
        others = (other for word in sorted(parts[name], key=lambda word: len(at[word])) for other in at[word])
        found[name] = [other for other in dict.fromkeys(others) if other != name][:_MAX_COMPARED_TOOLS]
    return found


@lru_cache(maxsize=20_000)
def _words(name: str) -> frozenset[str]:
    # The last word is the whole name, so that order_status matches orderStatus and orders_status.
    split = words.split_name(name)
    return frozenset((*split, "".join(split).rstrip("s")))
