"""Logged calls of a period, oldest first, in batches: one row for each attempt, however many entries it left."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from audit import outcomes
from audit.format import timestamps
from audit.format.uuid7 import first_id_of
from audit.models import Call
from audit.queries.spans import Span
from audit.types import Reason
from catalog.policy import rules
from catalog.replay.reach import KINDS, Reach

BATCH_ROWS: Final = 500
"""Calls that are read at a time: about two milliseconds of a thread."""
MAX_FILTERED: Final = 300
"""Ids up to which the database chooses the calls; beyond them, this process does."""
MAX_WAITING: Final = 10_000
"""Calls waiting for approval of which later entries are recognized."""
WAIT_MS: Final = 900_000
"""Longer than a request waits for approval."""
_AFTER_WAIT: Final = frozenset({outcomes.APPROVAL_DENIED, outcomes.APPROVAL_EXPIRED})


class LoggedCall(NamedTuple):
    id: UUID
    user_id: int
    username: str
    credential_id: str
    request_id: str
    method: str
    name: str
    target_id: int | None
    rule_reason: str
    outcome: str
    duration_us: int | None
    result_bytes: int

    @property
    def kind(self) -> str:
        """Return the kind of the item: tool, prompt or resource."""
        return KINDS[self.method]

    @property
    def ms(self) -> int:
        """Return when it was made, in Unix milliseconds."""
        return self.id.int >> 80

    @property
    def at(self) -> datetime:
        return timestamps.from_ms(self.ms)


class Batch(NamedTuple):
    scanned: int
    """Calls of the log among which these were chosen."""
    calls: list[LoggedCall]


def count(since_ms: int, until_ms: int) -> int:
    """Return the number of calls of a period."""
    return _period(since_ms, until_ms).count()


def read(since_ms: int, until_ms: int, reach: Reach) -> Iterator[Batch]:
    """Yield all calls of a period that the change can reach, in the order in which they were made."""
    chosen, rows = _choose(reach), Call.objects.order_by("pk")
    span = Span(first_id_of(since_ms), first_id_of(until_ms))
    while True:
        keys = list(span.of(rows).values_list("pk", flat=True)[BATCH_ROWS - 1 : BATCH_ROWS])
        whole = (span.through(keys[0]) if keys else span).of(rows)
        scanned = BATCH_ROWS if keys else whole.count()
        found = [LoggedCall._make(row) for row in whole.filter(chosen).values_list(*LoggedCall._fields)]
        yield Batch(scanned, found)
        if not keys:
            return
        span = span.after(keys[0])


def read_arguments(ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the logged arguments of these calls."""
    return dict(Call.objects.filter(pk__in=ids).order_by().values_list("pk", "arguments")) if ids else {}


def read_errors(ids: Collection[UUID]) -> dict[UUID, tuple[str, str]]:
    """Return the detail and the result of these calls, as the log has them."""
    if not ids:
        return {}
    rows = Call.objects.filter(pk__in=ids).order_by().values_list("pk", "detail", "result")
    return {key: (detail, result) for key, detail, result in rows}


def _period(since_ms: int, until_ms: int) -> QuerySet[Call]:
    return Span(first_id_of(since_ms), first_id_of(until_ms)).of(Call.objects.order_by())


def _choose(reach: Reach) -> Q:
    chosen = Q(method__in=KINDS, user__isnull=False)
    users = reach.users
    if users is not None and len(users) <= MAX_FILTERED:
        chosen &= Q(user_id__in=users)
    ids = {number for _kind, number in reach.items}
    names = {name for _kind, name in reach.names}
    if len(ids) + len(names) <= MAX_FILTERED:
        chosen &= Q(target_id__in=ids) | Q(name__in=names) if names else Q(target_id__in=ids)
    return chosen


class AttemptFilter:
    """Chooses one entry of each attempt, from entries in the order in which they were logged.

    A call that waits for approval has an entry, and another one for what came of it: the first one counts. A call that
    a temporary approval let run has one entry. What the restriction of a token denied stays denied.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[Any, ...], int] = {}

    def accepts(self, call: LoggedCall) -> bool:
        """Return whether the entry is the one that counts of its attempt."""
        if call.outcome == outcomes.WAITING:
            self._remember(call)
            return True
        if call.outcome in outcomes.REJECTED and self._waiting and self._ends_wait(call):
            return False
        if "rule.other_toolsets" not in call.rule_reason and '"approvals"' not in call.rule_reason:
            return True
        reason = Reason.read(call.rule_reason)
        if reason is None:
            return True
        return reason.code != rules.OTHER_TOOLSETS.code and not _used_request(reason)

    def _remember(self, call: LoggedCall) -> None:
        if len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[_request_of(call)] = call.ms

    def _ends_wait(self, call: LoggedCall) -> bool:
        began = self._waiting.pop(_request_of(call), None)
        return began is not None and (call.outcome in _AFTER_WAIT or call.ms - began <= WAIT_MS)


def _request_of(call: LoggedCall) -> tuple[Any, ...]:
    return (call.user_id, call.credential_id, call.request_id, call.target_id)


def _used_request(reason: Reason) -> bool:
    """Return whether a run used a request for approval, for which it had waited; a temporary approval is none."""
    used = reason.params.get("approvals")
    return isinstance(used, list) and any(not str(one).startswith("temporary ") for one in used)
