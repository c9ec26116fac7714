"""Signals of the catalogue: `changed` is sent after the commit of anything that decides what people see."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.dispatch import Signal

changed = Signal()
"""Sent without arguments, in the thread that committed. Handlers must be quick and thread-safe."""

tool_saved = Signal()
"""Sent after the commit when a person saved a read-only tool with test cases: `tool`, and the `request` that did."""

request_decided = Signal()
"""Sent in the transaction in which a request for access is approved or declined: `request`, the changed row."""

approvals_requested = Signal()
"""Sent in the transaction in which requests for approval are made: `approvals`, the new rows."""


def _send_changed() -> None:
    changed.send(sender=None)


def announce(using: str | None = None) -> None:
    """Send `changed` once after the current transaction commits, however often this is called in it."""
    using = using or DEFAULT_DB_ALIAS
    # Django drops the entries of a savepoint that is rolled back, so an entry found here is one that will run.
    if not any(entry[1] is _send_changed for entry in connections[using].run_on_commit):
        transaction.on_commit(_send_changed, using=using)


def on_change(sender: type[Any], using: str | None = None, **kwargs: Any) -> None:
    """Announce a change: handler of post_save, post_delete and m2m_changed for every model that the snapshot reads."""
    if kwargs.get("raw"):
        return
    action = kwargs.get("action", "")
    fields = kwargs.get("update_fields")
    if action.startswith("pre_") or (fields is not None and set(fields) <= {"last_login", "password"}):
        return
    announce(using)
