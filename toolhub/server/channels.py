"""Channels of running calls to their clients: progress, log lines and questions, over both transports.

There is one object per call, and everything in it is computed on demand: most calls never send anything.

Requests of the server to the client (stateful transport) are sent on the call's own stream and answered by another
message. The answer may come in another POST that reaches another worker. Every id names the asking worker, so the
answer is passed on to it; there it counts only for the same session and user. An id is signed for them, so an open one
cannot be guessed, a foreign or late answer is ignored, and what nobody asked is not passed on.

`requestState` of 2026-07-28 is the state that a call with open questions gives to the client, and gets back with the
answers. It is signed, bound to the user, the method, the name and the arguments, and valid for an hour. It carries the
answers of earlier rounds, so no worker stores anything. A fresh nonce makes every round's state different.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core import signing
from django.utils.crypto import constant_time_compare, salted_hmac

from catalog.errors import ClientLacks, ClientRefused, NeedsInput
from catalog.functions.channel import Question
from toolhub.server.bus import Bus
from toolhub.server.peer import Outlet, Peer
from toolhub.server.sessions import Sessions
from toolhub.wire import jsonrpc, shapes
from toolhub.wire.errors import INVALID_PARAMS, McpError
from toolhub.wire.versions import LOG_SEVERITY

ANSWER = "client.answer"
ANSWER_SECONDS = 600.0
"""Maximum seconds for a person's answer; after that the client is notified that no call waits for it."""
MAX_OPEN_REQUESTS_PER_SCOPE = 50


class _Pending:
    __slots__ = ("answer", "owner")

    def __init__(self, owner: tuple[str, int], answer: asyncio.Future[jsonrpc.Response]) -> None:
        self.owner, self.answer = owner, answer


def _owner(peer: Peer) -> tuple[str, int]:
    return (peer.scope, peer.caller.credential.user_id)


ID_SALT = "toolhub.server.requestId"


def _sign_id(text: str, owner: tuple[str, int]) -> str:
    signed = salted_hmac(ID_SALT, f"{text} {owner[0]} {owner[1]}", algorithm="sha256").hexdigest()[:24]
    return f"{text}.{signed}"


def _is_signed(request_id: str, owner: tuple[str, int]) -> bool:
    text = request_id.rpartition(".")[0]
    return constant_time_compare(_sign_id(text, owner), request_id)


SALT = "toolhub.server.requestState"
STATE_TTL_SECONDS = 3600
MAX_ANSWERS_CHARACTERS = 1_000_000
"""Of the answers that a state carries. Bounded before they are compressed: a small state could carry a gigabyte."""
MAX_STATE_CHARACTERS = 1_500_000

_dump = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def seal(
    user_id: int,
    method: str,
    name: str,
    arguments: dict[str, Any],
    answers: dict[str, Any],
    call_id: UUID | None = None,
) -> str:
    content = [user_id, method, name, digest(arguments), secrets.token_urlsafe(9), answers, str(call_id or "")]
    if len(_dump(answers)) > MAX_ANSWERS_CHARACTERS:
        sentence = f"The answers to the questions of this call have more than {MAX_ANSWERS_CHARACTERS:,} characters"
        raise McpError(INVALID_PARAMS, f"Invalid params: {sentence}")
    return signing.dumps(content, salt=SALT, compress=True)


