"""The arguments of a request for approval as people read them: one row for each, as the audit log stores them.

Invisible characters are visible, and nothing is cut: a person must not approve what they cannot read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from audit import display
from toolhub.invisible import show

MAX_START_CHARACTERS: Final = 140
MAX_HELP_CHARACTERS: Final = 300
_HIDDEN: Final = re.compile(r'"\$redacted"|\[redacted ')
_LOST: Final = re.compile(r'\{"\$redacted":"(?:too large|not logged)')


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    text: str
    help: str
    """The description of the argument; "" without one."""
    is_asked_about: bool
    """Whether a condition of the approval rule is about it."""
    is_code: bool
    """Whether the text is indented JSON, or has several lines."""


@dataclass(frozen=True, slots=True)
class Arguments:
    rows: list[Argument]
    text: str
    """All of them as one text, where there are no rows."""
    has_hidden: bool
    """Whether values were replaced, because they are secret."""
    is_lost: bool
    """Whether the arguments were too large to be stored."""


def read(stored: str, asked_about: Iterable[str] = (), schema: Mapping[str, Any] | None = None) -> Arguments:
    """Return stored arguments (canonical JSON), those that the rule is about first, then in the order of the schema."""
    hidden, lost = _HIDDEN.search(stored) is not None, _LOST.match(stored) is not None
    value = None if lost else _parse(stored)
    if not isinstance(value, dict) or "$redacted" in value:
        return Arguments([], "" if lost else display.body(stored).text, hidden, lost)
    first = list(dict.fromkeys(asked_about))
    found = (schema or {}).get("properties")
    properties: Mapping[str, Any] = found if isinstance(found, dict) else {}
    order = {name: number for number, name in enumerate(dict.fromkeys((*first, *properties, *value)))}
    rows = [
        _row(name, value[name], properties.get(name), name in first) for name in sorted(value, key=order.__getitem__)
    ]
    return Arguments(rows, "", hidden, lost)


def start_of(stored: str) -> str:
    """Return the beginning of the arguments as one line, for a list."""
    if _LOST.match(stored):
        return _("too large to show")
    value = _parse(stored)
    if value == {}:
        return _("no arguments")
    text = stored
    if isinstance(value, dict) and "$redacted" not in value:
        text = ", ".join(f"{show(name)}: {_describe(inner, indent=None)}" for name, inner in value.items())
    line = " ".join(text.split())
    return line if len(line) <= MAX_START_CHARACTERS else f"{line[: MAX_START_CHARACTERS - 1]}…"


def _parse(stored: str) -> Any:
    try:
        return json.loads(stored) if display.is_parseable(stored) else None
    except (ValueError, RecursionError):
        return None


def _row(name: str, value: Any, part: Any, is_asked_about: bool) -> Argument:
    text = _describe(value)
    about = part.get("description") if isinstance(part, dict) else ""
    about = about if isinstance(about, str) else ""
    if len(about) > MAX_HELP_CHARACTERS:
        about = f"{about[:MAX_HELP_CHARACTERS]}…"
    is_code = (isinstance(value, (dict, list)) and bool(value) and not _is_marker(value)) or "\n" in text
    return Argument(show(name), text, show(about), is_asked_about, is_code)


def _is_marker(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"$redacted", "length"}


def _describe(value: Any, indent: int | None = 2) -> str:
    if _is_marker(value):
        return _("hidden, %(number)s characters") % {"number": show(str(value["length"])[:20])}
    if isinstance(value, str):
        return show(value) or _("empty text")
    try:
        return show(json.dumps(value, ensure_ascii=False, indent=indent))
    except RecursionError:
        return show(display.unescape(json.dumps(value)))
