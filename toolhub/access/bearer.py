"""Authentication of bearer tokens.

Known tokens are answered from memory for 5 s; everything else is looked up in the database, in threads of its own.

    BadToken                 401  unknown, malformed, expired, revoked, of an inactive user: one answer for all of them
    ├── TooManyBadTokens     429  this address sent too many of them
    └── CheckUnavailable     503  the database does not answer and the token was not checked recently
        └── TooManyLookups   429  too many tokens of this address are waiting to be looked up; 503: of all addresses

An address with too many invalid tokens gets 429 for the next one, and no query; one that goes on fast gets it a second
later. A valid token from there passes.

`cached` is for the hot path: no lock, no await, no database. `forget` is thread-safe. While the database is away, a
token that was valid stays valid for 10 minutes; its own expiry, and a revocation that reached this process, still
apply.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connections
from django.utils import timezone

from audit.types import Credential
from toolhub import client_address, deadline
from toolhub.access import throttle
from toolhub.access.issued_tokens import IssuedTokens
from toolhub.access.models import AccessToken, digest_of
from toolhub.log_throttle import ThrottledWarning
from toolhub.rates import RefusalDelays

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
STALE_SECONDS = 600.0
LAST_USED_SECONDS = 60.0
THREADS = 3
CLOSE_SECONDS = 3.0
ANSWER_SECONDS = settings.RECORD_SECONDS
"""Seconds without an answer after which the database counts as away."""
MAX_WAITING_TOKENS = 2_000
"""Maximum number of different tokens waiting for a look-up; beyond it, only cached answers are given."""
MAX_WAITING_FROM_ADDRESS = 500
"""Maximum number of them from one address, so that one sender cannot take all the places."""
MAX_LIMITED_ADDRESSES = 10_000
"""Maximum number of addresses with too many invalid tokens that are remembered in this process."""
MAX_CACHED_TOKENS = 50_000
"""Maximum number of tokens kept in memory; the least recently used one is dropped first."""
TOKEN_PATTERN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
UNAVAILABLE_ERRORS = (OperationalError, InterfaceError)

T = TypeVar("T")
Restriction: TypeAlias = tuple[str, frozenset[int] | None]
"""The id of a credential, and the toolsets it is restricted to; None: no restriction."""


class BadToken(Exception):
    """A rejected token; `reason` is for the log and the audit log, the caller gets only the status and the headers."""

    status = 401
    sentence = "A valid access token is required: Authorization: Bearer thp_..."
    """For the client."""

    def __init__(
        self, reason: str, *, sent: bool = True, code: str = "unknown", owner: tuple[int, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.code = code
        """One word for the page on which the token's owner connects a client."""
        self.owner = owner
        """The owner, when known: the user's primary key and the credential's id."""

    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": challenge(sent=self.sent)}


class TooManyBadTokens(BadToken):
    status = 429

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many invalid tokens from this address; try again in {seconds} s", code="throttled")
        self.seconds = seconds
        self.sentence = (
            "Too many invalid tokens came from this address. Remove old tokens from your clients, "
            f"and try again in {seconds} s."
        )

    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.seconds)}


class CheckUnavailable(BadToken):
    status = 503
    sentence = "The access token cannot be checked now. Try again in 5 s."

    def __init__(self) -> None:
        super().__init__(self.sentence, code="unavailable")

    def headers(self) -> dict[str, str]:
        return {"Retry-After": "5"}


class TooManyLookups(CheckUnavailable):
    def __init__(self, *, from_address: bool) -> None:
        whose = "from this address" if from_address else "at this server"
        self.status = 429 if from_address else 503
        self.sentence = f"Too many access tokens {whose} are waiting to be checked. Try again in 5 s."
        super().__init__()


@dataclass(slots=True)
class _CachedCredential:
    credential: Credential
    fresh_until: float  # monotonic
    stale_until: float  # monotonic
    marked_at: float  # monotonic: when `last_used` was last written from here


def challenge(*, sent: bool) -> str:
    """Return the value of WWW-Authenticate; RFC 6750 names an error only when a token was sent."""
    if sent:
        return 'Bearer realm="toolhub", error="invalid_token", error_description="The access token is not valid"'
    return 'Bearer realm="toolhub"'


def from_header(value: str | None) -> str:
    """Return the token of an Authorization header. Raises BadToken when there is none."""
    if not value:
        raise BadToken("no token", sent=False, code="missing")
    scheme, _, token = value.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise BadToken("no bearer token", sent=False, code="scheme")
    return token


