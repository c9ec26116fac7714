"""A request as Daphne passes it to the application, begun when its headers are complete.

Daphne collects the whole body, in temporary files, before the application sees the request: a client without a token
could have 4 MB of it stored per connection. Here the application runs first and decides (401, 403, 413, 415 come before
any body), and the body comes as fast as the application reads it. A body that arrives together with its headers, as
nearly all do, is passed on in one piece.
"""

from __future__ import annotations

import asyncio
import logging
import time
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from daphne.http_protocol import WebRequest
from daphne.utils import HEADER_NAME_RE, INVALID_HEADER_VALUE_BYTES
from django.conf import settings

from catalog.openapi import document
from toolhub.edge.channel import UPLOAD_BUFFER_BYTES, TooManyChunks
from toolhub.edge.connections import Phase

if TYPE_CHECKING:
    from toolhub.edge.channel import EdgeChannel

log = logging.getLogger("toolhub.edge")

UPLOAD_PATH = b"/admin/catalog/importeddocument/"
MAX_UPLOAD_BYTES = document.MAX_BYTES + 65_536
"""Maximum bytes of a request that uploads an OpenAPI document: the document, and the form around it."""

FREE_CHUNKS, MIN_CHUNK_BYTES = 256, 32
"""A body has so many chunks of any size; beyond them, chunks must have so many bytes on average. Decoding 64 kB of
chunks of one byte takes 40 ms (measured)."""
INVALID_IN_VALUES = bytes(INVALID_HEADER_VALUE_BYTES)

Message = dict[str, Any]


class BodyQueue(asyncio.Queue[Message]):
    """What an application receives of a request whose body is still arriving: all that waits is one message."""

    def __init__(self, channel: EdgeChannel) -> None:
        super().__init__()
        self._channel = channel
        self._waiting: bytearray | None = None
        """The body of the message that waits, if more of it may come."""

    def put_body(self, data: bytes, *, more: bool) -> None:
        """Pass on a piece of the body, together with what still waits: a message for each byte would take kilobytes."""
        if not more:
            self._waiting = None
            self.put_nowait({"type": "http.request", "body": data, "more_body": False})
            return
        if self._waiting is None:
            self._waiting = bytearray()
            self.put_nowait({"type": "http.request", "body": self._waiting, "more_body": True})
        self._waiting += data
        if len(self._waiting) > UPLOAD_BUFFER_BYTES:
            self._channel.pause_upload()

    async def get(self) -> Message:
        if self.empty():
            self._channel.continue_upload()
        item = await super().get()
        body = item.get("body")
        if type(body) is bytearray:
            item["body"] = bytes(body)
            if body is self._waiting:
                self._waiting = None
        return item


