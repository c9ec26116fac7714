"""A small HTTP server in a thread, whose answers a test decides: a provider that misbehaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    query: dict[str, str]
    form: dict[str, str]
    headers: dict[str, str]


@dataclass(slots=True)
class Answer:
    body: Any = field(default_factory=dict)
    """Sent as JSON, or as it is when it is bytes."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class StandIn:
    """`answers` maps a path to an answer, or to a function that makes one of the request."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[Asked], Answer]] = {}
        self.asked: list[Asked] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stand_in._answer(self)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def count(self, path: str) -> int:
        return sum(one.path == path for one in self.asked)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(parts.path, dict(parse_qsl(parts.query)), dict(parse_qsl(content)), headers)
        self.asked.append(asked)
        found = self.answers.get(parts.path, Answer({"message": "Not Found"}, 404))
        answer = found if isinstance(found, Answer) else found(asked)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
