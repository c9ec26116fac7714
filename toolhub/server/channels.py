"""How a running call reaches its client: progress, log lines and questions, in both eras.

One object per call, and nothing in it is worked out before it is asked for: most calls never say anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from catalog.channel import Question
from catalog.errors import ClientLacks, NeedsInput
from toolhub.server import client_requests, request_state, sessions
from toolhub.server.peer import Outlet, Peer
from toolhub.wire import answers, jsonrpc
from toolhub.wire.errors import INVALID_PARAMS, McpError
from toolhub.wire.versions import LOG_SEVERITY

DEFAULT_LEVEL = "info"
"""What a handshake client hears that never set a level."""
MAX_LOG_LINES = 1000
"""Of one call: what comes after is dropped, so that no tool can drown its client."""
_CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class CallChannel(ABC):
    """What both eras have in common. `params` are the request's; `_meta.progressToken` in them asks for progress."""

    __slots__ = ("_lines", "_progress", "capabilities", "outlet", "peer", "request")

    def __init__(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet) -> None:
        self.request = request
        self.peer = peer
        self.outlet = outlet
        self.capabilities: Mapping[str, Any] = peer.capabilities
        self._progress: float | None = None
        self._lines = 0

    @property
    def request_id(self) -> str:
        return str(self.request.id)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        token = _progress_token(self.request.params)
        if token is None or not self.outlet.streaming or (self._progress is not None and progress <= self._progress):
            return
        self._progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        params = answers.outgoing("notifications/progress", self.peer.revision, params)
        self.outlet.notify(jsonrpc.notification("notifications/progress", params))

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        wanted = self._level()
        if wanted is None or not self.outlet.streaming or LOG_SEVERITY.get(level, 1) < LOG_SEVERITY[wanted]:
            return
        self._lines += 1
        if self._lines > MAX_LOG_LINES:
            return
        params: dict[str, Any] = {"level": level if level in LOG_SEVERITY else "info", "data": data}
        if logger is not None:
            params["logger"] = logger
        self.outlet.notify(jsonrpc.notification("notifications/message", params))

    @abstractmethod
    def _level(self) -> str | None:
        """The least severe level that the client wants; None when it wants none."""

    @abstractmethod
    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """As in `catalog.channel.Channel`."""

    def close_stream(self) -> None:
        return


class HandshakeChannel(CallChannel):
    __slots__ = ()

    def _level(self) -> str | None:
        session = self.peer.session
        level = sessions.level(session) if session is not None else None
        return level or self.peer.log_level or DEFAULT_LEVEL

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        return await client_requests.ask(self.peer, self.outlet, requests)

    def close_stream(self) -> None:
        if self.peer.revision == "2025-11-25" and not self.peer.connection:
            self.outlet.close()


class ModernChannel(CallChannel):
    """Answers come with the request: those of earlier rounds in `requestState`, the newest in `inputResponses`."""

    __slots__ = ("_answers",)

    def __init__(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet) -> None:
        super().__init__(request, peer, outlet)
        self._answers: dict[str, Any] | None = None

    def _level(self) -> str | None:
        return self.peer.log_level

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        given = self.answers()
        if missing := {key: question for key, question in requests.items() if key not in given}:
            raise NeedsInput(missing, given)
        return {key: given[key] for key in requests}

    def answers(self) -> dict[str, Any]:
        if self._answers is None:
            self._answers = given_answers(self.request, self.peer)
        return self._answers


def given_answers(request: jsonrpc.Request, peer: Peer) -> dict[str, Any]:
    """What the client has answered so far. Raises McpError when `requestState` or `inputResponses` are not good."""
    params = request.params
    earlier: dict[str, Any] = {}
    if "requestState" in params:
        name, arguments = subject(request)
        earlier = request_state.unseal(
            params["requestState"], peer.caller.credential.user_id, request.method, name, arguments
        )
    newest = params.get("inputResponses", {})
    if not isinstance(newest, dict):
        raise McpError(INVALID_PARAMS, "Invalid params: `inputResponses` must be an object")
    # What was answered stays answered: a later round cannot rewrite what the function has already acted upon.
    return {**newest, **earlier}


def subject(request: jsonrpc.Request) -> tuple[str, dict[str, Any]]:
    """The name and arguments that a request is about; what a `requestState` is bound to."""
    params = request.params
    name = params.get("uri") if request.method == "resources/read" else params.get("name")
    arguments = params.get("arguments")
    return str(name), arguments if isinstance(arguments, dict) else {}


def require_capabilities(requests: Mapping[str, Question], capabilities: Mapping[str, Any]) -> None:
    """Nothing is asked that the client did not declare. Raises ClientLacks."""
    for method, params in requests.values():
        name = _CAPABILITY.get(method, method)
        declared = capabilities.get(name)
        if declared is None:
            raise ClientLacks(name)
        if name == "elicitation":
            mode = params.get("mode", "form")
            if mode not in declared and not (mode == "form" and not declared):
                raise ClientLacks(f"elicitation.{mode}")
        elif name == "sampling" and ("tools" in params or "toolChoice" in params) and "tools" not in declared:
            raise ClientLacks("sampling.tools")


def open_channel(request: jsonrpc.Request, peer: Peer, outlet: Outlet) -> CallChannel:
    if peer.era == "modern":
        params = request.params
        channel = ModernChannel(request, peer, outlet)
        if "requestState" in params or "inputResponses" in params:
            channel.answers()  # a bad one is refused before anything runs, whether or not the function would look
        return channel
    return HandshakeChannel(request, peer, outlet)


def _progress_token(params: dict[str, Any]) -> str | int | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if type(meta) is dict else None
    return token if type(token) is str or type(token) is int else None
