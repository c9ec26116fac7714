"""The ceiling: a bare consumer on the same Daphne that parses the request and answers without doing anything.

`python -m tests.bench.ceiling PORT [--stock]`; `--stock` serves with Daphne's own request class instead of toolhub's
bounded one, so that both ways of reading "the same Daphne" can be measured.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django
from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY="x", MAX_BODY_BYTES=4_194_304, INSTALLED_APPS=[])
    django.setup()

from channels.generic.http import AsyncHttpConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter
from daphne.server import Server

from toolhub.management.daphne_server import HubServer

RESULT = {
    "content": [{"type": "text", "text": "3"}],
    "structuredContent": {"result": 3},
    "isError": False,
    "resultType": "complete",
}


class Bare(AsyncHttpConsumer):  # type: ignore[misc]
    async def handle(self, body: bytes) -> None:
        message = json.loads(body)
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RESULT}).encode()
        await self.send_response(200, answer, headers=[(b"Content-Type", b"application/json")])


class BareSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    async def connect(self) -> None:
        await self.accept("mcp")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message = json.loads(text_data or "")
        await self.send(text_data=json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RESULT}))


async def nothing() -> None:
    return None


def main() -> None:
    port, stock = int(sys.argv[1]), "--stock" in sys.argv
    application: Any = ProtocolTypeRouter({"http": Bare.as_asgi(), "websocket": BareSocket.as_asgi()})
    endpoints = [f"tcp:port={port}:interface=127.0.0.1"]
    if stock:
        Server(application, endpoints=endpoints).run()
    else:
        HubServer(application, endpoints=endpoints, on_start=nothing, on_stop=nothing, server_name="").run()


if __name__ == "__main__":
    main()
