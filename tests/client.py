"""A raw MCP client for tests, over HTTP and WebSocket, of both eras. It hides nothing: every message of the server is
kept in order, and every one is judged by the official types; one violation fails the test.

    async with HttpClient(url, token, "2025-11-25") as client:
        result = await client.call("calculate_sum", {"a": 1, "b": 2})
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Self

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.wire.official import validate_server_message
from toolhub.wire import versions
from toolhub.wire.envelope import NAME_MEMBERS
from toolhub.wire.headers import encode_value

WAIT_SECONDS = 60.0
META = "io.modelcontextprotocol/"
ALL_CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
"""Capabilities of a client that can be asked for everything."""

AS_JSON = {"Content-Type": "application/json"}

Answer = Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]


class RpcError(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: Mapping[str, Any], status: int = 0, request_id: Any = None) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")
        self.status, self.request_id = status, request_id


class HttpRefusal(Exception):
    """The transport answered with a status instead of a JSON-RPC answer to the request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}: {body[:500]!r}")
        self.status, self.headers, self.body = status, headers, body


class Event:
    """One server-sent event."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.id, self.data = fields.get("id"), fields.get("data", "")
        self.retry = fields.get("retry")

    @property
    def message(self) -> Any:
        return json.loads(self.data) if self.data else None


class _Client(ABC):
    """What both transports share."""

    def __init__(
        self,
        token: str,
        revision: str,
        *,
        capabilities: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer] | None = None,
        name: str = "test-client",
    ) -> None:
        self.token, self.revision, self.name = token, revision, name
        self.capabilities = dict(capabilities or {})
        self.answers: dict[str, Answer] = dict(answers or {})
        """How to answer the server's requests: method -> function of its params. Others are answered -32601."""
        self.messages: list[dict[str, Any]] = []
        """Every message of the server, in the order of arrival."""
        self.modern = revision in versions.MODERN
        self.server: dict[str, Any] = {}
        """The InitializeResult."""
        self._ids = itertools.count(1)
        self._background: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []

    request: Callable[..., Coroutine[Any, Any, dict[str, Any]]]
    """Send a request; its result."""

    @abstractmethod
    async def _reply(self, message: dict[str, Any]) -> None:
        """Send the client's answer to a request of the server."""

    def envelope(self, params: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
        """`params` with what the era wants in `_meta`."""
        filled = dict(params or {})
        meta = {**filled.get("_meta", {}), **more}
        if self.modern:
            meta = {
                f"{META}protocolVersion": self.revision,
                f"{META}clientInfo": {"name": self.name, "version": "1"},
                f"{META}clientCapabilities": self.capabilities,
                **meta,
            }
        if meta:
            filled["_meta"] = meta
        return filled

    def message(
        self, method: str, params: Mapping[str, Any] | None = None, request_id: Any = None, **meta: Any
    ) -> dict[str, Any]:
        filled = self.envelope(params, **meta)
        message = {"jsonrpc": "2.0", "id": next(self._ids) if request_id is None else request_id, "method": method}
        return {**message, "params": filled} if filled else message

    def build_initialize_params(self) -> dict[str, Any]:
        return {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": self.name, "version": "1"},
        }

    # --- short ways --------------------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": dict(arguments or {})}, **options)

    async def text(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        result = await self.call(tool, arguments, **options)
        return "".join(block["text"] for block in result["content"] if block["type"] == "text")

    async def tools(self) -> list[str]:
        """The names on every page."""
        return [tool["name"] for tool in await self.every("tools/list", "tools")]

    async def every(self, method: str, member: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = await self.request(method, params)
            found += page[member]
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    def received_params(self, method: str) -> list[dict[str, Any]]:
        """The params of the notifications and requests of this method so far."""
        return [message.get("params", {}) for message in self.messages if message.get("method") == method]

    async def wait_for_message(self, method: str, count: int = 1) -> dict[str, Any]:
        """Wait until the server has sent this often; the params of the last one."""
        from tests.polling import wait_until_async

        await wait_until_async(lambda: len(self.received_params(method)) >= count, WAIT_SECONDS, f"{count} x {method}")
        return self.received_params(method)[count - 1]

    async def wait_for_message_when(self, method: str, condition: Callable[[], Awaitable[bool]], after: int) -> int:
        """Wait for one that finds the condition true. News of earlier changes may come before it. How many were heard.

        `after` is how many had been heard before the change that is waited for.
        """
        while True:
            await self.wait_for_message(method, after + 1)
            after = len(self.received_params(method))
            if await condition():
                return after

    # --- what comes in -----------------------------------------------------------------------------------------------

    def receive(self, message: Any, method: str | None) -> None:
        """Judge and keep one message; requests are answered in the background."""
        self.messages.append(message)
        try:
            validate_server_message(self.revision, message, method, self.capabilities)
        except AssertionError as error:
            self._failures.append(error)
            raise
        if "method" in message and "id" in message:
            self.background(self._answer(message))

    async def _answer(self, message: dict[str, Any]) -> None:
        known = self.answers.get(message["method"])
        if known is None:
            error = {"code": -32601, "message": "Method not found"}
            await self._reply({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        result = known(message.get("params", {}))
        if isinstance(result, Awaitable):
            result = await result
        await self._reply({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def background(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, HttpRefusal | OSError):
            self._failures.append(error)

    async def _cancel_background(self) -> None:
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def check(self) -> None:
        """Raises what went wrong in the background."""
        if self._failures:
            raise AssertionError(f"in the background: {self._failures[0]!r}") from self._failures[0]


class HttpClient(_Client):
    """Streamable HTTP."""

    def __init__(self, url: str, token: str, revision: str, **options: Any) -> None:
        single = options.pop("single", False)
        super().__init__(token, revision, **options)
        self.url = url
        self.session_id: str | None = None
        # One connection that is kept stays with the worker that accepted it.
        limits = httpx2.Limits(
            max_connections=1 if single else None, max_keepalive_connections=100, keepalive_expiry=600
        )
        self.http = httpx2.AsyncClient(timeout=WAIT_SECONDS, trust_env=False, limits=limits)
        self.last_event_id: str | None = None
        self.statuses: list[int] = []
        self.content_type = ""
        """Of the last answer to a request."""

    async def __aenter__(self) -> Self:
        if not self.modern:
            await self.initialize()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._cancel_background()
        await self.http.aclose()
        if kind is None:
            self.check()

    async def initialize(self) -> dict[str, Any]:
        self.session_id = None
        self.server = await self.request("initialize", self.build_initialize_params())
        assert self.server["protocolVersion"] == self.revision
        await self.notify("notifications/initialized")
        return self.server

    def headers(
        self, message: Mapping[str, Any] | None = None, more: Mapping[str, str | None] | None = None
    ) -> dict[str, str]:
        """What a client of this revision sends; None in `more` leaves a header out."""
        headers: dict[str, str | None] = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
        }
        method = (message or {}).get("method")
        if self.modern:
            headers["MCP-Protocol-Version"] = self.revision
            if method:
                headers["Mcp-Method"] = method
                name = (message or {}).get("params", {}).get(NAME_MEMBERS.get(method, ""))
                if isinstance(name, str):
                    headers["Mcp-Name"] = encode_value(name)
        elif self.session_id is not None:
            headers["Mcp-Session-Id"] = self.session_id
            if versions.is_at_least(self.revision, "2025-06-18"):
                headers["MCP-Protocol-Version"] = self.revision
        return {name: value for name, value in {**headers, **(more or {})}.items() if value is not None}

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        request_id: Any = None,
        headers: Mapping[str, str | None] | None = None,
        meta: Mapping[str, Any] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> dict[str, Any]:
        """The result; raises RpcError or HttpRefusal. A stream that the server ends early is resumed."""
        message = self.message(method, params, request_id, **(meta or {}))
        plain = self.headers(message, {**AS_JSON, **(headers or {})})
        async with self.http.stream("POST", self.url, content=json.dumps(message), headers=plain) as response:
            self.statuses.append(response.status_code)
            self.content_type = kind = response.headers.get("content-type", "")
            if kind == "application/json":
                answer = json.loads(await response.aread())
                if answer.get("id") != message["id"]:
                    raise HttpRefusal(response.status_code, response.headers, response.content)
                self.receive(answer, method)
                if method == "initialize" and "result" in answer:
                    self.session_id = response.headers.get("mcp-session-id")
                return self._result(answer, response.status_code)
            if response.status_code != 200 or kind != "text/event-stream":
                await response.aread()
                raise HttpRefusal(response.status_code, response.headers, response.content)
            last, found = await self._follow(response, message["id"], method, on_event)
        while found is None and last is not None:
            async with self.stream(last) as response:
                last, found = await self._follow(response, message["id"], method, on_event)
        assert found is not None, "the stream ended without an answer"
        return self._result(found, 200)

    def _result(self, answer: dict[str, Any], status: int) -> dict[str, Any]:
        if "error" in answer:
            raise RpcError(answer["error"], status, answer.get("id"))
        result: dict[str, Any] = answer["result"]
        return result

    async def _follow(
        self, response: httpx2.Response, request_id: Any, method: str, on_event: Callable[[Event], None] | None
    ) -> tuple[str | None, dict[str, Any] | None]:
        last = None
        async for event in events(response):
            last = event.id or last
            self.last_event_id = last
            if on_event is not None:
                on_event(event)
            if event.data:
                self.receive(event.message, method)
                if "method" not in event.message and event.message.get("id") == request_id:
                    return last, event.message
        return last, None

    async def post(self, body: bytes | str, headers: Mapping[str, str | None] | None = None) -> httpx2.Response:
        """Anything at all, with this client's headers unless they are replaced."""
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        plain = self.headers(
            message if isinstance(message, dict) else None, {"Content-Type": "application/json", **(headers or {})}
        )
        return await self.http.post(self.url, content=body, headers=plain)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        response = await self.post(json.dumps(message))
        assert response.status_code == 202 and response.content == b"", (response.status_code, response.content)

    async def _reply(self, message: dict[str, Any]) -> None:
        response = await self.post(json.dumps(message))
        assert response.status_code == 202, (response.status_code, response.content)

    @contextlib.asynccontextmanager
    async def stream(self, last_event_id: str | None = None) -> AsyncIterator[httpx2.Response]:
        """The GET stream of the session, or the rest of a response stream."""
        headers = self.headers(more={"Accept": "text/event-stream", "Last-Event-ID": last_event_id})
        async with self.http.stream("GET", self.url, headers=headers) as response:
            if response.status_code != 200:
                await response.aread()
                raise HttpRefusal(response.status_code, response.headers, response.content)
            yield response

    async def listen(self) -> None:
        """Hold the session's GET stream open in the background; returns when the server has opened it."""
        opened = asyncio.Event()

        async def hold() -> None:
            async with self.stream() as response:
                opened.set()
                async for event in events(response):
                    if event.data:
                        self.receive(event.message, None)

        self.background(hold())
        await asyncio.wait_for(opened.wait(), WAIT_SECONDS)

    async def subscribe(self, **notifications: Any) -> asyncio.Task[Any]:
        """Hold `subscriptions/listen` open in the background; returns when it is acknowledged."""
        before = len(self.received_params("notifications/subscriptions/acknowledged"))
        task = self.background(self.request("subscriptions/listen", {"notifications": notifications}))
        await self.wait_for_message("notifications/subscriptions/acknowledged", before + 1)
        return task

    def same_session(self) -> HttpClient:
        """Another client of the same session, with connections of its own."""
        other = HttpClient(self.url, self.token, self.revision, capabilities=self.capabilities, single=True)
        other.session_id = self.session_id
        return other

    async def close_session(self) -> int:
        response = await self.http.delete(self.url, headers=self.headers())
        return response.status_code


class WebSocketClient(_Client):
    """One socket."""

    def __init__(
        self, url: str, token: str, revision: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(token, revision, **options)
        self.url, self.extra = url, dict(headers or {})
        self._waiting: dict[Any, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self.socket: ClientConnection

    async def __aenter__(self) -> Self:
        self.socket = await connect(
            self.url,
            subprotocols=[Subprotocol("mcp")],
            additional_headers={"Authorization": f"Bearer {self.token}", **self.extra},
            open_timeout=WAIT_SECONDS,
            ping_timeout=WAIT_SECONDS,
            max_size=64 * 1024 * 1024,
            proxy=None,
        )
        assert self.socket.subprotocol == "mcp"
        self._reader = asyncio.get_running_loop().create_task(self._read())
        if not self.modern:
            self.server = await self.request("initialize", self.build_initialize_params())
            assert self.server["protocolVersion"] == self.revision
            await self.notify("notifications/initialized")
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._cancel_background()
        await self.socket.close()
        await asyncio.gather(self._reader, return_exceptions=True)
        if kind is None:
            self.check()

    async def _read(self) -> None:
        try:
            async for frame in self.socket:
                assert isinstance(frame, str), "a binary frame"
                message = json.loads(frame)
                for one in message if isinstance(message, list) else [message]:
                    self._sort(one)
        except (AssertionError, ValueError, OSError) as error:
            self._failures.append(error)
        except ConnectionClosed:
            pass
        finally:
            for _, waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError(f"the socket was closed: {self.socket.close_code}"))

    def _sort(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.receive(message, None)
            return
        method, waiting = self._waiting.pop(message.get("id"), (None, None))
        self.receive(message, method)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def send(self, message: Any) -> None:
        await self.socket.send(message if isinstance(message, str) else json.dumps(message))

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        request_id: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        message = self.message(method, params, request_id, **(meta or {}))
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = (method, waiting)
        await self.send(message)
        answer = await asyncio.wait_for(waiting, WAIT_SECONDS)
        if "error" in answer:
            raise RpcError(answer["error"], 0, answer.get("id"))
        result: dict[str, Any] = answer["result"]
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    async def _reply(self, message: dict[str, Any]) -> None:
        await self.send(message)

    async def closed(self) -> int:
        """Wait until the server closes the socket; the close code."""
        await asyncio.wait_for(self.socket.wait_closed(), WAIT_SECONDS)
        return self.socket.close_code or 0


async def events(response: httpx2.Response) -> AsyncIterator[Event]:
    """The events of a stream; comments are skipped."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line == "":
            if fields:
                yield Event(fields)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            assert not (name == "data" and "data" in fields), "one data line per message"
            fields[name] = value


def basic(token: str) -> str:
    """The Authorization header of a client that has put `hub:TOKEN@` into its address."""
    return "Basic " + b64encode(f"hub:{token}".encode()).decode()


def progress(messages: Iterable[Mapping[str, Any]], token: Any) -> list[float]:
    """The progress values that belong to a token, in order."""
    return [
        message["params"]["progress"]
        for message in messages
        if message.get("method") == "notifications/progress" and message["params"]["progressToken"] == token
    ]
