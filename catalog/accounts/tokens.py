"""Tokens of connected accounts: read for a call, refreshed by one process at a time, revoked on disconnect.

A token is sent only to the destinations that its owner allowed (`catalog.secrets.resolve`), and a refresh token only to
the endpoint that it came from. A disconnected account is gone for every process at the next call: tokens are read from
the database for each call.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.utils import timezone

from catalog import encryption, threads
from catalog.accounts import clients, requests
from catalog.accounts.discovery import entered_origins
from catalog.accounts.problems import AccountProblem
from catalog.models import ConnectedAccount, Secret
from catalog.models.accounts import Client, Tokens
from toolhub.parts import parts

EARLY_SECONDS = 60
"""An access token is refreshed so many seconds before its end, so that it does not end on its way."""
LEASE_SECONDS = 30
"""More than a refresh can take (`requests.TIMEOUT_SECONDS`): after it, another process may try."""
POLL_SECONDS = 0.2
MAX_EXPIRES_SECONDS = 10 * 365 * 86_400
PAUSE_SECONDS = 10
"""Seconds after a failed refresh until the next one."""
ENDED_ERRORS = frozenset({"invalid_grant", "bad_refresh_token"})
"""Errors of a token endpoint after which the same refresh token never works again (RFC 6749, section 5.2; GitHub)."""
CLIENT_ERRORS = frozenset({"invalid_client", "unauthorized_client"})
"""Errors about our client, which an administrator can mend, or which a new registration mends."""
MIN_TOKEN_CHARACTERS, MAX_TOKEN_CHARACTERS = 8, 7_900
"""Of a token: a shorter one cannot be masked in log lines, and a header carries no longer one (`HEADER_VALUE`)."""
log = logging.getLogger(__name__)
T = TypeVar("T")


class NotConnected(Exception):
    """An error for an account that its owner has to connect, or to connect again."""


class CannotRefresh(Exception):
    """An error for a token that cannot be refreshed now: its authorization server does not answer as it should."""


class TokenRefused(Exception):
    """An error for a token endpoint that issued nothing: its status and error code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Issued:
    """The answer of a token endpoint (RFC 6749, section 5.1)."""

    access_token: str
    refresh_token: str
    """ "" for none: after a refresh, the one before stays in force."""
    scope: str
    """ "" where the server did not say."""
    expires_at: datetime | None


