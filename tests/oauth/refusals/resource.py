"""/mcp, the protected resource: tokens that open nothing, and scopes that do not suffice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import AccessToken

from audit.models import Call
from tests import factories
from tests.oauth import flow
from tests.oauth.refusals.authorization import INDEX, PRACTICES, SECURITY
from tests.oauth.refusals.clients import DISCOVERY
from tests.oauth.refusals.rows import Answer, McpRow
from tests.server.conftest import refresh_catalogue, run_in_database
from tests.transports.conftest import Person
from toolhub.access.bearer import Authenticator
from toolhub.access.models import digest_of
from toolhub.oauth.models import Client, ConnectedApp
from toolhub.parts import parts

Send = Callable[[], Awaitable[Any]]
ADD = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
LEADS = {
    "realm": "toolhub",
    "resource_metadata": f"{flow.ISSUER}/.well-known/oauth-protected-resource/mcp",
    "scope": "mcp",
}
INVALID = {**LEADS, "error": "invalid_token", "error_description": "The access token is not valid"}
LACKING = {
    **LEADS,
    "error": "insufficient_scope",
    "error_description": "The tool is not read-only",
    "scope": "mcp mcp:write",
}


def call(**headers: Any) -> Any:
    """A call with these headers; None leaves one out."""

    async def prepare(person: Person) -> Send:
        return lambda: person.modern("tools/call", ADD, **headers)

    return prepare


def call_after(spoil: Callable[[], Any]) -> Any:
    """A call with a token that was valid until this was done."""

    async def prepare(person: Person) -> Send:
        await run_in_database(spoil)
        return lambda: person.modern("tools/call", ADD)

    return prepare


def expire_token() -> None:
    AccessToken.objects.update(expires=timezone.now() - timedelta(seconds=1))


def expire_connection() -> None:
    ConnectedApp.objects.update(expires=timezone.now() - timedelta(seconds=1))


def revoke() -> None:
    ConnectedApp.objects.get().revoke()


def give_another_audience() -> None:
    AccessToken.objects.update(resource=["https://other.example/mcp"])


def give_no_audience() -> None:
    AccessToken.objects.update(resource=[])


def block_client() -> None:
    Client.objects.update(blocked=True)


def deactivate_person() -> None:
    ConnectedApp.objects.get().user.__class__.objects.update(is_active=False)


async def call_with_the_refresh_token(person: Person) -> Send:
    token = person.refresh_token  # type: ignore[attr-defined]
    return lambda: person.modern("tools/call", ADD, authorization=f"Bearer {token}")


async def call_with_the_stored_token(person: Person) -> Send:
    return lambda: person.modern("tools/call", ADD, authorization=f"Bearer {digest_of(person.token)}")


async def call_with_the_token_in_the_address(person: Person) -> Send:
    async def send() -> Any:
        request = person.begin_modern("tools/call", ADD, authorization=None)
        request.scope["query_string"] = f"access_token={person.token}".encode()
        return await request.answer()

    return send


async def initialize_without_a_token(person: Person) -> Send:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    headers, body = person.plain(authorization=None), person.message("initialize", hello)
    return lambda: person.wire.send("POST", headers, body)


async def go_on_without_a_token(person: Person) -> Send:
    await person.begin_session()
    return lambda: person.request("tools/call", ADD, authorization=None)


async def go_on_with_the_session_as_token(person: Person) -> Send:
    await person.begin_session()
    return lambda: person.request("tools/call", ADD, authorization=f"Bearer {person.session}")


async def go_on_with_the_token_of_another_app(person: Person) -> Send:
    await person.begin_session()
    _app, tokens = await run_in_database(factories.connect_app, person.user)
    return lambda: person.request("tools/call", ADD, authorization=f"Bearer {tokens['access_token']}")


async def call_what_needs_more(person: Person) -> Send:
    await _require_the_write_scope()
    return lambda: person.modern("tools/call", ADD)


async def call_what_needs_more_in_a_session(person: Person) -> Send:
    await _require_the_write_scope()
    await person.begin_session()
    return lambda: person.request("tools/call", ADD)


async def _require_the_write_scope() -> None:
    """As where TOOLHUB_WRITE_SCOPE is on; the test, which set it, puts it back."""
    settings.WRITE_SCOPE = True
    await refresh_catalogue()


# --- what else holds -------------------------------------------------------------------------------------------------


async def nothing_ran(person: Person, answer: Answer) -> None:
    assert not await run_in_database(Call.objects.exists)


async def the_metadata_leads_on(person: Person, answer: Answer) -> None:
    path = answer.challenge["resource_metadata"].removeprefix(flow.ISSUER)
    found = (await run_in_database(Browser().get, path)).json()
    assert (found["resource"], found["authorization_servers"]) == (flow.RESOURCE, [flow.ISSUER])
    assert found["bearer_methods_supported"] == ["header"]
    assert "offline_access" not in found["scopes_supported"]
    await nothing_ran(person, answer)


async def it_is_logged_as_denied(person: Person, answer: Answer) -> None:
    assert await run_in_database(lambda: Call.objects.get().outcome) == "refused"


async def the_lacking_scope_is_named(person: Person, answer: Answer) -> None:
    assert answer.json["error"]["data"]["requiredScopes"] == ["mcp:write"]
    await it_is_logged_as_denied(person, answer)


async def a_broader_scope_implies_the_narrower(person: Person, answer: Answer) -> None:
    await the_lacking_scope_is_named(person, answer)
    await run_in_database(lambda: AccessToken.objects.update(scope="mcp:write"))
    parts.get(Authenticator).forget()
    assert (await person.modern("tools/call", ADD)).status == 200


# --- the table -------------------------------------------------------------------------------------------------------

METADATA = "MCP servers MUST implement OAuth 2.0 Protected Resource Metadata"
AUDIENCE = "MCP servers MUST validate that access tokens were issued specifically for them as the intended audience"
OWN = "MCP servers MUST only accept tokens that are valid for use with their own resources."
EXPIRED = "Invalid or expired tokens MUST receive a HTTP 401 response."
NO_SESSION = "MCP Servers MUST NOT use sessions for authentication."
EVERY_REQUEST = "authorization MUST be included in every HTTP request from client to server"
HANDLING = f"{INDEX}, Token Handling"

ROWS = (
    McpRow(
        "no-token",
        f"{INDEX}, Overview; {DISCOVERY}, Authorization Server Location",
        METADATA,
        call(authorization=None),
        401,
        LEADS,
        the_metadata_leads_on,
    ),
    McpRow(
        "no-token-at-the-start-of-a-session",
        f"{DISCOVERY}, Protected Resource Metadata Discovery Requirements",
        "Include the resource metadata URL in the WWW-Authenticate HTTP header under resource_metadata when returning "
        "401 Unauthorized responses",
        initialize_without_a_token,
        401,
        LEADS,
        the_metadata_leads_on,
    ),
    McpRow(
        "unknown-token",
        HANDLING,
        "MCP servers, acting in their role as an OAuth 2.1 resource server, MUST validate access tokens",
        call(authorization="Bearer tho_" + "x" * 43),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "token-of-another-server",
        f"{PRACTICES}, Token Passthrough",
        "MCP servers MUST NOT accept any tokens that were not explicitly issued for the MCP server.",
        call(authorization="Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "another-scheme",
        f"{INDEX}, Error Handling",
        "Servers MUST return appropriate HTTP status codes for authorization errors",
        call(authorization="Basic YWxpY2U6Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"),
        401,
        LEADS,
        nothing_ran,
    ),
    McpRow("expired-token", HANDLING, EXPIRED, call_after(expire_token), 401, INVALID, nothing_ran),
    McpRow("expired-connection", HANDLING, EXPIRED, call_after(expire_connection), 401, INVALID, nothing_ran),
    McpRow("revoked-token", HANDLING, EXPIRED, call_after(revoke), 401, INVALID, nothing_ran),
    McpRow(
        "token-of-a-blocked-client",
        f"{PRACTICES}, CIMD Trust Policies",
        "Servers maintain full control over their access policies.",
        call_after(block_client),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "token-of-somebody-who-left",
        f"{SECURITY}, Access Token Privilege Restriction",
        "take all necessary steps to ensure no data is returned to unauthorized parties",
        call_after(deactivate_person),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "token-for-another-audience", HANDLING, AUDIENCE, call_after(give_another_audience), 401, INVALID, nothing_ran
    ),
    McpRow(
        "token-for-no-audience",
        f"gap 5; {SECURITY}, Access Token Privilege Restriction",
        "MUST reject tokens that do not include them in the audience claim",
        call_after(give_no_audience),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow("refresh-token-as-access-token", HANDLING, OWN, call_with_the_refresh_token, 401, INVALID, nothing_ran),
    McpRow(
        "code-as-access-token",
        HANDLING,
        "MCP servers MUST NOT accept or transit any other tokens.",
        call(authorization="Bearer thc_" + "x" * 43),
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "stored-access-token",
        f"{SECURITY}, Token Theft",
        "Clients and servers MUST implement secure token storage",
        call_with_the_stored_token,
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "token-in-the-address",
        f"{INDEX}, Token Requirements",
        "Access tokens MUST NOT be included in the URI query string",
        call_with_the_token_in_the_address,
        401,
        LEADS,
        nothing_ran,
    ),
    McpRow(
        "session-without-a-token",
        "2025-11-25 Authorization, Token Requirements",
        f"{EVERY_REQUEST}, even if they are part of the same logical session.",
        go_on_without_a_token,
        401,
        LEADS,
        nothing_ran,
    ),
    McpRow(
        "session-as-a-token",
        "2025-11-25 Security Best Practices, Session Hijacking",
        NO_SESSION,
        go_on_with_the_session_as_token,
        401,
        INVALID,
        nothing_ran,
    ),
    McpRow(
        "session-of-another-app",
        "2025-11-25 Security Best Practices, Session Hijacking",
        "MCP servers that implement authorization MUST verify all inbound requests.",
        go_on_with_the_token_of_another_app,
        404,
        also=it_is_logged_as_denied,
    ),
    McpRow(
        "request-of-a-foreign-page",
        "2026-07-28 Streamable HTTP, Security",
        "Servers MUST validate the Origin header on all incoming connections",
        call(origin="https://evil.example"),
        403,
        also=nothing_ran,
    ),
    McpRow(
        "insufficient-scope",
        f"{INDEX}, Scope Challenge Handling",
        "Servers MUST account for scope hierarchies, where a broader scope implies narrower ones",
        call_what_needs_more,
        403,
        LACKING,
        a_broader_scope_implies_the_narrower,
    ),
    McpRow(
        "insufficient-scope-in-a-session",
        f"{INDEX}, Runtime Insufficient Scope Errors",
        "servers SHOULD include all scopes required for the current operation in a single challenge",
        call_what_needs_more_in_a_session,
        403,
        LACKING,
        the_lacking_scope_is_named,
    ),
)
