"""Results that were too large to send, kept behind an address: readable by one user, for an hour.

A token that is restricted to toolsets reads only the results of their tools.

Each user and the whole installation have a quota of bytes. A new result that does not fit takes the place of the oldest
ones, which answer ResultRemoved until they would have expired. A row counts with its body and ROW_BYTES, about what it
takes on the disk. Writers of all processes count one after the other, so that together they stay within the quotas.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from audit.types import Credential
from catalog import threads
from catalog.errors import DatabaseAway, ResultRemoved
from catalog.models import StoredResult
from catalog.policy import visibility
from toolhub import deadline

TTL_SECONDS = 3600
URI_PREFIX = "toolhub://results/"
ROW_BYTES = 4096
"""Bytes on the disk that a stored result takes besides its body."""
LOCK_NUMBER = 0x746F6F6C68756272
"""The advisory lock of PostgreSQL under which a result is counted."""


class NoRoom(Exception):
    """A result that cannot be kept; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class StoredContent:
    uri: str
    mime_type: str
    body: bytes
    is_text: bool

    def content(self) -> dict[str, Any]:
        """Return it as an entry of `contents`."""
        found: dict[str, Any] = {"uri": self.uri, "mimeType": self.mime_type}
        if self.is_text:
            return found | {"text": self.body.decode("utf-8", "replace")}
        return found | {"blob": base64.b64encode(self.body).decode("ascii")}


async def put(
    user_id: int,
    body: bytes,
    mime_type: str,
    *,
    toolset_ids: Iterable[int] | None = None,
    is_text: bool = True,
    name: str = "",
    call_id: UUID | None = None,
    seconds: float = TTL_SECONDS,
) -> str:
    """Store `body` for this user and remove the oldest results beyond the quotas; return its address.

    `toolset_ids` are those of the tool; with None, only tokens without a restriction read it. Raises NoRoom when the
    result is larger than a quota, or the disk of an SQLite database is almost full.
    """
    cost = len(body) + ROW_BYTES

    def write() -> str:
        if cost > min(settings.STORED_RESULTS_USER_BYTES, settings.STORED_RESULTS_BYTES):
            raise NoRoom("It is larger than the space for stored results.")
        row = StoredResult(
            user_id=user_id,
            call_id=call_id,
            name=name[:200],
            toolset_ids=None if toolset_ids is None else sorted(toolset_ids),
            mime_type=mime_type[:100],
            is_text=is_text,
            body=body,
            size=len(body),
            expires_at=timezone.now() + timedelta(seconds=seconds),
        )
        with transaction.atomic():
            if connection.vendor == "postgresql":
                # Written before the lock: nobody sees the row before the commit, and large ones are not in turn.
                row.save(force_insert=True)
                _make_room(user_id, 0)
            else:
                # An IMMEDIATE transaction is the only writer. What it removes makes room in the file for the new row.
                _make_room(user_id, cost)
                if not _has_disk_space(cost):
                    raise NoRoom("The disk of the server is almost full.")
                row.save(force_insert=True)
        return f"{URI_PREFIX}{row.id}"

    return await threads.storage().run(write)


async def get(credential: Credential, uri: str) -> StoredContent | None:
    """Return the stored result.

    None when there is none, when this credential does not reach it, and when it has expired. Raises ResultRemoved when
    newer results took its place, and DatabaseAway when the database does not answer before the deadline of the request.
    """
    try:
        number = UUID(uri.removeprefix(URI_PREFIX))
    except ValueError:
        return None
    if uri != f"{URI_PREFIX}{number}":
        return None

    def read() -> StoredContent | None:
        row = StoredResult.objects.filter(id=number, user_id=credential.user_id, expires_at__gt=timezone.now()).first()
        if row is None or not visibility.reaches_origin(credential, row.toolset_ids):
            return None
        if row.removed:
            raise ResultRemoved(uri)
        return StoredContent(uri, row.mime_type, bytes(row.body), row.is_text)

    try:
        return await deadline.within(threads.storage().run(read), settings.RECORD_SECONDS)
    except (TimeoutError, OperationalError, InterfaceError):
        raise DatabaseAway from None


def count_used_bytes() -> int:
    """Return the bytes that all stored results take, in this thread."""
    return _count_used(StoredResult.objects.filter(removed=False))


def clean_up() -> None:
    """Delete expired results, and remove the oldest ones beyond quotas that were lowered, in this thread."""
    remove_expired()
    users = StoredResult.objects.filter(removed=False).order_by().values_list("user_id", flat=True).distinct()
    for user_id in list(users):
        with transaction.atomic():
            _make_room(user_id, 0)


def remove_expired() -> int:
    """Delete expired results, in this thread; return the number of deleted rows."""
    # Without Django's collector, which would read every body first.
    expired = StoredResult.objects.filter(expires_at__lte=timezone.now())
    return int(expired._raw_delete(using=expired.db))


def _make_room(user_id: int, cost: int) -> None:
    """Remove the oldest results until `cost` more bytes fit into the user's quota and into that of all.

    Until the transaction ends, no other process counts.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_NUMBER])
    remove_expired()
    everything = StoredResult.objects.filter(removed=False)
    _shrink(everything.filter(user_id=user_id), settings.STORED_RESULTS_USER_BYTES - cost)
    _shrink(everything, settings.STORED_RESULTS_BYTES - cost)


def _shrink(results: QuerySet[StoredResult], limit: int) -> None:
    """Remove the oldest of these results until they take at most `limit` bytes."""
    excess = _count_used(results) - limit
    if excess <= 0:
        return
    chosen = []
    for key, size in results.order_by("created_at", "pk").values_list("pk", "size").iterator(200):
        chosen.append(key)
        excess -= size + ROW_BYTES
        if excess <= 0:
            break
    for start in range(0, len(chosen), 200):
        StoredResult.objects.filter(pk__in=chosen[start : start + 200]).update(removed=True, body=b"", size=0)


def _count_used(results: QuerySet[StoredResult]) -> int:
    found = results.order_by().aggregate(bytes=Sum("size"), rows=Count("pk"))
    return int(found["bytes"] or 0) + int(found["rows"]) * ROW_BYTES


def _has_disk_space(cost: int) -> bool:
    """Return whether the disk of the SQLite file keeps TOOLHUB_MIN_FREE_MB besides `cost` more bytes."""
    status = os.statvfs(Path(str(connection.settings_dict["NAME"])).absolute().parent)
    return status.f_bavail * status.f_frsize - cost >= settings.MIN_FREE_MB * 1_000_000
