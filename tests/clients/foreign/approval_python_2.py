"""One call by the official Python SDK 2.x: reads what to call from stdin, writes a line for everything that happens.

Over HTTP, or over the pipe of a bridge that `command` starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

import httpx2
import mcp_types as types
from approval_events import accept, heard, say
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def answer(_context, params):
    return accept(params, types.ElicitResult)


def extensions(tasks):
    if not tasks:
        return None
    from fastmcp_tasks.client import TasksClientExtension

    return [TasksClientExtension()]


async def main():
    task = json.load(sys.stdin)
    async with contextlib.AsyncExitStack() as stack:
        if "command" in task:
            command, *arguments = task["command"]
            server = StdioServerParameters(command=command, args=arguments, env=task["env"])
        else:
            headers = {"Authorization": f"Bearer {task['token']}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False))
            server = streamable_http_client(task["url"], http_client=http)
        mode = "auto" if task["revision"] == "2026-07-28" else "legacy"
        client = await stack.enter_async_context(
            Client(
                server,
                mode=mode,
                elicitation_callback=answer if task["asks"] else None,
                extensions=extensions(task["tasks"]),
            )
        )
        result = await client.call_tool(task["tool"], task["arguments"], progress_callback=heard)
        say(revision=client.protocol_version, result=result.content[0].text, error=result.is_error)


asyncio.run(main())
