"""The JSON Schema of a settings model as the fields of a form. Pure.

A field is a plain dict, ready for the page as JSON: `name`, `kind`, `label`, `help`, `required`, perhaps `default`, and

    text      perhaps `long`, `longest`         number   `whole`, perhaps `least`, `most`
    switch                                      choice   `options`
    list      `item`, a field                   map      `item`, a field
    group     `fields`                          secret   `fields`: a reference to a secret by its name
    either    `variants`, fields                fixed    `value`: this one value (null included)
    json      anything else: edited as text

`default` is absent where the model has none. What a form cannot say is never lost: it is `json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

Field = dict[str, Any]
LONG_TEXT = 5_000
"""Characters that a text may have from which on its field is several lines high."""
DEPTH = 6
SECRET = frozenset({"secret", "prefix", "encoding"})
_SPELT = {"Url": "URL", "Cpu seconds": "CPU seconds", "Stdin": "Standard input", "Stdin file": "Standard input: a file"}


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of a model, in its own order."""
    return _group(schema, schema.get("$defs", {}), 0)


def _group(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> list[Field]:
    required = schema.get("required", ())
    found = []
    for name, part in schema.get("properties", {}).items():
        field = _field(part, definitions, depth + 1)
        field |= {"name": name, "label": label(name), "required": name in required}
        if "default" in part:
            field["default"] = part["default"]
        found.append(field)
    return found


def label(name: str) -> str:
    words = name.replace("_", " ").capitalize()
    return gettext(_SPELT.get(words, words))


def _field(part: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Field:
    """Everything but the name."""
    help_text = part.get("description", "")
    if "$ref" in part:
        part = {**definitions.get(str(part["$ref"]).rpartition("/")[2], {}), **part}
    elif len(part.get("allOf", ())) == 1:
        return _field({**part["allOf"][0], **{key: part[key] for key in part if key != "allOf"}}, definitions, depth)
    field = {"kind": "json"} if depth > DEPTH else _kind(part, definitions, depth)
    # The help of a model that is referred to is its docstring, which is written for programmers.
    return {**field, "help": gettext(help_text) if help_text else ""}


def _kind(part: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Field:
    if "const" in part:
        return {"kind": "fixed", "value": part["const"]}
    if "enum" in part:
        return {"kind": "choice", "options": list(part["enum"])}
    variants = part.get("anyOf") or part.get("oneOf")
    if variants:
        return {"kind": "either", "variants": [_field(variant, definitions, depth + 1) for variant in variants]}
    kind = part.get("type")
    if kind == "object" and part.get("properties"):
        inner = _group(part, definitions, depth)
        return {"kind": "secret" if part["properties"].keys() == SECRET else "group", "fields": inner}
    if kind == "object" and isinstance(part.get("additionalProperties"), Mapping):
        return {"kind": "map", "item": _field(part["additionalProperties"], definitions, depth + 1)}
    if kind == "array" and isinstance(part.get("items"), Mapping):
        return {"kind": "list", "item": _field(part["items"], definitions, depth + 1)}
    if kind == "string":
        longest = part.get("maxLength", 0)
        return {"kind": "text", "long": longest >= LONG_TEXT and "pattern" not in part, "longest": longest}
    if kind in ("integer", "number"):
        bounds = {"least": part.get("minimum"), "most": part.get("maximum")}
        whole = {"kind": "number", "whole": kind == "integer"}
        return whole | {key: value for key, value in bounds.items() if value is not None}
    if kind == "boolean":
        return {"kind": "switch"}
    if kind == "null":
        return {"kind": "fixed", "value": None}
    return {"kind": "json"}