def unseal(state: object, user_id: int, method: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of earlier rounds. Raises McpError unless the state was made for this call and user."""
    return dict(_open(state, user_id, method, name, arguments)[5])


def find_round(state: object, user_id: int, method: str, name: str, arguments: dict[str, Any]) -> UUID | None:
    """Return the id of the call that ended with the questions of this state, if it says. Raises McpError."""
    content = _open(state, user_id, method, name, arguments)
    return UUID(content[6]) if len(content) > 6 and content[6] else None


def _open(state: object, user_id: int, method: str, name: str, arguments: dict[str, Any]) -> list[Any]:
    if not isinstance(state, str) or len(state) > MAX_STATE_CHARACTERS:
        raise _invalid()
    try:
        content: list[Any] = signing.loads(state, salt=SALT, max_age=STATE_TTL_SECONDS)
    except signing.BadSignature:
        raise _invalid() from None
    if content[:4] != [user_id, method, name, digest(arguments)]:
        raise _invalid()
    return list(content)


def digest(arguments: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(arguments).encode()).hexdigest()


def _invalid() -> McpError:
    # One error for tampered, foreign and expired states: it reveals nothing about other users' calls.
    return McpError(
        INVALID_PARAMS, "Invalid params: `requestState` is not valid for this request; start again without it"
    )


DEFAULT_LEVEL = "info"
"""The log level of a stateful client that never set one."""
MAX_LOG_LINES = 1000
"""Maximum log lines of one call: later ones are dropped, so that no tool can flood its client."""
_CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class CallChannel(ABC):
    """Common base of both transports' channels.

    `params` are the request's; `_meta.progressToken` in them asks for progress.
    """

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

    @property
    def meta(self) -> Mapping[str, Any]:
        found = self.request.params.get("_meta")
        return found if isinstance(found, dict) else {}

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
        params = shapes.outgoing("notifications/progress", self.peer.revision, params)
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

    @property
    def continues(self) -> UUID | None:
        return None

    @abstractmethod
    def _level(self) -> str | None:
        """Return the least severe level that the client wants; None when it wants none."""

    @abstractmethod
    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask as in `catalog.functions.channel.Channel`."""

    def close_stream(self) -> None:
        return


class HandshakeChannel(CallChannel):
    """A channel of the stateful transport: questions are requests on the call's stream, answered in other messages."""

    __slots__ = ("_channels",)

    def __init__(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet, channels: Channels) -> None:
        super().__init__(request, peer, outlet)
        self._channels = channels

    def _level(self) -> str | None:
        session = self.peer.session
        level = self._channels.sessions.level(session) if session is not None else None
        return level or self.peer.log_level or DEFAULT_LEVEL

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        return await self._channels.ask(self.peer, self.outlet, requests)

    def close_stream(self) -> None:
        if self.peer.revision == "2025-11-25" and not self.peer.connection:
            self.outlet.close()


class ModernChannel(CallChannel):
    """A channel of the stateless transport: answers come with the request.

    Those of earlier rounds are in `requestState`, the newest in `inputResponses`.
    """

    __slots__ = ("_answers", "_used")

    def __init__(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet) -> None:
        super().__init__(request, peer, outlet)
        self._answers: dict[str, Any] | None = None
        self._used: set[str] = set()

    def _level(self) -> str | None:
        return self.peer.log_level

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        given = self.answers()
        self._used |= requests.keys()
        if missing := {key: question for key, question in requests.items() if key not in given}:
            # Only what was asked in this call: the client chooses the names of what it sends.
            raise NeedsInput(missing, {key: answer for key, answer in given.items() if key in self._used})
        return {key: given[key] for key in requests}

    @property
    def continues(self) -> UUID | None:
        params = self.request.params
        if "requestState" not in params:
            return None
        user_id = self.peer.caller.credential.user_id
        return find_round(params["requestState"], user_id, self.request.method, *subject(self.request))

    def answers(self) -> dict[str, Any]:
        if self._answers is None:
            self._answers = read_answers(self.request, self.peer)
        return self._answers


def read_answers(request: jsonrpc.Request, peer: Peer) -> dict[str, Any]:
    """Return the client's answers so far. Raises McpError when `requestState` or `inputResponses` are invalid."""
    params = request.params
    earlier: dict[str, Any] = {}
    if "requestState" in params:
        name, arguments = subject(request)
        earlier = unseal(params["requestState"], peer.caller.credential.user_id, request.method, name, arguments)
    newest = params.get("inputResponses", {})
    if not isinstance(newest, dict):
        raise McpError(INVALID_PARAMS, "Invalid params: `inputResponses` must be an object")
    # Earlier answers are final: a later round cannot rewrite answers that the function has already acted upon.
    return {**newest, **earlier}


def subject(request: jsonrpc.Request) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a request, to which its `requestState` is bound."""
    params = request.params
    name = params.get("uri") if request.method == "resources/read" else params.get("name")
    arguments = params.get("arguments")
    return str(name), arguments if isinstance(arguments, dict) else {}


def require_capabilities(requests: Mapping[str, Question], capabilities: Mapping[str, Any]) -> None:
    """Check that the client declared support for every request. Raises ClientLacks."""
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


def _progress_token(params: dict[str, Any]) -> str | int | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if type(meta) is dict else None
    return token if type(token) is str or type(token) is int else None


class Channels:
    """The channels of running calls, and the requests to clients that wait for an answer."""

    def __init__(self, bus: Bus, sessions: Sessions) -> None:
        self.sessions = sessions
        self._bus = bus
        self._numbers = itertools.count(1)
        self._open: dict[str, _Pending] = {}
        bus.on(ANSWER, self._on_answer)

    def open(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet) -> CallChannel:
        """Make the channel of one request. Raises McpError when its `requestState` or `inputResponses` are invalid."""
        if peer.era == "modern":
            params = request.params
            channel = ModernChannel(request, peer, outlet)
            if "requestState" in params or "inputResponses" in params:
                channel.answers()  # reject an invalid one before anything runs, even if the function would not read it
            return channel
        return HandshakeChannel(request, peer, outlet, self)

    async def ask(
        self, peer: Peer, outlet: Outlet, requests: Mapping[str, Question], seconds: float = ANSWER_SECONDS
    ) -> dict[str, dict[str, Any]]:
        """Send the requests, wait for all answers. Raises ClientRefused for an error answer or none in time."""
        if not outlet.streaming:
            raise ClientLacks("text/event-stream")
        owner = _owner(peer)
        if sum(pending.owner == owner for pending in self._open.values()) + len(requests) > MAX_OPEN_REQUESTS_PER_SCOPE:
            raise ClientRefused("too many requests to this client are open")
        loop = asyncio.get_running_loop()
        ids: dict[str, str] = {}
        try:
            for key, (method, params) in requests.items():
                request_id = _sign_id(f"{self._bus.worker}.{next(self._numbers)}", owner)
                self._open[request_id] = _Pending(owner, loop.create_future())
                ids[key] = request_id
                outlet.notify(
                    jsonrpc.request(request_id, method, shapes.outgoing(method, peer.revision, params) or None)
                )
            results: dict[str, dict[str, Any]] = {}
            async with asyncio.timeout(seconds):
                for key, request_id in ids.items():
                    response = await self._open[request_id].answer
                    if response.error is not None:
                        raise ClientRefused(str(response.error.get("message", ""))[:500])
                    results[key] = response.result or {}
            return results
        except TimeoutError:
            raise ClientRefused(f"no answer within {seconds:g} s") from None
        finally:
            for request_id in ids.values():
                pending = self._open.pop(request_id)
                # Cancelling a waiter cancels its future, so a cancelled one was not answered either.
                if pending.answer.cancelled() or not pending.answer.done():
                    pending.answer.cancel()
                    outlet.notify(
                        jsonrpc.notification(
                            "notifications/cancelled",
                            {"requestId": request_id, "reason": "the answer is no longer needed"},
                        )
                    )

    async def handle_reply(self, response: jsonrpc.Response, peer: Peer) -> None:
        """Handle an answer; pass it on if another worker asked."""
        request_id = response.id
        if not isinstance(request_id, str) or not peer.scope:
            return
        worker = request_id.partition(".")[0]
        if worker == self._bus.worker:
            self._resolve(response, _owner(peer))
        elif _is_signed(request_id, _owner(peer)):
            body = jsonrpc.encode(
                {"id": request_id, "error": response.error}
                if response.error is not None
                else {"id": request_id, "result": response.result}
            )
            session, user_id = _owner(peer)
            await self._bus.publish(ANSWER, {"session": session, "user": user_id, "body": body.decode()}, worker)

    def count_open(self) -> int:
        return len(self._open)

    def _resolve(self, response: jsonrpc.Response, owner: tuple[str, int]) -> None:
        pending = self._open.get(str(response.id))
        if pending is not None and pending.owner == owner and not pending.answer.done():
            pending.answer.set_result(response)

    def _on_answer(self, payload: dict[str, Any]) -> None:
        answered = jsonrpc.decode(str(payload["body"]).encode())
        response = jsonrpc.Response(answered["id"], answered.get("result"), answered.get("error"))
        self._resolve(response, (str(payload["session"]), int(payload["user"])))
