"""A quick check for valid schemas of 2020-12: a sure yes for usual keywords; the library checks everything else.

Validating a schema against the dialect's own schema takes the library a hundred times longer, and a document may have
thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _anything(value: Any) -> bool:
    return True


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_schema, value))


def _named(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_schema, value.values()))


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value)


def _type(value: Any) -> bool:
    return value in TYPES if isinstance(value, str) else _names(value) and bool(value) and TYPES.issuperset(value)


SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _type,
    "required": _names,
    "enum": _list,
    "examples": _list,
    "const": _anything,
    "default": _anything,
    **dict.fromkeys(("title", "description", "$comment", "format", "pattern", "contentEncoding"), _text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    **dict.fromkeys(("items", "additionalProperties", "not", "contains", "propertyNames"), _schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _schemas),
    **dict.fromkeys(("properties", "patternProperties", "$defs"), _named),
}


def is_surely_valid(schema: dict[str, Any]) -> bool:
    """Return whether one subschema is surely valid, without those inside it."""
    for keyword, value in schema.items():
        shape = SHAPES.get(keyword)
        if shape is not None:
            if not shape(value):
                return False
        elif not (
            keyword.startswith("x-") or (keyword == "$ref" and isinstance(value, str) and value.startswith("#/$defs/"))
        ):
            return False
    return True
