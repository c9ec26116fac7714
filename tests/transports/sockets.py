"""One WebSocket between a test and the application, without a network."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.wire.official import validate_server_message

if TYPE_CHECKING:
    from tests.transports.conftest import Person

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


class Socket(AsgiSocket):
    """A WebSocket between the test and the application."""

    def __init__(self, person: Person, *, subprotocols: list[str] | None = None, **headers: str | None) -> None:
        plain = {"host": "localhost:8000", "authorization": f"Bearer {person.token}", **headers}
        super().__init__(person.wire.application, "/ws/mcp", ["192.0.2.8", 9], plain)
        self.scope["subprotocols"] = ["mcp"] if subprotocols is None else subprotocols
        self.taking = asyncio.Event()
        self.taking.set()
        self.person = person
        self.start()

    async def take(self, event: Any) -> None:
        await self.taking.wait()
        await super().take(event)

    async def opened(self) -> Socket:
        event = await self.next()
        assert event == {"type": "websocket.accept", "subprotocol": "mcp" if self.scope["subprotocols"] else None}
        return self

    def send(self, message: Any) -> None:
        self.text(json.dumps(message))

    async def message(self) -> Any:
        event = await self.next()
        assert event["type"] == "websocket.send", event
        return json.loads(event["text"])

    async def request(
        self, method: str, params: Any = None, *, revision: str = "2025-11-25", id: Any = None
    ) -> dict[str, Any]:
        """The answer, when nothing else comes in between."""
        message = self.person.message(method, params, id)
        self.send(message)
        answer: dict[str, Any] = await self.message()
        validate_server_message(revision, answer, method)
        assert answer.get("id") == message["id"], answer
        return answer

    async def initialize(self, revision: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        hello = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.request("initialize", hello, revision=revision)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer
