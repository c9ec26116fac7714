"""What a limit measures. Pure.

calls       calls of tools or requests of a method, as a rate (30/m) or a quota (1000/day)
cost        cost units of calls, as a quota
running     calls that run at a time
repeats     calls of a tool with the same arguments by the same client, as a rate (5/10m)
errors      calls of a tool by the same client that ended with the same error one after the other, as a rate
"""

from __future__ import annotations

from typing import Final

CALLS: Final = "calls"
COST: Final = "cost"
RUNNING: Final = "running"
REPEATS: Final = "repeats"
ERRORS: Final = "errors"
LOOPS: Final = frozenset({REPEATS, ERRORS})
"""Measures that tools for polling are left out of."""
LOOKS_AT_BODIES: Final = frozenset({COST, REPEATS, ERRORS})
"""Measures whose numbers can tell what arguments or results of calls are."""
_AMOUNTS: Final = {
    CALLS: "{}",
    COST: "cost {}",
    RUNNING: "{} at a time",
    REPEATS: "same call {}",
    ERRORS: "same error {}",
}


def describe_amount(measure: str, rate: str) -> str:
    """Return what a limit allows, in English: 30/m, cost 5000/month, 3 at a time, same call 5/10m, same error 3/10m."""
    return _AMOUNTS[measure].format(rate)
