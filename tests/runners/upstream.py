"""Another MCP server to call tools of: the official Python server in a thread, with a ledger of what reached it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from tests.polling import wait_until

ANSWERING = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def tool(name: str, description: str, **more: Any) -> types.Tool:
    schema = {"type": "object", "properties": {"text": {"type": "string", "description": "Some text."}}}
    return types.Tool(name=name, description=description, input_schema=more.pop("input_schema", schema), **more)


class Upstream:
    """`legacy` ones know only the handshake, so that each connection has a session."""

    def __init__(self, *, legacy: bool = False) -> None:
        self.legacy = legacy
        self.tools = {
            one.name: one
            for one in (
                tool("whoami", "Say which session this is."),
                tool("ask", "Ask the person for a name."),
                tool("wait", "Wait until it is cancelled."),
                tool("fail", "Answer with an error of the protocol."),
                tool(
                    "misfit",
                    "Return what does not fit its schema.",
                    output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
                ),
                tool("announce", "Say that the list changed."),
            )
        }
        self.resources: list[types.Resource] = []
        self.templates: list[types.ResourceTemplate] = []
        self.contents: dict[str, types.TextResourceContents | types.BlobResourceContents] = {}
        """The content of each address; any other is an error of the protocol."""
        self.prompts: list[types.Prompt] = []
        self.suggestions: list[str] = []
        self.broken: set[str] = set()
        """Lists that end in an error of the protocol."""
        self.missing: dict[str, Any] = {}
        """The capabilities that `lacks` wants."""
        self.ledger: list[dict[str, Any]] = []
        """Headers, peer and body of every request."""
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.bus = InMemorySubscriptionBus()
        """Of those that know no session: who listens hears here that the list changed."""
        self.port = 0
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @contextmanager
    def running(self) -> Iterator[Upstream]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        more: Any = {} if self.legacy else {"on_subscriptions_listen": ListenHandler(self.bus)}
        if self.resources or self.templates:
            more |= {
                "on_list_resources": self._list_resources,
                "on_list_resource_templates": self._list_templates,
                "on_read_resource": self._read,
            }
        if self.prompts:
            more |= {"on_list_prompts": self._list_prompts, "on_get_prompt": self._prompt}
        if self.suggestions:
            more["on_completion"] = self._complete
        server = Server("local upstream", version="1", on_list_tools=self._list, on_call_tool=self._call, **more)
        inner = server.streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            body = b""
            while scope["method"] == "POST":
                part = await receive()
                body += part.get("body", b"")
                if not part.get("more_body"):
                    break
            headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
            self.ledger.append({"headers": headers, "peer": scope["client"], "body": body.decode()})
            if self.legacy and b'"server/discover"' in body:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            given = [{"type": "http.request", "body": body, "more_body": False}] if scope["method"] == "POST" else []

            async def again() -> Any:
                return given.pop() if given else await receive()

            await inner(scope, again, send)

        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_config=None, timeout_graceful_shutdown=1, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=asyncio.run, args=(self._server.serve(),), daemon=True)
        self._thread.start()
        wait_until(lambda: self._server is not None and self._server.started, 60, "the upstream")
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(120)
            self._server = None

    def calls(self) -> list[dict[str, Any]]:
        return [entry for entry in self.ledger if '"tools/call"' in entry["body"]]

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self.tools.values()))

    def _fail_if_broken(self, name: str) -> None:
        if name in self.broken:
            from mcp import MCPError

            raise MCPError(-32603, f"no {name} today", None)

    async def _list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        self._fail_if_broken("resources")
        return types.ListResourcesResult(resources=self.resources)

    async def _list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=self.templates)

    async def _read(self, context: Any, params: types.ReadResourceRequestParams) -> Any:
        from mcp import MCPError

        if str(params.uri) == "docs://question":
            responses = params.input_responses
            if self.legacy:
                answer = await context.session.elicit_form("Your name?", ANSWERING, context.request_id)
            elif not responses:
                question = types.ElicitRequest(
                    params=types.ElicitRequestFormParams(message="Your name?", requested_schema=ANSWERING)
                )
                return types.InputRequiredResult(input_requests={"name": question}, request_state="round 1")
            else:
                answer = responses["name"]
            said = types.TextResourceContents(uri="docs://question", text=str((answer.content or {}).get("name")))
            return types.ReadResourceResult(contents=[said])
        if str(params.uri) == "docs://headers":
            shown = types.TextResourceContents(uri="docs://headers", text=str(context.request.headers.get("x-key-id")))
            return types.ReadResourceResult(contents=[shown])
        if str(params.uri) not in self.contents:
            raise MCPError(-32002, "no such resource", None)
        return types.ReadResourceResult(contents=[self.contents[str(params.uri)]])

    async def _list_prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        self._fail_if_broken("prompts")
        return types.ListPromptsResult(prompts=self.prompts)

    async def _prompt(self, context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        said = types.TextContent(type="text", text=f"{params.name}: {json.dumps(params.arguments)}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def _complete(self, context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        found = [value for value in self.suggestions if value.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=found))

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> Any:
        def text(value: str, **more: Any) -> types.CallToolResult:
            return types.CallToolResult(content=[types.TextContent(type="text", text=value)], **more)

        match params.name:
            case "whoami":
                headers = context.request.headers
                return text(json.dumps({"session": headers.get("mcp-session-id"), "key": headers.get("x-key-id")}))
            case "ask":
                return await self._ask(context, params, text)
            case "wait":
                self.waiting.set()
                try:
                    await anyio.sleep(600)
                except anyio.get_cancelled_exc_class():
                    self.cancelled.set()
                    raise
            case "misfit":
                return text("five", structured_content={"n": "five"})
            case "lacks":
                from mcp import MCPError

                raise MCPError(-32021, "Missing required client capability", {"requiredCapabilities": self.missing})
            case "any":
                return types.CallToolResult(
                    content=[], structured_content=json.loads((params.arguments or {}).get("text", "null"))
                )
            case "announce":
                if self.legacy:
                    await context.session.send_tool_list_changed()
                else:
                    await self.bus.publish(ToolsListChanged())
                return text("said")
        from mcp import MCPError

        raise MCPError(-32005, "no such\u202e luck\x1b[31m", None)

    async def _ask(self, context: Any, params: types.CallToolRequestParams, text: Any) -> Any:
        if self.legacy:
            answer = await context.session.elicit_form("Your name?", ANSWERING, context.request_id)
            return text(f"{answer.action}: {(answer.content or {}).get('name')}")
        responses = params.input_responses
        if not responses:
            question = types.ElicitRequest(
                params=types.ElicitRequestFormParams(message="Your name?", requested_schema=ANSWERING)
            )
            return types.InputRequiredResult(input_requests={"name": question}, request_state="round 1")
        answered: Any = responses["name"]
        return text(f"{answered.action}: {(answered.content or {}).get('name')} after {params.request_state}")
