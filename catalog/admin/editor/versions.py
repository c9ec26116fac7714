"""The difference between two versions of a tool: field by field, schemas line by line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext

from audit.text_diff import Line, lines
from catalog.admin.editor.runner_forms import kind_name
from catalog.models import Tool
from catalog.models.fields import JSONTextField
from toolhub.invisible import show

UNTOLD = frozenset({"id", "version", "origin", "pinned", "approved", "proposed", "rejected", "quarantined_since"})
LONG = 80
"""Number of characters from which on a text is compared line by line."""


@dataclass(frozen=True, slots=True)
class Change:
    label: str
    before: str
    after: str
    lines: list[Line]
    """The line-by-line difference of long texts; `before` and `after` are then empty."""


def changes(older: Any, newer: Any) -> list[Change]:
    """Return the changes between two rows of a tool's history, in the order of the model's fields, toolsets last."""
    found = []
    for column in Tool._meta.concrete_fields:
        if column.name in UNTOLD:
            continue
        before, after = (_text(column, getattr(version, column.attname)) for version in (older, newer))
        if before != after:
            found.append(_change(str(capfirst(column.verbose_name)), before, after))
    before, after = (_toolsets(version) for version in (older, newer))
    if before != after:
        found.append(_change(gettext("Toolsets"), before, after))
    return found


def _text(column: Any, value: Any) -> str:
    if isinstance(column, JSONTextField):
        return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return {None: gettext("not declared"), True: gettext("yes"), False: gettext("no")}[value]
    if column.name == "runner":
        return kind_name(value)
    chosen = dict(column.flatchoices).get(value) if column.choices else None
    return str(chosen if chosen is not None else value)


def _toolsets(version: Any) -> str:
    return ", ".join(sorted(str(row.toolset) for row in version.toolsets.select_related("toolset")))


def _change(label: str, before: str, after: str) -> Change:
    if "\n" not in before + after and max(len(before), len(after)) <= LONG:
        return Change(label, show(before), show(after), [])
    return Change(label, "", "", lines(before, after))
