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

HIDDEN_FIELDS = frozenset(
    {"id", "version", "origin", "pinned", "approved", "proposed", "rejected", "quarantined_since"}
)
MIN_LINE_DIFF_CHARACTERS = 80
"""Number of characters from which on a text is compared line by line."""


@dataclass(frozen=True, slots=True)
class Change:
    label: str
    before: str
    after: str
    lines: list[Line]
    """The line-by-line difference of long texts; `before` and `after` are then empty."""


def compare_versions(older: Any, newer: Any) -> list[Change]:
    """Return the changes between two rows of a tool's history, in the order of the model's fields, toolsets last."""
    found = []
    for column in Tool._meta.concrete_fields:
        if column.name in HIDDEN_FIELDS:
            continue
        before, after = (_format_value(column, getattr(version, column.attname)) for version in (older, newer))
        if before != after:
            found.append(_build_change(str(capfirst(column.verbose_name)), before, after))
    before, after = (_toolsets(version) for version in (older, newer))
    if before != after:
        found.append(_build_change(gettext("Toolsets"), before, after))
    return found


def _format_value(column: Any, value: Any) -> str:
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


def _build_change(label: str, before: str, after: str) -> Change:
    if "\n" not in before + after and max(len(before), len(after)) <= MIN_LINE_DIFF_CHARACTERS:
        return Change(label, show(before), show(after), [])
    return Change(label, "", "", lines(before, after))
