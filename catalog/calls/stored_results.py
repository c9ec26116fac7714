"""Results that were too large to send, kept behind an address: readable by one user, for an hour."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from catalog import threads
from catalog.errors import DatabaseAway
from catalog.models import StoredResult
from toolhub import deadline

TTL_SECONDS = 3600
URI_PREFIX = "toolhub://results/"


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
    is_text: bool = True,
    name: str = "",
    call_id: UUID | None = None,
    seconds: float = TTL_SECONDS,
) -> str:
    """Store `body` for this user; return its address."""

    def write() -> str:
        row = StoredResult.objects.create(
            user_id=user_id,
            call_id=call_id,
            name=name[:200],
            mime_type=mime_type[:100],
            is_text=is_text,
            body=body,
            size=len(body),
            expires_at=timezone.now() + timedelta(seconds=seconds),
        )
        return f"{URI_PREFIX}{row.id}"

    return await threads.storage().run(write)


async def get(user_id: int, uri: str) -> StoredContent | None:
    """Return the stored result; None when there is none, when it belongs to another user, and when it has expired.

    Raises DatabaseAway when the database does not answer before the deadline of the request.
    """
    try:
        number = UUID(uri.removeprefix(URI_PREFIX))
    except ValueError:
        return None
    if uri != f"{URI_PREFIX}{number}":
        return None

    def read() -> StoredContent | None:
        row = StoredResult.objects.filter(id=number, user_id=user_id, expires_at__gt=timezone.now()).first()
        return None if row is None else StoredContent(uri, row.mime_type, bytes(row.body), row.is_text)

    try:
        return await deadline.within(threads.storage().run(read), settings.RECORD_SECONDS)
    except (TimeoutError, OperationalError, InterfaceError):
        raise DatabaseAway from None


def remove_expired() -> int:
    """Delete expired results, in this thread; return the number of deleted rows."""
    return StoredResult.objects.filter(expires_at__lte=timezone.now()).delete()[0]
