"""The registry of process-wide parts, for code that receives no arguments from us: admin views, signals, commands.

Everything else gets its parts by constructor or ASGI scope. `toolhub.hub` adds the parts when it starts and removes
them when it stops. This instance is the only module-level state of the project.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class NotStarted(LookupError):
    """The requested part was not started in this process."""


class Parts:
    """Parts of this process, one of each type."""

    def __init__(self) -> None:
        self._parts: dict[type, Any] = {}

    def put(self, part: object, kind: type | None = None) -> None:
        """Store `part` under `kind` (its own type when None) and replace the previous one."""
        self._parts[type(part) if kind is None else kind] = part

    def get(self, kind: type[T]) -> T:
        """Return the part of this type. Raises NotStarted when this process has none."""
        found: T | None = self._parts.get(kind)
        if found is None:
            raise NotStarted(f"{kind.__module__}.{kind.__qualname__} was not started in this process")
        return found

    def find(self, kind: type[T]) -> T | None:
        """Return the part of this type, or None."""
        found: T | None = self._parts.get(kind)
        return found

    def remove(self, kind: type) -> None:
        """Remove the part of this type, if there is one."""
        self._parts.pop(kind, None)


parts = Parts()
