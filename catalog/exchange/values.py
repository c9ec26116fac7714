"""Columns of the catalogue as values of a file, and back: relations by name, times as text, no type coercion."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import models
from django.utils.dateparse import parse_datetime

from catalog.canonical import dumps
from catalog.models import Grant, ImportedDocument, Resource, Upstream
from catalog.models.fields import JSONTextField

GRANT_IDENTITY = ("tool", "toolset", "user", "group", "everyone")
"""The columns that identify a grant which an approval rule is for: it allows tools."""
GRANT_DETAILS = ("starts", "ends", "environments", "conditions", "windows", "flags", "note")
"""The other columns, which tell grants apart that have the same target and subject."""
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
    if isinstance(value, Grant):
        return _describe_grant(value)
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
    if model is Grant:
        return _find_grant(value, place)
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


def _describe_grant(grant: Grant) -> Values:
    """Return the target and the subject of a grant, with its other columns where several grants have the same."""
    identity = {name: getattr(grant, name) for name in GRANT_IDENTITY}
    named = {name: value if value is True else name_of(value) for name, value in identity.items() if value}
    same = Grant.objects.filter(effect=grant.effect, **identity).exclude(pk=grant.pk)
    return {**named, **_list_details(grant)} if same.exists() else named


def _list_details(grant: Grant) -> Values:
    columns = [Grant._meta.get_field(name) for name in GRANT_DETAILS]
    details = {column.name: export_value(column, getattr(grant, column.name)) for column in columns}
    return {column.name: details[column.name] for column in columns if details[column.name] != default(column)}


def _find_grant(value: Any, place: str) -> Grant:
    """Return the grant of this target and subject; of several, the first one that is equal. Raises FileError."""
    if not isinstance(value, dict):
        raise FileError(place, "this must be an object with the tool or toolset and the user, group or everyone.")
    for name in value:
        if name not in GRANT_IDENTITY and name not in GRANT_DETAILS:
            raise FileError(f"{place}.{name}", "a grant of an approval rule has no member with this name.")
    identity: Values = {}
    for name in GRANT_IDENTITY:
        column = Grant._meta.get_field(name)
        given = value.get(name, default(column))
        identity[name] = import_value(column, given, f"{place}.{name}")
    found: list[Grant] = list(Grant.objects.filter(effect=Grant.Effect.ALLOW, **identity).order_by("pk"))
    details = {name: given for name, given in value.items() if name in GRANT_DETAILS}
    if len(found) != 1 or details:
        found = [grant for grant in found if dumps(_list_details(grant)) == dumps(details)]
    if not found:
        raise FileError(place, "no grant that allows it is like this.")
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
