"""The client that this server is for authorization servers: made by hand, by its document (CIMD), or by itself (DCR).

Its document is served without a sign-in, at the address that is its client ID (`document_url`).
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

from django.conf import settings

from catalog import encryption
from catalog.accounts import requests
from catalog.accounts.discovery import GRANTS, Server, entered_origins
from catalog.accounts.problems import AccountProblem
from catalog.accounts.requests import host_of, is_text
from catalog.models import Secret
from catalog.models.accounts import Client
from catalog.runners.destinations import LOOPBACK

DOCUMENT_PATH: Final = "/accounts/client.json"
CALLBACK_PATH: Final = "/accounts/callback/"
METHODS = ("client_secret_basic", "client_secret_post", "none")
"""How this server authenticates at a token endpoint, the preferred way first."""


def redirect_url() -> str:
    """Return the only address at which answers of authorization servers arrive."""
    return f"{settings.PUBLIC_URL}{CALLBACK_PATH}"


def document_url() -> str:
    """Return the address of the client document; "" where authorization servers could not read it."""
    public = urlsplit(settings.PUBLIC_URL)
    if public.scheme != "https" or public.hostname in LOOPBACK:
        return ""
    return f"{settings.PUBLIC_URL}{DOCUMENT_PATH}"


def describe() -> dict[str, Any]:
    """Return what this server says of itself as a client (RFC 7591, section 2)."""
    return {
        "client_name": f"toolhub ({urlsplit(settings.PUBLIC_URL).netloc})",
        "client_uri": settings.PUBLIC_URL,
        "redirect_uris": [redirect_url()],
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "application_type": "web",
    }


def find_entered(secret: Secret) -> Client | None:
    """Return the client that an administrator registered by hand; None for none. Raises AccountProblem."""
    if not secret.client_id:
        return None
    if not (secret.issuer or secret.token_endpoint):
        raise AccountProblem("no_issuer", where=host_of(secret.url))  # the service would choose who gets our secret
    if not secret.client_secret:
        return Client(secret.client_id)
    try:
        return Client(secret.client_id, encryption.decrypt(secret.client_secret, secret.client_owner), METHODS[0])
    except (encryption.DecryptionError, encryption.KeysError):
        raise AccountProblem("client_secret") from None


async def choose(secret: Secret, server: Server) -> tuple[Client, bool]:
    """Return the client for a sign-in at this server, and whether it is a new registration, which `keep` stores.

    Raises AccountProblem.
    """
    if (known := _find_known(secret, server)) is not None:
        return known, False
    return await _register(secret, server), True


def describe_choice(secret: Secret, server: Server) -> str:
    """Return how this server is a client at this one: entered, document, or registration. Raises AccountProblem."""
    known = _find_known(secret, server)
    if secret.client_id:
        return "entered"
    return "document" if known is not None and known.client_id == document_url() else "registration"


def _find_known(secret: Secret, server: Server) -> Client | None:
    """Return the client that needs no new registration; None where there is to be one. Raises AccountProblem."""
    if (entered := find_entered(secret)) is not None:
        return _with_method(entered, server.methods) if entered.client_secret else entered
    if server.reads_client_documents and (address := document_url()):
        return Client(address)
    registered = _find_registered(secret, server)
    if registered is None and not server.registration_endpoint:
        raise AccountProblem("no_client", where=server.name, redirect=redirect_url())
    return registered


def keep(secret: Secret, server: Server, client: Client) -> None:
    """Store the client that was registered at this server. Raises KeysError."""
    text = json.dumps({"issuer": server.identity, "redirect": redirect_url(), "client": asdict(client)})
    stored = encryption.encrypt(text, secret.registration_owner)
    Secret._base_manager.filter(pk=secret.pk).update(registration=stored)


def forget(secret: Secret) -> None:
    """Forget the registration, so that the next sign-in makes a new one: the server no longer knows it."""
    Secret._base_manager.filter(pk=secret.pk).update(registration="")


def authenticate(client: Client, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return form and headers of a request to a token or revocation endpoint (RFC 6749, section 2.3.1)."""
    named = {**form, "client_id": client.client_id}
    if client.client_secret and client.method == "client_secret_basic":
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        return named, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if client.client_secret and client.method == "client_secret_post":
        named["client_secret"] = client.client_secret
    return named, {}


def _with_method(client: Client, offered: tuple[str, ...]) -> Client:
    method = next((one for one in METHODS[:2] if one in offered), METHODS[0])
    return replace(client, method=method)


def _find_registered(secret: Secret, server: Server) -> Client | None:
    """Return the client that this server registered before, at this authorization server and for this address."""
    if not secret.registration:
        return None
    try:
        found = json.loads(encryption.decrypt(secret.registration, secret.registration_owner))
    except (encryption.DecryptionError, encryption.KeysError):
        return None  # a new registration takes its place
    same = (found["issuer"], found["redirect"]) == (server.identity, redirect_url())
    return Client(**found["client"]) if same else None


async def _register(secret: Secret, server: Server) -> Client:
    """Register this server as a client (RFC 7591). Raises AccountProblem."""
    from mcp.client.auth import OAuthRegistrationError
    from mcp.client.auth.utils import handle_registration_response

    wanted = next((one for one in METHODS if one in server.methods), "none")
    body = describe() | {"token_endpoint_auth_method": wanted} | ({"scope": server.scope} if server.scope else {})
    response = await requests.post_json(server.registration_endpoint, entered_origins(secret), body)
    try:
        found = await handle_registration_response(response)
    except OAuthRegistrationError:
        error = requests.read_json(response).get("error") or f"HTTP {response.status_code}"
        raise AccountProblem("registration", where=server.name, why=requests.show(error)) from None
    method = found.token_endpoint_auth_method or ("client_secret_basic" if found.client_secret else "none")
    if method not in METHODS or (method != "none" and not found.client_secret):
        # RFC 7591, section 3.2.1: the server may give another one than was asked for.
        raise AccountProblem("registration", where=server.name, why=requests.show(method))
    ends = found.client_secret_expires_at or 0
    if ends and ends < time.time():
        raise AccountProblem("registration", where=server.name, why="client_secret_expires_at")
    for text in (found.client_id, found.client_secret or "x"):
        if not is_text(text):
            raise AccountProblem("registration", where=server.name, why="client_id")
    return Client(found.client_id, (found.client_secret or "") if method != "none" else "", method)
