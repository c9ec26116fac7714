"""Letters of another script that look like Latin ones, as in `pаypal` with a Cyrillic `а`.

Python's standard library has no table of scripts, and the names of letters begin with theirs. Only letters that can
pass for Latin ones count, so that words of Russian, Greek or a formula in physics are left alone. `find` is pure.
"""

from __future__ import annotations

import re
import unicodedata

_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_LIKE_LATIN = frozenset(
    "аеорсухіјѕԁԛԝһӏѵвнктмгпАВЕКМНОРСТУХІЈЅԚԜҺӀѴЗь"  # Cyrillic
    "οναρυικτεχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ"  # Greek
    "օսհոցԼՕՍ"  # Armenian
)
_LETTERS_OF_FORMULAS = frozenset("αεινρτχωκ")
"""Greek letters that people mix with Latin ones on purpose, as in `αx` or `τmax`; they count only in long words."""
MIN_LONG_WORD = 5
_WORD = re.compile(r"[^\W\d_]+")


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
