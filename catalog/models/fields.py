"""JSON fields stored as canonical text, so that key order and numbers survive on SQLite and PostgreSQL alike."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.canonical import dumps, loads


def reject(sentence: Any, **params: object) -> NoReturn:
    """Raise ValidationError with this sentence, for the checks of one value."""
    raise ValidationError(sentence, code="invalid", params=params or None)


class JSONFormField(forms.CharField):
    """A form field that shows JSON indented, in its own order; a syntax error names line and column."""

    widget: type[forms.Widget] = forms.Textarea
    # Not "invalid": a form replaces the message of a validator that has the same code with its own.
    default_error_messages = {"not_json": _("This is not valid JSON: %(problem)s.")}

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("strip", True)
        super().__init__(**kwargs)

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return loads(value)
        except json.JSONDecodeError as error:
            problem = f"{error.msg} (line {error.lineno}, column {error.colno})"
        except ValueError as error:
            problem = str(error)
        raise ValidationError(self.error_messages["not_json"], code="not_json", params={"problem": problem})

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data

    def has_changed(self, initial: Any, data: Any) -> bool:
        if self.disabled:
            return False
        try:
            return bool(dumps(self.to_python(data)) != dumps(initial))
        except (ValidationError, ValueError, TypeError):
            return True

    def validate(self, value: Any) -> None:
        if value is None and self.required:
            raise ValidationError(self.error_messages["required"], code="required")

    def run_validators(self, value: Any) -> None:
        """Skip CharField's length rules, which are meant for text."""


class NamesFormField(JSONFormField):
    """A form field for a list of names, separated by commas or spaces; a JSON list is accepted too."""

    widget = forms.TextInput

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value.strip()[:1] not in ("", "[", "{", '"'):
            return value.replace(",", " ").split()
        return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return ", ".join(value)
        return super().prepare_value(value)


class NetworksFormField(NamesFormField):
    """A form field for a list of networks, such as 10.1.2.0/24:8080 or [fd00::/8]:443."""

    def to_python(self, value: Any) -> Any:
        # A bracket begins a JSON list, or an IPv6 network with a port.
        if isinstance(value, str) and re.match(r"\s*\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:/[0-9]+)?\]", value):
            return value.replace(",", " ").split()
        return super().to_python(value)


if TYPE_CHECKING:
    _Text = models.TextField[Any, Any]
else:
    _Text = models.TextField


class JSONTextField(_Text):
    """A Python value (dict, list, ...) in a text column. None is NULL."""

    description = _("JSON as text")
    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        """Return the parsed value, or None when it is nested too deeply: one such row must not stop the others."""
        try:
            return None if value is None else json.loads(value)
        except RecursionError:
            return None

    def to_python(self, value: Any) -> Any:
        """Parse text as JSON (fixtures contain it so, see `value_to_string`): no column of ours holds a bare string."""
        if not isinstance(value, str):
            return value
        try:
            return loads(value)
        except ValueError as error:
            raise ValidationError(_("This is not valid JSON: %s.") % error, code="invalid") from error

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else dumps(value)

    def value_to_string(self, obj: models.Model) -> str:
        return dumps(self.value_from_object(obj))

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        try:
            dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(_("This cannot be written as JSON: %s.") % error) from error
        return super().clean(value, model_instance)

    def formfield(self, **kwargs: Any) -> Any:
        return models.Field.formfield(self, **{"form_class": JSONFormField, **kwargs})


def check_kinds(row: models.Model) -> None:
    """Check the types of empty values, for `clean`: Django does not validate them, and {} is not the same as []."""
    for field in row._meta.concrete_fields:
        if isinstance(field, JSONTextField) and field.has_default():
            kind = type(field.get_default())
            if not isinstance(getattr(row, field.attname), kind):
                raise ValidationError(
                    {field.name: _("This must be a list.") if kind is list else _("This must be an object.")}
                )