class Refreshes:
    """The refreshes that run in this process: calls that need the same one wait for it."""

    def __init__(self) -> None:
        self._running: dict[tuple[asyncio.AbstractEventLoop, int], asyncio.Task[None]] = {}

    async def run(self, account: ConnectedAccount) -> None:
        """Refresh the tokens of this account once. Raises NotConnected, CannotRefresh."""
        key = (asyncio.get_running_loop(), account.pk)
        task = self._running.get(key)
        if task is None:
            # In a context of its own, and to its end also when the first call that wanted it is cancelled: a refresh
            # token that was sent and whose successor was not stored would be lost.
            task = self._running[key] = asyncio.get_running_loop().create_task(
                _refresh(account), name=f"account {account.pk}", context=contextvars.Context()
            )
            task.add_done_callback(lambda ended: self._end(key, ended))
        await asyncio.shield(task)

    def _end(self, key: tuple[asyncio.AbstractEventLoop, int], task: asyncio.Task[None]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()


async def access_token(user_id: int, name: str) -> str:
    """Return the access token of a user's account, refreshed if it is about to end.

    Raises NotConnected, CannotRefresh, DatabaseError, DecryptionError, KeysError.
    """
    account = await _in_thread(lambda: _find(user_id, name))
    found = _read(account)
    if account.expires_at is None or account.expires_at > timezone.now() + timedelta(seconds=EARLY_SECONDS):
        return found.access_token
    works = account.expires_at > timezone.now()
    if works and account.refreshing_until is not None and account.refreshing_until > timezone.now():
        return found.access_token  # somebody else refreshes it, or could not do so just now
    if not found.refresh_token:
        if works:
            return found.access_token
        raise NotConnected
    try:
        await parts.get(Refreshes).run(account)
    except CannotRefresh:
        if account.expires_at > timezone.now():
            return found.access_token  # it still works, and the next call tries again
        raise
    return _read(await _in_thread(lambda: _find(user_id, name))).access_token


async def replace_rejected(user_id: int, name: str, rejected: str) -> str:
    """Return another access token than this one, which the service refused (401).

    Without another one, the account ends: its owner has to connect it again. Raises what `access_token` raises.
    """
    account = await _in_thread(lambda: _find(user_id, name))
    found = _read(account)
    if found.access_token != rejected:
        return found.access_token
    if not found.refresh_token:
        await _in_thread(lambda: _end(account))
        raise NotConnected
    await parts.get(Refreshes).run(account)
    return _read(await _in_thread(lambda: _find(user_id, name))).access_token


def read_answer(answer: Mapping[str, Any]) -> Issued:
    """Return what a token endpoint issued. Raises AccountProblem."""
    from mcp.shared.auth import OAuthToken
    from pydantic import ValidationError

    try:
        found = OAuthToken.model_validate(answer)
    except ValidationError as error:
        wrong = ", ".join(sorted({str(one["loc"][0]) for one in error.errors() if one["loc"]})) or "access_token"
        raise AccountProblem("no_token", why=wrong) from None
    if len(found.access_token) < MIN_TOKEN_CHARACTERS or not _is_token(found.access_token):
        raise AccountProblem("no_token", why="access_token")
    if found.refresh_token and not _is_token(found.refresh_token):
        raise AccountProblem("no_token", why="refresh_token")
    scope = found.scope if found.scope and requests.is_text(found.scope) else ""
    expires_at = None
    if found.expires_in is not None:
        expires_at = timezone.now() + timedelta(seconds=min(max(found.expires_in, 0), MAX_EXPIRES_SECONDS))
    return Issued(found.access_token, found.refresh_token or "", scope, expires_at)


def read_response(response: Any) -> Issued:
    """Return what the response of a token endpoint issued. Raises TokenRefused, AccountProblem."""
    answer = requests.read_json(response)
    # Some services answer errors with status 200 (GitHub's documentation).
    if response.status_code != 200 or "error" in answer:
        raise TokenRefused(response.status_code, requests.show(answer.get("error") or ""))
    return read_answer(answer)


def _is_token(text: str) -> bool:
    return requests.is_text(text, MAX_TOKEN_CHARACTERS) and " " not in text


async def revoke(secret: Secret, tokens: Tokens) -> bool:
    """Revoke both tokens at their server (RFC 7009); return whether it said that they are revoked."""
    if not tokens.revocation_endpoint:
        return False
    try:
        client = _current_client(secret, tokens.client)
    except CannotRefresh:
        return False
    entered = entered_origins(secret)
    revoked = True
    for token, hint in ((tokens.refresh_token, "refresh_token"), (tokens.access_token, "access_token")):
        if not token:
            continue
        form, headers = clients.authenticate(client, {"token": token, "token_type_hint": hint})
        try:
            response = await requests.post_form(tokens.revocation_endpoint, entered, form, headers)
        except AccountProblem as error:
            log.warning("a token could not be revoked: %s", error)
            return False
        revoked = revoked and response.status_code == 200
    return revoked


async def _refresh(account: ConnectedAccount) -> None:
    """Refresh the tokens, or wait for the process that does. Raises NotConnected, CannotRefresh."""
    begun = asyncio.get_running_loop().time()
    try:
        while not await _in_thread(lambda: _claim(account)):
            newest = await _in_thread(lambda: ConnectedAccount.objects.filter(pk=account.pk).first())
            if newest is None or not newest.tokens:
                raise NotConnected
            if newest.version != account.version:
                return
            if asyncio.get_running_loop().time() - begun > LEASE_SECONDS:
                raise CannotRefresh
            await asyncio.sleep(POLL_SECONDS)
        await _send_refresh(account)
    except (DatabaseError, InterfaceError) as error:
        raise CannotRefresh from error


async def _send_refresh(account: ConnectedAccount) -> None:
    secret = account.entry.secret
    found = _read(account)
    stored = False
    try:
        client = _current_client(secret, found.client)
        form = {"grant_type": "refresh_token", "refresh_token": found.refresh_token}
        if account.resource:
            form["resource"] = account.resource
        form, headers = clients.authenticate(client, form)
        issued = read_response(await requests.post_form(found.token_endpoint, entered_origins(secret), form, headers))
        fresh = replace(
            found,
            access_token=issued.access_token,
            refresh_token=issued.refresh_token or found.refresh_token,
            client=client,
        )
        stored = True
        if not await _in_thread(lambda: _store(account, fresh, issued), patient=True):
            # Disconnected or connected again meanwhile: these tokens belong to nobody.
            await revoke(secret, fresh)
    except TokenRefused as error:
        registered = not secret.client_id and found.client.client_id != clients.document_url()
        if error.code in ENDED_ERRORS or (error.code in CLIENT_ERRORS and registered):
            log.info("account %s ended: %s", account.pk, error)
            stored = True
            await _in_thread(lambda: _end(account), patient=True)
            if error.code in CLIENT_ERRORS:
                await _in_thread(lambda: clients.forget(secret))
            raise NotConnected from None
        log.warning("the tokens of account %s cannot be refreshed now: %s", account.pk, error)
        raise CannotRefresh from None
    except AccountProblem as error:
        log.warning("the tokens of account %s cannot be refreshed now: %s", account.pk, error)
        raise CannotRefresh from error
    finally:
        if not stored:
            await _in_thread(lambda: _give_up(account))


def _current_client(secret: Secret, issued_to: Client) -> Client:
    """Return the client of the tokens, with the secret that an administrator entered last. Raises CannotRefresh."""
    if secret.client_id != issued_to.client_id:
        return issued_to
    try:
        entered = clients.find_entered(secret)
    except AccountProblem as error:
        raise CannotRefresh from error
    if entered is None or not entered.client_secret:
        return issued_to
    method = issued_to.method if issued_to.client_secret else entered.method
    return Client(entered.client_id, entered.client_secret, method)


def _find(user_id: int, name: str) -> ConnectedAccount:
    """Return the account that may be used. Raises NotConnected."""
    mine = ConnectedAccount.objects.filter(entry__user_id=user_id, entry__secret__kind=Secret.Kind.ACCOUNT)
    found = mine.filter(entry__secret__name=name).select_related("entry__secret").first()
    if found is None or not found.is_usable:
        raise NotConnected
    account: ConnectedAccount = found
    return account


def _read(account: ConnectedAccount) -> Tokens:
    """Return the tokens. Raises NotConnected where no key can read them."""
    try:
        return account.read()
    except (encryption.DecryptionError, encryption.KeysError):
        log.error("the tokens of account %s cannot be decrypted with TOOLHUB_ENCRYPTION_KEYS", account.pk)
        raise NotConnected from None


def _claim(account: ConnectedAccount) -> bool:
    now = timezone.now()
    free = Q(refreshing_until=None) | Q(refreshing_until__lt=now)
    mine = ConnectedAccount._base_manager.filter(free, pk=account.pk, version=account.version).exclude(tokens="")
    return bool(mine.update(refreshing_until=now + timedelta(seconds=LEASE_SECONDS)))


def _same(account: ConnectedAccount) -> Any:
    # Bypasses the watched manager: a refresh is no change that a person made.
    return ConnectedAccount._base_manager.filter(pk=account.pk, version=account.version)


def _store(account: ConnectedAccount, tokens: Tokens, issued: Issued) -> bool:
    account.store(tokens)
    scope = {"scope": issued.scope} if issued.scope else {}
    changed = _same(account).update(
        tokens=account.tokens,
        expires_at=issued.expires_at,
        version=account.version + 1,
        refreshing_until=None,
        **scope,
    )
    return bool(changed)


def _end(account: ConnectedAccount) -> None:
    _same(account).update(tokens="", version=account.version + 1, refreshing_until=None)


def _give_up(account: ConnectedAccount) -> None:
    _same(account).update(refreshing_until=timezone.now() + timedelta(seconds=PAUSE_SECONDS))


async def _in_thread(work: Callable[[], T], *, patient: bool = False) -> T:
    """Run `work` in a thread; a `patient` one waits for a free thread, because what it stores would be lost."""
    while True:
        try:
            return await threads.storage().run(work)
        except threads.Busy:
            if not patient:
                raise
