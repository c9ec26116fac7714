"""The tasks extension (2026-07-28): `tasks/get`, `tasks/update`, `tasks/cancel`, and calls that become tasks.

A task that the token does not reach is reported as unknown, and a client that did not opt in gets that error first.
`task_runner` runs the tasks; `catalog.calls.tasks` has their rows, which every worker can read.
"""

from __future__ import annotations

from typing import Any

from catalog.calls import call_tool
from catalog.calls import tasks as store
from catalog.errors import TASKS_EXTENSION, MissingCapability
from catalog.policy import visibility
from catalog.policy.definitions import ToolDefinition
from toolhub.server import task_runner
from toolhub.server.channels import CallChannel, ModernChannel
from toolhub.server.methods import params
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc
from toolhub.wire.errors import INVALID_PARAMS, McpError


def has_opted_in(peer: Peer) -> bool:
    return TASKS_EXTENSION in peer.capabilities.get("extensions", ())


def find_task_definition(name: str, peer: Peer, channel: CallChannel) -> ToolDefinition | None:
    """Return the tool, if this call of it becomes a task: every eligible call of a client that opted in.

    A call that may wait for other people is eligible, whatever the tool itself supports: they may take hours.
    """
    seen = visibility.for_credential(peer.caller.credential).tools.get(name)
    if seen is None or (
        seen[0].task_support == "forbidden" and not visibility.may_wait(peer.caller.credential, seen[0])
    ):
        return None
    definition = seen[0]
    if call_tool.asks_before_task(definition) and isinstance(channel, ModernChannel) and not channel.answers():
        return None
    return definition


async def create(
    definition: ToolDefinition,
    arguments: dict[str, Any],
    request: jsonrpc.Request,
    peer: Peer,
    outlet: Outlet,
    server: ServerRole,
) -> dict[str, Any]:
    """Start the call; answer after its log entry and its row are committed. Denials are as for any other call."""
    state = await server.tasks.start_run(definition, arguments, request, peer, outlet)
    return {"resultType": "task", **task_runner.task_summary(state)}


async def is_owned(task_id: str, peer: Peer) -> bool:
    return await store.get(peer.caller.credential, task_id) is not None


async def get(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    task_id = _read_task_id(request, peer)
    state = await store.get(peer.caller.credential, task_id)
    if state is None:
        raise _unknown_task()
    return task_runner.task_details(state)


async def update(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    """Accept answers; ignore keys without an open question."""
    task_id = _read_task_id(request, peer)
    responses = params.mapping(request.params, "inputResponses")
    if "inputResponses" not in request.params:
        raise params.invalid("`inputResponses` must be an object")
    state = await store.answer(peer.caller.credential, task_id, responses)
    if state is None:
        raise _unknown_task()
    await server.bus.publish(task_runner.ANSWERED, {"id": task_id}, state.worker)
    server.tasks.publish_change(task_id)
    return {}


async def cancel(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    """Store the cancellation request and notify the task's worker; an ended task stays as it is."""
    task_id = _read_task_id(request, peer)
    state = await store.request_cancel(peer.caller.credential, task_id)
    if state is None:
        raise _unknown_task()
    if state.is_open:
        await server.bus.publish(task_runner.CANCEL, {"id": task_id}, state.worker)
    return {}


def _read_task_id(request: jsonrpc.Request, peer: Peer) -> str:
    if not has_opted_in(peer):
        raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
    return params.text(request.params, "taskId")


def _unknown_task() -> McpError:
    return McpError(INVALID_PARAMS, "Invalid params: unknown task")
