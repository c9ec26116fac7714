"""Truncation of results that are too large to send.

They are kept for an hour behind an address that the answer names, or cut off visibly.
"""

from __future__ import annotations

import base64
import logging
from typing import Any

from django.db import DatabaseError

from catalog import threads
from catalog.calls import stored_results
from catalog.functions.content import ABSENT, ResourceLink
from catalog.functions.context import Context
from catalog.functions.results import Produced, dump, size_of_block, utf8_length
from catalog.policy.definitions import ToolDefinition

log = logging.getLogger(__name__)

MAX_STORED_BYTES = 67_108_864
PREVIEW_CHARACTERS = 2000


async def fit_to_limit(produced: Produced, tool: ToolDefinition, context: Context) -> Produced:
    """Fit `produced` within the tool's limit: move its largest parts out until the rest fits."""
    limit = tool.max_result_bytes
    is_error = produced.is_error
    content = list(produced.content)
    structured = produced.structured
    size = sum(size_of_block(block) for block in content)
    notes: list[dict[str, Any]] = []
    if structured is not ABSENT:
        text = dump(structured)
        if size + utf8_length(text) > limit:
            # The text block that repeats the structured result goes with it. A program that expects structured
            # content must not mistake the remaining blocks for it.
            content = [block for block in content if block.get("text") != text]
            notes += await _store_or_cut(context, tool, {"type": "text", "text": text}, "application/json", limit)
            structured, is_error = ABSENT, is_error or tool.output_schema is not None
    size = sum(size_of_block(block) for block in content) + (
        0 if structured is ABSENT else utf8_length(dump(structured))
    )
    for block in sorted(content, key=size_of_block, reverse=True):
        if size <= limit:
            break
        size -= size_of_block(block)
        content = [other for other in content if other is not block]
        notes += await _store_or_cut(context, tool, block, "", limit)
    content = [*notes, *content]
    return Produced(content, structured, is_error, produced.meta, sum(size_of_block(block) for block in content))


async def _store_or_cut(
    context: Context, tool: ToolDefinition, block: dict[str, Any], mime_type: str, limit: int
) -> list[dict[str, Any]]:
    """Return the content blocks that replace a block that is too large."""
    inner = block["resource"] if block["type"] == "resource" else block
    text: str | None = inner.get("text")
    encoded = inner.get("data") or inner.get("blob") or ""
    mime_type = mime_type or inner.get("mimeType") or "text/plain"
    body = base64.b64decode(encoded) if text is None else text.encode()
    shown = min(PREVIEW_CHARACTERS, limit // 4)
    preview = f" It begins with:\n{text[:shown]}" if text else ""
    cause = ""
    if len(body) <= MAX_STORED_BYTES:
        try:
            uri = await stored_results.put(
                context.user_id,
                body,
                mime_type,
                toolset_ids=tool.toolset_ids,
                is_text=text is not None,
                name=tool.name,
                call_id=context.call_id,
            )
        except stored_results.NoRoom as no_room:
            cause = f" {no_room}"
        except (DatabaseError, OSError, threads.Busy) as error:
            log.warning("a large result of call %s could not be stored: %s", context.call_id, error)
        except Exception:
            log.warning("a large result of call %s could not be stored", context.call_id, exc_info=True)
        else:
            sentence = (
                f"The result is {len(body)} bytes, too large to include. "
                f"Read it at {uri} within {stored_results.TTL_SECONDS // 60} minutes, before newer large results take "
                f"its place, or request less.{preview}"
            )
            link = ResourceLink(uri, f"{tool.name} result", mime_type=mime_type, size=len(body))
            return [{"type": "text", "text": sentence}, link.wire()]
    sentence = f"The result is {len(body)} bytes, too large to include, and was truncated.{cause}"
    sentence += f" Request less.{preview}"
    return [{"type": "text", "text": sentence}]
