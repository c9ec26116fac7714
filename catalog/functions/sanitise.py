"""Text of tools as it can be shown: without what moves a terminal's cursor, hides words or turns their order around.

Escape sequences of terminals are taken out. Other control characters, Unicode tags, which spell sentences that nobody
sees, and bidirectional controls are written as escapes. Pure; plain text costs one search.

Characters that a reader does not see, made visible: what a model reads and a person would overlook. Pure.
"""

from __future__ import annotations

import re
import unicodedata

# Line feed, tab and carriage return stay.
_ASCII = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_FLAGS = "|".join(
    "\U000e0067\U000e0062" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("eng", "sct", "wls")
)
"""The three flags that are spelt with tags: England, Scotland, Wales."""
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f]"
    f"|[{_SELECTORS}]{{2,}}"
)
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)"  # OSC and other strings
    "|\x1b[ -/]*[0-~]"
)
_FLAG = re.compile(f"\U0001f3f4(?:{_FLAGS})")


def is_harmless(text: str) -> bool:
    return (_ASCII if text.isascii() else _UNSAFE).search(text) is None


def harmless(text: str) -> tuple[str, int]:
    """(`text` made harmless, how many places were changed)."""
    if is_harmless(text):
        return text, 0
    text, changed = _SEQUENCE.subn("", text)
    kept = []
    at = 0
    for match in _FLAG.finditer(text):
        part, count = _UNSAFE.subn(_escaped, text[at : match.start()])
        kept += [part, match[0]]
        at, changed = match.end(), changed + count
    part, count = _UNSAFE.subn(_escaped, text[at:])
    return "".join([*kept, part]), changed + count


def note(changed: int) -> str:
    things = "1 control or invisible character or sequence" if changed == 1 else (
        f"{changed} control or invisible characters or sequences"
    )  # fmt: skip
    return f"[Note: {things} in this result were removed or are shown as escapes.]"


def _escaped(match: re.Match[str]) -> str:
    return "".join(
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{{{ord(character):X}}}" for character in match[0]
    )


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
