"""The executing side of a runner. Only the call pipeline imports this module, as import-linter enforces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.utils.module_loading import import_string
from pydantic import BaseModel

from catalog.functions.context import Context
from catalog.runners import hints, registry

Run = Callable[[dict[str, Any], Context], Awaitable[Any]]


def prepare(kind: str, data: Any) -> Run:
    """Return the `run` function for these settings. Raises LookupError or ValueError when there is none."""
    return prepare_parsed(kind, registry.parse_settings(kind, data))


def prepare_parsed(kind: str, settings: BaseModel) -> Run:
    """Return the `run` function for settings that are parsed already."""
    path = registry.runner(kind).prepare
    try:
        prepared: Callable[[Any], Run] = import_string(path)
    except ImportError as error:
        raise LookupError(f"{path} of the runner {kind} cannot be imported: {error}") from error
    run = prepared(settings)
    chosen = getattr(settings, "hints", None)
    if chosen is None:
        return run
    defaults = hints.DEFAULTS if registry.runner(kind).default_hints else {}
    return hints.with_hints(run, chosen, defaults) if chosen or defaults else run
