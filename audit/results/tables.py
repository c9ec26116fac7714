"""A structured result as facts and tables, labelled and ordered by the output schema of its tool.

Pure: the value is what the audit log kept, so secrets in it are masked already. Whatever the schema says, every member
is shown: one that the schema does not name keeps its own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from audit import display
from toolhub import invisible
from toolhub.wire import json_pointer

MAX_ROWS, MAX_COLUMNS, MAX_FACTS = 100, 20, 60
MAX_BYTES = 100_000
"""Maximum bytes of all facts and tables of one result in a page."""
_CELL_BYTES = 60
"""Bytes of the markup around a fact or cell, about."""
MAX_CELL_CHARACTERS = 300
MAX_REFERENCES = 20


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    help: str = ""
    """The description in the schema."""


@dataclass(slots=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]]
    left_out: int = 0
    """Rows and columns beyond the bounds."""


@dataclass(slots=True)
class View:
    facts: list[Fact] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    left_out: int = 0
    """Facts beyond the bounds."""


def describe(result: Any, schema: Any = None, max_bytes: int = MAX_BYTES) -> View | None:
    """Return the structured content of a result by the output schema of its tool, where that is known.

    The view takes about `max_bytes` in a page. None where there is nothing to show: no structured content.
    """
    if not isinstance(result, Mapping) or "structuredContent" not in result:
        return None
    view = _view(result["structuredContent"], _Schema(schema, schema if isinstance(schema, Mapping) else {}))
    _trim(view, max_bytes)
    return view


def _trim(view: View, room: int) -> None:
    """Leave out the facts and rows that do not fit into `room` bytes of the page."""
    for place, fact in enumerate(view.facts):
        room -= _count_bytes((fact.label, fact.value, fact.help))
        if room < 0:
            view.left_out += len(view.facts) - place
            del view.facts[place:]
            break
    for table in view.tables:
        room -= _count_bytes((table.title, *table.columns))
        if room < 0:
            table.left_out += len(table.columns) + len(table.rows)
            table.columns, table.rows = [], []
        for place, row in enumerate(table.rows):
            room -= _count_bytes(row)
            if room < 0:
                table.left_out += len(table.rows) - place
                del table.rows[place:]
                break


def _count_bytes(texts: Iterable[str]) -> int:
    return sum(display.count_page_bytes(text) + _CELL_BYTES for text in texts)


def output_schema(definition: str) -> Any:
    """Return the output schema of a logged definition, a JSON text; None where it has none."""
    try:
        tool = json.loads(definition)
    except (ValueError, RecursionError):
        return None
    return tool.get("outputSchema") if isinstance(tool, Mapping) else None


class _Schema:
    """A part of a schema, with its references resolved inside the document."""

    __slots__ = ("part", "root")

    def __init__(self, part: Any, root: Mapping[str, Any]) -> None:
        for _ in range(MAX_REFERENCES):
            reference = part.get("$ref") if isinstance(part, Mapping) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            part = _find(root, reference)
        self.part: Mapping[str, Any] = part if isinstance(part, Mapping) else {}
        self.root = root

    def member(self, name: str) -> _Schema:
        properties = self.part.get("properties")
        return _Schema(properties.get(name) if isinstance(properties, Mapping) else None, self.root)

    def items(self) -> _Schema:
        return _Schema(self.part.get("items"), self.root)

    def order(self, present: Mapping[str, Any]) -> list[str]:
        """Return the names that are present: first those of the schema in its order, then the others."""
        properties = self.part.get("properties")
        named = [name for name in properties if name in present] if isinstance(properties, Mapping) else []
        known = set(named)
        return [*named, *(name for name in present if name not in known)]

    def text(self, member: str) -> str:
        found = self.part.get(member)
        return invisible.show(found[:MAX_CELL_CHARACTERS]) if isinstance(found, str) else ""


def _view(value: Any, schema: _Schema) -> View:
    view = View()
    if isinstance(value, Mapping):
        names = schema.order(value)
        view.left_out = max(0, len(names) - MAX_FACTS)
        for name in names[:MAX_FACTS]:
            member = schema.member(name)
            label = member.text("title") or invisible.show(name[:MAX_CELL_CHARACTERS])
            if _is_rows(value[name]):
                view.tables.append(_table(label, value[name], member.items()))
            else:
                view.facts.append(Fact(label, _cell(value[name]), member.text("description")))
    elif _is_rows(value):
        view.tables.append(_table(schema.text("title"), value, schema.items()))
    else:
        view.facts.append(Fact(schema.text("title"), _cell(value), schema.text("description")))
    return view


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _table(title: str, rows: list[Mapping[str, Any]], schema: _Schema) -> Table:
    shown = rows[:MAX_ROWS]
    names = schema.order(dict.fromkeys(name for row in shown for name in row))
    columns = names[:MAX_COLUMNS]
    labels = [schema.member(name).text("title") or invisible.show(name[:MAX_CELL_CHARACTERS]) for name in columns]
    cells = [[_cell(row[name]) if name in row else "" for name in columns] for row in shown]
    return Table(title, labels, cells, len(rows) - len(shown) + len(names) - len(columns))


def _cell(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value):
        text = ", ".join(_plain(item) for item in value[:MAX_ROWS])
    else:
        text = _plain(value)
    cut = text if len(text) <= MAX_CELL_CHARACTERS else f"{text[:MAX_CELL_CHARACTERS]} ..."
    return invisible.show(cut)


def _plain(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."


def _find(root: Mapping[str, Any], reference: str) -> Any:
    found: Any = root
    for step in _steps(reference):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def _steps(reference: str) -> Iterator[str]:
    for step in reference.removeprefix("#/").split("/"):
        yield json_pointer.unescape(step)
