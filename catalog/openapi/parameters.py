"""The parameters of an operation as arguments of a tool, with the place where each is sent."""

from __future__ import annotations

import re
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

from catalog.openapi.names import Arguments
from catalog.openapi.references import OperationError, References
from catalog.openapi.schemas import Converter, plain_text

PLACES = {"query": "query", "header": "headers", "cookie": "cookies"}
PLACE_LABELS: dict[str, Promise] = {
    "path": pgettext_lazy("place of a parameter", "path"),
    "query": pgettext_lazy("place of a parameter", "query"),
    "header": pgettext_lazy("place of a parameter", "header"),
    "cookie": pgettext_lazy("place of a parameter", "cookie"),
    "body": pgettext_lazy("place of a parameter", "body"),
}
IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Header parameters to ignore, by the specification."""
BLOCKED_HEADERS = frozenset(
    {"cookie", "host", "proxy-authorization", "content-length", "transfer-encoding", "connection"}
)
BLOCKED_HEADERS |= {"accept-encoding", "expect", "te", "trailer", "upgrade", "keep-alive"}
_BRACES = re.compile(r"\{([^{}]*)\}")


class Inputs:
    """The inputs of one operation, while they are collected."""

    def __init__(self, references: References, version: str, notes: list[str]) -> None:
        self.references = references
        self.converter = Converter(references, for_input=True, version=version)
        self.arguments = Arguments()
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.settings: dict[str, Any] = {}
        self.notes = notes
        self.path = ""

    def add(self, name: str, place: str, schema: dict[str, Any], *, required: bool) -> str:
        """Add an argument and return its name."""
        argument = self.arguments.take(name, place)
        if argument != name:
            renamed = _("The %(place)s parameter %(name)s becomes the argument %(argument)s.")
            values = {"place": PLACE_LABELS[place], "name": plain_text(name, 100), "argument": argument}
            self.notes.append(renamed % values)
        self.properties[argument] = schema
        if required:
            self.required.append(argument)
        return argument

    def schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            made["required"] = self.required
        made["additionalProperties"] = False
        if self.converter.definitions:
            made["$defs"] = self.converter.definitions
        return made


def add_parameters(inputs: Inputs, path: str, item: dict[str, Any], operation: dict[str, Any]) -> None:
    if not path.startswith("/"):
        raise OperationError(_("The path must start with a slash."))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters", [])
        if not isinstance(listed, list):
            raise OperationError(_('"parameters" is not a list.'))
        for value in listed:
            parameter = inputs.references.resolve(value)
            name, place = parameter.get("name"), parameter.get("in")
            if not isinstance(name, str) or not name or place not in {"path", *PLACES}:
                raise OperationError(_('A parameter has no name, or its "in" is not a known place.'))
            found[place, name] = parameter  # an operation's own one replaces that of its path
    in_path = {name: parameter for (place, name), parameter in found.items() if place == "path"}
    inputs.path = _build_path(inputs, path, in_path)
    for (place, _name), parameter in found.items():
        if place != "path":
            _add_parameter(inputs, place, parameter)


def _build_path(inputs: Inputs, path: str, declared: dict[str, dict[str, Any]]) -> str:
    arguments: dict[str, str] = {}

    def argument(match: re.Match[str]) -> str:
        name = match[1]
        if name not in arguments:
            parameter = declared.get(name, {})
            if parameter.get("style", "simple") != "simple":
                styled = _("The path parameter %(name)s uses the style %(style)s, which is not supported.")
                raise OperationError(styled % {"name": name[:100], "style": str(parameter["style"])[:100]})
            schema = _convert_schema(inputs, parameter)
            if schema.get("type") in {"array", "object"}:
                raise _nested_error("path", name)
            if not schema:
                schema = {"type": "string"}
            arguments[name] = inputs.add(name, "path", schema, required=True)
        return "{" + arguments[name] + "}"

    written = _BRACES.sub(argument, path)
    bare = _BRACES.sub("x", written)
    if re.search(r"[{}?#\\\s]", bare) or "//" in bare or re.search(r"(^|/)\.{1,2}(/|$)", bare):
        raise OperationError(_("The path contains characters that are not allowed in an address."))
    return written


def _add_parameter(inputs: Inputs, place: str, parameter: dict[str, Any]) -> None:
    name = parameter["name"]
    if place == "header" and name.lower() in IGNORED_HEADERS:
        return
    required = parameter.get("required") is True
    try:
        if place == "header" and name.lower() in BLOCKED_HEADERS:
            raise OperationError(_("The header %(name)s cannot be filled from an argument.") % {"name": name[:100]})
        schema = _convert_schema(inputs, parameter)
        if place == "query":
            _set_query_style(inputs, parameter, schema)
        elif schema.get("type") in {"array", "object"}:
            raise _nested_error(place, name)
    except OperationError as problem:
        if required:
            raise
        inputs.notes.append(_("Left out: %(why)s") % {"why": problem})
        return
    argument = inputs.add(name, place, schema, required=required)
    inputs.settings.setdefault(PLACES[place], {})[name] = argument


def _nested_error(place: str, name: str) -> OperationError:
    sentence = _("The %(place)s parameter %(name)s is a list or an object, which is not supported.")
    return OperationError(sentence % {"place": PLACE_LABELS[place], "name": name[:100]})


def _convert_schema(inputs: Inputs, parameter: dict[str, Any]) -> dict[str, Any]:
    schema = parameter.get("schema")
    content = parameter.get("content")
    if schema is None and isinstance(content, dict) and content:
        values = {"name": str(parameter.get("name"))[:100], "type": next(iter(content))[:100]}
        raise OperationError(
            _("The parameter %(name)s uses the content type %(type)s, which is not supported.") % values
        )
    made = dict(inputs.converter.schema(schema)) if schema is not None else {}
    if text := plain_text(parameter.get("description")):
        made["description"] = text
    if "examples" not in made and isinstance(parameter.get("example"), str | int | float):
        made["examples"] = [parameter["example"]]
    if parameter.get("deprecated") is True:
        made["deprecated"] = True
    return made


def _set_query_style(inputs: Inputs, parameter: dict[str, Any], schema: dict[str, Any]) -> None:
    style = parameter.get("style", "form")
    values = {"name": parameter["name"][:100], "style": str(style)[:100]}
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "object" in kinds or style == "deepObject":
        raise OperationError(_("The query parameter %(name)s is an object, which is not supported.") % values)
    if "array" not in kinds:
        return
    if style != "form":
        raise OperationError(
            _("The query parameter %(name)s is a list in the style %(style)s, which is not supported.") % values
        )
    wanted = "repeat" if parameter.get("explode", True) else "comma"
    present = inputs.settings.get("query_lists", wanted)
    if present != wanted:
        other = _(
            "The query parameter %(name)s writes its list differently from an earlier parameter, which is "
            "not supported."
        )
        raise OperationError(other % values)
    inputs.settings["query_lists"] = wanted
