"""Connecting an account: to the authorization server and back (authorization code with PKCE), and disconnecting it.

What is open between the two requests is in the person's session: encrypted, for ten minutes, and used once. So an
answer counts only in the browser, and for the person, that began the sign-in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from catalog import encryption
from catalog.accounts import clients, discovery, requests, tokens
from catalog.accounts.discovery import Server, entered_origins
from catalog.accounts.problems import AccountProblem
from catalog.models import ConnectedAccount, PersonalSecret, Secret
from catalog.models.accounts import Client, Tokens
from catalog.threads import run_in_loop

KEY = "connecting_accounts"
LIFETIME_SECONDS = 600
PREPARE_SECONDS = 20.0
"""Maximum seconds of everything that is asked before a person leaves: a page waits for it."""
MAX_OPEN = 5
"""Sign-ins that one session may have begun; the oldest are forgotten."""
Destinations = Mapping[str, str]
"""Where the person allows the account to be used: {key of a `Destination`: its label}."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that was begun: everything that its answer needs."""

    secret: int
    verifier: str
    server: Server
    client: Client
    addresses: str
    allowed: tuple[str, ...]
    """Keys of the destinations that the page showed."""
    at: float


@dataclass(frozen=True, slots=True)
class Connected:
    """A finished sign-in, before it is stored."""

    begun: Begun
    issued: tokens.Issued

    @property
    def tokens(self) -> Tokens:
        server = self.begun.server
        return Tokens(
            self.issued.access_token,
            self.issued.refresh_token,
            self.begun.client,
            server.token_endpoint,
            server.revocation_endpoint,
        )


def begin(session: Any, user: User, secret: Secret, allowed: tuple[str, ...]) -> str:
    """Return the address where the person signs in; the session keeps what the answer needs. Raises AccountProblem."""
    from mcp.client.auth import PKCEParameters

    try:
        encryption.keys()
    except encryption.KeysError:
        raise AccountProblem("keys") from None
    server, client, is_new = run_in_loop(_prepare(secret))
    if is_new:
        clients.keep(secret, server, client)
    state, proof = secrets.token_urlsafe(32), PKCEParameters.generate()
    digest = secret.addresses_digest
    begun = Begun(secret.pk, proof.code_verifier, server, client, digest, allowed, time.time())
    _keep(session, user, state, begun)
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": clients.redirect_url(),
        "state": state,
        "code_challenge": proof.code_challenge,
        "code_challenge_method": "S256",
    }
    if server.resource:
        asked["resource"] = server.resource
    if server.scope:
        asked["scope"] = server.scope
        if "offline_access" in server.scope.split():
            asked["prompt"] = "consent"  # OpenID Connect Core, section 11
    joint = "&" if urlsplit(server.authorization_endpoint).query else "?"
    return f"{server.authorization_endpoint}{joint}{urlencode(asked)}"


def finish(session: Any, user: User, answer: Mapping[str, str]) -> tuple[Secret, Connected]:
    """Return what the answer of an authorization server led to: tokens for a secret. Raises AccountProblem."""
    begun = _take(session, user, answer.get("state", ""))
    secret = Secret.objects.filter(pk=begun.secret, kind=Secret.Kind.ACCOUNT).first()
    if secret is None or secret.addresses_digest != begun.addresses:
        raise AccountProblem("changed")
    server = begun.server
    _check_issuer(server, answer.get("iss"))
    if error := answer.get("error"):
        code = "declined" if error == "access_denied" else "error"
        raise AccountProblem(code, where=server.name, why=requests.show(error))
    if not answer.get("code"):
        raise AccountProblem("no_code", where=server.name)
    try:
        issued = run_in_loop(_exchange(secret, begun, answer["code"]))
    except AccountProblem as problem:
        if problem.params.get("why") == "invalid_client":
            clients.forget(secret)
        raise
    return secret, Connected(begun, issued)


def store(user: User, secret: Secret, connected: Connected, allowed: Destinations) -> None:
    """Keep the tokens as this user's account; those of an earlier account at another server are revoked."""
    begun, issued = connected.begun, connected.issued
    server = begun.server
    with transaction.atomic():
        entry, _made = PersonalSecret.objects.select_for_update().get_or_create(secret=secret, user=user)
        entry.destinations = dict(allowed)
        entry.save()
        account = _lock(entry)
        before = _read(account) if account is not None else None
        account = account or ConnectedAccount(entry=entry, version=0)
        account.issuer, account.resource = server.identity, server.resource
        account.client_id, account.scope = begun.client.client_id, issued.scope or server.scope
        account.addresses, account.connected_at = begun.addresses, timezone.now()
        account.expires_at, account.refreshing_until = issued.expires_at, None
        account.version += 1
        account.store(connected.tokens)
        account.save()
    # The same server replaces what it issued to this client before, or issues the same again.
    if before is not None and (before.client.client_id, before.token_endpoint) != (
        begun.client.client_id,
        server.token_endpoint,
    ):
        run_in_loop(tokens.revoke(secret, before))


