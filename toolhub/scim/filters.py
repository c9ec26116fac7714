"""The filters that identity providers send to find somebody or something: `userName eq "ada" and ...`.

Every other operator of RFC 7644, section 3.4.2.2, is refused as it says: with `invalidFilter`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolhub.scim import errors
from toolhub.scim.errors import ScimError, invalid
from toolhub.wire import jsonrpc
from toolhub.wire.errors import McpError

MAX_CHARACTERS = 2_000
MAX_COMPARISONS = 10
_COMPARISON = re.compile(
    r'\s*(?:urn:[\w:.-]*:)?([A-Za-z$][\w$.-]*)\s+eq\s+("(?:[^"\\]|\\.)*"|true\b|false\b)\s*', re.ASCII | re.IGNORECASE
)
_AND = re.compile(r"and\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One `attribute eq value`. The attribute is in lower case, and a boolean is "true" or "false"."""

    attribute: str
    value: str


def parse(text: str) -> tuple[Comparison, ...]:
    """Return the comparisons that must all hold. Raises ScimError."""
    if len(text) > MAX_CHARACTERS:
        raise _refuse(f"A filter has at most {MAX_CHARACTERS:,} characters.")
    found: list[Comparison] = []
    place = 0
    while True:
        match = _COMPARISON.match(text, place)
        if match is None or len(found) == MAX_COMPARISONS:
            raise _refuse('Filters here are of the form: attribute eq "value", several of them joined by "and".')
        found.append(Comparison(match[1].lower(), _read_value(match[2])))
        place = match.end()
        if place == len(text):
            return tuple(found)
        joined = _AND.match(text, place)
        if joined is None:
            raise _refuse('Comparisons in a filter are joined by "and".')
        place = joined.end()


def check_attributes(comparisons: Iterable[Comparison], known: Iterable[str]) -> None:
    """Raise ScimError for a comparison of an attribute that is not among the known ones."""
    names = {name.lower() for name in known}
    if any(one.attribute not in names for one in comparisons):
        raise _refuse(f"A filter here compares {', '.join(known)}.")


def _read_value(text: str) -> str:
    if not text.startswith('"'):
        return text.lower()
    try:
        value = str(jsonrpc.decode(text.encode()))
    except McpError:
        raise _refuse("A value in the filter is not a valid JSON string.") from None
    if "\0" in value:
        raise _refuse("A value in the filter contains a control character.")
    return value


def _refuse(detail: str) -> ScimError:
    return invalid(detail, errors.INVALID_FILTER)
