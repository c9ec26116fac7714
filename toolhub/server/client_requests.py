"""Requests of the server to the client (handshake era): sent on the call's own stream, answered by another message.

The answer may come in another POST that reaches another worker. Every id names the worker that asked, so the answer is
handed to it; there it counts only for the same session and user. An id is random, so nobody can guess an open one, and
a foreign or late answer is ignored.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from catalog.channel import Question
from catalog.errors import ClientLacks, ClientRefused
from toolhub.server import relay
from toolhub.server.peer import Outlet, Peer
from toolhub.wire import answers, jsonrpc

ANSWER = "client.answer"
ANSWER_SECONDS = 600.0
"""How long a person may take; the client is then told that nobody waits any more."""
PER_SCOPE = 50

_numbers = itertools.count(1)
_open: dict[str, _Pending] = {}


class _Pending:
    __slots__ = ("answer", "owner")

    def __init__(self, owner: tuple[str, int], answer: asyncio.Future[jsonrpc.Response]) -> None:
        self.owner, self.answer = owner, answer


async def ask(
    peer: Peer, outlet: Outlet, requests: Mapping[str, Question], seconds: float = ANSWER_SECONDS
) -> dict[str, dict[str, Any]]:
    """Send the requests, wait for all answers. Raises ClientRefused for an error answer or none in time."""
    if not outlet.streaming:
        raise ClientLacks("text/event-stream")
    owner = _owner(peer)
    if sum(pending.owner == owner for pending in _open.values()) + len(requests) > PER_SCOPE:
        raise ClientRefused("too many requests to it are open")
    loop = asyncio.get_running_loop()
    ids: dict[str, str] = {}
    try:
        for key, (method, params) in requests.items():
            request_id = f"{relay.WORKER}.{next(_numbers)}.{secrets.token_urlsafe(9)}"
            _open[request_id] = _Pending(owner, loop.create_future())
            ids[key] = request_id
            outlet.notify(jsonrpc.request(request_id, method, answers.outgoing(method, peer.revision, params) or None))
        results: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(seconds):
            for key, request_id in ids.items():
                response = await _open[request_id].answer
                if response.error is not None:
                    raise ClientRefused(str(response.error.get("message", ""))[:500])
                results[key] = response.result or {}
        return results
    except TimeoutError:
        raise ClientRefused(f"no answer within {seconds:g} s") from None
    finally:
        for request_id in ids.values():
            pending = _open.pop(request_id)
            # Cancelling a waiter cancels what it waits for, so a cancelled one was not answered either.
            if pending.answer.cancelled() or not pending.answer.done():
                pending.answer.cancel()
                outlet.notify(
                    jsonrpc.notification(
                        "notifications/cancelled", {"requestId": request_id, "reason": "the answer is no longer needed"}
                    )
                )


async def replied(response: jsonrpc.Response, peer: Peer) -> None:
    """An answer came in; if another worker asked, it is told."""
    request_id = response.id
    if not isinstance(request_id, str) or not peer.scope:
        return
    worker = request_id.partition(".")[0]
    if worker == relay.WORKER:
        _resolve(response, _owner(peer))
    elif worker.isalnum() and len(worker) == len(relay.WORKER) and worker.isascii():
        body = jsonrpc.encode(
            {"id": request_id, "error": response.error}
            if response.error is not None
            else {"id": request_id, "result": response.result}
        )
        session, user_id = _owner(peer)
        await relay.publish(ANSWER, {"session": session, "user": user_id, "body": body.decode()}, worker)


def waiting() -> int:
    return len(_open)


def _owner(peer: Peer) -> tuple[str, int]:
    return (peer.scope, peer.caller.credential.user_id)


def _resolve(response: jsonrpc.Response, owner: tuple[str, int]) -> None:
    pending = _open.get(str(response.id))
    if pending is not None and pending.owner == owner and not pending.answer.done():
        pending.answer.set_result(response)


def _answered_elsewhere(payload: dict[str, Any]) -> None:
    answered = jsonrpc.decode(str(payload["body"]).encode())
    response = jsonrpc.Response(answered["id"], answered.get("result"), answered.get("error"))
    _resolve(response, (str(payload["session"]), int(payload["user"])))


relay.on(ANSWER, _answered_elsewhere)
