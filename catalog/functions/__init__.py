"""The public API for authors of tools: decorators, the context of a call, and what a call can ask its client."""

from __future__ import annotations

from catalog.functions.registry import Context, Elicit, ElicitUrl, Roots, Sample, SyncContext, prompt, resource, tool
from catalog.functions.signatures import result_schema
from catalog.functions.updates import resource_updated

__all__ = [
    "Context",
    "Elicit",
    "ElicitUrl",
    "Roots",
    "Sample",
    "SyncContext",
    "prompt",
    "resource",
    "resource_updated",
    "result_schema",
    "tool",
]
