"""Line-by-line difference of two texts, with bounds on time and size that hostile texts cannot exceed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from audit import display
from toolhub import invisible

MAX_COMPARED_LINES = 300
"""Maximum lines that are compared one with another; equal lines at the start and the end do not count."""
MAX_LINES = 20_000
"""Maximum lines of each text that are read."""
MAX_LINE_CHARACTERS = 500
"""Maximum characters of a line; the rest of a longer one becomes further lines, so that no difference is omitted."""
MAX_DIFF_BYTES = 60_000
"""Maximum bytes of one difference, after escaping for a page."""
CONTEXT_LINES = 3
SAME, GONE, NEW, SKIPPED = "same", "gone", "new", "skipped"


@dataclass(frozen=True, slots=True)
class Line:
    kind: str
    """same, gone (only in the first), new (only in the second), skipped (`text` is the number of omitted lines)."""
    text: str


def lines(before: str, after: str) -> list[Line]:
    """Return the lines of both texts, with JSON pretty-printed first; an empty list when they are equal."""
    if before == after:
        return []
    old, new = _split_lines(before), _split_lines(after)
    found = list(_limit_bytes(_fold_unchanged(_compare(old[:MAX_LINES], new[:MAX_LINES]))))
    if unread := max(0, len(old) - MAX_LINES) + max(0, len(new) - MAX_LINES):
        found.append(Line(SKIPPED, str(unread)))
    return found


def _split_lines(text: str) -> list[str]:
    return [
        line[start : start + MAX_LINE_CHARACTERS]
        for line in display.pretty_print(text).splitlines()
        for start in range(0, len(line) or 1, MAX_LINE_CHARACTERS)
    ]


def _compare(old: list[str], new: list[str]) -> Iterator[Line]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    yield from (Line(SAME, text) for text in old[:start])
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if len(a) > MAX_COMPARED_LINES or len(b) > MAX_COMPARED_LINES:
        # Too many lines to match: all of the first, then all of the second.
        yield from (Line(GONE, text) for text in a)
        yield from (Line(NEW, text) for text in b)
    else:
        for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b).get_opcodes():
            if kind == "equal":
                yield from (Line(SAME, text) for text in a[a0:a1])
            else:
                yield from (Line(GONE, text) for text in a[a0:a1])
                yield from (Line(NEW, text) for text in b[b0:b1])
    yield from (Line(SAME, text) for text in old[len(old) - end :])


def _fold_unchanged(found: Iterator[Line]) -> Iterator[Line]:
    """Yield the lines without the middle of long unchanged stretches, which would fill the page."""
    same: list[Line] = []
    begun = False
    for line in found:
        if line.kind == SAME:
            same.append(line)
            continue
        yield from _fold_run(same, CONTEXT_LINES if begun else 0, CONTEXT_LINES)
        same, begun = [], True
        yield line
    yield from _fold_run(same, CONTEXT_LINES if begun else 0, 0)


def _fold_run(same: list[Line], head: int, tail: int) -> Iterator[Line]:
    if len(same) <= head + tail + 1:
        yield from same
        return
    yield from same[:head]
    yield Line(SKIPPED, str(len(same) - head - tail))
    yield from same[len(same) - tail :] if tail else []


def _limit_bytes(found: Iterator[Line]) -> Iterator[Line]:
    remaining_bytes = MAX_DIFF_BYTES
    rest = 0
    for line in found:
        if remaining_bytes < 0:
            rest += int(line.text) if line.kind == SKIPPED else 1
            continue
        text = invisible.show(line.text)
        remaining_bytes -= display.count_page_bytes(text) + 60
        if remaining_bytes < 0:
            rest += int(line.text) if line.kind == SKIPPED else 1
        else:
            yield Line(line.kind, text)
    if rest:
        yield Line(SKIPPED, str(rest))
