"""An MCP server of 2025-11-25 that runs its calls as tasks, in plain JSON: the official Python server has no tasks."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WHEN = "2026-01-01T00:00:00Z"
CAPABILITIES: dict[str, Any] = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}


class TaskUpstream:
    """`polls` is how often a task says that it is working before it ends as `ends`."""

    def __init__(self, polls: int = 2, ends: str = "completed") -> None:
        self.polls, self.ends = polls, ends
        self.ledger: list[dict[str, Any]] = []
        self.polled = threading.Event()
        self._left = polls
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                upstream.ledger.append(message)
                answer = upstream._answer(message) if "id" in message else None
                body = b"" if answer is None else json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
                self.send_response(200 if answer is not None else 202)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.send_error(405)

            do_DELETE = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/mcp"

    def __enter__(self) -> TaskUpstream:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def methods(self) -> list[str]:
        """The requests about calls and tasks, in order."""
        return [entry["method"] for entry in self.ledger if entry["method"].startswith(("tools/call", "tasks/"))]

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        found = self._result(message)
        return {"error": {"code": -32601, "message": "no such method"}} if found is None else {"result": found}

    def _result(self, message: dict[str, Any]) -> dict[str, Any] | None:
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": "2025-11-25",
                    "capabilities": CAPABILITIES,
                    "serverInfo": {"name": "tasks", "version": "1"},
                }
            case "tools/list":
                return {"tools": [self._tool("slow", "required"), self._tool("either", "optional")]}
            case "tools/call" if "task" in message["params"]:
                self._left = self.polls
                return {"task": self._task("working")}
            case "tools/call" if message["params"]["name"] == "either":
                return {"content": [{"type": "text", "text": "at once"}]}
            case "tasks/get":
                self._left -= 1
                self.polled.set()
                return self._task("working" if self._left > 0 else self.ends)
            case "tasks/result":
                return {"content": [{"type": "text", "text": "done"}], "structuredContent": {"n": 1}}
            case "tasks/cancel":
                return self._task("cancelled")
        return None

    @staticmethod
    def _tool(name: str, support: str) -> dict[str, Any]:
        return {
            "name": name,
            "description": f"{name} work.",
            "inputSchema": {"type": "object"},
            "execution": {"taskSupport": support},
        }

    @staticmethod
    def _task(status: str) -> dict[str, Any]:
        return {
            "taskId": "t1",
            "status": status,
            "statusMessage": f"it is {status}",
            "createdAt": WHEN,
            "lastUpdatedAt": WHEN,
            "ttl": 60_000,
            "pollInterval": 200,
        }
