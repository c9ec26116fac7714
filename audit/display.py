"""Display of logged text: pretty-printed when it is JSON, truncated when it is huge, always as plain text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.translation import gettext as _

from toolhub.invisible import show

MAX_TEXT_BYTES = 100_000
"""Maximum bytes of one text, after escaping, that a page shows; exports have the full text."""
MAX_INDENTED_LEVELS = 60
"""Maximum levels of nesting that are indented."""
MAX_NODES = 20_000
"""Maximum objects and lists in a text that is parsed as JSON: a million of them took two seconds."""
MAX_INDENTED_CHARACTERS = 1_000_000
"""Maximum characters of a text that is indented as JSON."""
MAX_PARSED_CHARACTERS = 33_000_000
MAX_PARSED_VALUES = 300_000
"""Maximum characters and values of a result that a page shows by its kind: pictures are long, and one value."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_FIRST_LETTER = 0xA0
_indent_json = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode
_PRUNED = re.compile(r"pruned:sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Body:
    """A logged text as a page shows it."""

    text: str
    size: int
    """Characters of the text as it is stored."""
    truncated: bool = False
    """Whether the shown text is truncated."""
    pruned: bool = False


def body(text: str, max_bytes: int = MAX_TEXT_BYTES) -> Body:
    """Return the text for a <pre> element, of at most `max_bytes` in the page; the template escapes it."""
    if match := _PRUNED.fullmatch(text):
        note = _("Removed after the retention period. SHA-256 of the removed text: %(digest)s") % {"digest": match[1]}
        return Body(note, len(note), pruned=True)
    whole = pretty_print(text)
    kept_characters = min(len(whole), max_bytes)
    displayed = show(whole[:kept_characters])
    while (page_bytes := count_page_bytes(displayed)) > max_bytes:
        kept_characters = min(kept_characters * max_bytes // page_bytes, kept_characters - 1)
        displayed = show(whole[:kept_characters])
    return Body(displayed, len(text), kept_characters < len(whole))


def is_parseable(text: str) -> bool:
    """Return whether a text is small enough to be parsed as JSON while a page is made."""
    return len(text) <= MAX_PARSED_CHARACTERS and sum(map(text.count, "[{,")) <= MAX_PARSED_VALUES


def unescape(text: str) -> str:
    """Return the beginning of a JSON text with its letters readable: `\\u4e2d` becomes the character."""
    return _ESCAPE.sub(_unescape_match, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_match(match: re.Match[str]) -> str:
    code = int(match[1], 16) if match[1] else 0
    return chr(code) if code >= _FIRST_LETTER else match[0]


def pretty_print(text: str, max_characters: int = 3 * MAX_TEXT_BYTES) -> str:
    """Return JSON over many lines, truncated after about `max_characters` characters; any other text unchanged.

    JSON that is far too long or deeply nested is returned unchanged as well: with deep nesting the indented text would
    be a thousand times as long as the stored one.
    """
    if len(text) > MAX_INDENTED_CHARACTERS or text.count("[") + text.count("{") > MAX_NODES:
        return text
    parts = []
    try:
        value = json.loads(text)
        if _is_deep(value):
            return text
        for part in _indent_json(value):
            parts.append(part)
            max_characters -= len(part)
            if max_characters < 0:
                break
    except (ValueError, RecursionError):
        return text
    return "".join(parts)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _depth in range(MAX_INDENTED_LEVELS):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def count_page_bytes(text: str) -> int:
    """Return the bytes that the text takes in a page."""
    return len(escape(text).encode("utf-8", "surrogatepass"))


def format_duration(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1_000_000:.2f} s"