def discard(secret: Secret, connected: Connected) -> None:
    """Revoke tokens that belong to nobody: the account is no longer needed."""
    run_in_loop(tokens.revoke(secret, connected.tokens))


def disconnect(entry: PersonalSecret) -> bool:
    """Remove a user's account, then revoke its tokens; return whether the service confirmed that they are revoked."""
    with transaction.atomic():
        account = _lock(entry)
        found = _read(account) if account is not None else None
        entry.delete()
    return found is not None and run_in_loop(tokens.revoke(entry.secret, found))


def _lock(entry: PersonalSecret) -> ConnectedAccount | None:
    """Return the account, locked: a refresh stores its tokens before or not at all."""
    accounts = ConnectedAccount.objects.filter(pk=entry.pk).select_related("entry__secret")
    found: ConnectedAccount | None = accounts.select_for_update(of=("self",)).first()
    return found


async def _prepare(secret: Secret) -> tuple[Server, Client, bool]:
    try:
        async with asyncio.timeout(PREPARE_SECONDS):
            server = await discovery.discover(secret)
            client, is_new = await clients.choose(secret, server)
    except TimeoutError:
        where = requests.host_of(secret.url or secret.issuer or secret.token_endpoint)
        raise AccountProblem("unreachable", where=where, why="timeout") from None
    return server, client, is_new


async def _exchange(secret: Secret, begun: Begun, code: str) -> tokens.Issued:
    """Exchange the code for tokens (RFC 6749, section 4.1.3). Raises AccountProblem."""
    server = begun.server
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": clients.redirect_url(),
        "code_verifier": begun.verifier,
    }
    if server.resource:
        form["resource"] = server.resource
    form, headers = clients.authenticate(begun.client, form)
    response = await requests.post_form(server.token_endpoint, entered_origins(secret), form, headers)
    try:
        return tokens.read_response(response)
    except tokens.TokenRefused as refused:
        raise AccountProblem("error", where=server.name, why=refused.code or f"HTTP {refused.status}") from None
    except AccountProblem as problem:
        raise AccountProblem(problem.code, where=server.name, **problem.params) from None


def _check_issuer(server: Server, issuer: str | None) -> None:
    """Raise AccountProblem for an answer of another server than the one that was asked (RFC 9207, section 2.4)."""
    if issuer is None and not server.sends_issuer:
        return
    if server.issuer:
        same = issuer == server.issuer
    else:
        # Endpoints that were entered by hand: whoever answers must at least be where the code goes.
        same = requests.host_of(issuer or "") == requests.host_of(server.token_endpoint)
    if not same:
        raise AccountProblem("other_answer", where=server.name, found=requests.show(issuer or "?"))


def _keep(session: Any, user: User, state: str, begun: Begun) -> None:
    opened: dict[str, str] = dict(session.get(KEY) or {})
    while len(opened) >= MAX_OPEN:
        del opened[next(iter(opened))]
    opened[_digest(state)] = encryption.encrypt(json.dumps(asdict(begun)), _owner(user))
    session[KEY] = opened


def _take(session: Any, user: User, state: str) -> Begun:
    """Return the sign-in that this state belongs to; it is used up. Raises AccountProblem."""
    opened: dict[str, str] = dict(session.get(KEY) or {})
    stored = opened.pop(_digest(state), None)
    if stored is None:
        raise AccountProblem("state")
    session[KEY] = opened
    try:
        found = json.loads(encryption.decrypt(stored, _owner(user)))
    except (encryption.DecryptionError, encryption.KeysError):
        raise AccountProblem("state") from None
    if time.time() - found["at"] > LIFETIME_SECONDS:
        raise AccountProblem("state")
    server = {**found["server"], "methods": tuple(found["server"]["methods"])}
    kept = {
        **found,
        "server": Server(**server),
        "client": Client(**found["client"]),
        "allowed": tuple(found["allowed"]),
    }
    return Begun(**kept)


def _read(account: ConnectedAccount) -> Tokens | None:
    try:
        return account.read() if account.tokens else None
    except (encryption.DecryptionError, encryption.KeysError):
        return None  # they cannot be revoked any more


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


def _owner(user: User) -> str:
    return f"sign-in of user {user.pk}"
