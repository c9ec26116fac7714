"""A service that demands OAuth, in a process of its own: the official SDK's server with its authorization server.

    python -m tests.catalog.accounts.service

It prints its address. People sign in at `/login`, where a browser chooses a name. Refresh tokens are rotated, and one
that comes twice revokes everything that came from it. `POST /control` changes it, `GET /control` tells what it saw.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from tests.module_server import ModuleServer

TOOLS = ("whoami", "notes")


class People:
    """The provider that the SDK's authorization server asks; everything is in memory."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clients: dict[str, Any] = {}
        self.asked: dict[str, tuple[Any, Any]] = {}
        self.codes: dict[str, Any] = {}
        self.access: dict[str, Any] = {}
        self.refresh: dict[str, Any] = {}
        self.families: dict[str, str] = {}
        """Token -> the sign-in that it came from."""
        self.used: set[str] = set()
        self.expires_in = 3600
        self.refuse_refresh = ""
        self.seen = {"registered": 0, "refreshed": 0, "reused": 0, "revoked": 0, "calls": 0}
        self.callers: dict[str, set[str]] = {}
        """Name -> access tokens with which tools were called."""

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.seen["registered"] += 1
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        number = secrets.token_urlsafe(8)
        self.asked[number] = (client, params)
        return f"{self.url}/login?number={number}"

    def answer(self, number: str, name: str) -> str:
        """The address to which the browser goes after the person chose a name; "" declines."""
        from mcp.server.auth.provider import AuthorizationCode, construct_redirect_uri

        client, params = self.asked.pop(number)
        back = str(params.redirect_uri)
        if not name:
            return construct_redirect_uri(back, error="access_denied", state=params.state, iss=self.url)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=name,
        )
        return construct_redirect_uri(back, code=code, state=params.state, iss=self.url)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> Any:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code, secrets.token_hex(4))

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        if refresh_token in self.used:
            self.seen["reused"] += 1
            self._end(self.families[refresh_token])
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: list[str]) -> Any:
        from mcp.server.auth.provider import TokenError

        if self.refuse_refresh:
            raise TokenError(error=self.refuse_refresh)  # type: ignore[arg-type]
        self.seen["refreshed"] += 1
        self.used.add(refresh_token.token)
        del self.refresh[refresh_token.token]
        await asyncio.sleep(0.2)  # as long as a refresh may take: whoever else wants one comes now
        return self._issue(refresh_token, self.families[refresh_token.token])

    async def load_access_token(self, token: str) -> Any:
        found = self.access.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token: Any) -> None:
        self.seen["revoked"] += 1
        self._end(self.families[token.token])

    def _issue(self, grant: Any, family: str) -> Any:
        from mcp.server.auth.provider import AccessToken, RefreshToken
        from mcp.shared.auth import OAuthToken

        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        common = {
            "client_id": grant.client_id,
            "scopes": grant.scopes,
            "resource": grant.resource,
            "subject": grant.subject,
        }
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + self.expires_in, **common)
        self.refresh[refresh] = RefreshToken(token=refresh, **common)
        self.families[access] = self.families[refresh] = family
        return OAuthToken(
            access_token=access, expires_in=self.expires_in, scope=" ".join(grant.scopes), refresh_token=refresh
        )

    def _end(self, family: str) -> None:
        for tokens in (self.access, self.refresh):
            for token in [one for one in tokens if self.families[one] == family]:
                del tokens[token]

    def control(self, wanted: dict[str, Any]) -> None:
        self.expires_in = wanted.get("expires_in", self.expires_in)
        self.refuse_refresh = wanted.get("refuse_refresh", self.refuse_refresh)
        if "end" in wanted:  # an administrator there revokes everything of one person
            for token, found in list(self.access.items()):
                if found.subject == wanted["end"]:
                    self._end(self.families[token])
        if wanted.get("expire_access"):
            self.access.clear()

    def tell(self) -> dict[str, Any]:
        return {
            **self.seen,
            "callers": {name: len(tokens) for name, tokens in self.callers.items()},
            "tokens": sorted({*self.access, *self.refresh, *self.used}),
            "alive": len(self.access),
        }


def main() -> None:
    import uvicorn
    from mcp.server import MCPServer
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.settings import AuthSettings
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    people = People(url)
    server = MCPServer(
        "Notes",
        auth_server_provider=cast(Any, people),
        auth=AuthSettings.model_validate(  # from text: a parsed address would get a slash at its end
            {
                "issuer_url": url,
                "resource_server_url": f"{url}/mcp",
                "required_scopes": ["notes"],
                "validate_token_resource": True,
                "client_registration_options": {
                    "enabled": True,
                    "valid_scopes": ["notes"],
                    "default_scopes": ["notes"],
                },
                "revocation_options": {"enabled": True},
            }
        ),
    )

    def caller() -> str:
        found = get_access_token()
        assert found is not None and found.subject is not None
        people.seen["calls"] += 1
        people.callers.setdefault(found.subject, set()).add(found.token)
        return found.subject

    @server.tool()
    async def whoami() -> str:
        """Say whose account this is."""
        return caller()

    @server.tool()
    async def leak() -> str:
        """Say which token came."""
        found = get_access_token()
        return f"the token is {found.token if found else ''}"

    @server.prompt()
    def greeting() -> str:
        """Greet the owner of the account."""
        return f"Greet {caller()}."

    @server.resource("notes://mine")
    def mine() -> str:
        """The notes of the owner of the account."""
        return f"Notes of {caller()}."

    @server.custom_route("/login", methods=["GET"])
    async def login(request: Request) -> Response:
        number, name = request.query_params["number"], request.query_params.get("name")
        if name is None:
            links = "".join(
                f'<a href="?number={number}&name={one}">{one or "decline"}</a> ' for one in ("ann", "ben", "")
            )
            return HTMLResponse(f"<!doctype html><title>Notes</title><h1>Who are you?</h1>{links}")
        return RedirectResponse(people.answer(number, name), 302)

    @server.custom_route("/control", methods=["GET", "POST"])
    async def control(request: Request) -> Response:
        if request.method == "POST":
            people.control(await request.json())
        return JSONResponse(people.tell())

    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


class Service(ModuleServer):
    """The running service, for tests."""

    def __init__(self) -> None:
        super().__init__("tests.catalog.accounts.service")

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    def control(self, **wanted: Any) -> dict[str, Any]:
        return self.post_control(wanted)

    def answer(self, address: str, name: str) -> str:
        """Sign in there as this person ("" declines); return path and query of the answer to this server."""
        with httpx2.Client(trust_env=False) as browser:
            reply = browser.get(address)
            assert reply.status_code == 302, reply.text
            reply = browser.get(f"{reply.headers['location']}&name={name}")
            assert reply.status_code == 302, reply.text
        parts = urlsplit(reply.headers["location"])
        return f"{parts.path}?{parts.query}"


if __name__ == "__main__":
    main()
