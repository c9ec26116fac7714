"""Bring together what may not know each other: hooks of one room filled with functions of another, at start."""

from __future__ import annotations

from uuid import UUID

import audit.hooks
from catalog.admin import inlines
from catalog.calls import history
from catalog.policy import messages, snapshot, visibility
from toolhub.access import hooks
from toolhub.access.admin import GroupAdmin, UserAdmin


def connect() -> None:
    hooks.toolsets_for = _toolsets_for
    hooks.reaches_anything = _reaches_anything
    audit.hooks.definition_at = history.definition_at
    audit.hooks.translate_reason = messages.translate_reason
    audit.hooks.name_row = messages.name_row
    hooks.cancel_call = _cancel_call
    UserAdmin.inlines, GroupAdmin.inlines = inlines.USER_INLINES, inlines.GROUP_INLINES


def _cancel_call(call_id: UUID, reason: str) -> None:
    # The server role is loaded by the process that serves: commands have no calls to end.
    from toolhub.server import requests

    requests.cancel_from_thread(call_id, reason)


def _reaches_anything(user_id: int) -> bool:
    snapshot.latest()
    mine = visibility.for_credential(visibility.page_credential(user_id))
    return bool(mine.tools or mine.resources or mine.templates or mine.prompts)


def _toolsets_for(user_id: int) -> frozenset[int]:
    nobody_else = visibility.page_credential(user_id)
    try:
        mine = visibility.for_credential(nobody_else)
    except snapshot.NotLoaded:
        snapshot.refresh()
        mine = visibility.for_credential(nobody_else)
    return frozenset(toolset_id for tool, _rule in mine.tools.values() for toolset_id in tool.toolset_ids)
