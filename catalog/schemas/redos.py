"""Nested repetitions in patterns: `(a+)+` can divide one text in endless ways.

Our own engine runs them in linear time; a client that checks arguments with its own may be blocked for hours by
thirty characters. A repetition inside a repetition is fine where text that cannot be part of the inner one must stand
between two rounds: `([a-z]+-)+`, `(/[^/]+)*`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

MAX_BOUNDED_REPETITIONS: Final = 10
"""Number of repetitions above which an outer repetition counts as endless."""
OTHER: Final = "\u0100"
"""Placeholder for every character beyond ASCII."""
ALL: Final = frozenset(map(chr, range(128))) | {OTHER}
DIGITS: Final = frozenset("0123456789")
LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
CLASSES: Final = {"d": DIGITS, "w": LETTERS | DIGITS | {"_"}, "s": frozenset(" \t\n\r\f\v")}
CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
ANCHORS: Final = frozenset("bBAzZG")
"""Escapes that match a place, not a character."""
_TIMES = re.compile(r"\{(\d{0,6})(?:(,)(\d{0,6}))?\}")
_GROUP = re.compile(r"\(\?(?:P?<\w*>|:|[imsUux-]+:|[imsUux-]+(?=\))|[=!]|<[=!])")
_CODE = re.compile(r"x\{([0-9a-fA-F]{1,8})\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,8})\}")
_PROPERTY = re.compile(r"[pP](?:\{[^{}]{0,50}\}|.)")


@dataclass(slots=True)
class Node:
    """A set of characters, or alternative sequences; repeated `min_count` to `max_count` times (None: endlessly)."""

    characters: frozenset[str] = frozenset()
    branches: list[list[Node]] = field(default_factory=list)
    min_count: int = 1
    max_count: int | None = 1

    @property
    def loops(self) -> bool:
        return self.max_count is None or self.max_count > MAX_BOUNDED_REPETITIONS


@lru_cache(maxsize=4096)
def has_nested_repetition(pattern: str) -> bool:
    """Return whether a text can be divided among two repetitions, one inside the other, in many ways."""
    try:
        return any(_ambiguous(node) for branch in _Reader(pattern).branches(0) for node in branch)
    except RecursionError:
        return True


def _ambiguous(node: Node) -> bool:
    if node.loops and any(_endless_inside(branch) for branch in node.branches):
        return True
    return any(_ambiguous(child) for branch in node.branches for child in branch)


def _endless_inside(sequence: list[Node], around: tuple[Node, ...] = ()) -> bool:
    """Return whether the sequence has an endless repetition whose rounds nothing around it separates."""
    for index, node in enumerate(sequence):
        beside = (*around, *sequence[:index], *sequence[index + 1 :])
        if node.max_count is None:
            inside = _characters(node)
            if inside and not any(_separates(other, inside) for other in beside):
                return True
        elif any(_endless_inside(branch, beside) for branch in node.branches):
            return True
    return False


def _characters(node: Node) -> frozenset[str]:
    return node.characters.union(*(_characters(child) for branch in node.branches for child in branch))


def _separates(node: Node, inside: frozenset[str]) -> bool:
    """Return whether the node must match something that is not among these characters."""
    if node.min_count == 0:
        return False
    if node.branches:
        return all(any(_separates(child, inside) for child in branch) for branch in node.branches)
    return bool(node.characters) and not node.characters & inside


class _Reader:
    """A parser of the part of a pattern's grammar that matters here. It takes everything else for plain characters."""

    def __init__(self, pattern: str) -> None:
        self._text, self._at = pattern, 0

    def branches(self, depth: int) -> list[list[Node]]:
        if depth > 100:
            raise RecursionError
        found: list[list[Node]] = [[]]
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == ")" and depth:
                break
            self._at += 1
            if character == "|":
                found.append([])
            elif (node := self._one(character, depth)) is not None:
                found[-1].append(self._repeated(node))
        return found

    def _one(self, character: str, depth: int) -> Node | None:
        if character == "(":
            return self._group(depth)
        if character in "^$":
            return None
        if character == ".":
            return Node(ALL)
        if character == "[":
            return Node(self._class())
        if character == "\\":
            escaped = self._escaped()
            return None if escaped is None else Node(escaped)
        return Node(_plain(character))

    def _group(self, depth: int) -> Node | None:
        group = _GROUP.match(self._text, self._at - 1)
        is_lookaround = False
        if group is not None:
            self._at = group.end()
            is_lookaround = group[0].endswith(("=", "!"))
        node = Node(branches=self.branches(depth + 1))
        self._at += 1  # the closing bracket
        return None if is_lookaround else node

    def _repeated(self, node: Node) -> Node:
        times = _TIMES.match(self._text, self._at)
        mark = self._text[self._at : self._at + 1]
        if mark and mark in "*+?":
            self._at += 1
            min_count, max_count = (1 if mark == "+" else 0), (1 if mark == "?" else None)
        elif times is not None and (times[1] or times[3]):
            self._at = times.end()
            min_count = int(times[1] or 0)
            max_count = (int(times[3]) if times[3] else None) if times[2] else min_count
        else:
            return node
        if self._text[self._at : self._at + 1] == "?":
            self._at += 1
        return self._repeated(Node(branches=[[node]], min_count=min_count, max_count=max_count))

    def _escaped(self) -> frozenset[str] | None:
        if (code := _CODE.match(self._text, self._at)) is not None:
            self._at = code.end()
            number = int(next(filter(None, code.groups())), 16)
            return _plain(chr(number) if number < 0x110000 else OTHER)
        if (named := _PROPERTY.match(self._text, self._at)) is not None:
            self._at = named.end()
            return LETTERS | DIGITS | {OTHER} if named[0][0] == "p" else ALL
        character = self._text[self._at : self._at + 1]
        self._at += 1
        if character in ANCHORS:
            return None
        if character.lower() in CLASSES:
            inside = CLASSES[character.lower()]
            return inside if character.islower() else ALL - inside
        return _plain(CONTROL.get(character, character))

    def _class(self) -> frozenset[str]:
        negated = self._text.startswith("^", self._at)
        self._at += negated
        found: set[str] = set()
        start, first = "", True
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "]" and not first:
                break
            first = False
            self._at += 1
            if character == "[" and self._text.startswith(":", self._at) and ":]" in self._text[self._at :]:
                self._at = self._text.index(":]", self._at) + 2
                found |= CLASSES["w"] | CLASSES["s"]
                continue
            if character == "-" and start and self._text[self._at : self._at + 1] not in ("]", ""):
                end = self._member()
                found |= _range(start, end) if len(end) == 1 else end
                start = ""
                continue
            self._at -= 1
            members = self._member()
            found |= members
            start = next(iter(members)) if len(members) == 1 else ""
        self._at += 1
        return ALL - found if negated else frozenset(found)

    def _member(self) -> frozenset[str]:
        character = self._text[self._at]
        self._at += 1
        return (self._escaped() or frozenset("\b")) if character == "\\" else _plain(character)


def _plain(character: str) -> frozenset[str]:
    return frozenset({character if character < "\x80" else OTHER}) if character else frozenset()


def _range(start: str, end: frozenset[str]) -> frozenset[str]:
    (last,) = end
    found = frozenset(character for character in ALL if start <= character <= last)
    return found | {OTHER} if last == OTHER else found
