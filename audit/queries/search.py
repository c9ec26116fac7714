"""Search for calls in an audit log of any size: newest first, in pages, without ever counting.

A search has two parts. The part that an index answers ("cover": user, tool, outcome, time) is read in order of id,
which is the order of time. Everything else ("rest": client, transport, text, ...) is searched in slices of that, until
the page is full or the budget is used up; the page then shows how far the search came, and the next one continues from
there.

A text has an index of its own (`text_index`), which names the few calls that may contain it. They are read and held to
the same condition as in a slice. Calls that are not indexed yet are searched in slices.

For the user's pages, the search returns the user's own calls and never those of others.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Expression, F, Model, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact, IContains

from audit import local_time, outcomes
from audit.models import Call
from audit.queries import periods, text_index
from audit.queries.spans import ALL, Span
from audit.queries.walk import IndexedText, Walk

PAGE_ROWS = 50
COUNTED_ROWS = 5_000
"""Maximum calls that one step of a count adds."""
MAX_SEARCHED_ROWS = 200_000
MAX_SEARCH_SECONDS = 0.1
"""Search budget of one page, in rows and in seconds, whichever is used up first."""
NOT_OK = "not_ok"
NOT_FOUND = "not_found"
"""Denied or unknown: for the user of the call, the two are the same."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CREDENTIAL = re.compile(r"(token|app|admin|stdio):[0-9]+")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,4}")
_OWN_TEXT_FIELDS = ("arguments", "result", "name", "client_name", "credential")
"""Columns that users search in their own calls: not the rule that denied them, nor details for administrators."""
_NOT_PARAMETERS = frozenset({"user_id", "period_interval"})
_PROBE_ENTRIES = 500
"""Number of entries of two indexes that are compared to find the one with fewer entries."""
_FIRST_LOAD_ROWS, _LOAD_CHARACTERS = 20, 2_000_000
"""Rows that are loaded with bodies at first, and approximate characters that are loaded at a time afterwards."""
LIST_FIELDS = (
    "id", "user_id", "username", "credential", "client_name", "client_version", "transport", "revision",
    "address", "method", "name", "rule", "rule_reason", "outcome", "detail", "detail_reason", "started_at", "ended_at",
    "duration_us", "result_bytes",
)  # fmt: skip
"""Columns of a list: without arguments and results, which can be megabytes."""


@dataclass(slots=True)
class Page:
    rows: list[Any]
    older: str = ""
    newer: str = ""
    """Cursors: empty when there are no rows in that direction."""
    stopped_at: datetime | None = None
    """Time at which a bounded search stopped: older rows were not searched; None when the search is complete."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Part of a count: how many calls have each status, and each name of a client."""

    statuses: Counter[str]
    clients: Counter[str]
    older: str
    """Where the count goes on; empty at the end."""


def id_at(at: datetime) -> UUID:
    """Return the smallest id that a row of this time can have."""
    return UUID(int=max(0, int(at.timestamp() * 1000)) << 80)


def time_of(id: UUID) -> datetime:
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


