"""Characters that a reader does not see, made visible: what a model reads and a person would overlook. Pure."""

from __future__ import annotations

import re
import unicodedata

_LOOKS_EMPTY = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"  # fillers, joiners, selectors, the blank of Braille
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors: whole sentences have been hidden in them
)
_CANDIDATE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\xad{_LOOKS_EMPTY}]|[^\x00-\u02ff]")
_TAGS = re.compile("[\U000e0020-\U000e007e]{2,}\U000e007f?")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_EMPTY = re.compile(f"[{_LOOKS_EMPTY}]")


def hidden(character: str) -> bool:
    """Whether a reader overlooks it or is misled: controls, formats (bidirectional ones too), odd spaces, tags."""
    if character in " \n\t":
        return False
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or bool(_EMPTY.match(character))


def show(text: str) -> str:
    """`text` with every such character written out, as in `a⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b`.

    Line breaks and tabs stay. A run of tag characters, which spells ASCII that nobody sees, is spelt out.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CANDIDATE.sub(_one, _TAGS.sub(_spelt, text))


def _spelt(match: re.Match[str]) -> str:
    letters = "".join(chr(ord(character) - 0xE0000) for character in match[0] if character != "\U000e007f")
    return f'⟨hidden in tag characters: "{letters}"⟩'


def _one(match: re.Match[str]) -> str:
    character = match[0]
    if not hidden(character):
        return character
    name = unicodedata.name(character, "") or _NAMES.get(ord(character), "")
    return f"⟨U+{ord(character):04X}{' ' if name else ''}{name}⟩"


_NAMES = {0x1B: "ESCAPE", 0x00: "NULL", 0x07: "BELL", 0x08: "BACKSPACE", 0x0D: "CARRIAGE RETURN", 0x7F: "DELETE"}
