"""The newest calls of the record, as far back as a page may look: at most so many days, calls and milliseconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import MD5, Cast
from django.utils import timezone

from audit.models import Call
from audit.searches import id_at, moment_of

CALLS = 10_000
SECONDS = 0.13
_FIRST, _LARGEST = 250, 4_000


class Attempt(NamedTuple):
    """One call of a tool."""

    hex: str
    """The call's id. A UUID object of every row would cost more than all the rest of it."""
    name: str
    known: bool
    """Whether it was a tool of the catalogue that the caller may use."""
    user: str
    credential: str
    client: str
    outcome: str
    error_class: str
    detail: str
    took: int | None
    """Microseconds."""
    digest: str
    """Of the arguments."""
    at: float
    """When it began, in Unix seconds."""

    @property
    def id(self) -> UUID:
        return UUID(self.hex)

    @property
    def caller(self) -> tuple[str, str]:
        return self.credential, self.client


@dataclass(slots=True)
class Looked:
    """What was looked at."""

    attempts: list[Attempt]
    """Oldest first."""
    since: datetime
    cut: bool
    """Whether there are older ones in the days that were asked for."""


def newest(days: int) -> Looked:
    """The calls of tools in the last so many days, from the newest back until one of the bounds is met."""
    now = timezone.now()
    since = now - timedelta(days=days)
    rows = (
        Call.objects.filter(pk__gte=id_at(since))
        .order_by("-pk")
        .annotate(digest=MD5("arguments"), hex=Cast("pk", TextField()))
        .values_list(
            "hex",
            "name",
            "target_id",
            "username",
            "credential_id",
            "client_name",
            "outcome",
            "error_class",
            "detail",
            "duration_us",
            "digest",
            "method",
        )
    )
    deadline = time.monotonic() + SECONDS
    found: list[Attempt] = []
    looked, size, below = 0, _FIRST, None
    while True:
        began = time.monotonic()
        part: list[Any] = list((rows if below is None else rows.filter(pk__lt=below))[:size])
        found += [
            Attempt(
                (hex := key.replace("-", "")),
                name,
                target is not None,
                user,
                credential,
                client,
                outcome,
                kind,
                detail,
                took,
                digest,
                int(hex[:12], 16) / 1000,
            )
            for key, name, target, user, credential, client, outcome, kind, detail, took, digest, method in part
            if method == "tools/call"
        ]
        looked += len(part)
        ended = len(part) < size
        if part:
            below = UUID(part[-1][0])
        if ended or looked >= CALLS or time.monotonic() >= deadline:
            found.reverse()
            return Looked(found, since if ended or below is None else moment_of(below), not ended)
        # Arguments may be large: what the last slice cost says how many rows the time that is left is good for.
        now_, spent = time.monotonic(), max(time.monotonic() - began, 0.001)
        fits = int(size * max(0.0, deadline - now_) / spent)
        size = max(50, min(size * 2, _LARGEST, CALLS - looked, fits))
