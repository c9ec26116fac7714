"""A task as it goes over the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catalog import tasks as store

POLL_MS = 1000


def detailed(state: store.State) -> dict[str, Any]:
    """A task with what its status calls for: `result`, `error` or `inputRequests`."""
    found = brief(state)
    if state.status == store.INPUT_REQUIRED:
        found["inputRequests"] = state.input_requests
    elif state.status == store.COMPLETED:
        found["result"] = state.result or {"content": []}
    elif state.status == store.FAILED:
        found["error"] = state.error or {"code": store.INTERNAL_ERROR, "message": "Internal error"}
    return found


def brief(state: store.State) -> dict[str, Any]:
    found: dict[str, Any] = {
        "taskId": str(state.id),
        "status": state.status,
        "createdAt": _moment(state.created_at),
        "lastUpdatedAt": _moment(state.updated_at),
        "ttlMs": state.ttl_ms,
        "pollIntervalMs": POLL_MS,
    }
    if state.status_message:
        found["statusMessage"] = state.status_message
    return found


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
