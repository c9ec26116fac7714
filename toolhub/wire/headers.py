"""Tool parameters mirrored into HTTP headers (`x-mcp-header`), and the encoding of their values."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .errors import HEADER_MISMATCH, McpError

ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"

_TYPES: Final = frozenset({"string", "integer", "boolean"})
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*\Z")
_NUMBER: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0{1,400})?\Z")
_OPEN: Final = "=?base64?"
_CLOSE: Final = "?="
# The members of a schema that hold schemas. Any other member may hold data that merely resembles one.
_SCHEMA_MEMBERS: Final = frozenset(
    {"items", "contains", "additionalItems", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"}
    | {"propertyNames", "contentSchema", "not", "if", "then", "else"}
)
_SCHEMA_LIST_MEMBERS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_SCHEMA_MAP_MEMBERS: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})


@dataclass(frozen=True, slots=True)
class MirroredParameter:
    """One parameter that a client repeats in a header."""

    path: tuple[str, ...]
    header: str
    key: str
    type: str


def mirrored_parameters(input_schema: Mapping[str, Any]) -> tuple[MirroredParameter, ...]:
    """Return the annotated parameters of a tool. Raises ValueError with a sentence for a forbidden annotation."""
    found: dict[str, MirroredParameter] = {}
    for path, schema in _schemas(input_schema):
        if ANNOTATION not in schema:
            continue
        if not path:
            raise ValueError(f"{ANNOTATION} is only allowed on properties reached through `properties` alone.")
        where, token, kind = ".".join(path), schema[ANNOTATION], schema.get("type")
        if not isinstance(token, str) or not _TOKEN.match(token):
            raise ValueError(f"{ANNOTATION} of {where} must be a header name: letters, digits and !#$%&'*+-.^_`|~.")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ValueError(f"{ANNOTATION} of {where} needs the type string, integer or boolean.")
        one = MirroredParameter(path, PREFIX + token, (PREFIX + token).lower(), kind)
        if one.key in found:
            raise ValueError(f"{ANNOTATION} {token} is used twice: {where} and {'.'.join(found[one.key].path)}.")
        found[one.key] = one
    return tuple(found.values())


def _schemas(root: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield every schema in `root` with its chain of properties, None for a chain through anything else."""
    todo: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while todo:
        path, schema = todo.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                todo.extend((None if path is None else (*path, name), inner) for name, inner in value.items())
            elif keyword in _SCHEMA_LIST_MEMBERS and isinstance(value, list):
                todo.extend((None, inner) for inner in value)
            elif keyword in _SCHEMA_MAP_MEMBERS and isinstance(value, dict):
                todo.extend((None, inner) for inner in value.values())
            elif keyword in _SCHEMA_MEMBERS:
                todo.append((None, value))


# The definitions' schemas never change and live as long as their snapshot. The schema is stored next to its answer so
# that a recycled id cannot match another schema.
_cache: dict[int, tuple[Mapping[str, Any], tuple[MirroredParameter, ...]]] = {}
_MAX_CACHED_SCHEMAS: Final = 4096


def cached_parameters(input_schema: Mapping[str, Any]) -> tuple[MirroredParameter, ...]:
    """Return the annotated parameters of a tool that lives long; none when an annotation is forbidden."""
    entry = _cache.get(id(input_schema))
    if entry is not None and entry[0] is input_schema:
        return entry[1]
    try:
        found = mirrored_parameters(input_schema)
    except ValueError:
        found = ()  # clients drop such a tool and send no headers for it
    if len(_cache) >= _MAX_CACHED_SCHEMAS:
        _cache.clear()
    _cache[id(input_schema)] = (input_schema, found)
    return found


def check_param_headers(
    headers: Mapping[str, str], input_schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Compare the Mcp-Param headers of a tools/call with its arguments. Raises McpError when they differ."""
    for one in cached_parameters(input_schema):
        value: Any = arguments
        for step in one.path:
            value = value.get(step) if isinstance(value, dict) else None
        raw = headers.get(one.key)
        if value is None:
            if raw is not None:
                raise _mismatch(one, "has no value in the arguments")
            continue
        written = _header_form(value)
        if raw is None:
            if written is not None:
                raise _mismatch(one, "is missing")
            continue
        text = decode_value(raw)
        if text is None:
            raise _mismatch(one, "is malformed")
        if written is None or not (text == written or (one.type == "integer" and _same_number(text, value))):
            raise _mismatch(one, "does not match the arguments")


def decode_value(raw: str) -> str | None:
    """Decode a header value; return None if it is malformed."""
    raw = raw.strip(" \t")
    if not _VALUE.match(raw):
        return None
    if not (raw.startswith(_OPEN) and raw.endswith(_CLOSE) and len(raw) >= len(_OPEN) + len(_CLOSE)):
        return raw
    payload = raw[len(_OPEN) : -len(_CLOSE)]
    try:
        decoded = b64decode(payload, validate=True)
        # Only the canonical form: proxies that route by the header would see two encodings of one value as two values.
        return decoded.decode() if b64encode(decoded).decode() == payload else None
    except (NotBase64, ValueError):
        return None


def encode_value(value: str) -> str:
    """Encode `value` as a client writes it into a header."""
    if _VALUE.match(value) and value == value.strip() and not (value.startswith(_OPEN) and value.endswith(_CLOSE)):
        return value
    return f"{_OPEN}{b64encode(value.encode()).decode()}{_CLOSE}"


def _header_form(value: object) -> str | None:
    """Return a scalar in its header form; None for a value that no header can carry."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    return None


def _same_number(text: str, value: object) -> bool:
    """Return whether both are the same number: 42, 42.0 in the header and 42, 42.0 in the body are equal."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    match = _NUMBER.match(text)
    return match is not None and int(match[1]) == value


def _mismatch(one: MirroredParameter, reason: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"Header mismatch: {one.header} {reason}")
