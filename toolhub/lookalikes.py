"""Letters that look like Latin ones, as in `pаypal` with a Cyrillic `а`, and texts that look alike.

Python's standard library has no table of scripts, and the names of letters begin with theirs. Only letters that can
pass for Latin ones count, so that words of Russian, Greek or a formula in physics are left alone. All functions are
pure, and take time in proportion to the text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_CYRILLIC = ("аеорсухіјѕԁԛԝһӏѵвнктмгпь", "aeopcyxijsdqwhlvbhktmrnb")
_CYRILLIC_CAPITALS = ("АВЕКМНОРСТУХІЈЅԚԜҺӀѴЗ", "ABEKMHOPCTYXIJSQWHIV3")
_GREEK = ("οναρυικτεχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ", "ovapuiktexwABEZHIKMNOPTYXcj")
_ARMENIAN = ("օսհոցԼՕՍ", "ouhngLOU")
_OTHERS = ("ɑɡıɩʟɪɴᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢʙɢʜʀʏꜱꞯ", "agiilinacdejkmoptuvwzbghrysq")
"""Latin letters of phonetics and small capitals."""
_TABLES = (_CYRILLIC, _CYRILLIC_CAPITALS, _GREEK, _ARMENIAN)
_LIKE_LATIN: Final = frozenset("".join(one for one, _latin in _TABLES))
_FOLDED: Final = {
    ord(one): latin for letters, plain in (*_TABLES, _OTHERS) for one, latin in zip(letters, plain, strict=True)
}
_LETTERS_OF_FORMULAS = frozenset("αεινρτχωκ")
"""Greek letters that people mix with Latin ones on purpose, as in `αx` or `τmax`; they count only in long words."""
MIN_LONG_WORD = 5
MAX_MARKS = 8
"""Maximum combining marks on one letter; more cover the lines around it. No language needs as many."""
_WORD = re.compile(r"[^\W\d_]+")


def find(text: str) -> list[int]:
    """Return the positions of letters that only look Latin.

    They stand in words that also have Latin letters, or make up whole words of a text that is Latin otherwise.
    """
    if text.isascii():
        return []
    found: list[int] = []
    alone: list[int] = []
    latin_words = other_words = 0
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii():
            latin_words += 1
            continue
        scripts = [_script(character) for character in word]
        alike = [
            match.start() + number
            for number, character in enumerate(word)
            if not character.isascii()
            and ((character in _LIKE_LATIN and scripts[number] != "LATIN") or scripts[number] in ("CHEROKEE", "LISU"))
            and (len(word) >= MIN_LONG_WORD or character not in _LETTERS_OF_FORMULAS)
        ]
        found += [
            match.start() + number for number, one in enumerate(word) if not one.isascii() and _is_styled_ascii(one)
        ]
        if "LATIN" in scripts:
            found += alike
            latin_words += 1
        elif len(alike) == len(word) and len(word) > 1:
            alone += alike
        elif any(scripts):
            other_words += 1
    if latin_words and not other_words:
        found += alone
    return sorted(found)


def fold(text: str) -> str:
    """Return the text as a hurried reader takes it: lookalikes as Latin letters, without combining marks."""
    if text.isascii():
        return text
    plain = "".join(character for character in text if not _is_mark(character))
    return unicodedata.normalize("NFKC", plain).translate(_FOLDED)


def look_alike(one: str, other: str) -> bool:
    """Return whether two texts differ only in spellings of the same letters, as in `é` of one or two characters."""
    if one.isascii() and other.isascii():
        return one == other
    if has_many_marks(one) or has_many_marks(other):
        return False  # To compare them takes time with the square of their marks.
    return unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other)


def has_many_marks(text: str) -> bool:
    """Return whether a letter has more than MAX_MARKS combining marks."""
    if text.isascii():
        return False
    marks = 0
    for character in text:
        marks = marks + 1 if _is_mark(character) else 0
        if marks > MAX_MARKS:
            return True
    return False


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) in ("Mn", "Me")


def _script(character: str) -> str:
    if character.isascii():
        return "LATIN" if character.isalpha() else ""
    first = unicodedata.name(character, "").split(" ", 1)[0]
    return first if first == "LATIN" or first in _SCRIPTS else ""


def _is_styled_ascii(character: str) -> bool:
    """Return whether a letter is an ASCII one in other clothes, such as a bold one of mathematics."""
    name = unicodedata.name(character, "")
    plain = unicodedata.normalize("NFKC", character)
    return (
        plain.isascii() and plain.isalnum() and not name.startswith(("FULLWIDTH", "LATIN", "SUPERSCRIPT", "SUBSCRIPT"))
    )
