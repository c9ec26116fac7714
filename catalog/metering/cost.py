"""The cost units of a call: those that are known before it runs, and those of its result. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from catalog.policy.definitions import ToolDefinition

MAX_UNITS: Final = 10**12
"""The most that one call costs, whatever its arguments say."""
RESULT_BYTES: Final = 1_000


def find_units(tool: ToolDefinition, arguments: Mapping[str, Any]) -> int:
    """Return what a call with these arguments, defaults filled in, costs before it runs."""
    factor = find_factor(tool, arguments) if tool.cost_argument else 1
    return min(MAX_UNITS, math.ceil(tool.cost * factor))


def is_free(tool: ToolDefinition) -> bool:
    """Return whether no call of the tool costs anything, nor its result."""
    return not (tool.cost or tool.cost_per_kilobyte)


def find_factor(tool: ToolDefinition, arguments: Mapping[str, Any]) -> float:
    """Return the number in the argument by which the cost is multiplied, or the length of a list there; at least 1.

    It is 1 where the argument is missing or something else: nobody makes a call cheaper than one without it.
    """
    value: Any = arguments
    for name in tool.cost_argument:
        if not isinstance(value, Mapping) or name not in value:
            return 1
        value = value[name]
    if isinstance(value, list):
        return max(1, len(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 1
    return min(MAX_UNITS, max(1, value))


def find_units_of_result(tool: ToolDefinition, size_bytes: int) -> int:
    """Return what a result of this size costs in addition."""
    return min(MAX_UNITS, tool.cost_per_kilobyte * math.ceil(size_bytes / RESULT_BYTES))
