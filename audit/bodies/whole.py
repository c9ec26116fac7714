"""The table of whole bodies: one compressed text for all calls with the same result.

Nobody has to trust this table. A text is shown only if its SHA-256 and length are those of the call, which the hash
chain covers. Reading is bounded by the length in the call, whatever was written to the table.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Sum
from django.db.models.functions import Length

from audit import outcomes
from audit.models import Call, WholeBody, WholeBodyUse

ABSENT, KEPT, ALTERED = "absent", "kept", "altered"
"""ABSENT: this call has no whole body. ALTERED: it has one that is gone, or is not what was logged."""
_MAX_OVERHEAD_BYTES = 1024
"""How much longer than its text a compressed text can be, and a little more."""
_MAX_RATIO = 1000
"""How many times shorter a text gets at most by compression, roughly."""


class Full(Exception):
    """The whole results take all the room that the setting gives them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The whole body of a call."""

    state: str
    text: str = ""
    """Empty unless `state` is KEPT."""


@dataclass(frozen=True, slots=True)
class Total:
    """What all whole bodies take."""

    bodies: int
    stored: int
    """Bytes in the table."""


def keep(call_id: UUID, digest: str, text: str) -> bool:
    """Keep the whole result of an ended call, and return whether that call still has its bodies. Raises Full."""
    data = text.encode()
    packed = zlib.compress(data)
    if measure().stored + len(packed) > settings.MAX_WHOLE_BODIES_BYTES and not _is_kept(digest):
        raise Full
    with transaction.atomic():
        # Locked in the order of `remove`: retention waits for this body, or this waits and finds it gone.
        call = Call.objects.select_for_update().filter(pk=call_id, body_state="").exclude(outcome=outcomes.RUNNING)
        if not call.values_list("pk").first():
            return False
        WholeBody.objects.select_for_update().defer("data").get_or_create(
            digest=digest, defaults={"size": len(data), "stored": len(packed), "data": packed}
        )
        WholeBodyUse.objects.get_or_create(call_id=call_id, defaults={"digest": digest})
    return True


def _is_kept(digest: str) -> bool:
    return WholeBody.objects.filter(pk=digest).exists()


def is_full(size: int) -> bool:
    """Return whether there is no room for another result of this size, however well it is compressed."""
    return measure().stored + size // _MAX_RATIO >= settings.MAX_WHOLE_BODIES_BYTES


def find(call: Call) -> Found:
    """Return the whole result of a call, if it is kept and is what the call's digest says."""
    if call.body_state or not WholeBodyUse.objects.filter(pk=call.pk).exists():
        return Found(ABSENT)
    # A text that cannot be right is not even read.
    rows = WholeBody.objects.annotate(length=Length("data")).filter(length__lte=call.result_bytes + _MAX_OVERHEAD_BYTES)
    packed = rows.filter(pk=call.result_sha256).values_list("data", flat=True).first()
    data = _unpack(bytes(packed), call.result_bytes) if packed is not None else None
    if data is None or len(data) != call.result_bytes or hashlib.sha256(data).hexdigest() != call.result_sha256:
        return Found(ALTERED)
    return Found(KEPT, data.decode())


def _unpack(packed: bytes, size: int) -> bytes | None:
    """Return at most `size` + 1 bytes; None for what is not compressed with zlib."""
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error:
        return None


def remove(call_ids: Collection[UUID]) -> None:
    """Remove the whole bodies of these calls, in the transaction that removed their bodies or rows.

    A text that other calls have too stays until the last of them goes.
    """
    uses = WholeBodyUse.objects.filter(pk__in=call_ids)
    digests = set(uses.values_list("digest", flat=True))
    if not digests:
        return
    uses.delete()
    bodies = WholeBody.objects.filter(pk__in=digests).order_by("pk")
    # Locked before the uses are looked for again: one that is being added is seen, or finds its body gone.
    list(bodies.select_for_update().values_list("pk"))
    bodies.exclude(Exists(WholeBodyUse.objects.filter(digest=OuterRef("pk")))).delete()


def measure() -> Total:
    """Return how many whole bodies there are and what they take."""
    found = WholeBody.objects.aggregate(bodies=Count("pk"), stored=Sum("stored"))
    return Total(found["bodies"], found["stored"] or 0)
