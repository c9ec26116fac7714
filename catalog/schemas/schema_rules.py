"""Rules for stored JSON Schemas: known dialect, nothing remote, limited size, depth and work, patterns in RE2.

Also rejects schemas that our own checks can handle and those of clients may not, which check the same schema with
their own library. Patterns that nest repetitions block it for hours; `uniqueItems` compares every item of a list with
every other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

from catalog.canonical import dumps
from catalog.schemas import errors, messages, metaschema, patterns, redos
from toolhub.wire import json_pointer

MAX_UNIQUE_ITEMS = 1_000
MAX_DESCRIPTION_CHARACTERS = 5_000
"""Maximum size of the description of one parameter."""
SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
MAX_HOPS = 8


def find_costly_keyword(schema: dict[str, Any], root: dict[str, Any]) -> tuple[str, str] | None:
    """Return (the problem and how to fix it, the keyword) of one subschema of `root`, or None."""
    named = schema.get("patternProperties")
    for keyword, listed in (("pattern", [schema.get("pattern")]), ("patternProperties", named)):
        for pattern in listed if isinstance(listed, dict | list) else ():
            if isinstance(pattern, str) and redos.has_nested_repetition(pattern):
                sentence = _(
                    "the pattern %(pattern)s nests unlimited repetitions, which can block a client for hours. "
                    "Repeat once, or separate the repetitions by text that cannot be part of them, as in ([a-z]+-)+."
                )
                return sentence % {"pattern": pattern[:100]}, keyword
    if schema.get("uniqueItems") is True and not _array_bounded(schema, root):
        sentence = _(
            '"uniqueItems" on objects or lists compares each item with every other. Add a "maxItems" of at '
            "most %(most)s, or remove it."
        )
        return sentence % {"most": f"{MAX_UNIQUE_ITEMS:,}"}, "uniqueItems"
    return None


def _array_bounded(schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Return whether the comparison of items is cheap: scalars are quick, anything else must be few."""
    most = schema.get("maxItems")
    if isinstance(most, int | float) and most <= MAX_UNIQUE_ITEMS:
        return True
    first = schema.get("prefixItems", [])
    if isinstance(schema.get("items"), list):  # draft-07
        first, rest = schema["items"], schema.get("additionalItems", True)
    else:
        rest = schema.get("items", True)
    return isinstance(first, list) and all(_is_scalar(one, root, MAX_HOPS) for one in (*first, rest))


def _is_scalar(schema: Any, root: dict[str, Any], hops: int) -> bool:
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
        if isinstance(parts, list) and parts and all(_is_scalar(part, root, hops - 1) for part in parts):
            return True
    if isinstance(schema.get("allOf"), list) and any(_is_scalar(part, root, hops - 1) for part in schema["allOf"]):
        return True
    return "$ref" in schema and _is_scalar(_target(schema["$ref"], root), root, hops - 1)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _target(reference: Any, root: dict[str, Any]) -> Any:
    """Return the target of a reference by place; a reference by anchor is not followed."""
    found: Any = root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    for step in reference[2:].split("/"):
        found = found.get(json_pointer.unescape(step)) if isinstance(found, dict) else None
    return found


