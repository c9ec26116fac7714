"""What happened around a call: the same client before and after it, and the same call again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from audit import local_time
from audit.models import Call
from audit.queries.search import LIST_FIELDS, equals

NEIGHBOURS = 8
"""Calls of the same client that are shown on each side."""
NEAR = 100
"""How many of the user's calls on each side are looked at for those of the same client."""
REPEATS = 10
"""Equal calls that are shown on each side."""
WINDOW = 500
"""How many of the user's calls on each side are looked at for equal ones."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A call in a row of calls, oldest first."""

    call: Call
    gap: str
    """How long nothing happened since the one before ended; empty for the first."""
    here: bool
    """Whether this is the call that the page is about."""

    @property
    def when(self) -> str:
        """To the millisecond: clients ask many things in a second."""
        return local_time.shown(self.call.started_at, "exact")[:-3]

    @property
    def utc(self) -> str:
        """As the record has it, for who points at it."""
        return local_time.address(self.call.started_at)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Calls of one user with the same tool and the same arguments."""

    moments: list[Moment]
    more: bool
    """Whether there are equal calls beyond those listed."""
    outcomes: list[tuple[str, int]]

    @property
    def count(self) -> int:
        return len(self.moments)


def around(call: Call) -> list[Moment]:
    """The calls of the same client just before and after."""
    same = _of_user(call).only(*LIST_FIELDS, "credential_id")

    def near(rows: Any) -> list[Call]:
        client = (call.credential_id, call.client_name)
        return [row for row in rows[:NEAR] if (row.credential_id, row.client_name) == client][:NEIGHBOURS]

    later = near(same.filter(pk__gt=call.pk).order_by("pk"))
    earlier = near(same.filter(pk__lt=call.pk).order_by("-pk"))
    return _moments([*reversed(earlier), call, *later], call)


def repeats(call: Call) -> Repeats:
    """The same user's calls with the same arguments, those nearest to this one; alone when there are none."""
    rows = _of_user(call)
    equal = equals("name", call.name) & Q(method=call.method, arguments=call.arguments)
    earlier, before = _equal(rows.filter(pk__lt=call.pk).order_by("-pk"), equal, "pk__gte")
    later, after = _equal(rows.filter(pk__gt=call.pk).order_by("pk"), equal, "pk__lte")
    found = [*reversed(earlier), call, *later]
    counts: dict[str, int] = {}
    for row in found:
        label = str(row.get_outcome_display())
        counts[label] = counts.get(label, 0) + 1
    return Repeats(_moments(found, call), before or after, sorted(counts.items(), key=lambda item: -item[1]))


def _of_user(call: Call) -> QuerySet[Call]:
    return Call.objects.filter(Q(user_id=call.user_id))


def _equal(rows: Any, equal: Q, within: str) -> tuple[list[Call], bool]:
    """Among the nearest rows, which a subquery picks by the index over users."""
    edge = rows.values_list("pk", flat=True)[WINDOW - 1 : WINDOW].first()
    here = rows if edge is None else rows.filter(**{within: edge})
    found = list(here.filter(equal).only(*LIST_FIELDS)[: REPEATS + 1])
    return found[:REPEATS], len(found) > REPEATS


def _moments(rows: list[Call], here: Call) -> list[Moment]:
    moments = []
    ended: datetime | None = None
    for row in rows:
        moments.append(Moment(row, "" if ended is None else gap(row.started_at - ended), row.pk == here.pk))
        end = row.ended_at or row.started_at
        ended = end if ended is None else max(ended, end)
    return moments


def gap(between: timedelta) -> str:
    """In words a person takes in at a glance; calls that overlap have none."""
    seconds = between.total_seconds()
    if seconds < 0:
        return _("at the same time")
    if seconds < 1:
        return _("%(count)d ms later") % {"count": round(seconds * 1000)}
    if seconds < 120:
        return _("%(count).1f s later") % {"count": seconds}
    if seconds < 7_200:
        return _("%(count)d min later") % {"count": round(seconds / 60)}
    if seconds < 172_800:
        return _("%(count)d h later") % {"count": round(seconds / 3_600)}
    return _("%(count)d days later") % {"count": round(seconds / 86_400)}
