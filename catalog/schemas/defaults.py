"""Defaults of a schema: compiled once to a function that fills them into arguments that lack them.

Only a default that matches its own part of the schema is filled in, at the root and in nested objects that were
given. The arguments were checked as they came: required arguments must be given, whatever their default.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from catalog.schemas import validator

Fill = Callable[[dict[str, Any]], dict[str, Any]]
MAX_DEPTH = 8


def compile_fill(schema: dict[str, Any]) -> Fill | None:
    """Return the function that fills in defaults; None when there are none."""
    return _compile(schema, schema, MAX_DEPTH)


def _compile(part: dict[str, Any], root: dict[str, Any], depth: int) -> Fill | None:
    properties = part.get("properties")
    if not isinstance(properties, dict) or depth == 0:
        return None
    plain: dict[str, Any] = {}
    containers: dict[str, Any] = {}
    inner: list[tuple[str, Fill]] = []
    for name, child in properties.items():
        if not isinstance(child, dict):
            continue
        if "default" in child and _fits(name, child, root):
            (containers if isinstance(child["default"], list | dict) else plain)[name] = child["default"]
        below = _compile(child, root, depth - 1)
        if below is not None:
            inner.append((name, below))
    if not (plain or containers or inner):
        return None

    def fill(arguments: dict[str, Any]) -> dict[str, Any]:
        filled = {**plain, **arguments}
        for name, value in containers.items():
            if name not in filled:
                filled[name] = copy.deepcopy(value)  # the tool may change what it gets
        for name, below in inner:
            value = filled.get(name)
            if isinstance(value, dict):
                filled[name] = below(value)
        return filled

    return fill


def _fits(name: str, child: dict[str, Any], root: dict[str, Any]) -> bool:
    alone = {"type": "object", "properties": {name: child}}
    alone |= {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    if _refers(child):
        return False
    return validator.Check(alone)({name: child["default"]}) is None


def _refers(part: Any) -> bool:
    """Return whether the part refers to a schema that is not among the definitions of the root."""
    if isinstance(part, dict):
        target = part.get("$ref")
        if isinstance(target, str) and not target.startswith(("#/$defs/", "#/definitions/")):
            return True
        return any(_refers(child) for child in part.values())
    return isinstance(part, list) and any(_refers(child) for child in part)
