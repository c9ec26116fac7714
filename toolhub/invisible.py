"""Table of invisible characters, which people overlook and models read; shared by all pages, messages and checks.

It holds controls, formats (bidirectional ones too), odd spaces, private and unassigned characters, tags, fillers and
variation selectors; not line feed, tab and space. The functions are pure.
"""

from __future__ import annotations

import re
import unicodedata

CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
EMPTY_LOOKING_CHARACTERS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"  # fillers, joiners, selectors, the blank of Braille
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors: whole sentences have been hidden in them
    "\U0001d159"  # a note of music without a head
)
MISLEADING_CHARACTERS = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Characters that results of tools may not contain either: they turn, hide or control text, and nothing else. Joiners,
for example, are allowed, because words of some languages and emoji contain them.
"""
VARIATION_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""One selector belongs to the character before it; several hide text."""
_EMPTY = re.compile(f"[{EMPTY_LOOKING_CHARACTERS}]")
_CANDIDATE = re.compile(
    f"[\x00-\x08\x0b-\x1f\x7f-\xad{EMPTY_LOOKING_CHARACTERS}]"
    # Characters that are certainly letters are skipped in one match, not checked one by one.
    "|[^\x00-\u02ff\u0400-\u0481\u05d0-\u05ea\u0620-\u064a\u0904-\u0939\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]{2,}\U000e007f?")
_NAMES = {0x1B: "ESCAPE", 0x00: "NULL", 0x07: "BELL", 0x08: "BACKSPACE", 0x0D: "CARRIAGE RETURN", 0x7F: "DELETE"}


def is_invisible(character: str) -> bool:
    """Return whether a reader overlooks this character or is misled by it."""
    if character in " \n\t":
        return False
    return unicodedata.category(character) in CATEGORIES or _EMPTY.match(character) is not None


def show(text: str) -> str:
    """Return `text` with every such character written out, as in `a⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b`.

    A run of tag characters, which spells invisible ASCII, is written as that ASCII.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CANDIDATE.sub(_show_match, _TAGS.sub(_spell_out, text))


def remove(text: str) -> str:
    """Return `text` without such characters; a space replaces each space or control character among them."""
    if text.isascii() and text.isprintable():
        return text
    return _CANDIDATE.sub(_remove_match, text)


def _spell_out(match: re.Match[str]) -> str:
    letters = "".join(chr(ord(character) - 0xE0000) for character in match[0] if character != "\U000e007f")
    return f'⟨hidden in tag characters: "{letters}"⟩'


def _show_match(match: re.Match[str]) -> str:
    character = match[0]
    if not is_invisible(character):
        return character
    name = unicodedata.name(character, "") or _NAMES.get(ord(character), "")
    return f"⟨U+{ord(character):04X}{' ' if name else ''}{name}⟩"


def _remove_match(match: re.Match[str]) -> str:
    character = match[0]
    if not is_invisible(character):
        return character
    return " " if unicodedata.category(character) in {"Cc", "Zl", "Zp", "Zs"} else ""
