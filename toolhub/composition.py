"""Bring together what may not know each other: hooks of one room filled with functions of another, at start."""

from __future__ import annotations

import sys
from uuid import UUID

import audit.hooks
from catalog import past, rule_words, snapshot, visible
from toolhub.access import hooks
from toolhub.access.admin import GroupAdmin, UserAdmin


def connect() -> None:
    hooks.toolsets_for = _toolsets_for
    hooks.reaches_anything = _reaches_anything
    audit.hooks.definition_at = past.definition_at
    audit.hooks.rule_in_words = rule_words.sentence
    hooks.cancel_call = _cancel_call
    # By now the admin has imported every app's admin module.
    catalogue = sys.modules.get("catalog.admin")
    UserAdmin.inlines = tuple(getattr(catalogue, "USER_INLINES", ()))
    GroupAdmin.inlines = tuple(getattr(catalogue, "GROUP_INLINES", ()))


def _cancel_call(call_id: UUID, reason: str) -> None:
    # The server role is loaded by the process that serves: commands have no calls to end.
    from toolhub.server import cancelling

    cancelling.cancel_from_thread(call_id, reason)


def _reaches_anything(user_id: int) -> bool:
    snapshot.latest()
    mine = visible.for_credential(visible.page_credential(user_id))
    return bool(mine.tools or mine.resources or mine.templates or mine.prompts)


def _toolsets_for(user_id: int) -> frozenset[int]:
    nobody_else = visible.page_credential(user_id)
    try:
        mine = visible.for_credential(nobody_else)
    except snapshot.NotLoaded:
        snapshot.refresh()
        mine = visible.for_credential(nobody_else)
    return frozenset(toolset_id for tool, _rule in mine.tools.values() for toolset_id in tool.toolset_ids)