DIALECTS: dict[str, Any] = {
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
    "http://json-schema.org/draft-07/schema": Draft7Validator,
    "https://json-schema.org/draft-07/schema": Draft7Validator,
}
DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES = 262_144
MAX_DEPTH = 32
MAX_SUBSCHEMAS = 2_000
MAX_SUBSCHEMAS_PER_VALUE = 10_000
"""Maximum number of subschemas that may apply to one value."""

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
SINGLE = frozenset(
    {"not", "if", "then", "else", "items", "contains", "propertyNames", "additionalItems", "contentSchema"}
    | {"additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
)
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose subschemas apply to the same value, not to a part of it."""
UNSUPPORTED = frozenset({"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"})
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


class SchemaRuleError(ValidationError):
    """A rule that a schema breaks: `place` is a JSON pointer to that part of the schema; "" for the whole."""

    place = ""


def reject(sentence: str, place: str = "", **params: object) -> None:
    error = SchemaRuleError(sentence, code="schema", params=params or None)
    error.place = place
    raise error


def dialect(schema: dict[str, Any]) -> Any:
    """Return the validator class that the schema's "$schema" names."""
    name = schema.get("$schema", DEFAULT_DIALECT)
    found = DIALECTS.get(name.rstrip("#")) if isinstance(name, str) else None
    if found is None:
        reject(_('"$schema" must be JSON Schema 2020-12 or draft-07.'))
    return found


def children(schema: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (keyword, JSON pointer of the child below this schema, child) for every subschema."""
    for keyword, value in schema.items():
        if keyword in MAPS and isinstance(value, dict):
            for name, child in value.items():
                if isinstance(child, dict | bool):  # draft-07's dependencies may list names instead
                    yield keyword, f"/{keyword}/{json_pointer.escape(name)}", child
        elif keyword in LISTS and isinstance(value, list):
            for index, child in enumerate(value):
                yield keyword, f"/{keyword}/{index}", child
        elif keyword in SINGLE:
            yield keyword, f"/{keyword}", value


class _Walk:
    """One pass over all subschemas; then the references between them."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.seen: dict[str, dict[str, Any]] = {}
        self.anchors: dict[str, str] = {}
        self.references: list[tuple[str, str]] = []
        self.in_place: dict[str, list[str]] = {}
        self.headers: dict[str, str] = {}
        self.weights: dict[str, int] = {}
        self.count = 0

    def visit(self, schema: Any, pointer: str, depth: int, *, plain: bool) -> None:
        self.count += 1
        if self.count > MAX_SUBSCHEMAS:
            reject(_("A schema can have at most %(most)s subschemas."), most=f"{MAX_SUBSCHEMAS:,}")
        if depth > MAX_DEPTH:
            reject(_("A schema can be at most %(most)d levels deep."), most=MAX_DEPTH)
        if not isinstance(schema, dict):
            if not isinstance(schema, bool):
                reject(
                    _("%(where)s is not a schema. A schema is an object, true or false."),
                    pointer,
                    where=_where(pointer),
                )
            return
        self.seen[pointer] = schema
        self._check_keywords(schema, pointer, plain=plain)
        below = self.in_place.setdefault(pointer, [])
        for keyword, step, child in children(schema):
            if keyword in IN_PLACE and isinstance(child, dict):
                below.append(pointer + step)
            self.visit(child, pointer + step, depth + 1, plain=plain and keyword == "properties")

    def _check_keywords(self, schema: dict[str, Any], pointer: str, *, plain: bool) -> None:
        where = _where(pointer)
        text = schema.get("description")
        if self.strict and isinstance(text, str) and len(text) > MAX_DESCRIPTION_CHARACTERS:
            sizes = {"size": f"{len(text):,}", "most": f"{MAX_DESCRIPTION_CHARACTERS:,}"}
            long = _("The description at %(where)s has %(size)s characters. The maximum is %(most)s. Shorten it.")
            reject(long, f"{pointer}/description", where=where, **sizes)
        if self.strict and messages.KEYWORD in schema and (why := messages.find_mistake(schema[messages.KEYWORD])):
            mistake = _('"errorMessage" at %(where)s: %(why)s.')
            reject(mistake, f"{pointer}/{messages.KEYWORD}", where=where, why=why)
        for keyword in UNSUPPORTED & schema.keys():
            unknown = _('"%(keyword)s" at %(where)s is not supported. Use "$ref".')
            reject(unknown, f"{pointer}/{keyword}", keyword=keyword, where=where)
        if pointer and ("$id" in schema or "$schema" in schema):
            reject(_('"$id" and "$schema" are allowed only at the root, not at %(where)s.'), pointer, where=where)
        anchor = schema.get("$anchor")
        if isinstance(anchor, str):
            if anchor in self.anchors:
                reject(_('The anchor "%(name)s" is used twice.'), pointer, name=anchor)
            self.anchors[anchor] = pointer
        reference = schema.get("$ref")
        if reference is not None:
            if not isinstance(reference, str) or not reference.startswith("#"):
                outside = _('"$ref" at %(where)s must start with #. References to other schemas are not supported.')
                reject(outside, f"{pointer}/$ref", where=where)
            self.references.append((pointer, reference))
        for pattern in [schema.get("pattern"), *_keys(schema.get("patternProperties"))]:
            if isinstance(pattern, str):
                try:
                    patterns.searcher(pattern)
                except ValueError as error:
                    sentence = _("At %(where)s: %(why)s. Look-around and back-references are not supported.")
                    place = f"{pointer}/pattern" if pattern is schema.get("pattern") else pointer
                    reject(sentence, place, where=where, why=error)
        if "x-mcp-header" in schema and self.strict:
            self._header(schema, pointer, plain=plain)

    def _header(self, schema: dict[str, Any], pointer: str, *, plain: bool) -> None:
        name, where = schema["x-mcp-header"], _where(pointer)
        if not isinstance(name, str) or not HEADER.fullmatch(name):
            reject(_('"x-mcp-header" at %(where)s must be the name of an HTTP header.'), pointer, where=where)
        if not plain or not pointer:
            deep = _('"x-mcp-header" at %(where)s is allowed only on properties reached through "properties".')
            reject(deep, pointer, where=where)
        if schema.get("type") not in {"string", "integer", "boolean"}:
            plain_ones = _('"x-mcp-header" at %(where)s is allowed only on a string, integer or boolean.')
            reject(plain_ones, pointer, where=where)
        if name.lower() in self.headers:
            reject(_('"x-mcp-header": %(name)s is used twice.'), pointer, name=name)
        self.headers[name.lower()] = pointer

    def check_headers(self) -> None:
        """Reject a header for a secret: proxies read and log headers."""
        for pointer in self.headers.values():
            part: Any = self.seen[pointer]
            for _hop in range(MAX_HOPS):
                if errors.holds_secret(part):
                    secret = _(
                        'The parameter at %(where)s is a secret ("format": "password" or "writeOnly"), so it cannot '
                        'be repeated in a header, which proxies log. Remove "x-mcp-header".'
                    )
                    reject(secret, pointer, where=_where(pointer))
                reference = part.get("$ref")
                if not isinstance(reference, str):
                    break
                target = unquote(reference[1:])
                part = self.seen.get(self.anchors.get(target, target), {})

    def resolve_references(self) -> None:
        for pointer, reference in self.references:
            target = unquote(reference[1:])
            found = self.anchors.get(target) if target and not target.startswith("/") else target
            if found is None or found not in self.seen:
                sentence = _('"$ref" at %(where)s: %(reference)s is not a subschema of this schema.')
                reject(sentence, f"{pointer}/$ref", where=_where(pointer), reference=reference[:200])
            else:
                self.in_place[pointer].append(found)

    def check_unevaluated(self) -> None:
        """Refuse "unevaluatedProperties" together with "patternProperties".

        The library finds evaluated members with Python's own patterns, which may run for hours.
        """
        if any("patternProperties" in part for part in self.seen.values()):
            for pointer, part in self.seen.items():
                if "unevaluatedProperties" in part:
                    both = _('"unevaluatedProperties" together with "patternProperties" is not supported.')
                    reject(both, pointer)

    def check_cost(self) -> None:
        for pointer, part in self.seen.items():
            found = find_costly_keyword(part, self.seen[""])
            if found is not None:
                reject(_("At %(where)s: %(why)s"), f"{pointer}/{found[1]}", where=_where(pointer), why=found[0])

    def check_cycles(self) -> None:
        """Refuse references that go in circles on the same value, or that multiply."""
        weights: dict[str, int] = {}
        self.weights = weights
        for start in self.seen:
            stack: list[tuple[str, bool]] = [(start, False)]
            path: set[str] = set()
            while stack:
                pointer, done = stack.pop()
                if done:
                    path.discard(pointer)
                    weights[pointer] = 1 + sum(weights[child] for child in self.in_place[pointer])
                    if weights[pointer] > MAX_SUBSCHEMAS_PER_VALUE:
                        many = _("At %(where)s: too many subschemas apply to one value.")
                        reject(many, pointer, where=_where(pointer))
                elif pointer in path:
                    reject(
                        _('"$ref" at %(where)s refers back to itself. Remove the loop.'), pointer, where=_where(pointer)
                    )
                elif pointer not in weights:
                    path.add(pointer)
                    stack.append((pointer, True))
                    stack.extend((child, False) for child in self.in_place[pointer])


def _where(pointer: str) -> str:
    return pointer or _("the root")


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def check_stored(schema: Any, *, any_root: bool = False) -> None:
    """Check the minimum that a stored schema needs to be listed at all: a cheap check.

    Limits, so that nothing that walks it runs for long, and the shape without which clients discard the whole list;
    with `any_root` the limits only. Raises ValidationError with a sentence.
    """
    _bounded(schema)
    if any_root:
        return
    shaped = isinstance(schema.get("properties", {}), dict) and isinstance(schema.get("required", []), list)
    if schema.get("type") != "object" or not shaped:
        reject(_("The schema does not describe an object."))


def max_subschemas_per_value(schema: dict[str, Any]) -> int:
    """Return the largest number of subschemas that apply to one value. Raises ValidationError where it is unlimited."""
    return max(_bounded(schema).weights.values())


def subschemas(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return {JSON pointer: subschema} of a schema that was checked."""
    return _bounded(schema).seen


def _bounded(schema: Any, *, strict: bool = False) -> _Walk:
    if not isinstance(schema, dict):
        reject(_("A schema must be a JSON object."))
    dialect(schema)
    walk = _Walk(strict=strict)
    walk.visit(schema, "", 0, plain=True)
    walk.check_unevaluated()
    walk.resolve_references()
    walk.check_headers()
    walk.check_cycles()
    return walk


def check(schema: Any) -> None:
    """Raise ValidationError with a sentence unless `schema` describes an object and keeps every limit."""
    _check(schema, any_root=False)


def check_result(schema: Any) -> None:
    """Raise ValidationError with a sentence unless `schema`, of any JSON value, keeps every limit.

    An `outputSchema` has any root from 2026-07-28 on. Older clients get no schema but that of an object, see
    `toolhub.wire.shapes`.
    """
    _check(schema, any_root=True)


def _check(schema: Any, *, any_root: bool) -> None:
    if not isinstance(schema, dict):
        reject(_("A schema must be a JSON object."))
    try:
        size = len(dumps(schema).encode("utf-8"))
    except RecursionError:
        reject(_("The schema is nested too deeply."))
    except (TypeError, ValueError) as error:
        reject(_("The schema is not valid JSON: %(why)s."), why=error)
    else:
        if size > MAX_BYTES:
            large = _("The schema has %(size)s bytes. The maximum is %(most)s bytes.")
            reject(large, most=f"{MAX_BYTES:,}", size=f"{size:,}")
    if not any_root and schema.get("type") != "object":
        reject(_('A schema needs "type": "object" at its root.'))
    walk = _bounded(schema, strict=True)
    try:
        if "$schema" in schema or not all(map(metaschema.is_surely_valid, walk.seen.values())):
            dialect(schema).check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        pointer = "".join(f"/{json_pointer.escape(str(part))}" for part in error.absolute_path)
        reject(_("At %(where)s: %(why)s."), pointer, where=_where(place), why=error.message[:300])
    except RecursionError:
        reject(_("The schema is nested too deeply."))
    walk.check_cost()
