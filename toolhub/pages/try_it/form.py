"""The form for trying a tool: the arguments, the user, and the answers to a tool's questions.

An input schema becomes a form with one field per argument, and the typed values become arguments again.

A text, a number, a choice or yes/no has its own kind of field; lists, groups and everything that the schema leaves open
are written as JSON. A value that a field cannot hold is reported beside it; the call pipeline validates the rest.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext as _

from catalog.functions.elicitation import Elicit
from catalog.models import Tool
from catalog.policy import snapshot, visibility
from catalog.schemas import errors, validator
from catalog.schemas.errors import SchemaProblem
from catalog.schemas.parameters import Parameter, list_arguments
from toolhub import invisible
from toolhub.access.try_permissions import MAY_TRY_AS

MAX_FIELDS = 200
PREFIX = "argument."
JSON_FIELD = "arguments"
"""The name of the field that holds all arguments as JSON."""
INPUT_TYPES = {"date": "date", "email": "email", "uri": "url", "time": "time"}
MAX_ONE_LINE_CHARACTERS = 80
"""Maximum characters of a text with a one-line field; a longer one gets a box of several lines."""


@dataclass(slots=True)
class Field:
    """One argument as a field: its kind, its current value and the error of that value."""

    name: str
    kind: str
    """text | lines | number | choice | boolean | json"""
    parameter: Parameter
    input_type: str = "text"
    choices: tuple[tuple[str, str], ...] = ()
    """Pairs of a value (as JSON) and its label."""
    low: str = ""
    high: str = ""
    integer: bool = False
    secret: bool = False
    value: str = ""
    error: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        """Name of the field in the form."""
        return f"{PREFIX}{self.name}"

    @property
    def id(self) -> str:
        """Value of `id` and `for`: names in the schema may contain any character."""
        return f"argument-{self.number}"


def fields_of(schema: dict[str, Any]) -> list[Field]:
    """Return the fields of a schema, filled with its defaults."""
    found = []
    for number, (part, row) in enumerate(list_arguments(schema)):
        if number == MAX_FIELDS:
            break
        field = _field(part, row)
        field.number = number
        found.append(field)
    return found


def own_fields(schema: dict[str, Any], own: dict[str, Any] | None, data: Mapping[str, Any]) -> list[Field]:
    """Return the fields of one person's form of a schema, with the numbers that they have in the whole one.

    A field that the person does not have stays as long as it is filled in, so that the call can refuse it.
    """
    fields = fields_of(schema)
    if own is None:
        return fields
    narrowed = {field.name: field for field in fields_of(own)}
    for field in fields:
        if field.name in narrowed:
            narrowed[field.name].number = field.number
    found = [narrowed.get(field.name, field) for field in fields]
    return [field for field in found if field.name in narrowed or str(data.get(field.key) or "").strip()]


def fill_fields(fields: list[Field], data: Mapping[str, Any]) -> None:
    """Fill the fields with submitted values: a list of texts as a browser sends it, or one text each."""
    for field in fields:
        value = data.get(field.key)
        field.value = str(value) if value is not None else ""


def fill_values(fields: list[Field], arguments: Mapping[str, Any]) -> None:
    """Fill the fields with arguments, as if they had been typed."""
    for field in fields:
        field.value = _format_value(field, arguments[field.name]) if field.name in arguments else ""


def read_arguments(fields: list[Field]) -> dict[str, Any] | None:
    """Return the arguments from the fields; None when a field cannot be read, with the reason in its `error`.

    An empty field is an argument that is not given.
    """
    found: dict[str, Any] = {}
    for field in fields:
        field.error = ""
        if field.value == "" or (field.kind not in {"text", "lines"} and not field.value.strip()):
            if field.parameter.required:
                field.error = _("This is required.")
            continue
        try:
            found[field.name] = _parse_value(field)
        except (ValueError, RecursionError) as error:
            field.error = str(error)
    return None if any(field.error for field in fields) else found


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse arguments written as JSON. Raises ValueError with a sentence."""
    value = _parse_json(text or "{}")
    if not isinstance(value, dict):
        raise ValueError(_('The arguments must be a JSON object, such as {"name": "value"}.'))
    return value


