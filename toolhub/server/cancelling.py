"""End a running call by its id, whichever worker runs it and however it was started."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from catalog import running
from toolhub.server import inflight, relay

CANCEL_CALL = "call.cancel"


def cancel_from_thread(call_id: UUID, reason: str) -> None:
    """Have the call ended as cancelled, with `reason` on its record; nothing happens when it is not running.

    From any thread. It is a request and no promise: the record says what became of it.
    """
    relay.tell_from_thread(CANCEL_CALL, {"id": str(call_id), "reason": reason})


def cancel_here(call_id: UUID, reason: str) -> bool:
    """The same for a call of this worker, on its event loop; whether it was running here."""
    task = running.tasks.get(call_id)
    if task is None:
        return False
    # By way of its request, when there is one: the client is then answered that it was cancelled, and why.
    if not inflight.cancel_task(task, reason):
        task.cancel(reason)
    return True


def _cancelled(payload: dict[str, Any]) -> None:
    cancel_here(UUID(str(payload.get("id"))), str(payload.get("reason")))


relay.on(CANCEL_CALL, _cancelled)
