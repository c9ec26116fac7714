"""A definition's own schema, as narrowing reads it: references by place, and what they refer to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from jsonschema import Draft7Validator

from catalog.conditions.definitions import ITEMS, Steps
from catalog.schemas import errors
from catalog.schemas.full_check import compile_fits
from catalog.schemas.schema_rules import LISTS, MAPS, MAX_HOPS, SINGLE, dialect, subschemas
from toolhub.wire import json_pointer

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format"}
)
UNIONS: Final = ("anyOf", "oneOf")
WHOLE: Final = "_whole"
"""The name of the definition that is a copy of the whole schema."""


class Original:
    """A definition's own schema, prepared once for all that is asked of it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = with_stable_references(schema)
        self._replaces_siblings = is_draft_07(schema)

    @cached_property
    def fits(self) -> Callable[[dict[str, Any], Any], bool]:
        """Return whether a value satisfies a part of the schema, or one that refers to it."""
        return compile_fits(self.schema)

    def resolve(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return the part with a reference to another place of the schema replaced by what it refers to."""
        for _hop in range(MAX_HOPS):
            reference = part.get("$ref")
            if not isinstance(reference, str):
                return part
            target = _find(self.schema, reference)
            beside = {keyword: value for keyword, value in part.items() if keyword != "$ref"}
            if self._replaces_siblings:
                beside = {keyword: value for keyword, value in beside.items() if keyword in ANNOTATIONS}
            if (target.keys() & beside.keys()) - ANNOTATIONS:
                return {**{k: v for k, v in beside.items() if k in ANNOTATIONS}, "allOf": [target, beside]}
            part = {**target, **beside}
        return part

    def has_place(self, steps: Steps) -> bool:
        """Return whether the schema names the argument at this place, in one of its alternatives at least."""
        return any(True for _ in self._places(self.schema, steps))

    def is_secret(self, steps: Steps) -> bool:
        """Return whether the argument at this place, or one around it, is a secret, or has one in it."""
        return any(self._places(self.schema, steps))

    def _places(self, part: Any, steps: Steps, *, is_inside: bool = False) -> Iterator[bool]:
        """Yield for each alternative that names the argument whether it is a secret there."""
        if part is True and not steps:
            yield is_inside
        if not isinstance(part, dict):
            return
        is_inside = is_inside or errors.is_secret(part)
        part = self.resolve(part)
        is_inside = is_inside or errors.is_secret(part)
        if not steps:
            yield is_inside or errors.holds_secret(part)
            return
        inside: list[Any] = []
        if steps[0] is ITEMS:
            items = part.get("items")
            inside = [*(items if isinstance(items, list) else [items]), *part.get("prefixItems", ())]
        elif steps[0] in (part.get("properties") or {}):
            inside = [part["properties"][steps[0]]]
        for one in inside:
            yield from self._places(one, steps[1:], is_inside=is_inside)
        for union in (*UNIONS, "allOf"):
            for one in part.get(union) or ():
                yield from self._places(one, steps, is_inside=is_inside)


def is_draft_07(schema: dict[str, Any]) -> bool:
    """Return whether the schema is of draft-07, where a reference replaces the keywords beside it."""
    return dialect(schema) is Draft7Validator


def with_stable_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an equal schema whose references lead only to its definitions, whatever is narrowed outside of them.

    Where a reference led elsewhere, a copy of the whole schema becomes a definition.
    """
    parts = subschemas(schema)
    anchors = {part["$anchor"]: pointer for pointer, part in parts.items() if isinstance(part.get("$anchor"), str)}
    references = [part["$ref"] for part in parts.values() if isinstance(part.get("$ref"), str)]
    if not references:
        return schema
    definitions = "definitions" if is_draft_07(schema) else "$defs"
    needs_whole = False

    def lead(reference: str) -> str:
        nonlocal needs_whole
        target = unquote(reference[1:])
        target = anchors.get(target, target)
        if target.startswith(("/$defs/", "/definitions/")):
            return "#" + target
        needs_whole = True
        return f"#/{definitions}/{WHOLE}{target}"

    def rewrite(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        result = {keyword: value for keyword, value in part.items() if keyword != "$anchor"}
        if isinstance(result.get("$ref"), str):
            result["$ref"] = lead(result["$ref"])
        for keyword, value in part.items():
            if keyword in MAPS and isinstance(value, dict):
                result[keyword] = {name: rewrite(child) for name, child in value.items()}
            elif keyword in LISTS and isinstance(value, list):
                result[keyword] = [rewrite(child) for child in value]
            elif keyword in SINGLE:
                result[keyword] = rewrite(value)
        return result

    found: dict[str, Any] = rewrite(schema)
    if needs_whole:
        inside = {k: v for k, v in found.items() if k not in ("$defs", "definitions", "$schema", "$id")}
        found = {**found, definitions: {**found.get(definitions, {}), WHOLE: inside}}
    return found


def _find(root: dict[str, Any], reference: str) -> dict[str, Any]:
    """Return the schema that a reference by place names."""
    found: Any = root
    for step in reference[2:].split("/"):
        found = found[int(step)] if isinstance(found, list) else found[json_pointer.unescape(step)]
    if not isinstance(found, dict):
        return {} if found else {"not": {}}
    return {keyword: value for keyword, value in found.items() if keyword not in ("$defs", "definitions")}
