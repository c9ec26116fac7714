"""The definition of a tool, prompt or resource at an earlier time, out of its history: shown beside a logged call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from audit.hooks import Definition
from catalog.calls import call_log
from catalog.models import Prompt, Resource, Tool, Upstream
from catalog.policy import loader
from catalog.policy.definitions import EMPTY, Item, digest

MAX_VERSIONS = 20
"""Maximum number of versions before the call that are compared with the logged hash."""
_KINDS: dict[str, tuple[Any, Callable[[dict[str, Any], frozenset[int]], Item]]] = {
    call_log.TOOL: (Tool, loader.build_tool),
    call_log.PROMPT: (Prompt, loader.build_prompt),
    call_log.RESOURCE: (Resource, loader.build_resource),
}


def definition_at(method: str, target_id: int, digest: str, at: datetime) -> Definition | None:
    """Return the definition that clients were shown, without runner settings, which are for administrators only.

    This is the version whose hash was logged, or else the newest one before the call; None when history has neither.
    """
    if method not in _KINDS:
        return None
    model, build = _KINDS[method]
    newest: Definition | None = None
    for row in _load_versions(model, target_id, at):
        try:
            item = build(row, EMPTY)
        except (KeyError, TypeError, ValueError):
            continue  # a version from before a column had this shape
        exact = digest in _hashes(item)
        text = json.dumps(item.wire, indent=2, ensure_ascii=False)
        found = Definition(text, row["history_date"], row["history_user__username"] or "", exact)
        if exact:
            return found
        newest = newest or found
    return newest


def _load_versions(model: Any, target_id: int, at: datetime) -> Iterator[dict[str, Any]]:
    """Yield the versions, newest first; the newest is queried alone, since it nearly always matches."""
    rows = model.history.filter(id=target_id, history_date__lte=at).exclude(history_type="-")
    columns = [field.attname for field in model.history.model._meta.concrete_fields]
    rows = rows.order_by("-history_date", "-history_id").values(*columns, "history_user__username")
    yield from rows[:1]
    yield from rows[1:MAX_VERSIONS]


def _hashes(item: Item) -> set[str]:
    """Return the hashes that the log may have for it: an item of an upstream is also hashed with its connection."""
    found = {item.hash}
    if (source := loader.upstream_source(item)) is not None:
        upstream = Upstream.objects.filter(name=source[0]).first()
        if upstream is not None:
            found.add(digest([item.hash, upstream.connection_settings()]))
    return found
