"""The report of a replay as the lines of a command, in English."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from django.conf import settings
from django.urls import reverse

from catalog.policy.answers import ALLOW, ASK, DENY
from catalog.replay.report import LIMIT, Changed, Report, Row
from toolhub.invisible import show

WORDS: Final = {ALLOW: "allowed", DENY: "denied", ASK: "asked about", LIMIT: "rate limited"}


def describe(report: Report) -> Iterator[str]:
    """Yield the lines for an operator, who may read everybody's calls."""
    days = "day" if report.days == 1 else f"{report.days} days"
    yield f"Replay of the last {days}: {_count(report.looked_at)}, of which the changes reach {report.compared:,}."
    if report.compared == 0:
        return
    yield f"{_count(report.changed_calls)} would have another answer{':' if report.changed else '.'}"
    for one in report.changed:
        yield f"  {one.calls:,} {_name(one)}"
    if report.rows:
        yield "By user and item, the most calls first:"
    for row in report.rows:
        yield from _describe_row(row)
    if report.more_rows:
        at_least = "at least " if report.rows_are_cut else ""
        yield f"  and {at_least}{report.more_rows:,} more, with {_count(report.more_calls)}"
    if report.unclear:
        hidden = "The log does not show an argument or an error that a rule looks at."
        yield f"Cannot tell: {_count(report.unclear)}. {hidden}"
    yield from _describe_terms(report)


def _describe_row(row: Row) -> Iterator[str]:
    yield f"  {show(row.username)}, {row.kind} {show(row.name)}: {_list(row.changes)}"
    for call in row.named[:1]:
        path = reverse("admin:audit_call_change", args=(call.id,))
        yield f"    the newest: {settings.PUBLIC_URL.rstrip('/')}{path}"


def _describe_terms(report: Report) -> Iterator[str]:
    yield "Both answers are those of now: with the groups, value lists, flags and definitions of now."
    if report.counts_limits:
        yield "Rate limits were counted from the start of the period, over the calls that would run."
        yield "A call that never ran is taken to end at once, without a result."
    if report.counts_first_times:
        yield "A rule for the first time with a value asks once in the period for each value. Approval is assumed."


def _list(changes: Iterable[Changed]) -> str:
    return ", ".join(f"{one.calls:,} {_name(one)}" for one in changes)


def _name(change: Changed) -> str:
    return f"{WORDS[change.before]} -> {WORDS[change.after]}"


def _count(calls: int) -> str:
    return f"{calls:,} call{'' if calls == 1 else 's'}"
