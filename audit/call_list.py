"""A person's own calls, for the user's pages: plain rows, and never anybody else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from audit.models import Call
from audit.searches import PAGE, Page, Question

FILTERS = ("q", "outcome", "tool", "method", "transport", "client", "since", "until")
"""What `filters` may hold; all texts, empty or absent when not wanted."""


def page_for_user(user_id: int, filters: Mapping[str, Any], cursor: str = "", *, size: int = PAGE) -> Page:
    """The person's calls, newest first.

    `Page.older` and `Page.newer` are the cursors to hand in again ("" when there is nothing further); a cursor that is
    not one of this list raises ValueError. `Page.looked_through` is the moment at which a bounded search stopped.
    """
    question = Question.of({name: filters.get(name) for name in FILTERS}, user_id)
    direction, _, key = cursor.partition("-")
    if cursor and (direction not in {"before", "after"} or not key):
        raise ValueError("not a cursor of this list")
    page = question.page(
        before=key if direction == "before" else "", after=key if direction == "after" else "", size=size
    )
    page.older = page.older and f"before-{page.older}"
    page.newer = page.newer and f"after-{page.newer}"
    return page


def one_for_user(user_id: int, call_id: UUID | str) -> Call | None:
    """The call if it is this person's, whole; None when there is none or it is somebody else's."""
    try:
        key = call_id if isinstance(call_id, UUID) else UUID(call_id)
    except ValueError:
        return None
    return Call.objects.filter(pk=key, user_id=user_id).first()
