"""A hub without a transport: clients that talk to the server role directly, every message judged as it is sent."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from audit.types import Credential
from catalog.functions import registry
from catalog.policy import snapshot
from tests import factories
from tests.polling import wait_until_async
from tests.server import functions as published
from tests.wire.official import validate_server_message
from toolhub.access.models import AccessToken
from toolhub.hub import Hub
from toolhub.parts import parts
from toolhub.server import dispatch
from toolhub.server import peer as peers
from toolhub.server.methods import lifecycle
from toolhub.server.peer import Peer, Session
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc
from toolhub.wire.envelope import Envelope
from toolhub.wire.errors import McpError

MODERN = "2026-07-28"
ASKABLE: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
_ids = itertools.count(1)


class Outlet:
    """The stream of one request, kept in memory. What is not a valid message of the revision fails the test."""

    def __init__(self, revision: str, capabilities: dict[str, Any], *, streaming: bool = True) -> None:
        self.streaming = streaming
        self.revision, self.capabilities = revision, capabilities
        self.messages: list[dict[str, Any]] = []
        self.closed = False
        self.retry_after: int | None = None
        self.lacking_scope = ""

    def notify(self, message: dict[str, Any]) -> None:
        jsonrpc.encode(message)
        if message.get("method") != "notifications/tasks":  # the official types know no extensions
            validate_server_message(self.revision, message, capabilities=self.capabilities)
        self.messages.append(message)

    def refuse(self, seconds: int) -> None:
        self.retry_after = seconds

    def challenge(self, scope: str) -> None:
        self.lacking_scope = scope

    def close(self) -> None:
        self.closed = True

    def of(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("method") == method]

    async def first(self, method: str, count: int = 1) -> dict[str, Any]:
        await wait_until_async(lambda: len(self.of(method)) >= count, what=f"{count} x {method}")
        return self.of(method)[count - 1]


def server() -> ServerRole:
    """The server role of the hub that this test runs."""
    return parts.get(Hub).server


class Client:
    """One client of one person."""

    def __init__(self, peer: Peer, capabilities: dict[str, Any]) -> None:
        self.peer, self.capabilities = peer, capabilities
        self.server = server()

    @property
    def session(self) -> Session:
        assert self.peer.session is not None
        return self.peer.session

    def outlet(self, **options: Any) -> Outlet:
        return Outlet(self.peer.revision, self.capabilities, **options)

    async def send(
        self, method: str, params: dict[str, Any] | None = None, *, outlet: Outlet | None = None, id: Any = None
    ) -> dict[str, Any]:
        """The whole answer, judged."""
        request = jsonrpc.Request(next(_ids) if id is None else id, method, params or {})
        try:
            message = jsonrpc.result(
                request.id, await dispatch.answer(request, self.peer, outlet or self.outlet(), self.server)
            )
        except McpError as error:
            message = jsonrpc.error(request.id, error)
        jsonrpc.encode(message)
        validate_server_message(self.peer.revision, message, method, self.capabilities)
        return message

    async def result(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        message = await self.send(method, params, **options)
        assert "result" in message, message
        found: dict[str, Any] = message["result"]
        return found

    async def error(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        message = await self.send(method, params, **options)
        assert "error" in message, message
        found: dict[str, Any] = message["error"]
        return found

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        outlet = more.pop("outlet", None)
        params = {"name": name, **({} if arguments is None else {"arguments": arguments}), **more}
        return await self.send("tools/call", params, outlet=outlet)

    def start(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> asyncio.Task[dict[str, Any]]:
        return asyncio.get_running_loop().create_task(self.send(method, params, **options))

    async def reply(self, request_id: str, **answer: Any) -> None:
        await dispatch.handle_response(jsonrpc.Response(request_id, **answer), self.peer, self.server)

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        await dispatch.handle_notification(jsonrpc.Notification(method, params or {}), self.peer, self.server)


def text(message: dict[str, Any]) -> str:
    found: str = message["result"]["content"][0]["text"]
    return found


def modern(
    credential: Credential,
    capabilities: dict[str, Any] | None = None,
    *,
    connection: str = "",
    level: str | None = None,
) -> Client:
    declared = ASKABLE if capabilities is None else capabilities
    envelope = Envelope(MODERN, "test client", "1", declared, level, None)
    transport = "websocket" if connection else "http"
    return Client(peers.modern(envelope, credential, transport, "192.0.2.1", connection), declared)


async def handshake(
    credential: Credential,
    revision: str = "2025-11-25",
    capabilities: dict[str, Any] | None = None,
    connection: str = "",
) -> Client:
    declared = ASKABLE if capabilities is None else capabilities
    request = jsonrpc.Request(
        0,
        "initialize",
        {"protocolVersion": revision, "capabilities": declared, "clientInfo": {"name": "test client", "version": "1"}},
    )
    session, result = await lifecycle.initialize(request, credential, server())
    validate_server_message(session.revision, jsonrpc.result(0, result), "initialize")
    transport = "websocket" if connection else "http"
    return Client(peers.handshake(session, credential, transport, "192.0.2.1", connection), declared)


@pytest.fixture
def published_functions(settings: Any) -> None:
    settings.TOOL_MODULES = [*settings.TOOL_MODULES, published.__name__]


@pytest.fixture
def publish(published_functions: None, transactional_db: None) -> Callable[..., Any]:
    """publish(user, "server_add", ...): tools of these functions, granted to the user."""

    def make(user: User | None, *names: str, **fields: Any) -> Any:
        tool = None
        for name in names:
            function = registry.lookup("tool", name)
            options = function.options
            tool = factories.make_tool(
                name,
                function=name,
                description=function.description,
                input_schema=function.input_schema,
                output_schema=function.output_schema,
                timeout=options["timeout"],
                task_support=options["task_support"],
                requires_capabilities=options["requires_capabilities"],
                **fields,
            )
            if user is not None:
                factories.grant(user, tool)
        return tool

    return make


@pytest.fixture
async def hub(transactional_db: None) -> AsyncIterator[Hub]:
    """A hub of this test, started on the test's own event loop and stopped at its end."""
    hub = Hub()
    await hub.start()
    yield hub
    await hub.stop(0)


async def token(user: User, name: str = "laptop") -> Credential:
    """A credential with a real token behind it: what is open is closed when the database does not know it."""

    def issue() -> Credential:
        row, _ = AccessToken.objects.issue(user, name)
        return factories.credential(user, id=row.credential_id)

    found: Credential = await sync_to_async(issue)()
    return found


async def refresh_catalogue() -> None:
    """Let the running hub see what the test just changed in the catalogue."""
    await snapshot.reload()
    await asyncio.sleep(0)


async def run_in_database(work: Callable[..., Any], *args: Any, **fields: Any) -> Any:
    return await sync_to_async(work)(*args, **fields)
