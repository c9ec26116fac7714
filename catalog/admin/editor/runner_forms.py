"""What the tool editor knows of runners: the form of each kind's settings, what may be chosen, what is wrong where.

The JSON Schema of a settings model as the fields of a form. Pure.

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
from functools import cache
from typing import Any

from django.conf import settings as configured
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.functions import registry as functions
from catalog.models import Secret, Upstream
from catalog.runners import registry

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


MOST_NAMES = 500
MAIN: dict[str, tuple[str, ...]] = {
    "python_function": ("function",),
    "http_api": ("method", "url", "query", "headers", "body", "static_headers"),
    "command": ("program", "arguments", "stdin"),
    "sql_query": ("database", "statement"),
    "upstream_mcp": ("upstream", "tool"),
}
"""What a first tool of the kind needs; the rest is folded away until it says something."""
HIDDEN: dict[str, frozenset[str]] = {"upstream_mcp": frozenset({"connection"})}
"""What the hub fills in itself."""
NAMES: dict[str, Promise] = {
    "python_function": _("Python function"),
    "http_api": _("HTTP API"),
    "command": _("Command: a program on this machine"),
    "sql_query": _("SQL query"),
    "upstream_mcp": _("Tool of an upstream server"),
}
ABOUT: dict[str, Promise] = {
    "python_function": _("A Python function that a module in TOOLHUB_TOOL_MODULES registers."),
    "http_api": _("A request to a web service. The settings say where each argument goes."),
    "command": _("A program listed in TOOLHUB_COMMANDS, run without a shell."),
    "sql_query": _(
        "Runs one read-only statement on a database in TOOLHUB_SQL_DATABASES. Arguments are bound to "
        "its named parameters."
    ),
    "upstream_mcp": _("Calls a tool of an upstream server. Usually imported on the page of the upstream server."),
}
WORDS: dict[str, Promise] = {
    "missing": _("This setting is required."),
    "string_type": _("This must be text."),
    "int_type": _("This must be a whole number."),
    "int_parsing": _("This must be a whole number."),
    "int_from_float": _("This must be a whole number."),
    "float_type": _("This must be a number."),
    "float_parsing": _("This must be a number."),
    "bool_type": _("This must be true or false."),
    "bool_parsing": _("This must be true or false."),
    "dict_type": _("This must be an object of names and values."),
    "list_type": _("This must be a list."),
    "extra_forbidden": _("This setting does not exist. Remove it."),
    "string_too_short": _("This must not be empty."),
    "string_pattern_mismatch": _("Choose a secret."),
}


def kind_name(kind: str) -> str:
    return str(NAMES.get(kind, kind.replace("_", " ")))


def kinds() -> dict[str, dict[str, Any]]:
    """For each kind of runner: its `name`, what it is `about`, `fields`, those that are `main`, and `names` to choose
    from: {setting: [...]} where only what is there can run."""
    found = {}
    for kind in registry.KINDS:
        hidden = HIDDEN.get(kind, frozenset())
        form = [field for field in fields(_schema(kind)) if field["name"] not in hidden]
        found[kind] = {
            "name": kind_name(kind),
            "about": str(ABOUT.get(kind, "")),
            "fields": form,
            "main": list(MAIN.get(kind, [field["name"] for field in form])),
            "names": _names(kind),
        }
    return found


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = registry.settings_schema(kind)
    return schema


def _names(kind: str) -> dict[str, list[str]]:
    match kind:
        case "python_function":
            return {"function": list(functions.registered("tool"))}
        case "sql_query":
            return {"database": sorted(configured.SQL_DATABASES)}
        case "command":
            return {"program": list(configured.COMMANDS)}
        case "upstream_mcp":
            return {"upstream": list(Upstream.objects.order_by("name").values_list("name", flat=True)[:MOST_NAMES])}
    return {}


def secrets() -> list[str]:
    return list(Secret.objects.order_by("name").values_list("name", flat=True)[:MOST_NAMES])


def problems(kind: str, data: Any) -> list[tuple[list[str | int], str]]:
    """(place, sentence) of everything that is wrong with settings; places are keys and indexes into them."""
    try:
        errors = registry.settings_errors(kind, data)
    except KeyError:
        return []
    return placed(errors, data)


def placed(errors: list[tuple[tuple[str | int, ...], str, str]], data: Any) -> list[tuple[list[str | int], str]]:
    """Pydantic's locations without the names of the variants it tried; of those only what the value looks like."""
    by_place: dict[tuple[str | int, ...], list[tuple[str, str]]] = {}
    for location, kind, message in errors:
        by_place.setdefault(_place(location, kind, data), []).append((kind, message))
    found: list[tuple[list[str | int], str]] = []
    for place, said in by_place.items():
        # A place inside of which something is wrong was understood as another variant of the same value.
        if len(errors) > len(by_place) or len(by_place) > 1:
            inner = any(other[: len(place)] == place and len(other) > len(place) for other in by_place)
            if inner and all(_is_kind(kind) for kind, _ in said):
                continue
        better = [one for one in said if not _is_kind(one[0])] or said[:1]
        for kind, message in better:
            found.append((list(place), _words(kind, message)))
    return found


def _is_kind(kind: str) -> bool:
    return kind.endswith("_type") or kind == "literal_error"


def _words(kind: str, message: str) -> str:
    if kind in WORDS:
        return str(WORDS[kind])
    message = message[:1].upper() + message[1:]
    return message if message.endswith((".", "。")) else gettext("%(text)s.") % {"text": message}


def _place(location: tuple[str | int, ...], kind: str, data: Any) -> tuple[str | int, ...]:
    place: list[str | int] = []
    for number, step in enumerate(location):
        last = number == len(location) - 1
        inside = step in data if isinstance(data, Mapping) else isinstance(data, list) and step in range(len(data))
        if inside:
            data = data[step]
        elif not (last and kind == "missing"):
            continue  # the name of a variant
        place.append(step)
    return tuple(place)


__all__ = ["Field", "kind_name", "kinds", "placed", "problems", "secrets"]
