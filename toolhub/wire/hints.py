"""What the annotations of a tool say of it.

A missing one counts as the specification's default, the less safe one (2025-11-25, schema, ToolAnnotations).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def may_destroy(annotations: Mapping[str, Any]) -> bool:
    """Return whether the tool may delete or overwrite data, or does not say that it does not."""
    return annotations.get("readOnlyHint") is not True and annotations.get("destructiveHint") is not False