def filter_valid_now(credential_ids: Iterable[str]) -> set[str]:
    """Return those of the ids that are valid now, asked in this thread. Raises the errors of the database."""
    from toolhub.access import try_permissions

    tokens: dict[int, set[str]] = {}
    tries: set[str] = set()
    for text in credential_ids:
        kind, _, number = text.partition(":")
        if kind == "admin":
            tries.add(text)
        elif number.isdecimal():
            tokens.setdefault(int(number), set()).add(text)
    good: set[str] = set()
    for chunk in _chunks(tokens):
        for found in AccessToken.objects.usable().filter(pk__in=chunk).values_list("pk", flat=True):
            good |= tokens[found]
    return good | try_permissions.filter_permitted(tries)


def filter_current_now(restrictions: Iterable[Restriction], *, or_wider: bool = False) -> set[Restriction]:
    """Return those that are as the database has them now, asked in this thread. Raises the errors of the database.

    With `or_wider`, those too whose token may see more by now.
    """
    found = set(restrictions)
    tokens: dict[int, set[Restriction]] = {}
    for restriction in found:
        kind, _, number = restriction[0].partition(":")
        if kind != "admin" and number.isdecimal():
            tokens.setdefault(int(number), set()).add(restriction)
    for chunk in _chunks(tokens):
        now: dict[int, set[int] | None] = {}
        rows = AccessToken.objects.filter(pk__in=chunk).values_list("pk", "restricted", "toolsets")
        for pk, restricted, toolset in rows:
            known = now.setdefault(pk, set() if restricted else None)
            if known is not None and toolset is not None:
                known.add(toolset)
        for pk, toolset_ids in now.items():
            found -= {one for one in tokens[pk] if not _is_current(one[1], toolset_ids, or_wider=or_wider)}
    return found


def _is_current(then: AbstractSet[int] | None, now: AbstractSet[int] | None, *, or_wider: bool) -> bool:
    return then == now or (or_wider and (now is None or (then is not None and then <= now)))


def _end_connections(barrier: threading.Barrier, timeout: float) -> None:
    connections.close_all()
    barrier.wait(timeout)


# --- in the threads ------------------------------------------------------------------------------------------------


def _run_with_fresh_connections(work: Callable[..., T], *args: object) -> T:
    close_old_connections()
    try:
        return work(*args)
    finally:
        close_old_connections()


def _mark_used(token_id: int) -> None:
    now = timezone.now()
    outdated = AccessToken.objects.filter(pk=token_id).exclude(last_used__gt=now - timedelta(seconds=LAST_USED_SECONDS))
    try:
        outdated.update(last_used=now)
    except DatabaseError as error:
        log.warning("cannot note the last use of token %s: %s", token_id, type(error).__name__)


def _chunks(ids: Iterable[int], size: int = 500) -> Iterable[list[int]]:
    rest = list(ids)
    return [rest[start : start + size] for start in range(0, len(rest), size)]


