"""Columns of the catalogue as values of a file, and back: relations by name, times as text, no type coercion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import models
from django.utils.dateparse import parse_datetime

from catalog.canonical import dumps
from catalog.models import Grant, ImportedDocument, Limit, Resource, Upstream
from catalog.models.fields import JSONTextField


@dataclass(frozen=True)
class Description:
    """The columns by which a file names a row without a name, such as the grant that an approval rule is for."""

    identity: tuple[str, ...]
    details: tuple[str, ...]
    """The other columns, which tell rows apart that have the same identity."""


DESCRIPTIONS: Mapping[type[models.Model], Description] = {
    Grant: Description(
        ("effect", *Grant.TARGETS, "user", "group", "everyone"),
        ("starts", "ends", "environments", "conditions", "windows", "flags", "skips_approval", "note"),
    ),
    Limit: Description(
        ("tool", "toolset", "all_tools", "method", "scope", "user", "group", "measure"),
        ("rate", "zone", "advice", "note"),
    ),
}
ORIGINS: dict[str, type[models.Model]] = {"upstream": Upstream, "openapi": ImportedDocument}


Values = dict[str, Any]


class FileError(Exception):
    """A sentence, with the place in the file that it is about."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(f"{place}: {sentence}")


def default(column: Any) -> Any:
    """Return the value that a file need not mention."""
    if column.has_default():
        return column.get_default()
    if column.null:
        return None
    return "" if isinstance(column, models.CharField | models.TextField) and column.blank else _NO_DEFAULT


_NO_DEFAULT = object()


def is_required(column: Any) -> bool:
    return default(column) is _NO_DEFAULT


def export_value(column: Any, value: Any) -> Any:
    """Return a column's value (a related row for a relation) in the format of the file."""
    if value is None:
        return None
    if isinstance(value, Grant | Limit):
        return _describe(value)
    if isinstance(column, models.ForeignKey):
        return name_of(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if column.name == "origin":
        return _export_origin(value)
    return value


def name_of(row: Any) -> str:
    if isinstance(row, Resource):
        return str(row.uri or row.uri_template)
    return str(row.get_username() if isinstance(row, get_user_model()) else row.name)


def import_value(column: Any, value: Any, place: str) -> Any:
    """Return the value for the model from a value of the file. Raises FileError."""
    if value is None:
        if not column.null:
            raise FileError(place, "this must not be null.")
        return None
    if isinstance(column, models.ForeignKey):
        return find_related(column.related_model, value, place)
    if isinstance(column, JSONTextField):
        return value
    if isinstance(column, models.DateTimeField):
        return _parse_time(value, place)
    wanted, words = _expected_types(column)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise FileError(place, f"this must be {words}.")
    if column.name == "origin":
        return _import_origin(str(value), place)
    return value


def find_related(model: Any, value: Any, place: str) -> Any:
    if model in DESCRIPTIONS:
        return _find_described(model, value, place)
    if not isinstance(value, str):
        raise FileError(place, "this must be a name.")
    if model is Resource:
        found = Resource.objects.filter(uri=value).first() or Resource.objects.filter(uri_template=value).first()
    else:
        by = {get_user_model(): get_user_model().USERNAME_FIELD, Group: "name"}.get(model, "name")
        found = model._default_manager.filter(**{by: value}).first()
    if found is None:
        raise FileError(place, f"there is no {model._meta.verbose_name} {value!r}.")
    return found


def _describe(row: Grant | Limit) -> Values:
    """Return the identity of a rule in force, with its other columns where several rules have the same."""
    description = DESCRIPTIONS[type(row)]
    identity = {name: getattr(row, name) for name in description.identity}
    same = type(row).objects.filter(**identity).exclude(pk=row.pk)
    return _list(row, description.identity) | (_list(row, description.details) if same.exists() else {})


def _list(row: Grant | Limit, names: Iterable[str]) -> Values:
    """Return these columns of a row, without those that have their default."""
    columns = [type(row)._meta.get_field(name) for name in names]
    found = {column.name: (column, export_value(column, getattr(row, column.name))) for column in columns}
    return {name: value for name, (column, value) in found.items() if value != default(column)}


def _find_described(model: type[Grant | Limit], value: Any, place: str) -> Grant | Limit:
    """Return the rule in force with this identity; of several, the first one that is equal. Raises FileError."""
    word, description = str(model._meta.verbose_name), DESCRIPTIONS[model]
    if not isinstance(value, dict):
        raise FileError(place, f"this must be an object with what the {word} applies to and whom.")
    for name in value:
        if name not in description.identity and name not in description.details:
            raise FileError(f"{place}.{name}", f"a {word} is not found by a member with this name.")
    identity: Values = {}
    for name in description.identity:
        column = model._meta.get_field(name)
        identity[name] = import_value(column, value.get(name, default(column)), f"{place}.{name}")
    found: list[Grant | Limit] = list(model.objects.filter(**identity).order_by("pk"))
    details = {name: given for name, given in value.items() if name in description.details}
    if len(found) != 1 or details:
        found = [row for row in found if dumps(_list(row, description.details)) == dumps(details)]
    if not found:
        raise FileError(place, f"no {word} in force is like this.")
    return found[0]


def _expected_types(column: Any) -> tuple[tuple[type, ...], str]:
    if isinstance(column, models.BooleanField):
        return (bool,), "true or false"
    if isinstance(column, models.FloatField):
        return (int, float), "a number"
    if isinstance(column, models.IntegerField):
        return (int,), "a whole number"
    return (str,), "text"


def _parse_time(value: Any, place: str) -> datetime:
    try:
        found = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise FileError(place, "this must be a date and time such as 2030-01-31T12:00:00Z.")
    return found


def _export_origin(value: str) -> str:
    kind, _, number = value.partition(":")
    model = ORIGINS.get(kind)
    row = model._default_manager.filter(pk=number).first() if model is not None and number.isdigit() else None
    # The origin may have been deleted: then its number alone is written, marked with "#".
    return f"{kind}:{name_of(row)}" if row is not None else value.replace(":", ":#", 1) if value else ""


def _import_origin(value: str, place: str) -> str:
    if not value:
        return ""
    kind, _, name = value.partition(":")
    model = ORIGINS.get(kind)
    if model is None:
        raise FileError(place, f"an origin starts with {' or '.join(f'{known}:' for known in ORIGINS)}")
    if name.startswith("#") and name[1:].isdigit():
        return f"{kind}:{name[1:]}"
    return f"{kind}:{find_related(model, name, place).pk}"
