"""Authentication of bearer tokens.

Known tokens are answered from memory for 5 s; everything else is looked up in the database, in threads of its own.
`token_errors` has the rejections, `kinds` what a token can be.

An address with too many invalid tokens gets 429 for the next one, and no query; one that goes on fast gets it a second
later. A valid token from there passes.

`cached` is for the hot path: no lock, no await, no database. `forget` is thread-safe. While the database is away, a
token that was valid stays valid for 10 minutes; its own expiry, and a revocation that reached this process, still
apply.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connections

from audit.types import Credential
from toolhub import client_address, deadline
from toolhub.access import hooks, throttle
from toolhub.access.issued_tokens import IssuedTokens
from toolhub.access.kinds import CredentialKind, Revocable, group_keys, key_of
from toolhub.access.models import digest_of
from toolhub.access.personal_tokens import LAST_USED_SECONDS, PersonalTokens
from toolhub.access.token_errors import PLACEHOLDER, BadToken, CheckUnavailable, TooManyBadTokens, TooManyLookups
from toolhub.log_throttle import ThrottledWarning
from toolhub.rates import RefusalDelays

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
STALE_SECONDS = 600.0
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
UNAVAILABLE_ERRORS = (OperationalError, InterfaceError)

T = TypeVar("T")
Restriction: TypeAlias = tuple[str, frozenset[int] | None]
"""The id of a credential, and the toolsets it is restricted to; None: no restriction."""


@dataclass(slots=True)
class _CachedCredential:
    credential: Credential
    fresh_until: float  # monotonic
    stale_until: float  # monotonic
    marked_at: float  # monotonic: when `last_used` was last written from here


def from_header(value: str | None) -> str:
    """Return the token of an Authorization header. Raises BadToken when there is none."""
    if not value:
        raise BadToken("no token", sent=False, code="missing")
    scheme, _, token = value.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise BadToken("no bearer token", sent=False, code="scheme")
    return token


def credential_kinds() -> tuple[CredentialKind, ...]:
    """Return the kinds of credentials of this installation."""
    return (PersonalTokens(), *hooks.installed().credential_kinds)


def filter_valid_now(credential_ids: Iterable[str], kinds: Iterable[CredentialKind] | None = None) -> set[str]:
    """Return those of the ids that are valid now, asked in this thread. Raises the errors of the database."""
    from toolhub.access import try_permissions

    wanted = set(credential_ids)
    good: set[str] = set()
    for kind in credential_kinds() if kinds is None else kinds:
        ids = group_keys(wanted, kind)
        for chunk in _chunks(ids):
            for key in kind.filter_usable(chunk):
                good |= ids[key]
    return good | try_permissions.filter_permitted(text for text in wanted if text.startswith("admin:"))


def find_now(credential_id: str) -> Revocable | None:
    """Return the stored credential with this id; None when it is gone, or of a kind that cannot be revoked."""
    for kind in credential_kinds():
        for key in group_keys([credential_id], kind):
            return kind.find(key)
    return None


def filter_current_now(
    restrictions: Iterable[Restriction], *, or_wider: bool = False, kinds: Iterable[CredentialKind] | None = None
) -> set[Restriction]:
    """Return those that are as the database has them now, asked in this thread. Raises the errors of the database.

    With `or_wider`, those too whose credential may see more by now.
    """
    found = set(restrictions)
    then: dict[str, set[Restriction]] = {}
    for restriction in found:
        then.setdefault(restriction[0], set()).add(restriction)
    for kind in credential_kinds() if kinds is None else kinds:
        ids = group_keys(then, kind)
        for chunk in _chunks(ids):
            for key, toolset_ids in kind.find_toolsets(chunk).items():
                for restriction in (one for text in ids[key] for one in then[text]):
                    if not _is_current(restriction[1], toolset_ids, or_wider=or_wider):
                        found.discard(restriction)
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


def _mark_used(kind: CredentialKind, key: int, address: str) -> None:
    try:
        kind.mark_used(key, address)
    except DatabaseError as error:
        log.warning("cannot note the last use of a token: %s", type(error).__name__)


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
        self._kinds = credential_kinds()
        self._issued = {kind: IssuedTokens(kind) for kind in self._kinds}
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
        kind = self._find_kind(token)
        return kind is None or self._issued[kind].rules_out(digest)

    def _find_kind(self, token: str) -> CredentialKind | None:
        return next((kind for kind in self._kinds if kind.pattern.fullmatch(token)), None)

    def authenticate_now(self, token: str, address: str = "") -> Credential:
        """Run `authenticate` in code without an event loop (the stdio command, tests)."""
        if (credential := self.cached(token)) is not None:
            return credential
        return self._threads.submit(
            _run_with_fresh_connections, self._check, token, digest_of(token), address, self._changes
        ).result()

    async def filter_valid(self, credential_ids: Iterable[str]) -> set[str]:
        """Return those of the ids ("token:12", "stdio:12", "app:4", "admin:3", "admin:3:17") that are valid now.

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
        filter_now = partial(filter_current_now, or_wider=or_wider, kinds=self._kinds)
        lookup = self._threads.submit(_run_with_fresh_connections, filter_now, wanted)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(lookup))
        except (TimeoutError, *UNAVAILABLE_ERRORS):
            return set(wanted)

    def _filter_valid(self, credential_ids: frozenset[str]) -> set[str]:
        try:
            good = filter_valid_now(credential_ids, self._kinds)
        except UNAVAILABLE_ERRORS:
            return self._assume_valid(credential_ids)
        self._reached = time.monotonic()
        return good

    def _assume_valid(self, credential_ids: Iterable[str]) -> set[str]:
        return set(credential_ids) if time.monotonic() - self._reached < STALE_SECONDS else set()

    def forget(self, key: str | int | None = None) -> None:
        """Drop what is cached about a token (its SHA-256), a credential ("token:12"), a user (its key), or all."""
        if not isinstance(key, str) or ":" in key:
            for issued in self._issued.values():
                issued.expire()
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
            return self._look_up(token, digest, address, known, changes)
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
        kind = self._find_kind(token)
        if kind is None:
            return False
        try:
            return self._issued[kind].has(digest)
        except UNAVAILABLE_ERRORS as error:
            self._warning.warn("tokens cannot be checked: %s", type(error).__name__)
            raise CheckUnavailable from None

    def _remember_limited(self, source: str, seconds: int) -> None:
        with self._lock:
            self._limited[source] = time.monotonic() + seconds
            self._limited.move_to_end(source)
            while len(self._limited) > MAX_LIMITED_ADDRESSES:
                self._limited.popitem(last=False)

    def _look_up(
        self, token: str, digest: str, address: str, known: _CachedCredential | None, changes: int
    ) -> Credential:
        kind = self._find_kind(token)
        if kind is None:
            code = "placeholder" if token == PLACEHOLDER else "malformed"
            raise BadToken("the token has the wrong format", code=code)
        try:
            credential = kind.look_up(digest)
        except UNAVAILABLE_ERRORS as error:
            return self._reuse_stale(known, f"the database does not answer ({type(error).__name__})")
        except BadToken:
            self._reached = time.monotonic()
            raise
        clock = self._reached = time.monotonic()
        marked_at = known.marked_at if known is not None else 0.0
        if clock - marked_at >= LAST_USED_SECONDS:
            marked_at = clock
            self._threads.submit(_run_with_fresh_connections, _mark_used, kind, key_of(credential), address)
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
