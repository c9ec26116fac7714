"""Display of logged text: pretty-printed when it is JSON, truncated when it is huge, always as plain text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.translation import gettext as _

from toolhub.invisible import show

LONGEST = 100_000
"""Maximum bytes of one text, after escaping, that a page shows; exports have the full text."""
DEEPEST = 60
"""Maximum levels of nesting that are indented."""
MOST_NODES = 20_000
"""Maximum objects and lists in a text that is parsed as JSON: a million of them took two seconds."""
_spread = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode
_PRUNED = re.compile(r"pruned:sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Body:
    """A logged text as a page shows it."""

    text: str
    size: int
    """Characters of the text as it is stored."""
    cut: bool = False
    """Whether the shown text is truncated."""
    pruned: bool = False


def body(text: str) -> Body:
    """Return the text for a <pre> element; the template escapes it."""
    if match := _PRUNED.fullmatch(text):
        words = _("Removed after the retention period. SHA-256 of the removed text: %(digest)s") % {"digest": match[1]}
        return Body(words, len(words), pruned=True)
    whole = spread(text)
    kept = min(len(whole), LONGEST)
    shown = show(whole[:kept])
    while (heavy := weight(shown)) > LONGEST:
        kept = min(kept * LONGEST // heavy, kept - 1)
        shown = show(whole[:kept])
    return Body(shown, len(text), kept < len(whole))


def shown(text: str) -> str:
    """Return the text of `body` as one string, with a last line that reports a truncation."""
    found = body(text)
    if not found.cut:
        return found.text
    more = _("... cut off here. The full text has %(count)s characters. Your administrator can export more of it.")
    return f"{found.text}\n{more % {'count': f'{found.size:,}'}}"


def spread(text: str, room: int = 3 * LONGEST) -> str:
    """Return JSON over many lines, truncated after about `room` characters; any other text unchanged.

    JSON that is far too long or deeply nested is returned unchanged as well: with deep nesting the indented text would
    be a thousand times as long as the stored one.
    """
    if len(text) > 10 * LONGEST or text.count("[") + text.count("{") > MOST_NODES:
        return text
    parts = []
    try:
        value = json.loads(text)
        if _is_deep(value):
            return text
        for part in _spread(value):
            parts.append(part)
            room -= len(part)
            if room < 0:
                break
    except (ValueError, RecursionError):
        return text
    return "".join(parts)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _depth in range(DEEPEST):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def weight(text: str) -> int:
    """Return the bytes that the text takes in a page."""
    return len(escape(text).encode("utf-8", "surrogatepass"))


def duration(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1_000_000:.2f} s"
