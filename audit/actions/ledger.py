"""Writing of admin activity to the hash chains, in the transaction of the change itself: both are kept, or neither.

Changes come from any thread of any process, and a transaction may take long. So there are sixteen hash chains for
them; a transaction takes the first that no other one holds, and keeps it until its end. Transactions do not wait for
each other unless all sixteen are held, and cannot lock each other out. On SQLite the transaction locks the database
anyway, so that the first chain is always free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

from audit.format import chain, timestamps, uuid7
from audit.format.chain import Chain
from audit.models import Action, Link, Writer
from audit.writing.entries import clean_text

_LOCK_KEY = 0x746F6F6C
"""First half of the advisory locks' keys; the second is the chain's number."""


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
        Link.objects.bulk_create(
            Link(id=id, writer=writer, sequence=sequence, kind=link_kind, subject=subject, content=content, hash=digest)
            for id, writer, sequence, link_kind, subject, content, digest in links.rows
        )
    return action


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
    number = _lock_chain() if connection.vendor == "postgresql" else 1
    last = Link.objects.filter(
        writer=number, id__gte=chain.link_id(number, 0), id__lt=chain.link_id(number + 1, 0)
    ).last()
    if last is not None:
        return Chain(number, last.sequence, last.hash)
    now = timestamps.from_ms(timestamps.now_ms())
    writer = Writer(id=number, host="", pid=0, born=0, started=now, heartbeat=now, covered=0, sealed=False)
    writer.save(force_insert=True)
    links = Chain(number)
    links.add(chain.OPENED, str(number), writer_content(writer))
    return links


def _lock_chain() -> int:
    """Lock a chain that no other transaction holds, and return its number.

    PostgreSQL releases the lock at the end of the transaction, after its commit is visible. When all chains are held,
    wait for the first.
    """
    with connection.cursor() as cursor:
        for number in range(1, chain.ACTION_CHAINS + 1):
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", (_LOCK_KEY, number))
            if cursor.fetchone()[0]:
                return number
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK_KEY, 1))
    return 1
