"""Word-by-word difference of two texts for a page, in which no change can hide.

Characters that a reader overlooks or mistakes are named, long runs of blanks are counted, and unchanged text between
changes is folded, so that a change is where the reader looks. Time and size are bounded for hostile texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from toolhub import invisible, lookalikes

SAME, GONE, NEW, FOLDED, CUT = "same", "gone", "new", "folded", "cut"
NAMED, SPACES, LINES, INVISIBLE = "named", "spaces", "lines", "invisible"
MAX_COMPARED_WORDS: Final = 400
"""Maximum words on each side that are matched one by one; hostile texts take a third of a second for this many."""
MAX_COMPARED_PARTS: Final = 300
"""Maximum lines and sentences on each side that are matched, where there are more words than that."""
MAX_PAGE_CHARACTERS: Final = 40_000
"""Maximum characters of changes on a page, and of one folded stretch."""
CONTEXT_CHARACTERS: Final = 120
MIN_FOLDED_CHARACTERS: Final = 200
MAX_SHOWN_SPACES, MAX_SHOWN_LINES = 3, 2
"""Longer runs of spaces or ends of lines are counted instead."""
MAX_WORD_CHARACTERS: Final = 60
MAX_NAMED: Final = 8
"""Maximum different invisible characters in a row that are named one by one."""

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|\s+|.", re.DOTALL)
_PART = re.compile(r"[^\n.!?。！？;；]*(?:[\n.!?。！？;；]+|$)", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n↵]{2,}")


MAX_PAGE_COMPARISONS: Final = 3_000_000
"""Maximum pairs of words that one page compares: about a second for hostile texts."""


@dataclass(slots=True)
class Budget:
    """The comparisons that a page has left; beyond it, changed texts are shown as a whole."""

    remaining: int = MAX_PAGE_COMPARISONS

    def take(self, one: int, other: int) -> bool:
        """Return whether lists of these lengths may be compared, and count it."""
        if one * other > self.remaining:
            return False
        self.remaining -= one * other
        return True


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of text on the page."""

    kind: str
    """same, gone (only in the first), new (only in the second), folded (unchanged, to be opened), or cut: `text` is
    the number of characters that are not shown."""
    text: str
    mark: str = ""
    """"" for the text itself; named: `text` names characters; spaces, lines or invisible: `text` is their number."""

    @property
    def number(self) -> int:
        """The number that stands in place of a text; 0 for a text."""
        return int(self.text) if self.kind == CUT or self.mark in (SPACES, LINES, INVISIBLE) else 0

    @property
    def size(self) -> int:
        """The number of characters."""
        return len(self.text)


def pieces(before: str, after: str, budget: Budget | None = None) -> list[Piece]:
    """Return both texts as one list of pieces; an empty list when they are equal."""
    if before == after:
        return []
    return list(_fold(_limit(_join(_compare(before, after, budget or Budget())))))


def show(text: str, kind: str = SAME) -> list[Piece]:
    """Return one text as pieces, with its characters named and blanks counted."""
    found = list(_mark(kind, text[:MAX_PAGE_CHARACTERS], everything=False))
    if len(text) > MAX_PAGE_CHARACTERS:
        found.append(Piece(CUT, str(len(text) - MAX_PAGE_CHARACTERS)))
    return found


Change = tuple[str, str, str]
"""(kind, text before, text after); both are the same for SAME."""


def _compare(before: str, after: str, budget: Budget) -> Iterator[Change]:
    start = _count_common(before, after)
    end = _count_common(before[start:][::-1], after[start:][::-1])
    yield SAME, before[:start], ""
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > MAX_PAGE_CHARACTERS:
        yield NEW, old, new  # More than a page shows: matching would only take time.
    else:
        yield from _compare_middle(_TOKEN.findall(old), _TOKEN.findall(new), budget)
    yield SAME, before[len(before) - end :] if end else "", ""


