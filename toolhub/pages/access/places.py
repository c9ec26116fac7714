"""The pages that lead to the forms of access, and the way back to them.

A place is text such as tool:7, toolset:3 or group:5, or "overview".
"""

from __future__ import annotations

from django.http import QueryDict
from django.urls import reverse

from audit.admin_filters import is_key

PAGES = {"tool": "pages:access-tool", "toolset": "pages:access-toolset", "group": "pages:access-group"}
OVERVIEW = "overview"


def parse_key(text: str) -> int | None:
    """Return a primary key, or None for any other text."""
    return int(text) if is_key(text) else None


def parse_pairs(data: QueryDict, name: str, kinds: tuple[str, ...], most: int) -> list[tuple[str, int]]:
    """Return the (kind, primary key) of values such as user:3, in their order; other values are left out."""
    found: dict[tuple[str, int], None] = {}
    for value in data.getlist(name)[:most]:
        kind, _colon, number = value.partition(":")
        key = parse_key(number)
        if kind in kinds and key is not None:
            found[kind, key] = None
    return list(found)


def find_address(place: str) -> str:
    """Return the address of a place; the list of grants for any other text."""
    kind, _colon, number = place.partition(":")
    key = parse_key(number)
    if kind in PAGES and key is not None:
        return reverse(PAGES[kind], args=[key])
    return reverse("admin:index" if place == OVERVIEW else "admin:catalog_grant_changelist")
