"""Calls that repeat themselves: the digest of the same call, and the errors in a row of one tool and credential.

The state is in the cache of limits: in Redis, or in this process without it. For each limit, credential and tool it has
which error the last call ended with, and since when; a counter beside it has how often. Both are forgotten at the end
of the window, which begins with the first of the errors.

Everything is synchronous and asks Redis, if it is configured: on a thread, then.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from django.core.cache import caches

from catalog.approvals import bindings
from catalog.functions.sanitise import sanitise_line
from catalog.policy.definitions import LimitRule
from toolhub import rates

ARGUMENTS_SALT: Final = "toolhub.metering.loops.arguments"
MAX_ERROR_CHARACTERS: Final = 300
_ID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
"""Ids of calls and requests, which an error names and which differ each time."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The same error, so often that the tool is refused."""

    count: int
    seconds: int
    """Until the window ends, and calls are possible again."""
    error: str
    """Its text, shortened to 300 characters."""


@dataclass(frozen=True, slots=True)
class _Errors:
    """The errors in a row, as the cache has them."""

    digest: str
    counter: str
    """The key of the number of errors: another one for each row of errors."""
    ends: float
    """Unix seconds."""
    text: str


def digest_arguments(arguments: Any) -> str:
    """Return a keyed digest of the arguments of a call, the same whatever the order of the members of an object.

    Approvals compare arguments in the same way. It takes 10 µs for a few numbers, and up to 40 ms for each megabyte: do
    it on a thread when they are large. Raises ValueError for what is no JSON.
    """
    return bindings.digest(ARGUMENTS_SALT, arguments)


def blank_ids(error: str) -> str:
    """Return the text of an error without ids of calls and requests: what equal errors have in common."""
    return _ID.sub("", error)


def find_loop(rule: LimitRule, credential_id: str, tool_id: int) -> Loop | None:
    """Return the errors in a row with which the tool has reached this limit; None below it."""
    amount = rates.split(rule.rate)[0]
    cache = caches["limits"]
    errors = _read(cache.get(_key(rule, credential_id, tool_id)))
    if errors is None:
        return None
    count = int(cache.get(errors.counter, 0))
    if count < amount:
        return None
    return Loop(count, max(1, math.ceil(errors.ends - time.time())), errors.text)


def note_end(rules: Sequence[LimitRule], credential_id: str, tool_id: int, error: str | None) -> None:
    """Note for these limits how a call has ended: with an error, or without one, which begins anew.

    `error` is the text that the client reads, in which no secret is left.
    """
    for rule in rules:
        key = _key(rule, credential_id, tool_id)
        if error is None:
            caches["limits"].delete(key)
        else:
            _note_error(key, rates.split(rule.rate)[1], error)


def _note_error(key: str, window: int, error: str) -> None:
    cache, now = caches["limits"], time.time()
    digest = hashlib.sha256(blank_ids(error).encode("utf-8", "surrogatepass")).hexdigest()
    errors = _read(cache.get(key))
    if errors is None or errors.digest != digest:
        text = sanitise_line(error)[:MAX_ERROR_CHARACTERS]
        made = _Errors(digest, f"{key}:{uuid4().hex}", now + window, text)
        values = [made.digest, made.counter, made.ends, made.text]
        if errors is not None:
            cache.set(key, values, window)
        elif not cache.add(key, values, window):
            # Calls that run at the same time end with the same error at the same time: it has just been noted.
            made = _read(cache.get(key)) or made
        errors = made
    seconds = max(1, math.ceil(errors.ends - now))
    if not cache.add(errors.counter, 1, seconds):
        with contextlib.suppress(ValueError):  # the window has ended in between
            cache.incr(errors.counter)


def _read(stored: Any) -> _Errors | None:
    """Return the errors of an entry whose window is not over."""
    if stored is None:
        return None
    errors = _Errors(*stored)
    return errors if errors.ends > time.time() else None


def _key(rule: LimitRule, credential_id: str, tool_id: int) -> str:
    digest = hashlib.sha256(f"{rule.id} {tool_id} {credential_id}".encode()).hexdigest()
    return f"errors:{digest}"  # a key of a cache has no spaces, and is not as long as some ids
