"""Writing of admin activity to the hash chains, in the transaction of the change itself: both are kept, or neither.

Changes come from any thread of any process, and a transaction may take long. So there are sixteen hash chains for
them; a transaction takes the first that no other one holds, and keeps it until its end. Transactions do not wait for
each other unless all sixteen are held, and cannot lock each other out. On SQLite the transaction locks the database
anyway, so that the first chain is always free.

A chain is only continued when its last link is this installation's: a link that was added with SQL would otherwise be
vouched for by the next one. Another chain is used instead, and verification names the added link.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from audit.format import chain, keys, timestamps, uuid7
from audit.format.chain import Chain
from audit.format.checkpoint import SignedCheckpoint
from audit.models import Action, Checkpoint, Link, Writer
from audit.types import AuditLogUnavailable
from audit.writing import leases
from audit.writing.entries import clean_text
from audit.writing.sql import LINK_COLUMNS

logger = logging.getLogger("audit")

_LOCK_KEY = 0x746F6F6C
"""First half of the advisory locks' keys; the second is the chain's number."""
_MAX_CHECKPOINTS = 20
_MAX_TRIES = 5
BATCH_ROWS = 500


def write(
    actor: str, verb: str, kind: str, target: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Action:
    with transaction.atomic():
        links = _open_chain()
        now = timestamps.now_ms()
        action = Action(
            id=uuid7.new_id(),
            at=timestamps.from_ms(now),
            actor=clean_text(actor)[:200],
            verb=clean_text(verb)[:64],
            kind=clean_text(kind)[:64],
            target=clean_text(target)[:500],
            before=_encode_fields(before),
            after=_encode_fields(after),
        )
        action.link = links.add(chain.ACTION, action.id.hex, action_content(action))
        action.save(force_insert=True)
        links.authenticate(keys.mac_key())
        Link.objects.bulk_create(Link(**dict(zip(LINK_COLUMNS, row, strict=True))) for row in links.rows)
    return action


def write_again(actions: Sequence[Action]) -> None:
    """Write actions that were written to a copy of the database, in their order, as actions of now."""
    if not actions:
        return
    with transaction.atomic():
        links = _open_chain()
        now = timestamps.from_ms(timestamps.now_ms())
        for action in actions:
            action.id, action.at = uuid7.new_id(), now
            action.link = links.add(chain.ACTION, action.id.hex, action_content(action))
        Action.objects.bulk_create(actions, batch_size=BATCH_ROWS)
        links.authenticate(keys.mac_key())
        Link.objects.bulk_create(
            [Link(**dict(zip(LINK_COLUMNS, row, strict=True))) for row in links.rows], batch_size=BATCH_ROWS
        )


def action_content(action: Action) -> str:
    return chain.content(
        [
            action.id.hex,
            timestamps.to_ms(action.at),
            action.actor,
            action.verb,
            action.kind,
            action.target,
            action.before,
            action.after,
        ]
    )


def writer_content(writer: Writer) -> str:
    return chain.content([writer.id, writer.host, writer.pid, writer.born, timestamps.to_ms(writer.started)])


def _encode_fields(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return ""
    return clean_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str))


def _open_chain() -> Chain:
    """Return a chain that no other transaction holds and whose last link is authentic.

    When every chain was changed from outside, one with a random number: whoever can write SQL must not be able to keep
    administrators from signing in and mending it. Raise AuditLogUnavailable when that is not possible either.
    """
    for numbers in (
        range(1, chain.ACTION_CHAINS + 1),
        range(chain.ACTION_CHAINS + 1, chain.LAST_ACTION_CHAIN + 1),
        _list_replacements(),
        [leases.random_number() for _ in range(_MAX_TRIES)],
    ):
        held = []
        for number in numbers:
            if not _try_lock(number):
                held.append(number)
            elif (links := _load_chain(number)) is not None:
                return links
        for number in held:
            _lock(number)
            if (links := _load_chain(number)) is not None:
                return links
    raise AuditLogUnavailable("every hash chain of admin activity was changed outside the log: run verifycalls")


def _list_replacements() -> Iterator[int]:
    """Yield the newest chains with random numbers: processes have a host, and the first chains smaller numbers."""
    found = Writer.objects.filter(id__gt=chain.LAST_ACTION_CHAIN, id__lte=chain.MAX_WRITER, host="")
    yield from found.order_by("-started").values_list("id", flat=True)[:_MAX_TRIES]


def _load_chain(number: int) -> Chain | None:
    """Return the chain, begun if it does not exist yet; None when its last link is not ours."""
    own = Link.objects.filter(id__gte=chain.link_id(number, 0), id__lt=chain.link_id(number + 1, 0))
    last = own.order_by("id").last()
    if last is not None:
        sequence = chain.split_link_id(last.id)[1]
        if _is_ours(number, sequence, last):
            return Chain(number, sequence, last.hash)
        logger.error("hash chain %d was changed outside the log, or has the key of another installation", number)
        return None
    now = timestamps.from_ms(timestamps.now_ms())
    values = {"host": "", "pid": 0, "born": 0, "started": now, "heartbeat": now, "covered": 0, "sealed": False}
    writer, added = Writer.objects.get_or_create(id=number, defaults=values)
    if not added:
        logger.error("hash chain %d was deleted", number)
        return None
    links = Chain(number)
    links.add(chain.OPENED, str(number), writer_content(writer))
    return links


def _is_ours(number: int, sequence: int, last: Link) -> bool:
    if keys.is_authentic(chain.mac_text(number, sequence, last.hash), last.mac):
        return True
    # Its key may be known by the public key alone: then a checkpoint of that key must name this very link.
    named = Checkpoint.objects.filter(heads__contains=f'"{number}":[{sequence},"{last.hash}"]').order_by("-number")
    return any(SignedCheckpoint.from_row(row).is_signed for row in named[:_MAX_CHECKPOINTS])


def _try_lock(number: int) -> bool:
    """Lock a chain until the end of the transaction. Return False when another transaction holds it.

    PostgreSQL releases the lock after the commit is visible.
    """
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", (_LOCK_KEY, number))
        return bool(cursor.fetchone()[0])


def _lock(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK_KEY, number))
