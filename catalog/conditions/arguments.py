"""The arguments of a definition that conditions can be about, found in its schema, for the form of a grant. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog.conditions import words
from catalog.conditions.definitions import ITEMS, MAX_STEPS, Steps, path_text
from catalog.conditions.original import UNIONS, Original
from catalog.schemas import errors

MAX_ARGUMENTS: Final = 200
"""Maximum number of arguments that a form offers; others are entered by their path."""
MAX_PARTS: Final = 5_000
"""Maximum number of subschemas that are looked at: references can multiply them."""
MAX_CHOICES: Final = 200
"""Number of values up to which a form offers those of an argument."""
MAX_TITLE_CHARACTERS: Final = 200

Kinds: TypeAlias = frozenset[str] | None
"""JSON types; None for any."""


@dataclass(frozen=True, slots=True)
class Argument:
    steps: Steps
    kinds: Kinds
    choices: tuple[Any, ...] | None
    """The only values that the schema accepts, all of them plain; None where it does not list them."""
    title: str

    def as_data(self) -> dict[str, Any]:
        """Return it as the scripts of the form read it."""
        data: dict[str, Any] = {"path": path_text(self.steps), "name": words.argument_name(self.steps)}
        data |= {"kinds": sorted(self.kinds or ()), "title": self.title}
        return data if self.choices is None else {**data, "choices": list(self.choices)}

    def widen(self, other: Argument) -> Argument:
        """Return the argument of both alternatives together."""
        kinds = None if self.kinds is None or other.kinds is None else self.kinds | other.kinds
        choices = None
        if self.choices is not None and other.choices is not None:
            added = [one for one in other.choices if not _is_in(one, self.choices)]
            choices = (*self.choices, *added)
        return Argument(self.steps, kinds, choices, self.title or other.title)


@dataclass(frozen=True, slots=True)
class Listing:
    arguments: tuple[Argument, ...]
    is_complete: bool


def list_arguments(schema: dict[str, Any]) -> Listing:
    """Return the arguments that a schema names, those of the outermost objects first. Secret ones are left out."""
    original = Original(schema)
    found: dict[Steps, Argument] = {}
    secret: set[Steps] = set()
    holders: set[Steps] = set()
    waiting: deque[tuple[Any, Steps, Kinds]] = deque([(original.schema, (), None)])
    looked_at = 0
    while waiting and looked_at < MAX_PARTS and len(found) <= MAX_ARGUMENTS:
        looked_at += 1
        part, steps, inherited = waiting.popleft()
        resolved = original.resolve(part) if isinstance(part, dict) else {}
        if errors.is_secret(part) or errors.is_secret(resolved):
            secret.add(steps)
            continue
        kinds = _kinds(resolved, inherited)
        unions = [one for union in (*UNIONS, "allOf") for one in resolved.get(union) or ()]
        waiting.extend((one, steps, kinds) for one in unions)
        if steps and errors.holds_secret(resolved):
            holders.add(steps)
        elif steps and not (unions and kinds is None):
            one = Argument(steps, kinds, _choices(resolved), _title(resolved))
            found[steps] = found[steps].widen(one) if steps in found else one
        waiting.extend((one, inner, None) for one, inner in _inside(resolved, steps))
    usable = (one for one in found.values() if one.steps not in holders)
    listed = [one for one in usable if not any(one.steps[:length] in secret for length in range(len(one.steps) + 1))]
    return Listing(tuple(listed[:MAX_ARGUMENTS]), not waiting and len(listed) <= MAX_ARGUMENTS)


def _inside(part: dict[str, Any], steps: Steps) -> list[tuple[Any, Steps]]:
    """Return the members and the items of a part, with their places."""
    if len(steps) == MAX_STEPS:
        return []
    members = (part.get("properties") or {}).items()
    found = [(one, (*steps, name)) for name, one in members if name != "*" and one is not False]
    if steps:
        items = part.get("items")
        listed = [*(items if isinstance(items, list) else [items]), *(part.get("prefixItems") or ())]
        found += [(one, (*steps, ITEMS)) for one in listed if one not in (None, False)]
    return found


def _kinds(part: dict[str, Any], inherited: Kinds) -> Kinds:
    stated = part.get("type")
    if isinstance(stated, str):
        return frozenset({stated})
    if isinstance(stated, list):
        return frozenset(stated)
    values = [part["const"]] if "const" in part else part.get("enum")
    return frozenset(map(errors.kind, values)) if values else inherited


def _choices(part: dict[str, Any]) -> tuple[Any, ...] | None:
    values = [part["const"]] if "const" in part else part.get("enum")
    if not values or len(values) > MAX_CHOICES or any(isinstance(one, list | dict) for one in values):
        return None
    return tuple(values)


def _title(part: dict[str, Any]) -> str:
    title = part.get("title")
    return errors.cut(title, MAX_TITLE_CHARACTERS) if isinstance(title, str) else ""


def _is_in(value: Any, values: tuple[Any, ...]) -> bool:
    return any(type(one) is type(value) and one == value for one in values)
