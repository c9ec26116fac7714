"""The error of a call as the log shows it: a text that calls with the same error have in common."""

from __future__ import annotations

import json
from typing import Any, Final

from audit import outcomes
from audit.format.chain import PRUNED_PREFIX
from catalog.metering import loops
from catalog.replay import log_arguments

ERRORS: Final = frozenset({outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.INVALID_ARGUMENTS})
"""Statuses of calls that ended with an error. What was denied, limited, cancelled or interrupted has none."""


def read(detail: str, result: str) -> str | None:
    """Return the error that the caller read, without ids of calls; None where the log does not show it.

    It is in the result if there is one, else in the detail.
    """
    text = _read_result(result) if result else detail
    if text is None or log_arguments.hides(text):
        return None
    return loops.blank_ids(text) or "an error without a text"


def _read_result(result: str) -> str | None:
    if result.startswith(PRUNED_PREFIX):
        return None
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return result  # the log keeps the beginning of a long one
    content: Any = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, list):
        return None
    texts = [block.get("text", "") for block in content if isinstance(block, dict) and not log_arguments.hides(block)]
    if len(texts) < len(content) or not all(isinstance(text, str) for text in texts):
        return None
    return " ".join(texts)
