"""Conditions that exactly one call satisfies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.conditions.definitions import parse, path_text


def exactly(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return conditions, as JSON, that exactly these arguments satisfy: each value, and no other argument.

    A default of the schema counts where its argument is left out. Raises ConditionError where no conditions can say it:
    for too many arguments, values that are too large, an empty name, or the name "*".
    """
    found: list[dict[str, Any]] = [
        {"path": path_text((name,)), "op": "equals", "value": value} for name, value in arguments.items()
    ]
    found.append({"path": "", "op": "only", "names": list(arguments)})
    parse(found)
    return found