@dataclass(slots=True)
class CallSearch:
    """Search parameters, as the URL of the page has them."""

    q: str = ""
    """Id of a call, hash of its definition or result, id of a credential such as `token:12`, or text in its arguments,
    result, tool, user, client, credential, rule or error."""
    user: str = ""
    """Like tool, client and credential: the whole name as it is written, or a part of it with `*` for any text. Upper
    and lower case are the same where there is a `*`."""
    outcome: str = ""
    tool: str = ""
    method: str = ""
    transport: str = ""
    client: str = ""
    credential: str = ""
    since: str = ""
    until: str = ""
    """Given in the reader's zone or with an offset, stored in UTC; a date in `until` includes the whole day."""
    period: str = ""
    """Period relative to today, one of `periods`; it applies besides `since` and `until`."""
    user_id: int | None = field(default=None)
    """Set by the server, never from an address."""
    period_interval: tuple[datetime | None, datetime | None] = field(default=(None, None), init=False)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, str):
                # No database can search for NUL or lone surrogates, and none stores them.
                setattr(self, item.name, value.encode("utf-8", "ignore").decode().replace("\x00", "").strip()[:500])
        # Convert now, not when the query runs: an export is read after the request, and its reader's zone, have ended.
        for name in ("since", "until"):
            at = local_time.parse_time(getattr(self, name), end=name == "until")
            if at is not None:
                setattr(self, name, local_time.format_for_url(at))
        if self.period not in dict(periods.CHOICES):
            self.period = ""
        self.period_interval = periods.interval(self.period)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], user_id: int | None = None) -> CallSearch:
        names = {item.name for item in fields(cls)} - _NOT_PARAMETERS
        values = {name: str(parameters.get(name) or "") for name in names}
        return cls(**values, user_id=user_id)

    def to_parameters(self) -> dict[str, str]:
        """Return the given parameters, for a URL and for the audit log."""
        return {
            item.name: str(getattr(self, item.name))
            for item in fields(self)
            if item.name not in _NOT_PARAMETERS and getattr(self, item.name)
        }

    def call_id(self) -> UUID | None:
        try:
            return UUID(self.q)
        except ValueError:
            return None

    def interval(self) -> tuple[datetime | None, datetime | None]:
        """Return the start and the end of the searched time, None for an open side."""
        starts = [at for at in (local_time.parse_time(self.since), self.period_interval[0]) if at is not None]
        ends = [at for at in (local_time.parse_time(self.until), self.period_interval[1]) if at is not None]
        return max(starts, default=None), min(ends, default=None)

    def text(self) -> str:
        """Return the text to search for; empty when `q` is the name of a call, a hash or a credential."""
        is_name = self.call_id() is not None or _DIGEST.fullmatch(self.q) or _CREDENTIAL.fullmatch(self.q)
        return "" if is_name else self.q

    def find_span(self) -> Span:
        """Return the keys of the searched time."""
        since, until = self.interval()
        return Span(id_at(since) if since is not None else None, id_at(until) if until is not None else None)

    def _split_conditions(self) -> tuple[QuerySet[Call], dict[str, Any], dict[str, Any], list[Q]]:
        """Return the parts of the query.

        These are the rows, whatever the searched time, the filters that the chosen index answers, those that another
        index could answer, and the other conditions.
        """
        rows = Call.objects.all()
        rest: list[Q] = []
        if (call_id := self.call_id()) is not None:
            rows = rows.filter(pk=call_id)
        elif _DIGEST.fullmatch(self.q):
            rest.append(equals("definition", self.q) | equals("result_sha256", self.q))
        elif _CREDENTIAL.fullmatch(self.q):
            rest.append(equals("credential_id", self.q))
        elif self.q:
            names = text_index.FIELDS if self.user_id is None else _OWN_TEXT_FIELDS
            rest.append(_match_text(self.q, names))
        user_id = self.user_id
        if user_id is None and self.user and "*" not in self.user:
            user_id = _find_user_id(self.user)
            if user_id is None:
                rest.append(equals("username", self.user))
        elif self.user:
            rest.append(match_name("username", self.user))
        outcome = "" if self.outcome in {NOT_OK, NOT_FOUND} else self.outcome
        tool = "" if "*" in self.tool else self.tool
        # Read one index, the one with fewer entries: over the tool, or over user and outcome or one of them.
        wanted = {"user_id": user_id, "outcome": outcome}
        one: dict[str, Any]
        other: dict[str, Any]
        others = {name: value for name, value in wanted.items() if value not in {None, ""}}
        # The cursor of a bounded search is one of the rows that are read: for users, one of their own calls.
        is_listed_by_tool = bool(tool) and self.user_id is None
        found = self.find_span().of(rows)
        if is_listed_by_tool and (
            not others or others == {"outcome": "ok"} or _is_rarer(found, {"name": tool}, others)
        ):
            one, other = {"name": tool}, others
        else:
            one, other = others, {"name": tool} if tool else {}
        if self.tool and not tool:
            rest.append(match_name("name", self.tool))
        if self.outcome == NOT_OK:
            rest.append(~equals("outcome", "ok"))
        if self.outcome == NOT_FOUND:
            rest.append(equals("outcome", outcomes.REFUSED) | equals("outcome", outcomes.UNKNOWN_TOOL))
        rest += [equals(name, getattr(self, name)) for name in ("method", "transport") if getattr(self, name)]
        if self.client:
            rest.append(match_name("client_name", self.client))
        if self.credential:
            rest.append(match_name("credential", self.credential) | equals("credential_id", self.credential))
        return rows, one, other, rest

    def count(self, before: str = "") -> Counted:
        """Count the next matching calls.

        Like a page, it is one bounded step of a search: call it again with the cursor, and add up.
        """
        part = self.page(before=before, size=COUNTED_ROWS, columns=("id", "outcome", "client_name"))
        statuses, clients = (Counter(getattr(row, name) for row in part.rows) for name in ("outcome", "client_name"))
        return Counted(statuses, clients, part.older)

    def page(
        self,
        *,
        before: str = "",
        after: str = "",
        size: int = PAGE_ROWS,
        budget: int = MAX_SEARCHED_ROWS,
        columns: Iterable[str] = LIST_FIELDS,
        **starts: Expression,
    ) -> Page:
        """Return one page, newest first, whose rows have these columns and besides them `starts` under their names."""
        rows, one, other, rest = self._split_conditions()
        asked: Q | QuerySet[Call] | None = _combine([*(equals(name, value) for name, value in other.items()), *rest])
        if other and not rest and connections[rows.db].vendor == "sqlite":
            asked = rows.filter(**other)
        rows = rows.filter(**one).only(*columns).annotate(**starts)
        indexed, span = self._indexed(), self.find_span()
        return page(rows, asked, before=before, after=after, size=size, budget=budget, indexed=indexed, span=span)

    def _indexed(self) -> IndexedText | None:
        # A user's own calls are few, and the index is of everybody's: neither what it names nor the time that it takes
        # may tell one user of another's calls.
        text = self.text() if self.user_id is None else ""
        coverage = text_index.coverage() if text and text_index.normalize(text) else None
        if coverage is None:
            return None
        span = self.find_span()
        return IndexedText(text, coverage, span.low, span.high)

    def iterate_batches(self, batch: int = 1_000) -> Iterator[list[Call]]:
        """Yield all matching calls with their bodies, newest first, in batches that limit memory and locks.

        The text index is not asked: what an export holds must not depend on a table that nothing protects.
        """
        rows, one, other, rest = self._split_conditions()
        asked = _combine([*(equals(name, value) for name, value in other.items()), *rest])
        yield from _iterate_batches(rows.filter(**one), self.find_span(), asked, batch)


