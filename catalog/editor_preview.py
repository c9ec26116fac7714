"""What a client will see of a tool that is being edited: from the code that serves clients, for each revision."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from catalog import loader
from catalog.canonical import dumps
from catalog.definitions import ToolDefinition
from catalog.invisible import show
from catalog.models import Tool
from toolhub.wire.answers import shape
from toolhub.wire.versions import ALL

SHOWN = 40_000
"""Characters of a definition that a preview shows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The entry of tools/list as these revisions get it."""

    revisions: tuple[str, ...]
    text: str
    """Indented, with what hides made visible; the beginning of it when it is very long."""
    cut: bool
    size: int
    """Bytes, compact."""
    tokens: int


def preview_definition(row: Tool) -> ToolDefinition:
    """As the snapshot would hold this row, saved or not."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return loader.tool(values, frozenset())


def preview_shapes(wire: dict[str, Any]) -> list[Shape]:
    """The newest revisions first; those that get the same are together."""
    by_text: dict[str, list[str]] = {}
    for revision in reversed(ALL):
        entry = shape("tools/list", revision, {"tools": [wire]})["tools"][0]
        by_text.setdefault(dumps(entry), []).append(revision)
    found = []
    for compact, revisions in by_text.items():
        text = json.dumps(json.loads(compact), indent=2, ensure_ascii=False)
        size = len(compact.encode("utf-8", "surrogatepass"))
        found.append(Shape(tuple(revisions), show(text[:SHOWN]), len(text) > SHOWN, size, tokens(compact)))
    return found


def tokens(text: str) -> int:
    """About what a model reads: a token for every four ASCII characters, and for each other one (Chinese, say)."""
    plain = sum(character < "\x80" for character in text)
    return max(1, round(plain / 4 + len(text) - plain))


def has_hidden(wire: dict[str, Any]) -> bool:
    """Whether a text in it holds characters that nobody sees and a model reads."""
    text = json.dumps(wire, ensure_ascii=False)
    return show(text) != text
