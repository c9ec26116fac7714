"""A hub in this process, reached through its ASGI application."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from tests import factories
from tests.server.conftest import hub as hub
from tests.server.conftest import refresh_catalogue
from tests.transports import functions
from tests.transports.windows import Window, sign_in
from tests.transports.wire import Request, Wire
from toolhub.access.models import AccessToken
from toolhub.hub import Hub
from toolhub.parts import parts
from toolhub.transports.live import Socket
from toolhub.wire.envelope import NAME_MEMBERS
from toolhub.wire.headers import encode_value

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
_ids = itertools.count(1)


class Person:
    """Somebody with a token: what a well-behaved client of theirs would send, to be spoiled by the test."""

    def __init__(self, wire: Wire, user: User, token: str) -> None:
        self.wire, self.user, self.token = wire, user, token
        self.session = ""

    def plain(self, **more: str | None) -> dict[str, str]:
        """Headers of any POST; underscores stand for dashes, None leaves one out."""
        headers: dict[str, str | None] = {
            "host": "localhost:8000",
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        return {name: value for name, value in headers.items() if value is not None}

    def message(self, method: str, params: Mapping[str, Any] | None = None, id: Any = None) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "id": next(_ids) if id is None else id,
            "method": method,
            "params": dict(params or {}),
        }

    async def modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        id: Any = None,
        **headers: str | None,
    ) -> Request:
        return await self.begin_modern(method, params, meta=meta, id=id, **headers).answer()

    def begin_modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        id: Any = None,
        **headers: str | None,
    ) -> Request:
        envelope = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": {"name": "test", "version": "1"},
            f"{META}clientCapabilities": {},
        }
        filled = {"_meta": {**envelope, **(meta or {})}, **(params or {})}
        expected: dict[str, str | None] = {"mcp_protocol_version": MODERN, "mcp_method": method}
        name = filled.get(NAME_MEMBERS.get(method, ""))
        if isinstance(name, str):
            expected["mcp_name"] = encode_value(name)
        return self.wire.begin("POST", self.plain(**{**expected, **headers}), self.message(method, filled, id))

    async def begin_session(self, revision: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None) -> str:
        hello = {
            "protocolVersion": revision,
            "capabilities": dict(capabilities or {}),
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.wire.send("POST", self.plain(), self.message("initialize", hello))
        assert answer.status == 200, answer.body
        self.session = answer.header("mcp-session-id") or ""
        return self.session

    def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = None, **headers: str | None
    ) -> Request:
        """A request within the session."""
        return self.wire.begin(
            "POST", self.plain(**{"mcp_session_id": self.session, **headers}), self.message(method, params, id)
        )

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> Request:
        return await self.begin(method, params, **more).answer()

    async def post(self, body: Any, **headers: str | None) -> Request:
        """Any body within the session."""
        return await self.wire.send("POST", self.plain(**{"mcp_session_id": self.session, **headers}), body)

    def listen(self, **headers: str | None) -> Request:
        """The GET stream of the session."""
        more = {"mcp_session_id": self.session, "accept": "text/event-stream", "content_type": None, **headers}
        return self.wire.begin("GET", self.plain(**more))


def sockets() -> list[Socket]:
    """The sockets of pages that the hub of this test has open."""
    return list(parts.get(Hub).sockets)


@pytest.fixture
def wire(hub: Hub) -> Wire:
    return Wire(hub)


@pytest.fixture
def person(wire: Wire, transactional_db: None) -> Callable[..., Person]:
    def make(user: User, **fields: Any) -> Person:
        return Person(wire, user, AccessToken.objects.issue(user, "test", **fields)[1])

    return make


@pytest.fixture
def publish(settings: Any, transactional_db: None) -> Callable[..., Any]:
    """publish(user, "t_add", ...): tools of `tests.transports.functions`, granted to the user."""
    from catalog.functions.registry import lookup

    settings.TOOL_MODULES = [*settings.TOOL_MODULES, functions.__name__]

    def make(user: User | None, *names: str, **fields: Any) -> Any:
        tool = None
        for name in names:
            found = lookup("tool", name)
            tool = factories.make_tool(
                name,
                function=name,
                input_schema=fields.pop("input_schema", found.input_schema),
                timeout=found.options["timeout"],
                **fields,
            )
            if user is not None:
                factories.grant(user, tool)
        return tool

    return make


async def run_in_database(work: Callable[..., Any], *args: Any, **named: Any) -> Any:
    return await sync_to_async(work)(*args, **named)


@pytest.fixture
async def with_tools(alice: User, person: Any, publish: Any) -> AsyncIterator[Any]:
    """await with_tools("t_add", ...): alice with a token and these tools; calls that wait are let go at the end."""

    async def make(*names: str) -> Person:
        def fill() -> Person:
            publish(alice, *names)
            made: Person = person(alice)
            return made

        made = await run_in_database(fill)
        await refresh_catalogue()
        return made

    yield make
    for event in functions.GO.values():
        event.set()


@pytest.fixture
async def windows(wire: Wire) -> AsyncIterator[Any]:
    """windows(user) opens a page's socket; all are closed at the end."""
    made: list[Window] = []

    async def make(user: User | None = None, key: str | None = None, **headers: str | None) -> Window:
        found = await run_in_database(sign_in, user) if user is not None else key or ""
        made.append(Window(wire, found, **headers))
        return made[-1]

    yield make
    for window in made:
        if not window.task.done():
            await window.leave()


@pytest.fixture
def label(request: pytest.FixtureRequest) -> str:
    """A name for the call of this test, which can be waited for and let go."""
    name: str = request.node.name
    functions.STARTED[name], functions.GO[name] = asyncio.Event(), asyncio.Event()
    return name
