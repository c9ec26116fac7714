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

LONG = 120
"""Length in characters above which a change is shown line by line."""
SHOWN = 2_000
FIELDS = 200
"""Maximum fields of one change that a page shows."""
ROOM = 100_000
"""Bytes of a page after which each remaining field is shown in a few words."""
_BRIEF, _BRIEF_FIELDS = 40, 3


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    kind: str
    """added, removed, changed or same."""
    before: str
    after: str
    lines: list[Line] = field(default_factory=list)
    """Line-by-line difference, in place of `before` and `after` where these are long."""


def of(before: str, after: str) -> list[Change]:
    """Return the changes of all fields on either side, changed fields first."""
    left = ROOM
    found = []
    for change, a, b in _pairs(before, after):
        if change.kind == "changed" and max(len(a), len(b)) > LONG and left > 0:
            compared = lines(a, b)
            left -= sum(display.weight(line.text) for line in compared)
            found.append(Change(change.name, change.kind, "", "", compared))
            continue
        room = SHOWN if left > 0 else _BRIEF
        shown = Change(change.name, change.kind, _cut(a, room), _cut(b, room))
        left -= display.weight(shown.before) + display.weight(shown.after)
        found.append(shown)
    return sorted(found, key=lambda change: change.kind == "same")


def in_short(before: str, after: str) -> str:
    """Return the changes in one line for a list; empty when nothing was changed."""
    # Empty fields of a created or deleted row carry no information.
    found = [(one, a, b) for one, a, b in _pairs(before, after) if one.kind != "same" and (a or b)]
    parts = []
    for change, a, b in found[:_BRIEF_FIELDS]:
        name = change.name[:_BRIEF]
        if max(len(a), len(b)) > LONG:
            parts.append(_("%(field)s: long text") % {"field": name})
        elif change.kind == "changed":
            parts.append(f"{name}: {_brief(a)} \N{RIGHTWARDS ARROW} {_brief(b)}")
        else:
            parts.append(f"{name}: {_brief(a or b)}")
    if len(found) > _BRIEF_FIELDS:
        parts.append(_("and %(count)d more") % {"count": len(found) - _BRIEF_FIELDS})
    return "; ".join(parts)


def _brief(text: str) -> str:
    text = invisible.show(text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}\N{HORIZONTAL ELLIPSIS}")
    return text or "\N{EM DASH}"


def _pairs(before: str, after: str) -> Iterator[tuple[Change, str, str]]:
    """Yield each field with the kind of its change, and both its values as text."""
    old, new = _object(before), _object(after)
    for name in [*old, *(name for name in new if name not in old)][:FIELDS]:
        a, b = _words(old.get(name, "")), _words(new.get(name, ""))
        kind = "removed" if name not in new else "added" if name not in old else "same" if a == b else "changed"
        yield Change(invisible.show(name[:100]), kind, "", ""), a, b


def _words(value: Any) -> str:
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


def _cut(text: str, room: int) -> str:
    return invisible.show(text if len(text) <= room else f"{text[:room]} ...")


def _object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"": text}
    return value if isinstance(value, dict) else {"": value}