class Authenticator:
    """The tokens that this process knows, and the threads that look up the others."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _CachedCredential] = OrderedDict()
        self._lookups: dict[str, Future[Credential]] = {}
        self._waiting: dict[str, int] = {}
        """Number of look-ups by counted address."""
        self._limited: OrderedDict[str, float] = OrderedDict()
        """Counted addresses with too many invalid tokens, with the monotonic time when that ends."""
        self._delays = RefusalDelays()
        """By counted address, those with too many invalid tokens."""
        self._issued = IssuedTokens()
        self._lock = threading.Lock()
        self._changes = 0
        """Incremented by every `forget`: an answer that was read before one is not cached after it."""
        self._reached = time.monotonic()
        """Monotonic time of the last answer of the database in this process."""
        self._warning = ThrottledWarning(log)
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="bearer")

    def cached(self, token: str) -> Credential | None:
        """Return the credential if it was checked within the last 5 s, else None."""
        known = self._known.get(digest_of(token))
        if known is None or time.monotonic() >= known.fresh_until:
            return None
        expires = known.credential.expires_at
        return None if expires is not None and time.time() >= expires else known.credential

    async def authenticate(self, token: str, address: str = "") -> Credential:
        """Return the credential of a token. Raises BadToken or a subclass of it.

        Bad tokens are counted for `address`.
        """
        if (credential := self.cached(token)) is not None:
            return credential
        digest = digest_of(token)
        source = client_address.counted(address)
        await self._reject_invented(token, digest, source)
        key = f"{digest} {source}"
        begun = False
        with self._lock:
            lookup = self._lookups.get(key)
            crowded = bool(source) and self._waiting.get(source, 0) >= MAX_WAITING_FROM_ADDRESS
            if lookup is None and not crowded and len(self._lookups) < MAX_WAITING_TOKENS:
                lookup = self._lookups[key] = self._threads.submit(
                    _run_with_fresh_connections, self._check, token, digest, address, self._changes
                )
                self._waiting[source] = self._waiting.get(source, 0) + 1
                begun = True
        if begun and lookup is not None:
            # After the lock is free: a look-up that has ended already calls this here.
            lookup.add_done_callback(lambda _: self._end_lookup(key, source))
        if lookup is None:
            known = self._known.get(digest)
            if known is None:
                raise TooManyLookups(from_address=crowded)
            return self._reuse_stale(known, "too many tokens are waiting to be looked up")
        try:
            async with asyncio.timeout(deadline.remaining(ANSWER_SECONDS)):
                # Shielded: one cancelled caller must not cancel the look-up for the others.
                return await asyncio.shield(asyncio.wrap_future(lookup))
        except TimeoutError:
            return self._reuse_stale(self._known.get(digest), "the database did not answer in time")
        finally:
            del lookup  # its error has a traceback with this frame

    def _end_lookup(self, key: str, source: str) -> None:
        with self._lock:
            self._lookups.pop(key, None)
            self._waiting[source] -= 1
            if not self._waiting[source]:
                del self._waiting[source]

    async def _reject_invented(self, token: str, digest: str, source: str) -> None:
        """Raise TooManyBadTokens for a token that cannot be valid, from an address with too many."""
        now = time.monotonic()
        rest = self._limited.get(source, 0.0) - now
        if rest > 0 and digest not in self._known and self._is_invented(token, digest):
            if seconds := self._delays.find(source, now):
                await asyncio.sleep(seconds)
            raise TooManyBadTokens(max(1, round(rest)))

    def _is_invented(self, token: str, digest: str) -> bool:
        return not TOKEN_PATTERN.fullmatch(token) or self._issued.rules_out(digest)

    def authenticate_now(self, token: str, address: str = "") -> Credential:
        """Run `authenticate` in code without an event loop (the stdio command, tests)."""
        if (credential := self.cached(token)) is not None:
            return credential
        return self._threads.submit(
            _run_with_fresh_connections, self._check, token, digest_of(token), address, self._changes
        ).result()

    async def filter_valid(self, credential_ids: Iterable[str]) -> set[str]:
        """Return those of the ids ("token:12", "stdio:12", "admin:3", "admin:3:17") that are valid now.

        Asks the database, in one thread. While it does not answer, all of them count as valid for the same 10 minutes.
        """
        wanted = frozenset(credential_ids)
        if not wanted:
            return set()
        lookup = self._threads.submit(_run_with_fresh_connections, self._filter_valid, wanted)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(lookup))
        except TimeoutError:
            return self._assume_valid(wanted)

    async def filter_current(self, restrictions: Iterable[Restriction], *, or_wider: bool = False) -> set[Restriction]:
        """Return those that the database still has like this, or wider; all of them while it does not answer."""
        wanted = frozenset(restrictions)
        if not wanted:
            return set()
        filter_now = partial(filter_current_now, or_wider=or_wider)
        lookup = self._threads.submit(_run_with_fresh_connections, filter_now, wanted)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(lookup))
        except (TimeoutError, *UNAVAILABLE_ERRORS):
            return set(wanted)

    def _filter_valid(self, credential_ids: frozenset[str]) -> set[str]:
        try:
            good = filter_valid_now(credential_ids)
        except UNAVAILABLE_ERRORS:
            return self._assume_valid(credential_ids)
        self._reached = time.monotonic()
        return good

    def _assume_valid(self, credential_ids: Iterable[str]) -> set[str]:
        return set(credential_ids) if time.monotonic() - self._reached < STALE_SECONDS else set()

    def forget(self, key: str | int | None = None) -> None:
        """Drop what is cached about a token (its SHA-256), a credential ("token:12"), a user (its key), or all."""
        if not isinstance(key, str) or ":" in key:
            self._issued.expire()
        with self._lock:
            self._changes += 1
            if key is None:
                self._known.clear()
            elif isinstance(key, int):
                self._drop(lambda credential: credential.user_id == key)
            elif ":" in key:
                self._drop(lambda credential: credential.id == key)
            else:
                self._known.pop(key, None)

    def _drop(self, matches: Callable[[Credential], bool]) -> None:
        for digest in [digest for digest, known in self._known.items() if matches(known.credential)]:
            del self._known[digest]

    async def close(self) -> None:
        """Close the database connections of the threads, as far as they finish in time."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, self.settle, CLOSE_SECONDS)
        except threading.BrokenBarrierError:
            log.warning("The look-up of a token did not end in time")

    def settle(self, timeout: float = 30.0) -> None:
        """Wait until all work submitted to the threads is done. Raises BrokenBarrierError after `timeout` seconds."""
        barrier = threading.Barrier(THREADS + 1)
        for _ in range(THREADS):
            self._threads.submit(_end_connections, barrier, timeout)
        barrier.wait(timeout)

    def _check(self, token: str, digest: str, address: str, changes: int) -> Credential:
        known, source = self._known.get(digest), client_address.counted(address)
        seconds = 0
        if known is None and source:
            seconds = throttle.wait_seconds("bad-token", source, settings.BAD_TOKENS_RATE, count=False)
        if seconds:
            self._remember_limited(source, seconds)
            if not self._may_be_valid(token, digest):
                raise TooManyBadTokens(seconds)
        try:
            return self._look_up(token, digest, known, changes)
        except CheckUnavailable:
            raise
        except BadToken as bad:
            self.forget(digest)
            if source:
                throttle.wait_seconds("bad-token", source, settings.BAD_TOKENS_RATE, count=True)
            log.info("a bearer token was rejected: %s (from %s)", bad.reason, address or "an unknown address")
            if seconds:
                raise TooManyBadTokens(seconds) from None
            raise

    def _may_be_valid(self, token: str, digest: str) -> bool:
        """Return whether a usable token has this digest: others from a throttled address are not looked up."""
        if not TOKEN_PATTERN.fullmatch(token):
            return False
        try:
            return self._issued.has(digest)
        except UNAVAILABLE_ERRORS as error:
            self._warning.warn("tokens cannot be checked: %s", type(error).__name__)
            raise CheckUnavailable from None

    def _remember_limited(self, source: str, seconds: int) -> None:
        with self._lock:
            self._limited[source] = time.monotonic() + seconds
            self._limited.move_to_end(source)
            while len(self._limited) > MAX_LIMITED_ADDRESSES:
                self._limited.popitem(last=False)

    def _look_up(self, token: str, digest: str, known: _CachedCredential | None, changes: int) -> Credential:
        if not TOKEN_PATTERN.fullmatch(token):
            raise BadToken("the token has the wrong format", code="malformed")
        try:
            row = AccessToken.objects.select_related("user").filter(digest=digest).first()
            toolsets = frozenset(row.toolsets.values_list("pk", flat=True)) if row and row.restricted else None
        except UNAVAILABLE_ERRORS as error:
            return self._reuse_stale(known, f"the database does not answer ({type(error).__name__})")
        now, clock = timezone.now(), time.monotonic()
        self._reached = clock
        if row is None:
            raise BadToken("unknown")
        name, owner = row.user.get_username(), (row.user.pk, row.credential_id)
        if row.revoked is not None:
            raise BadToken(f"{row.credential_id} of {name} was revoked", code="revoked", owner=owner)
        if row.expires <= now:
            raise BadToken(f"{row.credential_id} of {name} has expired", code="expired", owner=owner)
        if not row.user.is_active:
            raise BadToken(f"{row.credential_id}: the user {name} is not active", code="inactive", owner=owner)
        credential = Credential(
            user_id=row.user.pk,
            username=row.user.get_username(),
            id=row.credential_id,
            label=row.name,
            toolset_ids=toolsets,
            expires_at=row.expires.timestamp(),
            made_by_owner=row.made_by_owner,
        )
        marked_at = known.marked_at if known is not None else 0.0
        if clock - marked_at >= LAST_USED_SECONDS:
            marked_at = clock
            self._threads.submit(_run_with_fresh_connections, _mark_used, row.pk)
        self._remember(
            digest, _CachedCredential(credential, clock + FRESH_SECONDS, clock + STALE_SECONDS, marked_at), changes
        )
        return credential

    def _reuse_stale(self, known: _CachedCredential | None, reason: str) -> Credential:
        now = time.monotonic()
        expires = known.credential.expires_at if known is not None else None
        if known is None or now >= known.stale_until:
            self._warning.warn("tokens cannot be checked: %s", reason)
            raise CheckUnavailable
        if expires is not None and time.time() >= expires:
            owner = (known.credential.user_id, known.credential.id)
            raise BadToken(f"{owner[1]} of {known.credential.username} has expired", code="expired", owner=owner)
        known.fresh_until = now + FRESH_SECONDS
        return known.credential

    def _remember(self, digest: str, known: _CachedCredential, changes: int) -> None:
        with self._lock:
            if changes != self._changes:
                return
            self._known[digest] = known
            self._known.move_to_end(digest)
            while len(self._known) > MAX_CACHED_TOKENS:
                self._known.popitem(last=False)
