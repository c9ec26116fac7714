"""Forms for the settings of runners in the tool editor: fields, choices, and problems with their places.

The JSON Schema of a settings model is converted to the fields of a form. Pure.

A field is a plain dict, ready for the page as JSON: `name`, `kind`, `label`, `help`, `required`, perhaps `default`, and

    text      perhaps `long`, `longest`         number   `whole`, perhaps `least`, `most`
    switch                                      choice   `options`
    list      `item`, a field                   map      `item`, a field
    group     `fields`                          secret   `fields`: a reference to a secret by its name
    either    `variants`, fields                fixed    `value`: this one value (null included)
    json      anything else: edited as text

`default` is absent where the model has none. Anything that a form cannot express is kept as `json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.apps import apps
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.models import Secret
from catalog.runners import registry
from catalog.runners.base import FormWords, Rows

Field = dict[str, Any]
MIN_MULTILINE_CHARACTERS = 5_000
"""The maximum length of a text, in characters, from which on its field has several lines."""
MAX_DEPTH = 6
SECRET_KEYS = frozenset({"secret", "prefix", "encoding"})


def fields(schema: Mapping[str, Any], words: FormWords | None = None) -> list[Field]:
    """Return the fields of a model, in its own order, without the hidden ones."""
    return _Form(schema.get("$defs", {}), words or FormWords()).fields(schema)


class _Form:
    """The fields of one settings model."""

    def __init__(self, definitions: Mapping[str, Any], words: FormWords) -> None:
        self._definitions, self._words = definitions, words

    def fields(self, schema: Mapping[str, Any]) -> list[Field]:
        return [field for field in self._group(schema, 0) if field["name"] not in self._words.hidden]

    def _group(self, schema: Mapping[str, Any], depth: int) -> list[Field]:
        required = schema.get("required", ())
        found = []
        for name, part in schema.get("properties", {}).items():
            field = self._field(part, depth + 1)
            field |= {"name": name, "label": self._label(name), "required": name in required}
            if name in self._words.helps:
                field["help"] = str(self._words.helps[name])
            if "default" in part:
                field["default"] = part["default"]
            found.append(field)
        return found

    def _label(self, name: str) -> str:
        given = self._words.labels.get(name)
        return gettext(name.replace("_", " ").capitalize()) if given is None else str(given)

    def _field(self, part: Mapping[str, Any], depth: int) -> Field:
        """Return a field with everything but its name."""
        help_text = part.get("description", "")
        if "$ref" in part:
            part = {**self._definitions.get(str(part["$ref"]).rpartition("/")[2], {}), **part}
        elif len(part.get("allOf", ())) == 1:
            return self._field({**part["allOf"][0], **{key: part[key] for key in part if key != "allOf"}}, depth)
        field = {"kind": "json"} if depth > MAX_DEPTH else self._kind(part, depth)
        # The description of a referenced model is its docstring, which is written for programmers.
        return {**field, "help": gettext(help_text) if help_text else ""}

    def _kind(self, part: Mapping[str, Any], depth: int) -> Field:
        if "const" in part:
            return {"kind": "fixed", "value": part["const"]}
        if "enum" in part:
            return {"kind": "choice", "options": list(part["enum"])}
        variants = part.get("anyOf") or part.get("oneOf")
        if variants:
            return {"kind": "either", "variants": [self._field(variant, depth + 1) for variant in variants]}
        kind = part.get("type")
        if kind == "object" and part.get("properties"):
            inner = self._group(part, depth)
            return {"kind": "secret" if part["properties"].keys() == SECRET_KEYS else "group", "fields": inner}
        if kind == "object" and isinstance(part.get("additionalProperties"), Mapping):
            return {"kind": "map", "item": self._field(part["additionalProperties"], depth + 1)}
        if kind == "array" and isinstance(part.get("items"), Mapping):
            return {"kind": "list", "item": self._field(part["items"], depth + 1)}
        if kind == "string":
            longest = part.get("maxLength", 0)
            return {
                "kind": "text",
                "long": longest >= MIN_MULTILINE_CHARACTERS and "pattern" not in part,
                "longest": longest,
            }
        if kind in ("integer", "number"):
            bounds = {"least": part.get("minimum"), "most": part.get("maximum")}
            whole = {"kind": "number", "whole": kind == "integer"}
            return whole | {key: value for key, value in bounds.items() if value is not None}
        if kind == "boolean":
            return {"kind": "switch"}
        if kind == "null":
            return {"kind": "fixed", "value": None}
        return {"kind": "json"}


MAX_NAMES = 500
PROBLEM_TEXTS: dict[str, Promise] = {
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
}


def kind_name(kind: str) -> str:
    described = registry.runners().get(kind)
    return str(described.title) if described is not None else kind.replace("_", " ")


def describe_forms() -> dict[str, dict[str, Any]]:
    """Return {runner: description of its form}.

    A description holds `name`; `about`; `fields`; `main`, the names of the main fields; `names`, {setting: [...]}, the
    choices of settings where only existing values can run; and `fill`, the setting that fills in the tool, or "".
    """
    found = {}
    for kind, described in registry.runners().items():
        form = fields(_schema(kind), described.form)
        found[kind] = {
            "name": str(described.title),
            "about": str(described.about),
            "fields": form,
            "main": list(described.form.main or [field["name"] for field in form]),
            "names": {name: _names(choices) for name, choices in described.form.choices.items()},
            "fill": described.form.fill_from,
        }
    return found


def fill_columns(kind: str, value: str) -> dict[str, Any]:
    """Return the columns of a tool that this value of its settings fills in. Raises LookupError without any."""
    fill = registry.runner(kind).form.fill
    if fill is None:
        raise LookupError(kind)
    return dict(fill(value))


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = registry.settings_schema(kind)
    return schema


def _names(choices: Any) -> list[str]:
    if isinstance(choices, Rows):
        rows: Any = apps.get_model(choices.model)
        return list(rows._default_manager.order_by(choices.column).values_list(choices.column, flat=True)[:MAX_NAMES])
    return list(choices())


def list_secret_names() -> list[str]:
    return list(Secret.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMES])


def find_problems(kind: str, data: Any) -> list[tuple[list[str | int], str]]:
    """Return (place, sentence) of every problem with the settings; places are keys and indexes into them."""
    try:
        errors = registry.settings_errors(kind, data)
    except KeyError:
        return []
    return locate_problems(errors, data)


def locate_problems(
    errors: list[tuple[tuple[str | int, ...], str, str]], data: Any
) -> list[tuple[list[str | int], str]]:
    """Return pydantic's errors as (place, sentence), without the names of the variants that it tried.

    Errors of variants that do not match the value are left out.
    """
    by_place: dict[tuple[str | int, ...], list[tuple[str, str]]] = {}
    for location, kind, message in errors:
        by_place.setdefault(_locate(location, kind, data), []).append((kind, message))
    found: list[tuple[list[str | int], str]] = []
    for place, messages in by_place.items():
        # A place with an error inside it was parsed as another variant of the same value.
        if len(errors) > len(by_place) or len(by_place) > 1:
            inner = any(other[: len(place)] == place and len(other) > len(place) for other in by_place)
            if inner and all(_is_type_error(kind) for kind, _ in messages):
                continue
        better = [one for one in messages if not _is_type_error(one[0])] or messages[:1]
        for kind, message in better:
            found.append((list(place), _format_problem(kind, message, place)))
    return found


def _is_type_error(kind: str) -> bool:
    return kind.endswith("_type") or kind == "literal_error"


def _format_problem(kind: str, message: str, place: tuple[str | int, ...]) -> str:
    if kind == "string_pattern_mismatch" and place[-1:] == ("secret",):
        return gettext("Choose a secret.")
    if kind in PROBLEM_TEXTS:
        return str(PROBLEM_TEXTS[kind])
    message = message[:1].upper() + message[1:]
    return message if message.endswith((".", "。")) else gettext("%(text)s.") % {"text": message}


def _locate(location: tuple[str | int, ...], kind: str, data: Any) -> tuple[str | int, ...]:
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


__all__ = ["Field", "describe_forms", "find_problems", "kind_name", "list_secret_names", "locate_problems"]
