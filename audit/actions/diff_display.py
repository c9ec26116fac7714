"""Display of the changes of admin activity: field by field, long texts line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from audit import display
from audit.text_diff import Line, lines
from toolhub import invisible

MAX_INLINE_CHARACTERS = 120
"""Length in characters above which a change is shown line by line."""
MAX_VALUE_CHARACTERS = 2_000
MAX_FIELDS = 200
"""Maximum fields of one change that a page shows."""
MAX_DIFF_BYTES = 100_000
"""Bytes of a page after which each remaining field is shown in a few words."""
_MAX_BRIEF_CHARACTERS, _MAX_BRIEF_FIELDS = 40, 3


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    kind: str
    """added, removed, changed or same."""
    before: str
    after: str
    lines: list[Line] = field(default_factory=list)
    """Line-by-line difference, in place of `before` and `after` where these are long."""


def diff_fields(before: str, after: str) -> list[Change]:
    """Return the changes of all fields on either side, changed fields first."""
    remaining_bytes = MAX_DIFF_BYTES
    found = []
    for change, a, b in _compare_fields(before, after):
        if change.kind == "changed" and max(len(a), len(b)) > MAX_INLINE_CHARACTERS and remaining_bytes > 0:
            compared = lines(a, b)
            remaining_bytes -= sum(display.count_page_bytes(line.text) for line in compared)
            found.append(Change(change.name, change.kind, "", "", compared))
            continue
        max_characters = MAX_VALUE_CHARACTERS if remaining_bytes > 0 else _MAX_BRIEF_CHARACTERS
        shown = Change(change.name, change.kind, _truncate(a, max_characters), _truncate(b, max_characters))
        remaining_bytes -= display.count_page_bytes(shown.before) + display.count_page_bytes(shown.after)
        found.append(shown)
    return sorted(found, key=lambda change: change.kind == "same")


def format_summary(before: str, after: str) -> str:
    """Return the changes in one line for a list; empty when nothing was changed."""
    # Empty fields of a created or deleted row carry no information.
    found = [(one, a, b) for one, a, b in _compare_fields(before, after) if one.kind != "same" and (a or b)]
    parts = []
    for change, a, b in found[:_MAX_BRIEF_FIELDS]:
        name = change.name[:_MAX_BRIEF_CHARACTERS]
        if max(len(a), len(b)) > MAX_INLINE_CHARACTERS:
            parts.append(_("%(field)s: long text") % {"field": name})
        elif change.kind == "changed":
            parts.append(f"{name}: {_format_brief(a)} \N{RIGHTWARDS ARROW} {_format_brief(b)}")
        else:
            parts.append(f"{name}: {_format_brief(a or b)}")
    if len(found) > _MAX_BRIEF_FIELDS:
        parts.append(_("and %(count)d more") % {"count": len(found) - _MAX_BRIEF_FIELDS})
    return "; ".join(parts)


def _format_brief(text: str) -> str:
    text = invisible.show(
        text if len(text) <= _MAX_BRIEF_CHARACTERS else f"{text[: _MAX_BRIEF_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    )
    return text or "\N{EM DASH}"


def _compare_fields(before: str, after: str) -> Iterator[tuple[Change, str, str]]:
    """Yield each field with the kind of its change, and both its values as text."""
    old, new = _parse_object(before), _parse_object(after)
    for name in [*old, *(name for name in new if name not in old)][:MAX_FIELDS]:
        a, b = _format_value(old.get(name, "")), _format_value(new.get(name, ""))
        kind = "removed" if name not in new else "added" if name not in old else "same" if a == b else "changed"
        yield Change(invisible.show(name[:100]), kind, "", ""), a, b


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value in ([], {}):
        return ""
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def _truncate(text: str, max_characters: int) -> str:
    return invisible.show(text if len(text) <= max_characters else f"{text[:max_characters]} ...")


def _parse_object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"": text}
    return value if isinstance(value, dict) else {"": value}
