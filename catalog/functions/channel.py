"""How running work reaches its client: the protocol that the MCP server implements, and one that reaches nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from catalog.errors import ClientLacks

Question = tuple[str, dict[str, Any]]
"""A request to the client: (method, params), as in ("elicitation/create", {...})."""


class Channel(Protocol):
    """One per request in flight."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared, as on the wire."""

    @property
    def request_id(self) -> str:
        """The JSON-RPC id as text, for the record."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Any, logger: str | None) -> None: ...

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the client; {key: result}.

        In the handshake era this sends the requests and waits. From 2026-07-28 on it returns the answers that came
        with this request, or raises NeedsInput with the requests that have none. Raises ClientLacks before anything
        is sent when the client did not declare a capability, ClientRefused when it answers with an error.
        """

    def close_stream(self) -> None:
        """End the response stream early; the client comes back for the result (handshake era; else nothing)."""


class NullChannel:
    """Reaches nobody: progress and log lines vanish, and no client can be asked."""

    capabilities: Mapping[str, Any] = {}

    def __init__(self, request_id: str = "") -> None:
        self.request_id = request_id

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        return

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        return

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        method = next(iter(requests.values()))[0]
        raise ClientLacks(method.partition("/")[0])

    def close_stream(self) -> None:
        return
