"""Where people sign in for an account: discovered from the service (RFC 9728, RFC 8414), or entered by hand.

The official client's provider does the whole flow in one coroutine, from a refused request to the tokens. Here a person
is asked in between, in a browser and perhaps by another worker, so its parts are used one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from catalog.accounts import requests
from catalog.accounts.problems import AccountProblem
from catalog.models import Secret
from toolhub import egress

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

GRANTS = ("authorization_code", "refresh_token")


@dataclass(frozen=True, slots=True)
class Server:
    """An authorization server, and what the service wants of its tokens."""

    issuer: str
    """ "" for endpoints that were entered by hand: such a server has no metadata."""
    authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str = ""
    registration_endpoint: str = ""
    resource: str = ""
    """The resource indicator (RFC 8707); "" for none."""
    scope: str = ""
    methods: tuple[str, ...] = ("client_secret_basic",)
    """How clients may authenticate; without metadata, the default of RFC 8414."""
    reads_client_documents: bool = False
    sends_issuer: bool = False
    """Whether an answer without `iss` (RFC 9207) is to be refused."""

    @property
    def name(self) -> str:
        """The server for people: its host."""
        return requests.host_of(self.issuer or self.token_endpoint)

    @property
    def identity(self) -> str:
        """What the tokens are bound to: the issuer, or the token endpoint of a server without metadata."""
        return self.issuer or self.token_endpoint


def entered_origins(secret: Secret) -> frozenset[str]:
    """Return the origins of the addresses that an administrator entered."""
    found = set()
    for address in secret.account_addresses:
        if address:
            try:
                found.add(egress.origin_of(address))
            except egress.DeniedAddress:
                continue
    return frozenset(found)


async def discover(secret: Secret) -> Server:
    """Return the authorization server of an account. Raises AccountProblem."""
    entered = entered_origins(secret)
    if secret.token_endpoint:
        revocation = secret.revocation_endpoint
        return Server(
            issuer=secret.issuer,
            authorization_endpoint=requests.check_address(secret.authorization_endpoint, entered),
            token_endpoint=requests.check_address(secret.token_endpoint, entered),
            revocation_endpoint=revocation and requests.check_address(revocation, entered),
            resource=secret.url,
            scope=secret.scopes,
        )
    challenged, resource = (await _ask_resource(secret.url, entered)) if secret.url else (None, None)
    named = [str(one) for one in resource.authorization_servers] if resource is not None else []
    metadata = await _read_metadata(secret, named, entered)
    return _describe(secret, metadata, resource, challenged, entered)


async def _ask_resource(url: str, entered: frozenset[str]) -> tuple[str | None, ProtectedResourceMetadata | None]:
    """Return the scope that a request without a token is told, and the metadata of the resource; None for none."""
    from mcp.client.auth.utils import (
        build_protected_resource_metadata_discovery_urls,
        extract_resource_metadata_from_www_auth,
        extract_scope_from_www_auth,
        handle_protected_resource_response,
    )
    from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

    challenged, address = None, None
    # One that does not answer, or begins an endless event stream, may still have metadata.
    with suppress(AccountProblem):
        response = await requests.get(url, entered)
        if response.status_code == 401:
            challenged = extract_scope_from_www_auth(response)
            address = extract_resource_metadata_from_www_auth(response)
    for place in build_protected_resource_metadata_discovery_urls(address, url):
        response = await requests.get(place, entered)
        if response.status_code >= 500 or response.status_code == 429:
            # It says nothing about whether there is metadata, and without it another server would be asked.
            raise AccountProblem("status", where=requests.host_of(place), status=response.status_code)
        found = await handle_protected_resource_response(response)
        if found is None:
            continue
        # RFC 9728, section 3.3: metadata of another resource must not be used.
        if not check_resource_allowed(resource_url_from_server_url(url), str(found.resource)):
            raise AccountProblem("other_resource", found=requests.show(found.resource), where=url)
        return challenged, found
    return challenged, None


async def _read_metadata(secret: Secret, named: Sequence[str], entered: frozenset[str]) -> OAuthMetadata:
    """Return the metadata of the authorization server (RFC 8414, or OpenID Connect). Raises AccountProblem."""
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls, issuers_match
    from mcp.shared.auth import OAuthMetadata

    if secret.issuer and named and not any(issuers_match(secret.issuer, one) for one in named):
        raise AccountProblem("issuer_not_listed", where=secret.issuer)
    # Servers of 2025-03-26 have no metadata of the resource: its origin is the authorization server.
    issuer = secret.issuer or (named[0] if named else "")
    expected = issuer or egress.origin_of(secret.url)
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer or None, secret.url):
        response = await requests.get(place, entered)
        if response.status_code >= 500 or response.status_code == 429:
            raise AccountProblem("status", where=requests.host_of(place), status=response.status_code)
        if response.status_code != 200:
            continue
        try:
            found = OAuthMetadata.model_validate_json(response.content)
        except ValidationError:
            raise AccountProblem("not_metadata", where=requests.host_of(place)) from None
        # RFC 8414, section 3.3: otherwise another server could pretend to be this one.
        if not issuers_match(str(found.issuer), expected):
            raise AccountProblem("other_issuer", where=expected, found=requests.show(found.issuer))
        return found
    raise AccountProblem("no_server", where=issuer or secret.url)


def _describe(
    secret: Secret,
    found: OAuthMetadata,
    resource: ProtectedResourceMetadata | None,
    challenged: str | None,
    entered: frozenset[str],
) -> Server:
    if "S256" not in (found.code_challenge_methods_supported or ()):
        raise AccountProblem("no_pkce", where=requests.host_of(str(found.issuer)))

    def check(address: object) -> str:
        return requests.check_address(str(address), entered) if address is not None else ""

    wanted = str(resource.resource) if resource is not None else secret.url
    scope = secret.scopes or _choose_scope(found, resource, challenged)
    if not all(requests.is_text(text) for text in (str(found.issuer), wanted or "x", scope or "x")):
        raise AccountProblem("not_metadata", where=requests.host_of(str(found.issuer)))
    return Server(
        issuer=str(found.issuer),
        authorization_endpoint=check(found.authorization_endpoint),
        token_endpoint=check(found.token_endpoint),
        revocation_endpoint=check(found.revocation_endpoint),
        registration_endpoint=check(found.registration_endpoint),
        resource=wanted,
        scope=scope,
        methods=tuple(found.token_endpoint_auth_methods_supported or ("client_secret_basic",)),
        reads_client_documents=found.client_id_metadata_document_supported is True,
        sends_issuer=found.authorization_response_iss_parameter_supported is True,
    )


def _choose_scope(found: OAuthMetadata, resource: ProtectedResourceMetadata | None, challenged: str | None) -> str:
    """Return the scope that the resource asks for: never all that the authorization server knows."""
    from mcp.client.auth.utils import get_client_metadata_scopes

    if challenged is None and (resource is None or resource.scopes_supported is None):
        return ""
    return get_client_metadata_scopes(challenged, resource, found, list(GRANTS)) or ""
