"""Secret fields of a JSON Schema: writeOnly, format: password, x-secret.

In doubt a field is secret: a field that any branch of allOf, anyOf, oneOf or if marks counts as marked, and so does a
field whose reference cannot be followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import re2

from toolhub.wire import json_pointer

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "not")
_REST_KEYWORDS = ("additionalProperties", "unevaluatedProperties")
_ITEM_KEYWORDS = ("items", "additionalItems", "unevaluatedItems", "contains")

Schemas = tuple[dict[str, Any], ...]


def is_marked(schema: Any) -> bool:
    """Return whether this schema itself, without its subschemas, marks its value as secret."""
    if schema.get("writeOnly") is True or schema.get("format") == "password":
        return True
    return schema.get("x-secret") not in (None, False)


def has_marks(schema: Any) -> bool:
    """Return whether a schema contains any mark; a schema without marks need not be checked again."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if is_marked(node):
                return True
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return False


class SecretFields:
    """The secret fields of a schema, to walk along with a value. Created once per schema, only for one with marks."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema
        self._anchors: dict[str, dict[str, Any]] = {}
        for node in _iterate_nodes(schema):
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(name), str):
                    self._anchors[node[name]] = node
        self.start: Schemas = self._expand([schema])

    def is_secret(self, schemas: Schemas) -> bool:
        return any(is_marked(schema) for schema in schemas)

    def member(self, schemas: Schemas, name: str) -> Schemas:
        """Return the schemas of one member of an object."""
        found: list[Any] = []
        for schema in schemas:
            named = False
            properties = schema.get("properties")
            if isinstance(properties, dict) and name in properties:
                found.append(properties[name])
                named = True
            patterns = schema.get("patternProperties")
            for pattern, inner in patterns.items() if isinstance(patterns, dict) else ():
                if _matches(pattern, name):
                    found.append(inner)
                    named = True
            if not named:
                found.extend(schema[key] for key in _REST_KEYWORDS if key in schema)
        return self._expand(found)

    def element(self, schemas: Schemas, index: int) -> Schemas:
        """Return the schemas of one element of an array."""
        found: list[Any] = []
        for schema in schemas:
            first = schema.get("prefixItems", schema.get("items"))
            if isinstance(first, list) and index < len(first):
                found.append(first[index])
                found.append(schema.get("contains"))
            else:
                found.extend(schema.get(key) for key in _ITEM_KEYWORDS)
        return self._expand(found)

    def _expand(self, schemas: list[Any]) -> Schemas:
        """Return the schemas with all others that apply at the same place: references, branches, conditions."""
        result: list[dict[str, Any]] = []
        seen: set[int] = set()
        pending = [schema for schema in schemas if isinstance(schema, dict)]
        while pending:
            schema = pending.pop()
            if id(schema) in seen:
                continue
            seen.add(id(schema))
            result.append(schema)
            for key in _BRANCHES:
                if isinstance(schema.get(key), list):
                    pending.extend(branch for branch in schema[key] if isinstance(branch, dict))
            pending.extend(schema[key] for key in _CONDITIONS if isinstance(schema.get(key), dict))
            for key in ("dependentSchemas", "dependencies"):
                if isinstance(schema.get(key), dict):
                    pending.extend(branch for branch in schema[key].values() if isinstance(branch, dict))
            for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                if isinstance(schema.get(key), str):
                    pending.append(self._follow(schema[key]))
        return tuple(result)

    def _follow(self, reference: str) -> dict[str, Any]:
        hidden = {"writeOnly": True}
        if not reference.startswith("#"):
            return hidden
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, hidden)
        node: Any = self._root
        for part in fragment.split("/")[1:]:
            part = json_pointer.unescape(part)
            if isinstance(node, dict) and part in node:
                node = node[part]
            elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            else:
                return hidden
        return node if isinstance(node, dict) else {}


def _iterate_nodes(schema: Any) -> Iterator[dict[str, Any]]:
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


@lru_cache(maxsize=1000)
def _compile_pattern(pattern: str) -> Any:
    # A linear-time engine: schemas imported from elsewhere are hostile input.
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _matches(pattern: str, name: str) -> bool:
    compiled = _compile_pattern(pattern)
    try:
        return compiled is None or compiled.search(name) is not None
    except UnicodeEncodeError:
        return True
