"""The whole catalogue as plain values: only deviations from the columns' defaults, in a stable order."""

from __future__ import annotations

from typing import Any

from catalog.canonical import dumps
from catalog.exchange import values
from catalog.exchange.kinds import KINDS, Kind
from catalog.exchange.values import Values

FORMAT_VERSION = 1


def export_catalogue() -> dict[str, Any]:
    content: dict[str, Any] = {"toolhub": FORMAT_VERSION}
    for kind in KINDS:
        found = [drop_defaults(kind, whole) for _, whole in load_rows(kind)]
        if found:
            content[kind.section] = found
    return content


def load_rows(kind: Kind) -> list[tuple[Any, Values]]:
    """Return every row with all its values, in the order of the file."""
    columns = kind.columns()
    related = [column.name for column in columns if column.is_relation]
    query = kind.model._base_manager.select_related(*related) if related else kind.model._base_manager.all()
    if kind.draft:
        query = query.filter(**{kind.draft: False})
    found = []
    for row in query.prefetch_related(*kind.many):
        whole: Values = {column.name: values.export_value(column, getattr(row, column.name)) for column in columns}
        whole |= {name: sorted(values.name_of(other) for other in getattr(row, name).all()) for name in kind.many}
        found.append((row, whole))
    return sorted(found, key=lambda pair: (dumps(kind.key(pair[1])), dumps(pair[1])))


def drop_defaults(kind: Kind, whole: Values) -> Values:
    """Return the values without the defaults that an import fills in."""
    made: Values = {}
    for column in kind.columns():
        value = whole[column.name]
        if values.is_required(column) or not equal_as_json(value, values.default(column)):
            made[column.name] = value
    return made | {name: whole[name] for name in kind.many if whole[name]}


def equal_as_json(one: Any, other: Any) -> bool:
    """Compare two values as JSON: 1 is not true, and the order of names counts, as it does to a reader."""
    return dumps(one) == dumps(other)