def _count_common(before: str, after: str) -> int:
    """Return how many characters are the same at the start, without the beginning of a word that differs."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before.startswith(after[:middle]):
            low = middle
        else:
            high = middle - 1
    if low < max(len(before), len(after)):
        for back in range(min(low, MAX_WORD_CHARACTERS)):
            if not (before[low - back - 1].isalnum() or before[low - back - 1] == "_"):
                return low - back
        return 0 if low <= MAX_WORD_CHARACTERS else low
    return low


def _compare_middle(a: list[str], b: list[str], budget: Budget) -> Iterator[Change]:
    if max(len(a), len(b)) <= MAX_COMPARED_WORDS and budget.take(len(a), len(b)):
        yield from _match(a, b)
        return
    parts_a, parts_b = _split_parts(a), _split_parts(b)
    if max(len(parts_a), len(parts_b)) > MAX_COMPARED_PARTS or not budget.take(len(parts_a), len(parts_b)):
        yield NEW, "".join(a), "".join(b)
        return
    for kind, old, new in _match(parts_a, parts_b):
        words_a, words_b = _TOKEN.findall(old), _TOKEN.findall(new)
        small = max(len(words_a), len(words_b)) <= MAX_COMPARED_WORDS
        if kind != SAME and old and new and small and budget.take(len(words_a), len(words_b)):
            yield from _match(words_a, words_b)
        else:
            yield kind, old, new


def _split_parts(tokens: list[str]) -> list[str]:
    return [part for part in _PART.findall("".join(tokens)) if part]


def _match(a: list[str], b: list[str]) -> Iterator[Change]:
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        old, new = "".join(a[a0:a1]), "".join(b[b0:b1])
        yield (SAME, old, "") if kind == "equal" else (NEW, old, new)


def _join(changes: Iterable[Change]) -> list[Change]:
    """Return the changes without empty ones; blanks alone between two changes belong to both."""
    found: list[Change] = []
    for kind, old, new in changes:
        if not old and not new:
            continue
        if found and kind == found[-1][0]:
            found[-1] = (kind, found[-1][1] + old, found[-1][2] + new)
        elif len(found) > 1 and kind != SAME and found[-1][0] == SAME and _is_filler(found[-1][1]):
            _same, filler, _new = found.pop()
            found[-1] = (kind, found[-1][1] + filler + old, found[-1][2] + filler + new)
        else:
            found.append((kind, old, new))
    return found


def _is_filler(text: str) -> bool:
    return len(text) <= MAX_SHOWN_SPACES and text.isspace()


def _limit(changes: list[Change]) -> Iterator[Change]:
    """Yield changes of at most MAX_PAGE_CHARACTERS on each side, and CUT with the number of the others in their place.

    Each side has its own maximum: a long text that is gone must not take the place of the one that is new.
    """
    remaining_old = remaining_new = MAX_PAGE_CHARACTERS
    for kind, old, new in changes:
        if kind == SAME:
            yield kind, old, new
            continue
        shown_old, shown_new = old[:remaining_old], new[:remaining_new]
        if shown_old or shown_new:
            yield kind, shown_old, shown_new
        remaining_old -= len(shown_old)
        remaining_new -= len(shown_new)
        if missing := len(old) - len(shown_old) + len(new) - len(shown_new):
            yield CUT, str(missing), ""


def _fold(found: Iterable[Change]) -> Iterator[Piece]:
    changes = list(found)
    last = max((number for number, (kind, *_texts) in enumerate(changes) if kind == NEW), default=0)
    for number, (kind, old, new) in enumerate(changes):
        if kind == CUT:
            yield Piece(CUT, old)
        elif kind == NEW:
            # Two spellings of the same text look alike: every character that could make the difference is named.
            alike = lookalikes.look_alike(old, new)
            yield from _mark(GONE, old, everything=alike)
            yield from _mark(NEW, new, everything=alike)
        else:
            yield from _fold_unchanged(
                old, CONTEXT_CHARACTERS if number else 0, CONTEXT_CHARACTERS if number < last else 0
            )


def _fold_unchanged(text: str, head: int, tail: int) -> Iterator[Piece]:
    """Yield the text with so many characters at its start and end, and the rest folded."""
    if len(text) - head - tail < MIN_FOLDED_CHARACTERS:
        yield from _mark(SAME, text, everything=False)
        return
    middle = text[head : len(text) - tail]
    yield from _mark(SAME, text[:head], everything=False)
    yield Piece(FOLDED, invisible.show(middle[:MAX_PAGE_CHARACTERS]))
    if len(middle) > MAX_PAGE_CHARACTERS:
        yield Piece(CUT, str(len(middle) - MAX_PAGE_CHARACTERS))
    yield from _mark(SAME, text[len(text) - tail :] if tail else "", everything=False)


def _mark(kind: str, text: str, *, everything: bool) -> Iterator[Piece]:
    """Yield the text as pieces in which characters are named and blanks are counted.

    With `everything`, each character outside ASCII is named.
    """
    if kind != SAME:
        text = text.replace("\n", "↵\n")  # An end of line that is new or gone would not be seen.
    named = {number for number, one in enumerate(text) if not one.isascii()} if everything else {*lookalikes.find(text)}
    start = position = 0
    while position < len(text):
        character = text[position]
        if invisible.is_invisible(character):
            end = position + 1
            while end < len(text) and invisible.is_invisible(text[end]):
                end += 1
            if start < position:
                yield Piece(kind, text[start:position])
            yield _name_run(kind, text[position:end])
            start = position = end
        elif position in named:
            yield Piece(kind, text[start : position + 1])
            yield Piece(kind, _name(character), NAMED)
            start = position = position + 1
        elif (blanks := _BLANKS.match(text, position)) and (counted := _count_blanks(kind, blanks[0])):
            if start < position:
                yield Piece(kind, text[start:position])
            yield counted
            start = position = blanks.end()
        else:
            position = blanks.end() if blanks else position + 1
    if start < len(text):
        yield Piece(kind, text[start:])


def _count_blanks(kind: str, run: str) -> Piece | None:
    lines = run.count("\n")
    if lines > MAX_SHOWN_LINES:
        return Piece(kind, str(lines), LINES)
    longest = max(len(line.rstrip("↵")) for line in run.split("\n"))
    # Indentation is no hiding place: 20 spaces of it are shown as they are where nothing changed.
    limit = MAX_SHOWN_SPACES if kind != SAME else 20
    return Piece(kind, str(len(run) - lines - run.count("↵")), SPACES) if longest > limit else None


def _name_run(kind: str, run: str) -> Piece:
    """Return a piece for a run of invisible characters: named, or counted where there are many different ones."""
    shown = invisible.show(run)
    if len(set(run)) == 1 and len(run) > 1:
        return Piece(kind, f"⟨{len(run):,} × {shown[1 : shown.index('⟩')]}⟩", NAMED)
    if "hidden in tag characters" in shown or len(run) <= MAX_NAMED:
        return Piece(kind, shown, NAMED)
    return Piece(kind, str(len(run)), INVISIBLE)


def _name(character: str) -> str:
    return f"⟨U+{ord(character):04X} {unicodedata.name(character, '')}⟩".replace(" ⟩", "⟩")
