"""An attacker who can write SQL and knows how the audit log is computed, but holds no key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from django.db import connection

from audit.format import chain, timestamps
from audit.format.checkpoint import read_heads
from audit.format.uuid7 import new_id
from audit.models import Action, Call, Checkpoint, Link, Writer

COLUMNS = (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS)


class Forger:
    """Every method writes with SQL on the test's connection and makes all hashes fit, as far as no key is needed."""

    def __init__(self, first_writer: int, last_writer: int) -> None:
        self.first, self.last = first_writer, last_writer
        """A writer whose entries a checkpoint covers, and one with entries after the last checkpoint."""

    # --- looking ------------------------------------------------------------------------------------------------------

    def covered_call(self, position: int = 2) -> Call:
        return Call.objects.filter(writer=self.first).order_by("id")[position]

    def new_call(self) -> Call:
        """The newest call that no checkpoint covers."""
        found = Call.objects.filter(writer=self.last).order_by("id").last()
        assert found is not None
        return found

    def head(self, writer: int) -> tuple[int, str]:
        last = Link.objects.filter(id__lt=chain.link_id(writer + 1, 0), id__gte=chain.link_id(writer, 0)).last()
        return (last.sequence, last.hash) if last is not None else (0, chain.START_HASH)

    # --- writing ------------------------------------------------------------------------------------------------------

    def sql(self, text: str, values: Sequence[Any] = ()) -> int:
        with connection.cursor() as cursor:
            cursor.execute(text, list(values))
            return cursor.rowcount

    def add_link(self, writer: int, kind: str, subject: str, content: str, mac: str = "") -> int:
        sequence, previous = self.head(writer)
        sequence += 1
        digest = chain.link_hash(writer, sequence, previous, kind, subject, content)
        id = chain.link_id(writer, sequence)
        self.sql(
            "INSERT INTO audit_link (id, writer, sequence, kind, subject, content, hash, mac)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (id, writer, sequence, kind, subject, content, digest, mac),
        )
        return id

    def add_writer(self, number: int, **columns: Any) -> Writer:
        """A chain of its own, with an entry for its beginning."""
        now = timestamps.from_ms(timestamps.now_ms())
        row = {"host": "host", "pid": 1, "born": 1, "started": now, "heartbeat": now, "covered": 0, "sealed": False}
        writer = Writer(id=number, **(row | columns))
        writer.save(force_insert=True)
        values = [number, writer.host, writer.pid, writer.born, timestamps.to_ms(writer.started)]
        self.add_link(number, chain.OPENED, str(number), chain.content(values))
        return writer

    def add_call(self, writer: int, mac: str = "", **columns: Any) -> Call:
        """A denied call with its hash chain entry, a copy of one that there is."""
        copied = Call.objects.filter(outcome="unknown_tool").order_by("id")[0]
        copied.pk = new_id()
        for name, value in {"name": "forged", "writer": writer, **columns}.items():
            setattr(copied, name, value)
        copied.link = copied.end_link = 0
        copied.save(force_insert=True)
        id = self.add_link(writer, chain.REFUSED, copied.pk.hex, self.call_content(copied.pk), mac)
        self.sql("UPDATE audit_call SET link = %s, end_link = %s WHERE name = 'forged'", (id, id))
        return Call.objects.get(pk=copied.pk)

    def add_action(self, writer: int, mac: str = "", **columns: Any) -> Action:
        row = {"actor": "root", "verb": "changed", "kind": "tool", "target": "forged", "before": "", "after": ""}
        action = Action(id=new_id(), at=timestamps.from_ms(timestamps.now_ms()), link=0, **(row | columns))
        action.link = self.add_link(writer, chain.ACTION, action.id.hex, self.action_content(action), mac)
        action.save(force_insert=True)
        return action

    def add_prune(self, writer: int, before: str) -> Action:
        after = json.dumps({"before": before, "what": "rows"}, separators=(",", ":"))
        return self.add_action(writer, actor="retention", verb="pruned", kind="calls", target="rows", after=after)

    def rehash(self, writer: int, since: int, new_content: Callable[[Link], str | None]) -> None:
        """Compute every link of the chain anew from that sequence on."""
        previous = chain.START_HASH
        for link in Link.objects.filter(writer=writer).order_by("id"):
            if link.sequence >= since:
                content = new_content(link) or link.content
                digest = chain.link_hash(writer, link.sequence, previous, link.kind, link.subject, content)
                self.sql("UPDATE audit_link SET content = %s, hash = %s WHERE id = %s", (content, digest, link.id))
                previous = digest
            else:
                previous = link.hash

    def rehash_call(self, call: Call) -> None:
        """Make the links fit the call as it is now, and all links after them."""

        def content(link: Link) -> str | None:
            return self.call_content(call.pk, link.kind) if link.subject == call.pk.hex else None

        self.rehash(chain.split_link_id(call.link)[0], chain.split_link_id(call.link)[1], content)

    def close_gap(self, writer: int) -> None:
        """Number the links of a chain without a gap, and make everything that points to them fit."""
        for sequence, link in enumerate(list(Link.objects.filter(writer=writer).order_by("id")), 1):
            new = chain.link_id(writer, sequence)
            if new != link.id:
                self.sql("UPDATE audit_link SET id = %s, sequence = %s WHERE id = %s", (new, sequence, link.id))
                self.sql("UPDATE audit_call SET link = %s WHERE link = %s", (new, link.id))
                self.sql("UPDATE audit_call SET end_link = %s WHERE end_link = %s", (new, link.id))
        self.rehash(writer, 1, lambda link: None)

    def delete_call(self, call: Call, *, links: bool = True) -> None:
        self.sql("DELETE FROM audit_call WHERE link = %s", (call.link,))
        if links:
            self.sql("DELETE FROM audit_link WHERE subject = %s", (call.pk.hex,))

    def delete_after(self, writer: int, sequence: int) -> None:
        """Delete the end of a chain with the calls in it."""
        first = chain.link_id(writer, sequence + 1)
        self.sql("DELETE FROM audit_call WHERE writer = %s AND link >= %s", (writer, first))
        self.sql("DELETE FROM audit_link WHERE writer = %s AND id >= %s", (writer, first))

    def fit_checkpoints(self) -> None:
        """Make heads and hashes of all checkpoints fit the chains as they are. Only the signatures remain."""
        previous = chain.START_HASH
        for row in Checkpoint.objects.order_by("number"):
            heads = {}
            for writer, (sequence, _) in read_heads(row.heads).items():
                link = Link.objects.filter(id=chain.link_id(writer, sequence)).first()
                heads[writer] = (link.sequence, link.hash) if link is not None else self.head(writer)
            self.write_checkpoint(row.number, row.at, heads, previous, row.key, row.signature)
            previous = Checkpoint.objects.get(number=row.number).hash

    def write_checkpoint(
        self, number: int, at: Any, heads: dict[int, tuple[int, str]], previous: str, key: str, signature: str
    ) -> None:
        text = chain.encode({str(writer): list(head) for writer, head in sorted(heads.items())})
        digest = sha256(f"{number} {timestamps.to_ms(at)} {previous} {text}".encode()).hexdigest()
        Checkpoint.objects.filter(number=number).delete()
        row = {"at": at, "heads": text, "previous": previous, "hash": digest, "key": key, "signature": signature}
        Checkpoint.objects.create(number=number, **row)

    # --- computing ----------------------------------------------------------------------------------------------------

    @staticmethod
    def call_content(pk: Any, kind: str = chain.REFUSED) -> str:
        values = list(Call.objects.values_list(*COLUMNS).get(pk=pk))
        values[0] = values[0].hex
        for name in ("started_at", "ended_at"):
            place = COLUMNS.index(name)
            values[place] = timestamps.to_ms(values[place])
        for name in ("arguments", "result"):
            place = COLUMNS.index(name)
            values[place] = chain.body_digest(values[place])
        parts = {chain.BEGIN: values[: chain.END_OFFSET], chain.REFUSED: values}
        return chain.content(parts.get(kind, [values[0], *values[chain.END_OFFSET :]]))

    @staticmethod
    def action_content(action: Action) -> str:
        columns = ("actor", "verb", "kind", "target", "before", "after")
        at = timestamps.to_ms(action.at)
        return chain.content([action.id.hex, at, *(getattr(action, name) for name in columns)])
