"""The one holder of process-wide parts, for code that nobody can hand a part to: admin views, signals, commands.

Everything else gets its parts by constructor or ASGI scope. `toolhub.hub` puts the parts in when it starts and takes
them out when it stops; this instance is the only state that a module of this project keeps.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class NotStarted(LookupError):
    """This process did not start the part that was asked for."""


class Parts:
    """Parts of this process, one of each type."""

    def __init__(self) -> None:
        self._parts: dict[type, Any] = {}

    def put(self, part: object, kind: type | None = None) -> None:
        """Hold `part` under `kind` (its own type when None), in place of what was held there."""
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
        """Forget the part of this type, if there is one."""
        self._parts.pop(kind, None)


parts = Parts()
