"""Results that were too large to send, kept behind an address: readable by one user, for an hour.

A token that is restricted to toolsets reads only the results of their tools.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from audit.types import Credential
from catalog import threads
from catalog.models import StoredResult
from catalog.policy import visibility

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
    toolset_ids: Iterable[int] | None = None,
    is_text: bool = True,
    name: str = "",
    call_id: UUID | None = None,
    seconds: float = TTL_SECONDS,
) -> str:
    """Store `body` for this user; return its address.

    `toolset_ids` are those of the tool; with None, only tokens without a restriction read it.
    """

    def write() -> str:
        row = StoredResult.objects.create(
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
        return f"{URI_PREFIX}{row.id}"

    return await threads.storage().run(write)


async def get(credential: Credential, uri: str) -> StoredContent | None:
    """Return the stored result.

    None when there is none, when this credential does not reach it, and when it has expired.
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
        return StoredContent(uri, row.mime_type, bytes(row.body), row.is_text)

    return await threads.storage().run(read)


def remove_expired() -> int:
    """Delete expired results, in this thread; return the number of deleted rows."""
    return StoredResult.objects.filter(expires_at__lte=timezone.now()).delete()[0]
