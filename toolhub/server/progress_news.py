"""Progress of a running call for whoever looks at it in a browser, on whichever worker; nothing while nobody does."""

from __future__ import annotations

from catalog import context
from catalog.context import Context
from toolhub.server import interest, relay

PROGRESS = "call.progress"
LONGEST = 300
"""Characters of a message that a page shows."""


def reported(running: Context, progress: float, total: float | None, message: str | None) -> None:
    if not interest.keys:
        return
    number = str(running.call_id)
    if not (interest.wanted(interest.calls_of(running.user_id)) or interest.wanted(interest.call(number))):
        return
    relay.tell(
        PROGRESS,
        {
            "id": number,
            "user": running.user_id,
            "progress": progress,
            "total": total,
            "message": None if message is None else message[:LONGEST],
        },
    )


def connect() -> None:
    if reported not in context.onlookers:
        context.onlookers.append(reported)