def place_error(fields: list[Field], problem: SchemaProblem) -> str:
    """Put each problem beside the field it names. Return the sentences of those that name none of the fields."""
    by_name = {field.name: field for field in fields}
    elsewhere = []
    for one in problem.all:
        field = by_name.get(str(one.path[0])) if one.path else None
        if field is None:
            elsewhere.append(errors.translate(one))
        elif not field.error:
            field.error = errors.translate_rest(one) if len(one.path) == 1 else errors.translate(one)
    return " ".join(elsewhere)


def _field(part: dict[str, Any], row: Parameter) -> Field:
    listed = part.get("enum")
    if not isinstance(listed, list) and "const" in part:
        listed = [part["const"]]
    if isinstance(listed, list):
        options = tuple((json.dumps(value, ensure_ascii=False), _choice_label(value)) for value in listed)
        return _fill_default(Field(row.name, "choice", row, choices=options), part)
    named = part.get("oneOf", part.get("anyOf"))
    if isinstance(named, list) and named and all(isinstance(each, dict) and "const" in each for each in named):
        options = tuple(
            (json.dumps(each["const"], ensure_ascii=False), str(each.get("title") or _choice_label(each["const"])))
            for each in named
        )
        return _fill_default(Field(row.name, "choice", row, choices=options), part)
    kind = part.get("type")
    if kind == "boolean":
        yes_no = (("true", _("yes")), ("false", _("no")))
        return _fill_default(Field(row.name, "boolean", row, choices=yes_no), part)
    if kind in {"number", "integer"}:
        low, high = (_bound(part, name) for name in ("minimum", "maximum"))
        return _fill_default(Field(row.name, "number", row, low=low, high=high, integer=kind == "integer"), part)
    if kind == "string":
        form = part.get("format")
        secret = part.get("writeOnly") is True or form == "password"
        longest = part.get("maxLength")
        if secret or form in INPUT_TYPES or (isinstance(longest, int) and longest <= MAX_ONE_LINE_CHARACTERS):
            shown = "password" if secret else INPUT_TYPES.get(str(form), "text")
            return _fill_default(Field(row.name, "text", row, input_type=shown, secret=secret), part)
        return _fill_default(Field(row.name, "lines", row), part)
    return _fill_default(Field(row.name, "json", row), part)


def _fill_default(field: Field, part: dict[str, Any]) -> Field:
    if "default" in part:
        field.value = _format_value(field, part["default"])
    elif field.kind in {"choice", "boolean"} and field.parameter.required and len(field.choices) == 1:
        field.value = field.choices[0][0]
    return field


def _format_value(field: Field, value: Any) -> str:
    if field.kind in {"text", "lines"} and isinstance(value, str):
        return value
    if field.kind == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _parse_value(field: Field) -> Any:
    match field.kind:
        case "text" | "lines":
            return field.value.replace("\r\n", "\n")
        case "number":
            return _parse_number(field)
        case "choice" | "boolean":
            if field.value not in {value for value, _label in field.choices}:
                raise ValueError(_("Choose one of the listed values."))
            return json.loads(field.value)
        case _other:
            return _parse_json(field.value)


def _parse_number(field: Field) -> int | float:
    text = field.value.strip()
    if len(text) > 400 or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", text, re.ASCII):
        raise ValueError(_("This must be a number."))
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(_("This number is too large."))
    if field.integer and value.is_integer():
        return int(value)
    return value


def _parse_json(text: str) -> Any:
    def reject(word: str) -> Any:
        raise ValueError(_("%s is not valid JSON.") % word)

    try:
        return json.loads(text, parse_constant=reject)
    except json.JSONDecodeError as error:
        details = {"line": error.lineno, "column": error.colno, "problem": error.msg}
        raise ValueError(_("Invalid JSON at line %(line)s, column %(column)s: %(problem)s.") % details) from None


