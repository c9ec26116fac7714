"""What differs between the approved and the proposed definition: one change for each value that is not the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog import quarantine
from catalog.models.base import CatalogueItem

MAX_CHANGES: Final = 200
"""Maximum changes that are told apart in one member; beyond it, the member is compared as one text."""
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One value that is not the same; an absent one is None, and JSON values other than texts are JSON."""

    member: str
    path: Path
    """Keys and positions within the member, such as ("properties", "city", "enum"); empty for the member itself."""
    before: str | None
    after: str | None

    @property
    def is_new(self) -> bool:
        return self.before is None


def find_changes(item: CatalogueItem) -> list[Change]:
    """Return the changes of an item that waits for review, or whose change was rejected; [] when its source lost it."""
    proposed = quarantine.proposal(item)
    if proposed is None:
        return []
    return compare(quarantine.approved(item), proposed)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the changes of all members, in the order in which a review shows them."""
    found: list[Change] = []
    for member in quarantine.differing_members(before, after):
        old, new = before.get(member), after.get(member)
        here = []
        for path, one, other in _differences(*_top(old, new)):
            here.append(Change(member, path, *_texts(one, other)))
            if len(here) > MAX_CHANGES:
                here = [Change(member, (), *_texts(*_top(old, new)))]
                break
        found += here
    return found


@dataclass(frozen=True, slots=True)
class NewText:
    """A text that is new in a definition, or that was another one: a value, or the key of one."""

    member: str
    path: Path
    """Where it is; for a key, the path ends with it."""
    before: str
    """The earlier text; empty for a new one."""
    after: str
    is_key: bool = False


def find_texts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[NewText]:
    """Yield every text that a change brings in, however deep it is in a new value, and every new key."""
    for member in quarantine.differing_members(before, after):
        old, new = before.get(member), after.get(member)
        for path, one, other in _differences(*_top(old, new)):
            if path and one is _ABSENT:
                yield NewText(member, path, "", path[-1], is_key=True)
            if isinstance(other, str):
                yield NewText(member, path, one if isinstance(one, str) else "", other)
            else:
                yield from _texts_in(member, path, other)


def _texts_in(member: str, path: Path, value: Any) -> Iterator[NewText]:
    """Yield the texts and keys within a value that is new."""
    waiting: list[tuple[Path, Any]] = [(path, value)]
    while waiting:
        here, found = waiting.pop()
        if isinstance(found, dict):
            for key, inner in found.items():
                yield NewText(member, (*here, str(key)), "", str(key), is_key=True)
                waiting.append(((*here, str(key)), inner))
        elif isinstance(found, list):
            waiting += [((*here, str(number)), inner) for number, inner in enumerate(found)]
        elif isinstance(found, str):
            yield NewText(member, here, "", found)


_ABSENT: Final = object()
Difference = tuple[Path, Any, Any]


def _top(old: Any, new: Any) -> tuple[Any, Any]:
    """Return both values of a member; a member without a value is absent."""
    return _ABSENT if old is None else old, _ABSENT if new is None else new


def _differences(old: Any, new: Any) -> Iterator[Difference]:
    """Yield the values that differ, in the order of the first and then the second; without recursion."""
    waiting: list[Difference] = [((), old, new)]
    while waiting:
        path, one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            inner = [
                ((*path, str(key)), one.get(key, _ABSENT), other.get(key, _ABSENT))
                for key in dict.fromkeys((*one, *other))
                if not _are_equal(one.get(key, _ABSENT), other.get(key, _ABSENT))
            ]
        elif isinstance(one, list) and isinstance(other, list) and _are_plain(one) and _are_plain(other):
            # Choices, required names and the like: which are new and which are gone matters, not their positions.
            gone = [value for value in one if not any(_are_equal(value, kept) for kept in other)]
            new_ones = [value for value in other if not any(_are_equal(value, kept) for kept in one)]
            if not gone and not new_ones:
                yield path, one, other
                continue
            yield path, gone or _ABSENT, new_ones or _ABSENT
            continue
        elif isinstance(one, list) and isinstance(other, list):
            size = max(len(one), len(other))
            inner = [
                ((*path, str(number)), *pair)
                for number in range(size)
                if not _are_equal(
                    *(pair := (one[number] if number < len(one) else _ABSENT,
                               other[number] if number < len(other) else _ABSENT))
                )
            ]  # fmt: skip
        else:
            yield path, one, other
            continue
        waiting += reversed(inner)


def _are_equal(one: Any, other: Any) -> bool:
    return one is other or (one is not _ABSENT and other is not _ABSENT and quarantine.are_equal(one, other))


def _are_plain(values: list[Any]) -> bool:
    return len(values) <= MAX_CHANGES and not any(isinstance(value, dict | list) for value in values)


def _texts(one: Any, other: Any) -> tuple[str | None, str | None]:
    before, after = _text(one), _text(other)
    if before == after and before is not None:
        # A text became a number, for example: only JSON tells them apart.
        return json.dumps(one, ensure_ascii=False), json.dumps(other, ensure_ascii=False)
    return before, after


def _text(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, str) and "\n" not in one for one in value):
        return "\n".join(value)
    return json.dumps(value, indent=2, ensure_ascii=False)
