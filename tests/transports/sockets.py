"""One WebSocket between a test and the application, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

WAIT_SECONDS = 60.0


class AsgiSocket:
    """What the endpoints have in common: events go in and come out, and everything is waited for."""

    def __init__(self, application: Any, path: str, client: list[Any], headers: dict[str, str | None]) -> None:
        """A header that is None is left out. Connects when `start` is called."""
        self.application = application
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "path": path,
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value is not None],
            "client": client,
            "subprotocols": [],
        }
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[Any] = asyncio.Queue()

    def start(self) -> None:
        self.incoming.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(self.application(self.scope, self.incoming.get, self.take))

    async def take(self, event: Any) -> None:
        self.outgoing.put_nowait(event)

    async def next(self) -> dict[str, Any]:
        event: dict[str, Any] = await asyncio.wait_for(self.outgoing.get(), WAIT_SECONDS)
        return event

    async def refused(self) -> bool:
        event = await self.next()
        await asyncio.wait_for(asyncio.shield(self.task), WAIT_SECONDS)
        return event == {"type": "websocket.close"}

    def text(self, text: str) -> None:
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})

    async def closed(self) -> int:
        code: int = (await self.close_event())["code"]
        return code

    async def close_event(self) -> dict[str, Any]:
        """The event that closes the socket, whatever comes before it."""
        while (event := await self.next())["type"] != "websocket.close":
            pass
        return event

    async def leave(self) -> None:
        self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1005})
        await asyncio.wait_for(asyncio.shield(self.task), WAIT_SECONDS)