def _bound(part: dict[str, Any], name: str) -> str:
    value = part.get(name)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _choice_label(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def digest(schema: dict[str, Any]) -> str:
    return hashlib.sha256(as_json(schema).encode("utf-8", "surrogatepass")).hexdigest()


class Rejection(Exception):
    """An error that prevents the call; `field_id` is the id of a field, or empty for the form as a whole."""

    def __init__(self, message: str, field_id: str = "", call_id: UUID | None = None) -> None:
        super().__init__(message)
        self.message, self.field_id, self.call_id = message, field_id, call_id


class Form:
    """The arguments and the user as currently typed."""

    def __init__(self, request: HttpRequest, tool: Tool) -> None:
        actor = cast(User, request.user)
        self.tool, self.actor = tool, actor
        data = request.POST if request.method == "POST" else None
        self.may_choose = actor.has_perm(MAY_TRY_AS)
        self.text, self.error = "{}", ""
        self.username = request.GET.get("user", "")[:150] or actor.get_username()
        self.user_error = ""
        if data is not None:
            self.username = data.get("user", "").strip()[:150] or actor.get_username()
            self.text = data.get(JSON_FIELD, "{}")
        self.fields = own_fields(tool.input_schema, self._own_schema(), data or {})
        self.as_json = (data or request.GET).get("mode") == "json" or (not self.fields and bool(data))
        if data is not None and not self.as_json:
            fill_fields(self.fields, data)

    def _own_schema(self) -> dict[str, Any] | None:
        """Return the tool's schema as the chosen user sees it; None where that is the tool's own, or not shown."""
        is_self = self.username == self.actor.get_username()
        users = get_user_model().objects.filter(username=self.username)
        key = self.actor.pk if is_self else users.values_list("pk", flat=True).first() if self.may_choose else None
        if key is None:
            return None
        snapshot.latest()
        seen = visibility.for_credential(visibility.page_credential(key)).tools.get(self.tool.name)
        return seen[0].input_schema if seen is not None and seen[0].form is not None else None

    def show(self, state: dict[str, Any]) -> None:
        """Fill the form with the arguments of an earlier call."""
        fill_values(self.fields, state["arguments"])
        self.text, self.username = as_json(state["arguments"], indent=2), state["user"]

    def switch(self) -> None:
        """Switch from fields to JSON, or back, and keep the typed values."""
        if self.as_json:
            try:
                fill_values(self.fields, parse_json_object(self.text))
            except ValueError as error:
                self.error = str(error)
                return
        else:
            self.text = as_json(read_arguments(self.fields) or {}, indent=2)
            for field in self.fields:
                field.error = ""
        self.as_json = not self.as_json

    def arguments(self) -> dict[str, Any]:
        """Return the arguments. Raises Rejection when they cannot be read."""
        if self.as_json:
            try:
                return parse_json_object(self.text)
            except (ValueError, RecursionError) as error:
                raise Rejection(str(error), JSON_FIELD) from None
        found = read_arguments(self.fields)
        if found is None:
            raise Rejection(_("Fix the marked fields."))
        return found

    def user(self) -> User:
        """Return the user. Raises Rejection for an unknown one, PermissionDenied for one this person may not choose."""
        if self.username == self.actor.get_username():
            return self.actor
        if not self.may_choose:
            raise PermissionDenied
        found = get_user_model().objects.filter(username=self.username).first()
        if found is None:
            raise Rejection(_("There is no user with this name. Check the spelling."), "user")
        return found

    def show_error(self, rejected: Rejection) -> None:
        if rejected.field_id == "user":
            self.user_error = rejected.message
        else:
            self.error = rejected.message

    def errors(self) -> dict[str, str]:
        """Return the errors by field id."""
        found = {field.id: field.error for field in self.fields if field.error and not self.as_json}
        return {**found, **({"user": self.user_error} if self.user_error else {})}


class Question:
    """One question of a tool, as a form."""

    def __init__(self, key: str, method: str, params: dict[str, Any]) -> None:
        self.key, self.params = key, params
        self.message = invisible.show(str(params.get("message", ""))[:5000])
        self.url = str(params.get("url", "")) if params.get("mode") == "url" else ""
        self.schema = params.get("requestedSchema") if not self.url else None
        self.fields = fields_of(self.schema) if isinstance(self.schema, dict) else None
        for field in self.fields or ():
            field.number += 10_000  # separate from the ids of the tool's fields on the same page
        self.error = ""

    @property
    def href(self) -> str:
        return self.url if self.url.startswith(("https://", "http://")) else ""

    def read(self, data: Any) -> dict[str, Any] | None:
        """Return the values, or None when they are invalid; the fields then have the errors."""
        assert self.fields is not None  # noqa: S101 - only a form is read
        fill_fields(self.fields, data)
        content = read_arguments(self.fields)
        if content is None:
            return None
        schema = Elicit(self.message, cast("dict[str, Any]", self.schema)).requested()
        problem = validator.validator(f"elicit:{digest(schema)}", schema)(content)
        if problem is None:
            return content
        self.error = place_error(self.fields, problem)
        return None
