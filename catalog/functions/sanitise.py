"""Sanitising of tool text: without terminal escapes, hidden words and characters that reverse the reading order.

Escape sequences of terminals are removed. Other control characters, Unicode tags, which can spell invisible
sentences, and bidirectional controls are written as escapes. Pure; plain text costs one search.
"""

from __future__ import annotations

import re

from toolhub.invisible import MISLEADING_CHARACTERS, VARIATION_SELECTORS

# Line feed, tab and carriage return are allowed.
_ASCII = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FLAGS = "|".join(
    "\U000e0067\U000e0062" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("eng", "sct", "wls")
)
"""The three flags that are spelt with tags: England, Scotland, Wales."""
_UNSAFE = re.compile(f"[{MISLEADING_CHARACTERS}]|[{VARIATION_SELECTORS}]{{2,}}")
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)"  # OSC and other strings
    "|\x1b[ -/]*[0-~]"
)
_FLAG = re.compile(f"\U0001f3f4(?:{_FLAGS})")


def is_clean(text: str) -> bool:
    return (_ASCII if text.isascii() else _UNSAFE).search(text) is None


def sanitise_text(text: str) -> tuple[str, int]:
    """Return (sanitised `text`, number of changed places)."""
    if is_clean(text):
        return text, 0
    text, changed = _SEQUENCE.subn("", text)
    cleaned = []
    at = 0
    for match in _FLAG.finditer(text):
        part, count = _UNSAFE.subn(_escape_match, text[at : match.start()])
        cleaned += [part, match[0]]
        at, changed = match.end(), changed + count
    part, count = _UNSAFE.subn(_escape_match, text[at:])
    return "".join([*cleaned, part]), changed + count


def sanitise_line(text: str) -> str:
    """Return the sanitised text on one line, without characters that no database stores."""
    clean = sanitise_text(text.encode("utf-8", "replace").decode())[0]
    return " ".join(clean.split())


def format_note(changed: int) -> str:
    places = "1 control or invisible character or sequence" if changed == 1 else (
        f"{changed} control or invisible characters or sequences"
    )  # fmt: skip
    return f"[Note: {places} in this result were removed or are shown as escapes.]"


def _escape_match(match: re.Match[str]) -> str:
    return "".join(
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{{{ord(character):X}}}" for character in match[0]
    )
