"""What the tool editor knows of runners: the form of each kind's settings, what may be chosen, what is wrong where."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings as configured
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog import functions
from catalog.editor_fields import Field, fields
from catalog.models import Secret, Upstream
from catalog.runners import registry

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
    "command": _("Command: a program of this machine"),
    "sql_query": _("SQL query"),
    "upstream_mcp": _("Tool of another MCP server"),
}
ABOUT: dict[str, Promise] = {
    "python_function": _("A function that a module in TOOLHUB_TOOL_MODULES registers."),
    "http_api": _("A request to a web service; the settings say where each argument goes."),
    "command": _("A program that TOOLHUB_COMMANDS lists, without a shell."),
    "sql_query": _("One read-only statement on a database in TOOLHUB_SQL_DATABASES; arguments are bound to its names."),
    "upstream_mcp": _("Usually imported on the page of the upstream server."),
}
WORDS: dict[str, Promise] = {
    "missing": _("This is needed."),
    "string_type": _("This must be text."),
    "int_type": _("This must be a whole number."),
    "int_parsing": _("This must be a whole number."),
    "int_from_float": _("This must be a whole number."),
    "float_type": _("This must be a number."),
    "float_parsing": _("This must be a number."),
    "bool_type": _("This must be true or false."),
    "bool_parsing": _("This must be true or false."),
    "dict_type": _("This must be an object: names and values."),
    "list_type": _("This must be a list."),
    "extra_forbidden": _("There is no such setting."),
    "string_too_short": _("This must not be empty."),
    "string_pattern_mismatch": _("This is not spelt as it must be; the help says how."),
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