def _iterate_batches(rows: QuerySet[Call], span: Span, rest: Q | None, batch: int) -> Iterator[list[Call]]:
    ordered = rows.order_by("-pk")
    size = _FIRST_LOAD_ROWS
    while True:
        edge = span.of(ordered).values_list("pk", flat=True)[batch - 1 : batch].first()
        wanted = span.since(edge).of(ordered)
        found = list((wanted if rest is None else wanted.filter(rest)).values_list("pk", "result_bytes"))
        while found:
            # Results may be megabytes each, and so may arguments, whose size is estimated from previous calls.
            number = weight = 0
            for _, bytes_ in found[:size]:
                weight += bytes_
                if number and weight > _LOAD_CHARACTERS:
                    break
                number += 1
            loaded = list(Call.objects.filter(pk__in=[pk for pk, _ in found[:number]]).order_by("-pk"))
            found = found[number:]
            loaded_characters = sum(len(call.arguments) for call in loaded)
            size = max(1, min(batch, size * 2, number * _LOAD_CHARACTERS // max(1, loaded_characters)))
            if loaded:
                yield loaded
        if edge is None:
            return
        span = span.before(edge)


def page(
    rows: QuerySet[Any],
    rest: Q | QuerySet[Any] | None,
    *,
    before: str = "",
    after: str = "",
    size: int = PAGE_ROWS,
    budget: int = MAX_SEARCHED_ROWS,
    indexed: IndexedText | None = None,
    span: Span = ALL,
) -> Page:
    """Return one page of rows of an interval, ordered by their key, which the cursors hold.

    `rest` restricts the rows: a condition, or rows that another index reads and that must contain them. `indexed` is
    the text of that condition where the text index answers for it. Raise ValueError when a cursor is invalid.
    """
    field = rows.model._meta.pk
    forward = bool(after) and not before
    start = _parse_cursor(field, after if forward else before)
    deadline = time.monotonic() + MAX_SEARCH_SECONDS
    walk = Walk(rows, rest, forward=forward, deadline=deadline, budget=budget, span=span)
    found, edge = walk.collect(start, size + 1) if indexed is None else walk.collect_indexed(start, size + 1, indexed)
    more = len(found) > size
    found = found[:size]
    if forward:
        found.reverse()
    answer = Page(found)
    if forward:
        # A reader who came from an older page can return to it.
        answer.newer = (
            _format_cursor(found[0].pk) if more and found else (_format_cursor(edge) if edge is not None else "")
        )
        answer.older = _format_cursor(found[-1].pk) if found else after
    else:
        answer.older = _format_cursor(found[-1].pk) if more else (_format_cursor(edge) if edge is not None else "")
        answer.newer = (_format_cursor(found[0].pk) if found else before) if start is not None else ""
    if edge is not None and not more:
        answer.stopped_at = time_of(edge) if isinstance(edge, UUID) else None
    return answer


def _is_rarer(rows: QuerySet[Call], one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether fewer rows match `one`: an index with fewer rows reaches older ones first."""
    keys = rows.order_by("-pk").values_list("pk", flat=True)
    here = keys.filter(**one)[_PROBE_ENTRIES - 1 : _PROBE_ENTRIES].first()
    if here is None:
        return True
    there = keys.filter(**other)[_PROBE_ENTRIES - 1 : _PROBE_ENTRIES].first()
    return there is not None and bool(here < there)


def equals(name: str, value: Any) -> Q:
    """Return an equality that no index answers: in a slice the planner must not read another index of the table."""
    return Q(Exact(Coalesce(F(name), Value("" if isinstance(value, str) else 0)), Value(value)))


class _NamePattern(IContains):
    """A comparison in which `*` stands for any text, without regard to case."""

    param_pattern = "%s"

    def process_rhs(self, *args: Any, **options: Any) -> Any:
        sql, (pattern, *others) = super().process_rhs(*args, **options)
        return sql, [str(pattern).replace("*", "%"), *others]


def match_name(name: str, value: str) -> Q:
    """Return the condition of the filters user, tool, client and credential, as their help text says it."""
    return Q(_NamePattern(F(name), value)) if "*" in value else equals(name, value)


def _match_text(text: str, names: Iterable[str]) -> Q:
    # Arguments and results are ASCII JSON, and texts in them may be JSON again: the text is encoded in the same way.
    # Databases compare without case only the letters that are not encoded.
    spellings = dict.fromkeys((text, text.lower(), text.upper()) if not text.isascii() else (text,))
    once = [json.dumps(spelling)[1:-1] for spelling in spellings]
    encoded = dict.fromkeys((*spellings, *once, *(json.dumps(spelling)[1:-1] for spelling in once)))
    found = []
    for name in names:
        forms = encoded if name in {"arguments", "result"} else spellings
        condition = _combine_any([Q((f"{name}__icontains", form)) for form in forms])
        if name in {"arguments", "result"} and _HEXADECIMAL.fullmatch(text):
            # Digits of an escaped character such as \u5143 are no text.
            before = "".join(rf"(?<!\\u{'[0-9a-f]' * count})" for count in range(5 - len(text)))
            condition &= Q((f"{name}__iregex", before + text))
        found.append(condition)
    return _combine_any(found)


def _combine_any(parts: list[Q]) -> Q:
    whole = Q()
    for part in parts:
        whole |= part
    return whole


def _combine(parts: list[Q]) -> Q | None:
    whole: Q | None = None
    for part in parts:
        whole = part if whole is None else whole & part
    return whole


def _find_user_id(username: str) -> int | None:
    users: type[Model] = get_user_model()
    return users._default_manager.filter(username=username).values_list("pk", flat=True).first()


def _parse_cursor(field: Any, cursor: str) -> Any:
    if not cursor:
        return None
    try:
        return field.to_python(cursor)
    except ValidationError as error:
        raise ValueError("not a cursor of this list") from error


def _format_cursor(key: Any) -> str:
    return key.hex if isinstance(key, UUID) else str(key)


FILTERS = ("q", "outcome", "tool", "method", "transport", "client", "since", "until", "period")
"""Allowed keys of `filters`; all values are texts, empty or absent when not used."""


def page_for_user(user_id: int, filters: Mapping[str, Any], cursor: str = "", *, size: int = PAGE_ROWS) -> Page:
    """Return a page of the user's calls, newest first.

    `Page.older` and `Page.newer` are the cursors for the next request ("" when there are no more rows).
    `Page.stopped_at` is the time at which a bounded search stopped. Raise ValueError when the cursor is not one of
    this list.
    """
    search = CallSearch.from_parameters({name: filters.get(name) for name in FILTERS}, user_id)
    if search.outcome in {outcomes.REFUSED, outcomes.UNKNOWN_TOOL}:
        search.outcome = NOT_FOUND  # the difference would reveal which tools exist
    direction, _, key = cursor.partition("-")
    if cursor and (direction not in {"before", "after"} or not key):
        raise ValueError("not a cursor of this list")
    page = search.page(
        before=key if direction == "before" else "", after=key if direction == "after" else "", size=size
    )
    page.older = page.older and f"before-{page.older}"
    page.newer = page.newer and f"after-{page.newer}"
    return page


def one_for_user(user_id: int, call_id: UUID | str) -> Call | None:
    """Return the call with its bodies if it is this user's; None when it does not exist or is another user's."""
    try:
        key = call_id if isinstance(call_id, UUID) else UUID(call_id)
    except ValueError:
        return None
    return Call.objects.filter(pk=key, user_id=user_id).first()
