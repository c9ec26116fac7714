"""What our own checks bear and those of clients may not, who check the same schema with their own library.

Patterns that nest repetitions hold it up for hours; `uniqueItems` compares every item of a list with every other.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from catalog.checking import repetition

MAX_UNIQUE = 1_000
SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
HOPS = 8


def find_costly_keyword(schema: dict[str, Any], root: dict[str, Any]) -> tuple[str, str] | None:
    """(what is wrong and how it is mended, the keyword) of one subschema of `root`, or None."""
    named = schema.get("patternProperties")
    for keyword, listed in (("pattern", [schema.get("pattern")]), ("patternProperties", named)):
        for pattern in listed if isinstance(listed, dict | list) else ():
            if isinstance(pattern, str) and repetition.nested(pattern):
                sentence = _(
                    "the pattern %(pattern)s nests endless repetitions, which can hold up a client for hours. Repeat "
                    "once, or put something between two rounds that cannot be part of one, as in ([a-z]+-)+."
                )
                return sentence % {"pattern": pattern[:100]}, keyword
    if schema.get("uniqueItems") is True and not _array_bounded(schema, root):
        sentence = _(
            '"uniqueItems" over objects or lists compares each with every other. Add a "maxItems" of at most %(most)s, '
            "or leave it out."
        )
        return sentence % {"most": f"{MAX_UNIQUE:,}"}, "uniqueItems"
    return None


def _array_bounded(schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Comparing scalars is quick; anything else must be few."""
    most = schema.get("maxItems")
    if isinstance(most, int | float) and most <= MAX_UNIQUE:
        return True
    first = schema.get("prefixItems", [])
    if isinstance(schema.get("items"), list):  # draft-07
        first, rest = schema["items"], schema.get("additionalItems", True)
    else:
        rest = schema.get("items", True)
    return isinstance(first, list) and all(_scalar(one, root, HOPS) for one in (*first, rest))


def _scalar(schema: Any, root: dict[str, Any], hops: int) -> bool:
    if schema is False:
        return True
    if not isinstance(schema, dict) or hops == 0:
        return False
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "enum" in schema or "const" in schema or (listed and SCALARS.issuperset(filter(_text, listed)) and kinds):
        return True
    for keyword in ("anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list) and parts and all(_scalar(part, root, hops - 1) for part in parts):
            return True
    if isinstance(schema.get("allOf"), list) and any(_scalar(part, root, hops - 1) for part in schema["allOf"]):
        return True
    return "$ref" in schema and _scalar(_target(schema["$ref"], root), root, hops - 1)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _target(reference: Any, root: dict[str, Any]) -> Any:
    """What a reference by place leads to; one by anchor is not followed."""
    found: Any = root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
