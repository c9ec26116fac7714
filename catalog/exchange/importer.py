"""Import of a catalogue file into the database: all of it or nothing, with every difference named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import ProtectedError

from catalog import import_batches
from catalog.canonical import dumps
from catalog.exchange import values
from catalog.exchange.exporter import FORMAT_VERSION, equal_as_json, load_rows
from catalog.exchange.kinds import KINDS, Kind
from catalog.exchange.values import FileError, Values
from catalog.models import ImportBatch
from catalog.models.base import CatalogueItem
from catalog.policy import large_changes
from catalog.policy.definitions import Snapshot
from catalog.policy.loader import Loader

Match = tuple[Any, Values]
"""A row of the database, and its values as a file has them."""


@dataclass(slots=True)
class Change:
    mark: str
    """The kind of change: + created, ~ changed, - removed."""
    what: str
    differences: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    changes: list[Change] = field(default_factory=list)
    unchanged: int = 0
    made: list[CatalogueItem] = field(default_factory=list)
    """The tools, resources and prompts that were created."""
    snapshots: tuple[Snapshot, Snapshot] | None = None
    """The catalogue before and after the import, where they were asked for."""


def run(
    content: Any, *, plan: bool = False, prune: bool = False, source: str = "", with_snapshots: bool = False
) -> Outcome:
    """Import completely or not at all; a plan does everything and keeps nothing.

    `source` names the file, for the batch of what it creates; without it, no batch is kept. `with_snapshots`: return
    the catalogue before and after, also that of a plan.
    Calls are logged meanwhile: see `large_changes`. Raises FileError, and then nothing has changed.
    """
    sections = _check_sections(content)

    def work() -> Outcome:
        outcome = Outcome()
        before = Loader().load() if with_snapshots else None
        named: list[tuple[Kind, Match]] = []
        for kind in KINDS:
            if kind.section in sections:
                unmatched = _import_section(kind, sections[kind.section], outcome, prune=prune)
                named += [(kind, match) for match in unmatched] if kind.named_by_grants and prune else []
        for kind, match in named:
            _remove(kind, match, outcome)
        if source:
            import_batches.record(ImportBatch.Source.FILE, source, outcome.made)
        if before is not None:
            outcome.snapshots = (before, Loader().load())
        return outcome

    try:
        return large_changes.run(work, plan=plan)
    except large_changes.Stale as error:
        raise FileError("the file", str(error)) from None


def _check_sections(content: Any) -> dict[str, list[Any]]:
    if not isinstance(content, dict):
        raise FileError("the file", "it must be an object.")
    if content.get("toolhub") != FORMAT_VERSION:
        raise FileError("toolhub", f"this must be {FORMAT_VERSION}, the format of the file.")
    known = {kind.section for kind in KINDS}
    found = {}
    for name, value in content.items():
        if name == "toolhub":
            continue
        if name not in known:
            raise FileError(str(name), f"this section is unknown. Known sections: {', '.join(sorted(known))}.")
        if not isinstance(value, list):
            raise FileError(str(name), "this must be a list.")
        found[name] = value
    return found


def _import_section(kind: Kind, entries: list[Any], outcome: Outcome, *, prune: bool) -> list[Match]:
    """Import the entries of a section, and return the rows without an entry."""
    present = load_rows(kind)
    wanted = [(f"{kind.section}[{number}]", entry) for number, entry in enumerate(entries)]
    complete = [(place, _fill_entry(kind, entry, place)) for place, entry in wanted]
    _check_duplicates(kind, complete)
    if kind.draft:  # a preview gives its name to what a file describes
        names = [entry["name"] for _, entry in complete]
        kind.model._default_manager.filter(**{kind.draft: True, "name__in": names}).delete()
    pairs, unmatched = _match_rows(kind, complete, present)
    if prune and not kind.named_by_grants:  # first: removed rows may conflict with new ones
        for unwanted in unmatched:
            _remove(kind, unwanted, outcome)
    # Last those in trial: the rule in whose place one is tried may be new, or change, in the same file.
    for (place, entry), match in sorted(pairs, key=lambda pair: bool(pair[0][1].get("trial"))):
        before = match[1] if match is not None else None
        differences = list(_find_differences(before, entry)) if before is not None else []
        if before is not None and not differences:
            if entry.get("replaces"):  # a rule that was removed before took its trial with it
                values.find_related(kind.model, entry["replaces"], f"{place}.replaces")
            outcome.unchanged += 1
            continue
        label = kind.label(entry)
        row = match[0] if match is not None else kind.model()
        _save(kind, row, entry, f"{place} ({label})")
        if match is None and isinstance(row, CatalogueItem):
            outcome.made.append(row)
        outcome.changes.append(Change("~" if before is not None else "+", f"{kind.word} {label}", differences))
    return unmatched


def _remove(kind: Kind, match: Match, outcome: Outcome) -> None:
    """Delete a row. Raises FileError when grants use it."""
    row, whole = match
    try:
        row.delete()
    except ProtectedError as error:
        raise FileError(kind.section, str(error.args[0])) from None
    outcome.changes.append(Change("-", f"{kind.word} {kind.label(whole)}"))


def _fill_entry(kind: Kind, entry: Any, place: str) -> Values:
    """Return the entry with its defaults; every name is known, every value has the type of its column.

    Relations are resolved when it is saved. Raises FileError.
    """
    if not isinstance(entry, dict):
        raise FileError(place, "this must be an object.")
    columns = {column.name: column for column in kind.columns()}
    for name in entry:
        if name in kind.excluded:
            raise FileError(f"{place}.{name}", f"this is not part of a file. {kind.excluded[name]}")
        if name not in columns and name not in kind.many:
            raise FileError(f"{place}.{name}", f"a {kind.word} has no member with this name.")
    whole: Values = {}
    for name, column in columns.items():
        if name in entry:
            whole[name] = entry[name]
            if not column.is_relation and name != "origin":
                whole[name] = values.export_value(column, values.import_value(column, entry[name], f"{place}.{name}"))
        elif values.is_required(column):
            raise FileError(f"{place}.{name}", "this is missing.")
        else:
            whole[name] = values.export_value(column, values.default(column))
    for name in kind.many:
        listed = entry.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise FileError(f"{place}.{name}", "this must be a list of names.")
        whole[name] = sorted(set(listed))
    return whole


def _check_duplicates(kind: Kind, entries: list[tuple[str, Values]]) -> None:
    """Raise FileError for two entries of one name, where the name is the key; two grants may be equal."""
    unique = any(column.unique for column in kind.columns()) or kind.section == "resources"
    seen: dict[str, str] = {}
    for place, entry in entries if unique else ():
        key = dumps(kind.key(entry))
        if key in seen:
            raise FileError(place, f"{kind.word} {kind.label(entry)} already exists, at {seen[key]}.")
        seen[key] = place


def _match_rows(
    kind: Kind, entries: list[tuple[str, Values]], present: list[Match]
) -> tuple[list[tuple[tuple[str, Values], Match | None]], list[Match]]:
    """Return each entry with its row, or None, and the rows without an entry.

    An entry belongs to a row that is equal already, else to one with the same key.
    """
    unmatched = list(present)
    by_content: dict[str, list[Match]] = {}
    for match in unmatched:
        by_content.setdefault(dumps(match[1]), []).append(match)
    found: dict[int, Match] = {}
    taken: set[int] = set()
    for number, (_, entry) in enumerate(entries):
        same_ones = by_content.get(dumps(entry), [])
        if same_ones:
            found[number] = same_ones.pop(0)
            taken.add(id(found[number]))
    by_key: dict[str, list[Match]] = {}
    for match in unmatched:
        if id(match) not in taken:
            by_key.setdefault(dumps(kind.key(match[1])), []).append(match)
    for number, (_, entry) in enumerate(entries):
        candidates = by_key.get(dumps(kind.key(entry)), []) if number not in found else []
        if candidates:
            found[number] = candidates.pop(0)
            taken.add(id(found[number]))
    pairs = [(entry, found.get(number)) for number, entry in enumerate(entries)]
    return pairs, [match for match in unmatched if id(match) not in taken]


def _save(kind: Kind, row: Any, entry: Values, place: str) -> None:
    for column in kind.columns():
        setattr(row, column.name, values.import_value(column, entry[column.name], f"{place}.{column.name}"))
    try:
        row.full_clean()
        with transaction.atomic():
            row.save()
    except ValidationError as error:
        named = error.message_dict if hasattr(error, "error_dict") else {"__all__": error.messages}
        name, sentences = next(iter(named.items()))
        where = place if name == "__all__" else f"{place}.{name}"
        raise FileError(where, " ".join(sentences)) from None
    except (PermissionDenied, DatabaseError) as error:
        raise FileError(place, f"it cannot be saved: {error}") from None
    for name in kind.many:
        relation = getattr(row, name)
        relation.set([values.find_related(relation.model, other, f"{place}.{name}") for other in entry[name]])


def _find_differences(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (member, before, after) for every difference, also inside nested objects."""
    if isinstance(before, dict) and isinstance(after, dict):
        inner = [
            key for key in (*before, *after) if not equal_as_json(before.get(key, _ABSENT), after.get(key, _ABSENT))
        ]
        if inner:
            for key in dict.fromkeys(inner):
                yield from _find_differences(
                    before.get(key, _ABSENT), after.get(key, _ABSENT), f"{name}.{key}" if name else key
                )
            return
    if not equal_as_json(before, after):
        yield name, _format_value(before), _format_value(after)


_ABSENT = "\x00absent"


def _format_value(value: Any) -> str:
    return "(absent)" if value == _ABSENT else dumps(value)
