"""An agent of Pydantic AI whose model is a script: it calls the tool, and calls it again when it reads an error.

Reads what to call from stdin, writes a line for everything that happens.
"""

from __future__ import annotations

import asyncio
import json
import sys

from approval_events import accept, heard, say
from fastmcp.client.elicitation import ElicitResult
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


async def answer(_message, _response_type, params, _context):
    return accept(params, ElicitResult)


async def main():
    task = json.load(sys.stdin)
    call = ToolCallPart(task["tool"], task["arguments"])

    def think(messages, _info):
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(json.dumps(last.content))])
        return ModelResponse(parts=[call])

    toolset = MCPToolset(
        task["url"],
        headers={"Authorization": f"Bearer {task['token']}"},
        progress_handler=heard,
        elicitation_handler=answer if task["asks"] else None,
        init_timeout=120,
        max_retries=2,
    )
    result = await Agent(FunctionModel(think), toolsets=[toolset]).run("Add these numbers.")
    say(result=result.output, error=False)


asyncio.run(main())
