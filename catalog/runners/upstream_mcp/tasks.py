"""Calls that an upstream server runs as a task (2025-11-25, basic/utilities/tasks; experimental, gone in 2026-07-28).

Only tools that must run as a task are called that way: a task of the caller is a task of the hub. The status is polled
as often as the server wants. When it has a question, or is done, its result is asked for: that request stays open until
the end, and carries the questions.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from pydantic import ValidationError

from catalog.errors import ToolError
from catalog.functions.context import Context
from catalog.runners.upstream_mcp.exchange import carried_meta
from catalog.runners.upstream_mcp.link import Link

MIN_POLL_SECONDS, MAX_POLL_SECONDS, DEFAULT_POLL_SECONDS = 0.2, 30.0, 1.0
CANCEL_SECONDS = 1.5
"""Seconds that the server has to take the cancellation of a task."""
SPARE_SECONDS = 60.0
"""Seconds that the server shall keep a task beyond the deadline of the call."""


def has_tasks(link: Link) -> bool:
    """Return whether the server runs calls as tasks in this session."""
    tasks = link.client.server_capabilities.tasks if link.client is not None else None
    requests = tasks.requests if tasks is not None else None
    return requests is not None and requests.tools is not None and requests.tools.call is not None


async def call(link: Link, tool: str, arguments: dict[str, Any], context: Context) -> Any:
    """Return the CallToolResult of a task. Raises ToolError, MCPError; a cancelled call cancels its task."""
    task = await _start(link, tool, arguments, context)
    try:
        return await _finish(link, task, context)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await asyncio.wait_for(_cancel(link, task.task_id), CANCEL_SECONDS)
        raise


async def _start(link: Link, tool: str, arguments: dict[str, Any], context: Context) -> Any:
    from mcp_types import CallToolRequestParams, CreateTaskResult, TaskMetadata

    lifetime = max(0.0, context.deadline - asyncio.get_running_loop().time()) + SPARE_SECONDS
    params = CallToolRequestParams(
        name=tool,
        arguments=arguments,
        task=TaskMetadata(ttl=int(min(lifetime, 86_400) * 1000)),
        _meta=carried_meta(link, context),
    )
    # The public method of the session takes no other result of a call than a finished one.
    raw = await link.session._dispatcher.send_raw_request(
        "tools/call",
        params.model_dump(by_alias=True, mode="json", exclude_none=True),
        {"headers": {"mcp-protocol-version": link.revision}},
    )
    try:
        return CreateTaskResult.model_validate(raw, by_name=False).task
    except ValidationError:
        raise ToolError(f"{link.connection.label} did not start a task for the call.") from None


async def _finish(link: Link, task: Any, context: Context) -> Any:
    from mcp_types import (
        CallToolResult,
        GetTaskPayloadRequest,
        GetTaskPayloadRequestParams,
        GetTaskRequest,
        GetTaskRequestParams,
        GetTaskResult,
    )

    reported = None
    while task.status == "working":
        if task.status_message and task.status_message != reported:
            reported = task.status_message
            await context.log(reported, "info", None)
        await asyncio.sleep(_pause(task.poll_interval))
        request = GetTaskRequest(params=GetTaskRequestParams(task_id=task.task_id))
        task = await link.session.send_request(request, GetTaskResult)
    if task.status == "cancelled":
        raise ToolError(f"{link.connection.label} cancelled the task.")
    wanted = GetTaskPayloadRequest(params=GetTaskPayloadRequestParams(task_id=task.task_id))
    return await link.session.send_request(wanted, CallToolResult)


async def _cancel(link: Link, task_id: str) -> None:
    from mcp_types import CancelTaskRequest, CancelTaskRequestParams, CancelTaskResult

    await link.session.send_request(
        CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id)), CancelTaskResult
    )


def _pause(milliseconds: int | None) -> float:
    wanted = DEFAULT_POLL_SECONDS if milliseconds is None else milliseconds / 1000
    return min(max(wanted, MIN_POLL_SECONDS), MAX_POLL_SECONDS)
