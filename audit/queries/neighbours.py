"""Calls near a given call: those of the same client before and after it, and repeats of the same call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from audit import local_time
from audit.models import Call
from audit.queries.search import LIST_FIELDS, equals

MAX_NEIGHBOURS = 8
"""Maximum calls of the same client that are shown on each side."""
CLIENT_SEARCH_CALLS = 100
"""Number of the user's calls on each side that are searched for those of the same client."""
MAX_REPEATS = 10
"""Maximum equal calls that are shown on each side."""
REPEAT_SEARCH_CALLS = 500
"""Number of the user's calls on each side that are searched for equal ones."""


@dataclass(frozen=True, slots=True)
class NearbyCall:
    """A call in a sequence of calls, oldest first."""

    call: Call
    gap: str
    """Time since the previous call ended, as text; empty for the first."""
    is_current: bool
    """Whether this is the call of the page."""

    @property
    def local_start(self) -> str:
        """Start in the reader's zone, to the millisecond: clients make many calls in a second."""
        return local_time.format_time(self.call.started_at, "exact")[:-3]

    @property
    def utc_start(self) -> str:
        """Start in UTC as stored, for the tooltip."""
        return local_time.format_for_url(self.call.started_at)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Calls of one user with the same tool and the same arguments."""

    calls: list[NearbyCall]
    more: bool
    """Whether there are equal calls beyond those listed."""
    outcomes: list[tuple[str, int]]

    @property
    def count(self) -> int:
        return len(self.calls)


def list_nearby(call: Call) -> list[NearbyCall]:
    """Return the call and the calls of the same client just before and after it, oldest first."""
    same = _calls_of_user(call).only(*LIST_FIELDS, "credential_id")

    def near(rows: Any) -> list[Call]:
        client = (call.credential_id, call.client_name)
        return [row for row in rows[:CLIENT_SEARCH_CALLS] if (row.credential_id, row.client_name) == client][
            :MAX_NEIGHBOURS
        ]

    later = near(same.filter(pk__gt=call.pk).order_by("pk"))
    earlier = near(same.filter(pk__lt=call.pk).order_by("-pk"))
    return _describe_calls([*reversed(earlier), call, *later], call)


def find_repeats(call: Call) -> Repeats:
    """Return the nearest calls by the same user with the same arguments, including this one."""
    rows = _calls_of_user(call)
    equal = equals("name", call.name) & Q(method=call.method, arguments=call.arguments)
    earlier, before = _find_equal(rows.filter(pk__lt=call.pk).order_by("-pk"), equal, "pk__gte")
    later, after = _find_equal(rows.filter(pk__gt=call.pk).order_by("pk"), equal, "pk__lte")
    found = [*reversed(earlier), call, *later]
    counts: dict[str, int] = {}
    for row in found:
        label = str(row.get_outcome_display())
        counts[label] = counts.get(label, 0) + 1
    return Repeats(_describe_calls(found, call), before or after, sorted(counts.items(), key=lambda item: -item[1]))


def _calls_of_user(call: Call) -> QuerySet[Call]:
    return Call.objects.filter(Q(user_id=call.user_id))


def _find_equal(rows: Any, equal: Q, within: str) -> tuple[list[Call], bool]:
    """Return the equal calls among the nearest rows, read by the index over users, and if there are more."""
    edge = rows.values_list("pk", flat=True)[REPEAT_SEARCH_CALLS - 1 : REPEAT_SEARCH_CALLS].first()
    here = rows if edge is None else rows.filter(**{within: edge})
    found = list(here.filter(equal).only(*LIST_FIELDS)[: MAX_REPEATS + 1])
    return found[:MAX_REPEATS], len(found) > MAX_REPEATS


def _describe_calls(rows: list[Call], here: Call) -> list[NearbyCall]:
    calls = []
    ended: datetime | None = None
    for row in rows:
        calls.append(NearbyCall(row, "" if ended is None else format_gap(row.started_at - ended), row.pk == here.pk))
        end = row.ended_at or row.started_at
        ended = end if ended is None else max(ended, end)
    return calls


def format_gap(between: timedelta) -> str:
    """Return the time between two calls as short text; "at the same time" for calls that overlap."""
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
