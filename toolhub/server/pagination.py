"""Pages of lists: opaque cursors, signed, bound to the user and the list, that survive a changed catalogue.

A cursor names the entry it follows, not a number: after a change the next page continues after the last shown entry,
and no entry that existed all along is repeated or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.core import signing

from catalog.policy.definitions import Item, sort_key
from toolhub.wire.errors import INVALID_PARAMS, McpError

MAX_PAGE_ENTRIES = 100
SALT = "toolhub.server.cursor"
MAX_CURSOR_CHARACTERS = 4096

T = TypeVar("T", bound=Item)


def page(items: Sequence[T], kind: str, user_id: int, params: dict[str, Any]) -> tuple[Sequence[T], str | None]:
    """Return the page that `params` ask for, of a list in stable order, and the cursor of the next one."""
    cursor = params.get("cursor")
    start = 0
    if cursor is not None:
        after = _position(cursor, kind, user_id)
        start = next((index for index, item in enumerate(items) if sort_key(item) > after), len(items))
    elif len(items) <= MAX_PAGE_ENTRIES:
        return items, None
    found = items[start : start + MAX_PAGE_ENTRIES]
    if start + MAX_PAGE_ENTRIES >= len(items):
        return found, None
    last = sort_key(found[-1])
    return found, signing.dumps([kind, user_id, last[0], last[1]], salt=SALT)


def _position(cursor: object, kind: str, user_id: int) -> tuple[int, str]:
    if isinstance(cursor, str) and len(cursor) <= MAX_CURSOR_CHARACTERS:
        try:
            found = signing.loads(cursor, salt=SALT)
        except signing.BadSignature:
            found = None
        if found is not None and found[:2] == [kind, user_id]:
            return found[2], found[3]
    raise McpError(INVALID_PARAMS, "Invalid params: `cursor` is not valid; start again without it")
