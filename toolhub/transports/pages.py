"""Django behind bounds: for each address, so many requests at a time, and so many bytes of bodies.

Django gives every request a thread, and reads a body before it knows who sends it. So a body is read here, before its
request has a turn: one that takes its time to arrive keeps no thread. Requests beyond the bound wait for their turn,
and the addresses take turns: one that asks for page after page delays nobody but itself.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Any

from toolhub.client_address import counted
from toolhub.refusals import Refusals
from toolhub.transports.asgi import CONNECTION, TEXT, Application, Receive, Scope, Send, respond
from toolhub.transports.uploads import FREE_BYTES, TooManyUploads, Upload, Uploads

MAX_KEPT_BYTES = 4_000_000
"""The largest answer that is kept until Django is done; larger ones, and exports, are downloads."""


MAX_DOWNLOADS, MAX_DOWNLOADS_PER_ADDRESS = 16, 3
"""Downloads and exports that run beside the pages: each has a thread and a connection to the database."""


class PageTurns:
    """Who runs now, and who waits; belongs to one event loop."""

    def __init__(self, most: int = 32, most_per_address: int = 6) -> None:
        """Let `most` run at one time, of one address `most_per_address`: a browser opens six connections to a host."""
        self.most, self.most_per_address = most, most_per_address
        self.running = 0
        self._by_address: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By address; the one at the front is next, as far as it may run more."""

    def take(self, address: str) -> bool:
        """Take a turn if there is one now; `end` gives it back."""
        if self.running < self.most and self._by_address.get(address, 0) < self.most_per_address:
            self._start(address)
            return True
        return False

    async def wait(self, address: str) -> None:
        """Wait for a turn; `end` gives it back."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(address)
            raise

    def end(self, address: str) -> None:
        """Give a turn back, and let the next one run."""
        self.running -= 1
        rest = self._by_address[address] - 1
        if rest:
            self._by_address[address] = rest
        else:
            del self._by_address[address]
        self._let_next_run()

    def _start(self, address: str) -> None:
        self.running += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def _let_next_run(self) -> None:
        for address in list(self._waiting):
            if self.running >= self.most:
                return
            queue = self._waiting[address]
            while queue and queue[0].done():
                queue.popleft()  # cancelled: its client is gone
            if queue and self._by_address.get(address, 0) < self.most_per_address:
                self._start(address)
                queue.popleft().set_result(None)
                self._waiting.move_to_end(address)
            if not queue:
                del self._waiting[address]


class BoundedPages:
    """The ASGI application around Django."""

    def __init__(
        self, django: Application, uploads: Uploads, turns: PageTurns, refusals: Refusals | None = None
    ) -> None:
        self.django, self.uploads, self.turns = django, uploads, turns
        self.downloads = PageTurns(MAX_DOWNLOADS, MAX_DOWNLOADS_PER_ADDRESS)
        self.refusals = refusals or Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        address = counted(client[0]) if client else ""
        upload = Upload(self.uploads, address)
        try:
            body = await read_body(receive, upload)
            if body is not None:
                await self.run(scope, replay(body, receive), send, address)
        except TooManyUploads as full:
            self.refusals.add("uploads", address)
            await respond(send, full.status, [*TEXT, *full.headers()], full.sentence.encode() + b"\n")
        finally:
            upload.release()
            # Django's request knows itself through its user, and so waits for the garbage collector with all it has.
            scope.pop(CONNECTION, None)

    async def run(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        """Have Django answer when there is a turn for this address."""
        if not self.turns.take(address):
            self.refusals.add("pages", address)
            await self.turns.wait(address)
        turns, answer = self.turns, Answer()

        async def take(message: Any) -> None:
            nonlocal turns
            if answer.take(message):
                return
            is_download = message["type"] == "http.response.body" and message.get("more_body")
            if is_download and turns is self.turns and self.downloads.take(address):
                # Its reader may take its time. Beyond their own bound, downloads keep the turns of pages.
                turns = self.downloads
                self.turns.end(address)
            await send(message)

        try:
            await self.django(scope, receive, take)
        finally:
            turns.end(address)
        await answer.send(send)


async def read_body(receive: Receive, upload: Upload) -> bytes | None:
    """Return the body, which the server in front bounds, or None when the client left. Raises TooManyUploads."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > FREE_BYTES:
            upload.grow(len(body))
        if not message.get("more_body"):
            return bytes(body)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return pending.pop() if pending else await receive()

    return receive_again


class Answer:
    """An answer of known size, kept until Django is done with the request.

    Django has a thread for each request until the last byte of its answer is passed on: readers that take their time
    would keep hundreds of threads (measured).
    """

    def __init__(self) -> None:
        self._start: Any = None
        self._body: list[bytes] = []

    def take(self, message: Any) -> bool:
        """Keep a message of Django's; return False for one of an answer whose size is unknown, or large."""
        if message["type"] == "http.response.start":
            length = next((int(value) for name, value in message["headers"] if name.lower() == b"content-length"), None)
            if length is not None and length <= MAX_KEPT_BYTES:
                self._start = message
                return True
        elif self._start is not None and message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))
            return True
        return False

    async def send(self, send: Send) -> None:
        """Send what was kept."""
        if self._start is not None:
            start, body = self._start, b"".join(self._body)
            self._start, self._body = None, []
            await send(start)
            await send({"type": "http.response.body", "body": body})