class EdgeRequest(WebRequest):  # type: ignore[misc]
    """One request. Daphne's own `process` remains for the upgrade to WebSocket."""

    channel: EdgeChannel
    application_queue: asyncio.Queue[Message] | None
    started = False
    """Whether the application runs while the body is still arriving."""
    rejected = False
    chunks = 0
    """Pieces of the body that came together with another one."""
    _response_started: bool

    def __init__(self, *args: Any, **options: Any) -> None:
        # Twisted would parse forms that Django parses again, and spend a fifth of a small request's time on reading the
        # Content-Type with the e-mail parser (measured, Twisted 26.10).
        super().__init__(*args, parsePOSTFormSubmission=False, **options)

    @property
    def max_bytes(self) -> int:
        """The setting, and at the addresses of uploads at least the largest document that they take."""
        path = getattr(self.channel, "_path", b"") or b""
        return (
            max(settings.MAX_BODY_BYTES, MAX_UPLOAD_BYTES) if path.startswith(UPLOAD_PATH) else settings.MAX_BODY_BYTES
        )

    # --- the body -----------------------------------------------------------------------------------------------------

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        if length is not None and length > self.max_bytes:
            self.reject()

    def handleContentChunk(self, data: bytes) -> None:
        if self.rejected:
            return
        channel = self.channel
        channel.received_bytes += len(data)
        self.chunks += 1
        if self.chunks > FREE_CHUNKS + channel.received_bytes // MIN_CHUNK_BYTES:
            channel.refuse("chunks")
            self._end(b"400 Bad Request", f"The body has too many small chunks. Send {MIN_CHUNK_BYTES} bytes in each.")
            raise TooManyChunks
        if channel.received_bytes > self.max_bytes:
            self.reject()
        elif self.started:
            self._pass_on(data, more=True)
        else:
            self.content.write(data)

    def reject(self) -> None:
        """Answer 413, unless the answer of the application has begun."""
        self.channel.refuse("large")
        self._end(b"413 Content Too Large", f"The body is larger than {self.max_bytes:,} bytes.")

    def time_out(self, sentence: str) -> None:
        """Answer 408, unless the answer of the application has begun."""
        self._end(b"408 Request Timeout", sentence)

    def _end(self, status: bytes, sentence: str) -> None:
        self.rejected = True
        if self.application_queue is not None:
            self.send_disconnect()
            self.application_queue = None
            self.server.protocol_disconnected(self)
        if self.startedWriting:
            self.channel.transport.abortConnection()
        else:
            self.channel.reject(status, sentence)

    def _pass_on(self, data: bytes, *, more: bool) -> None:
        queue = self.application_queue
        if isinstance(queue, BodyQueue):
            queue.put_body(data, more=more)
        elif queue is not None:
            queue.put_nowait({"type": "http.request", "body": data, "more_body": more})

    # --- the application ----------------------------------------------------------------------------------------------

    def start_before_body(self, command: bytes, uri: bytes, version: bytes) -> None:
        """Start the application while the body is still arriving."""
        self.started = True
        if self.rejected:
            return
        self.method, self.uri, self.clientproto = command, uri, version
        self.path = uri.partition(b"?")[0]
        received, self.content = self.content.getvalue(), BytesIO()
        if self._wants_websocket():
            # RFC 6455 knows no handshake with a body.
            self._end(b"400 Bad Request", "A request for an upgrade has no body.")
            return
        self._start(BodyQueue(self.channel))
        if received:
            self._pass_on(received, more=True)

    def process(self) -> None:
        """Pass on a request that is complete, or the end of one that the application is reading."""
        if self.rejected:
            return
        if self.started:
            self._pass_on(b"", more=False)
            return
        if self._wants_websocket():
            if not self._has_problem() and self.channel.may_upgrade():
                self.upgrade()
            return
        self._start(None)
        self._pass_on(self.content.getvalue(), more=False)

    def upgrade(self) -> None:
        """Become a WebSocket."""
        self.channel.on_upgrade()
        super().process()

    def _wants_websocket(self) -> bool:
        upgrade = self.requestHeaders.getRawHeaders(b"Upgrade")
        return bool(upgrade) and upgrade[0].lower() == b"websocket"

    def _has_problem(self) -> bool:
        """Answer 400 to a request line or headers that no application should have to read."""
        # A client must not choose the root path of the site; Daphne answers non-ASCII bytes in it with a 500.
        self.requestHeaders.removeHeader(b"daphne-root-path")
        problem = ""
        if not (self.method.isascii() and self.clientproto.isascii() and self.uri.isascii()):
            problem = "Invalid characters in the request line"
        for name, values in self.requestHeaders.getAllRawHeaders():
            if not HEADER_NAME_RE.fullmatch(name):
                problem = "Invalid header name"
            elif any(len(value.translate(None, INVALID_IN_VALUES)) != len(value) for value in values):
                problem = "Invalid header value"
            elif name.lower() == b"sec-websocket-protocol" and not all(value.isascii() for value in values):
                problem = "Invalid subprotocol"
        if problem:
            # And close: answered in place, a batch of such requests would be answered whether or not the client reads.
            self._end(b"400 Bad Request", f"{problem}.")
        return bool(problem)

    def _start(self, queue: BodyQueue | None) -> None:
        self.request_start = time.time()
        if self._has_problem():
            return
        client, host = self.client, self.host
        self.client_addr = [client.host, client.port] if hasattr(client, "host") else None
        self.server_addr = [host.host, host.port] if hasattr(host, "host") else None
        # CVE-2015-0219: a name with an underscore could pass for another one.
        self.clean_headers = [
            (name.lower(), value)
            for name, values in self.requestHeaders.getAllRawHeaders()
            if b"_" not in name
            for value in values
        ]
        scope = {
            "type": "http",
            "http_version": self.clientproto.partition(b"/")[2].decode("ascii"),
            "method": self.method.decode("ascii"),
            "path": unquote(self.path.decode("ascii")),
            "raw_path": self.path,
            "root_path": "",
            "scheme": "https" if self.isSecure() else "http",
            "query_string": self.uri.partition(b"?")[2],
            "headers": self.clean_headers,
            "client": self.client_addr,
            "server": self.server_addr,
        }
        try:
            self.application_queue = self.server.create_application(self, scope, queue)
        except Exception:
            # Twisted would close the connection, and its log goes nowhere.
            log.exception("A request could not be passed on")
            self._end(b"500 Internal Server Error", "Internal error.")

    def handle_reply(self, message: Message) -> None:
        """Write one message of the application. Raises ValueError for one that does not follow from those before it."""
        if self.finished or self.rejected:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self._response_started:
            self._response_started = True
            self.setResponseCode(message["status"])
            for name, value in message.get("headers", ()):
                self.responseHeaders.addRawHeader(name, value)
            if self.started and self.channel.phase is Phase.BODY:
                # Whatever the client still sends of the body would be read as its next request.
                self.channel.persistent = False
                self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        elif kind == "http.response.body" and self._response_started:
            self.write(message.get("body", b""))
            if not message.get("more_body", False):
                self.finish()
        else:
            raise ValueError(f"{kind} cannot be sent now")

    def connectionLost(self, reason: Any) -> None:
        # Daphne's own version fails on a request that is dropped while its headers are still arriving.
        if self.application_queue is not None:
            self.send_disconnect()
            self.application_queue = None
        super().connectionLost(reason)
