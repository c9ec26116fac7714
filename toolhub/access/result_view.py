"""A structured result as facts and tables, labelled and ordered by the output schema of its tool.

Pure: the value is what the audit log kept, so secrets in it are masked already. Whatever the schema says, every member
is shown: one that the schema does not name keeps its own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolhub import invisible

MAX_ROWS, MAX_COLUMNS, MAX_FACTS = 100, 20, 60
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


def describe(logged_result: str, definition: str) -> View | None:
    """Return the structured content of a logged result by the output schema of a logged definition, both JSON texts.

    None where there is nothing to show: no structured content or schema, or a text that was cut off.
    """
    result, tool = _parse(logged_result), _parse(definition)
    if not isinstance(result, Mapping) or not isinstance(tool, Mapping) or "structuredContent" not in result:
        return None
    schema = tool.get("outputSchema")
    return _view(result["structuredContent"], _Schema(schema, schema)) if isinstance(schema, Mapping) else None


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
        return [*named, *(name for name in present if name not in named)]

    def text(self, member: str) -> str:
        found = self.part.get(member)
        return invisible.show(found[:MAX_CELL_CHARACTERS]) if isinstance(found, str) else ""


def _view(value: Any, schema: _Schema) -> View:
    view = View()
    if isinstance(value, Mapping):
        for name in schema.order(value)[:MAX_FACTS]:
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
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find(root: Mapping[str, Any], reference: str) -> Any:
    found: Any = root
    for step in _steps(reference):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def _steps(reference: str) -> Iterator[str]:
    for step in reference.removeprefix("#/").split("/"):
        yield step.replace("~1", "/").replace("~0", "~")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
