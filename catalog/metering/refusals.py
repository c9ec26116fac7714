"""What a client reads when a limit is reached: which one, when to try again, and what to do instead. In English."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from catalog.conditions import measures
from catalog.metering.loops import Loop
from catalog.policy.definitions import LimitRule

_UNITS: Final = ((86_400, "days"), (3_600, "hours"), (60, "minutes"))


def describe(limit: LimitRule, seconds: int) -> str:
    """Return what to do about a limit that counts when a call arrives."""
    return describe_repetition(limit, seconds) if limit.measure == measures.REPEATS else describe_rate(limit, seconds)


def describe_rate(limit: LimitRule, seconds: int) -> str:
    return _join(limit, f"Try again in {seconds} s.")


def describe_repetition(limit: LimitRule, seconds: int) -> str:
    count, _, period = limit.rate.partition("/")
    return _join(
        limit,
        f"This call was made {count} times within {period} with the same arguments, so it did not run again. Use the "
        "answer that you have, change the arguments, or tell the person what is missing. The same call is possible "
        f"again in {seconds} s.",
    )


def describe_errors(limit: LimitRule, loop: Loop) -> str:
    return _join(
        limit,
        f"The last {loop.count} calls of this tool ended with the same error, so it did not run again. The error was: "
        f"{loop.error} Change what it names, use another tool, or tell the person about it. Calls of this tool are "
        f"possible again in {loop.seconds} s.",
    )


def describe_running(limit: LimitRule, seconds: int) -> str:
    calls = "1 call is" if limit.rate == "1" else f"{limit.rate} calls are"
    return _join(
        limit, f"{calls} running, which is the most at a time. Try again when one has ended, in {seconds} s or later."
    )


def describe_quota(limit: LimitRule, used: int, units: int, ends: datetime, now: datetime) -> str:
    """Return what to do about a quota of which `used` is used, for a call that would take `units` of it."""
    amount = limit.quota.amount if limit.quota is not None else 0
    left = max(0, amount - used)
    zone = limit.zone or "UTC"
    reset = ends.astimezone(ZoneInfo(zone))
    wait = f"It begins anew at {reset:%Y-%m-%d %H:%M} {zone}, in {describe_wait(int((ends - now).total_seconds()))}."
    if limit.measure == measures.COST and units > amount:
        what = f"This call takes {units:,} cost units, and the quota has {amount:,}. Ask for less at a time."
        return _join(limit, what)
    if left and limit.measure == measures.COST:
        what = f"This call takes {units:,} cost units, and {left:,} are left. Ask for less, or wait."
        return _join(limit, f"{what} {wait}")
    return _join(limit, f"The quota is used up. {wait} Do not try again before then; go on without {_name(limit)}.")


def describe_wait(seconds: int) -> str:
    """Return a time to wait in its largest unit, rounded up: 45 s, 3 hours, 12 days."""
    for size, name in _UNITS:
        if seconds >= 2 * size:
            return f"{-(-seconds // size)} {name}"
    return f"{max(1, seconds)} s"


def _name(limit: LimitRule) -> str:
    """Return what the limit is about: "this tool", "the tools of Sales", "tools"."""
    names = {"tool": "this tool", "toolset": f"the tools of {limit.target_name}"}
    return names.get(limit.target_kind, "tools")


def _join(limit: LimitRule, sentence: str) -> str:
    return f"{sentence} {limit.advice}" if limit.advice else sentence
