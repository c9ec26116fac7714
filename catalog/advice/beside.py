"""Suggestions about tools beside each other: two that a model confuses, and two that one tool could replace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from catalog.advice import words
from catalog.advice.parameters import list_parts
from catalog.advice.suggestions import Suggestion

MIN_SIMILARITY = 0.8
"""Minimum share of common words from which on a model cannot tell two descriptions apart."""
MIN_WORDS = 5
MAX_GROUP = 30
"""Phrases that very many tools share carry no information; only so many of a group are compared in pairs."""
MIN_SHARED_PARAMETERS = 0.6
_CREATES = frozenset(["create", "add", "new", "insert", "make", "register"])
_UPDATES = frozenset(["update", "edit", "modify", "change", "set", "replace"])


@dataclass(frozen=True, slots=True)
class Pair:
    one: str
    other: str
    suggestion: Suggestion
    """About the first of the two; it names the other."""


def find_pairs(tools: Iterable[Any]) -> list[Pair]:
    """Return the pairs of tools that a model can hardly tell apart, and those that one tool could replace."""
    rows = sorted(tools, key=lambda row: str(row.name))
    return [*_find_similar([(row.name, row.description) for row in rows]), *_find_upserts(rows)]


def _find_similar(listed: list[tuple[str, str]]) -> list[Pair]:
    names: dict[str, list[str]] = {}
    sets: dict[str, frozenset[str]] = {}
    at: dict[tuple[str, ...], list[str]] = {}
    for name, description in listed:
        names.setdefault(_spelling(name), []).append(name)
        split = words.split_text(description)
        sets[name] = frozenset(split)
        for start in range(len(split) - 2):
            at.setdefault(tuple(split[start : start + 3]), []).append(name)
    found = {pair: "similar_name" for group in names.values() for pair in combinations(group, 2)}
    for group in at.values():
        for pair in combinations(sorted(set(group))[:MAX_GROUP], 2):
            if pair not in found and _are_similar(sets[pair[0]], sets[pair[1]]):
                found[pair] = "similar_description"
    return [Pair(one, other, Suggestion(code, {"name": other})) for (one, other), code in sorted(found.items())]


def _find_upserts(rows: list[Any]) -> Iterator[Pair]:
    """Yield pairs like create_page and update_page whose client chooses the key.

    Where the server gives the number, creating takes no key, and the two have to stay apart.
    """
    creating: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        verb, thing = _split_verb(row.name, _CREATES)
        if verb:
            creating.setdefault(thing, []).append(row)
    for row in rows:
        verb, thing = _split_verb(row.name, _UPDATES)
        for other in creating.get(thing, ()) if verb else ():
            if other.runner == row.runner and _take_the_same(other, row):
                yield Pair(other.name, row.name, Suggestion("upsert_fits", {"name": row.name}))


def find_partners(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that differ from this one only in that one creates what the other updates."""
    found = []
    for mine, theirs in ((_CREATES, _UPDATES), (_UPDATES, _CREATES)):
        verb, thing = _split_verb(name, mine)
        if verb:
            split = ((other, *_split_verb(other, theirs)) for other in names)
            found += [other for other, its_verb, its_thing in split if its_verb and its_thing == thing]
    return found


def describe_upserts(row: Any, partners: Iterable[Any]) -> list[Suggestion]:
    """Return suggestions about one tool beside those that `find_partners` named."""
    pairs = [(pair.one, pair.other) for pair in _find_upserts([row, *partners])]
    others = [one if other == row.name else other for one, other in pairs if row.name in (one, other)]
    return [Suggestion("upsert_fits", {"name": name}) for name in others]


def _split_verb(name: str, verbs: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the first of the verbs in the name and the stems of its other words; no verb: "" and all words."""
    split = words.split_name(name)
    found = next((word for word in split if word in verbs), "")
    return found, tuple(words.stem(word) for word in split if word != found)


def _take_the_same(creating: Any, updating: Any) -> bool:
    schemas = [row.input_schema if isinstance(row.input_schema, dict) else {} for row in (creating, updating)]
    one, other = ({part.path for part in list_parts(schema) if part.depth == 0} for schema in schemas)
    needed = schemas[1].get("required")
    key = set(needed if isinstance(needed, list) else ())
    return bool(key) and key <= one and len(one & other) >= MIN_SHARED_PARAMETERS * len(one | other)


def describe_similar(row: Any, others: Iterable[tuple[str, str]]) -> list[Suggestion]:
    """Return suggestions about one tool beside others, given as (name, description); itself may be among them."""
    split = frozenset(words.split_text(row.description))
    found = []
    for other, description in others:
        if other == row.name:
            continue
        if _spelling(other) == _spelling(row.name):
            found.append(Suggestion("similar_name", {"name": other}))
        elif _are_similar(split, frozenset(words.split_text(description))):
            found.append(Suggestion("similar_description", {"name": other}))
    return found


def _spelling(name: str) -> str:
    return "".join(words.split_name(name)).rstrip("s")


def _are_similar(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < MIN_WORDS:
        return False
    return len(one & other) / len(one | other) >= MIN_SIMILARITY
