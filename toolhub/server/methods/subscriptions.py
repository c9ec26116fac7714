"""subscriptions/listen (2026-07-28): a request whose answer is a stream of the notifications it asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from catalog.calls.resources import is_readable
from catalog.errors import SERVER_STOPPING, TASKS_EXTENSION, MissingCapability
from catalog.policy import visibility
from toolhub.server.methods import params, tasks
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc
from toolhub.wire.envelope import SUBSCRIPTION_ID
from toolhub.wire.errors import INVALID_REQUEST, McpError

MAX_URIS = 200
MAX_TASKS = 100
_FLAGS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


async def listen(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    """Acknowledge, then notify until the client disconnects or cancels, access is revoked, or the server stops.

    The last two end it with a result: the client then knows that the stream did not just break.
    """
    if not outlet.streaming:
        raise McpError(INVALID_REQUEST, "Invalid request: this needs a client that accepts text/event-stream")
    wanted = params.mapping(request.params, "notifications")
    if "notifications" not in request.params:
        raise params.invalid("`notifications` must be an object")
    kinds, uris, task_ids = await _agree(wanted, peer)
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def close(reason: str) -> None:
        if not ended.done():
            ended.set_result(reason)

    listener = server.subscribers.attach(
        peer, outlet.notify, close, kinds=kinds, uris=frozenset(uris), task_ids=frozenset(task_ids), tag=request.id
    )
    try:
        agreed: dict[str, Any] = {flag: True for flag, kind in _FLAGS.items() if kind in kinds}
        if uris:
            agreed["resourceSubscriptions"] = uris
        if task_ids:
            agreed["taskIds"] = task_ids
        listener.send("notifications/subscriptions/acknowledged", {"notifications": agreed})
        reason = await ended
    finally:
        listener.detach()
    meta = {SUBSCRIPTION_ID: request.id}
    if reason != SERVER_STOPPING:
        # A revocation, not an orderly end: the only purpose for which a server sends this notification.
        outlet.notify(
            jsonrpc.notification("notifications/cancelled", {"requestId": request.id, "reason": reason, "_meta": meta})
        )
    return {"_meta": meta}


async def _agree(wanted: dict[str, Any], peer: Peer) -> tuple[frozenset[str], list[str], list[str]]:
    """Return the honoured part of the request: resources and tasks only if they are this user's."""
    for flag in _FLAGS:
        if flag in wanted and type(wanted[flag]) is not bool:
            raise params.invalid(f"`notifications.{flag}` must be true or false")
    kinds = frozenset(kind for flag, kind in _FLAGS.items() if wanted.get(flag) is True)
    uris = _read_strings(wanted, "resourceSubscriptions", MAX_URIS)
    if uris:
        seen = visibility.for_credential(peer.caller.credential)
        uris = [uri for uri in uris if is_readable(seen, uri)]
    task_ids = _read_strings(wanted, "taskIds", MAX_TASKS)
    if task_ids:
        if not tasks.has_opted_in(peer):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        task_ids = [task_id for task_id in task_ids if await tasks.is_owned(task_id, peer)]
    return kinds, uris, task_ids


def _read_strings(wanted: dict[str, Any], member: str, max_entries: int) -> list[str]:
    found = wanted.get(member, [])
    if type(found) is not list or not all(type(one) is str for one in found):
        raise params.invalid(f"`notifications.{member}` must be a list of strings")
    if len(found) > max_entries:
        raise params.invalid(f"`notifications.{member}` may have at most {max_entries} entries")
    return list(dict.fromkeys(found))
