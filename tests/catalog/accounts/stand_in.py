"""A service and its authorization server that answer whatever a test wants, in a thread of this process."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlsplit

AS_METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource/mcp"


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str] = field(default_factory=dict)
    document: Any = None


class StandIn:
    """`answers` are (status, body) or (status, body, headers) by path; a body that is no text is sent as JSON."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.url = ""

    def __enter__(self) -> Self:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers.get("content-length", 0))).decode())

            def _answer(self, body: str) -> None:
                path = urlsplit(self.path).path
                seen = Seen(self.command, path, {name.lower(): value for name, value in self.headers.items()})
                if seen.headers.get("content-type") == "application/json":
                    seen.document = json.loads(body)
                else:
                    seen.form = dict(parse_qsl(body))
                stand_in.seen.append(seen)
                status, content, *headers = stand_in.answers.get(path, (404, "nothing is here"))
                data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                kind = "text/plain" if isinstance(content, str) else "application/json"
                for name, value in {"Content-Type": kind, **(headers[0] if headers else {})}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.behave()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def behave(self) -> None:
        """A service and an authorization server as the specification wants them."""
        self.seen.clear()
        challenge = f'Bearer resource_metadata="{self.url}{RESOURCE_METADATA}", scope="notes:read"'
        self.answers = {
            "/mcp": (401, {"error": "invalid_token"}, {"WWW-Authenticate": challenge}),
            RESOURCE_METADATA: (200, self.resource()),
            AS_METADATA: (200, self.metadata()),
            "/register": (201, {"client_id": "registered-1", "client_secret": "registered-secret"}),
            "/token": (200, self.issued()),
            "/revoke": (200, ""),
        }

    def resource(self, **changes: Any) -> dict[str, Any]:
        return {"resource": f"{self.url}/mcp", "authorization_servers": [self.url], **changes}

    def metadata(self, **changes: Any) -> dict[str, Any]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "authorization_response_iss_parameter_supported": True,
            **changes,
        }
        return {name: value for name, value in found.items() if value is not None}

    def issued(self, **changes: Any) -> dict[str, Any]:
        found = {
            "access_token": "access-of-the-stand-in",
            "token_type": "Bearer",
            "expires_in": 3600,
            "refresh_token": "refresh-of-the-stand-in",
            **changes,
        }
        return {name: value for name, value in found.items() if value is not None}

    def requests(self, path: str) -> list[Seen]:
        return [one for one in self.seen if one.path == path]


def asked(address: str) -> dict[str, str]:
    """The parameters of an authorization request."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query, strict_parsing=True).items()}
