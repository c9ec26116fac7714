"""Channels from a running call to its client: the protocol that the MCP server implements, and a null channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID

from catalog.errors import ClientLacks

Question = tuple[str, dict[str, Any]]
"""A request to the client: (method, params), as in ("elicitation/create", {...})."""


class Channel(Protocol):
    """The channel of one request in flight."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that the client declared, as on the wire."""

    @property
    def request_id(self) -> str:
        """Return the JSON-RPC id as text, for the audit log."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return the `_meta` of the request, as the client sent it."""

    @property
    def continues(self) -> UUID | None:
        """Return the id of the call that asked what this request answers; None for a first round.

        Only from 2026-07-28 on: earlier, a call waits for its answers.
        """

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: Any, logger: str | None) -> None: ...

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the client; return {key: result}.

        With the stateful transport (up to 2025-11-25) this sends the requests and waits. From 2026-07-28 on it
        returns the answers that came with this request, or raises NeedsInput with the unanswered requests. Raises
        ClientLacks before anything is sent when the client did not declare a capability, ClientRefused when it
        answers with an error.
        """

    def close_stream(self) -> None:
        """End the response stream early; the client comes back for the result.

        Stateful transport only, else no effect.
        """


class NullChannel:
    """A channel without a client: progress and log lines are dropped, and questions are not possible."""

    capabilities: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}
    continues: UUID | None = None

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
