"""Everything that a case file holds: calls, admin activity, definitions, access, and the proof from the hash chain.

The proof of an entry is the part of its hash chain from the entry to the next signed checkpoint. Of other calls it has
only the links, which hold nothing but a random id and a digest.
"""

from __future__ import annotations

import heapq
import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from audit import hooks
from audit.case_files import archive
from audit.case_files.archive import Archive
from audit.export import activity, rows
from audit.format import chain, keys, timestamps
from audit.format.checkpoint import SignedCheckpoint, read_heads
from audit.integrity import checkpoints, verification
from audit.integrity.links import LATE_MS, PRUNE_KIND, PRUNE_VERB
from audit.models import Action, Checkpoint, Link
from audit.queries import spans
from audit.queries.search import CallSearch, id_at
from audit.writing.stores.shared import SharedStore

BATCH_ROWS = 1_000
SORTED_AT_ONCE = 20_000
"""Maximum number of ids that are sorted by one call, during which no other thread of the process runs."""
MAX_REASON_CHARACTERS = 500
NAMES = ("user", "tool", "client", "credential")
"""Filters whose texts choose the admin activity."""
TIMES = {"since", "until", "period"}
MAX_NAMES = 50
"""Maximum people of the calls whose admin activity is looked for when no filter names anybody."""
README = """\
Case file of a toolhub audit log.

manifest.json            scope, maker, reason, and the SHA-256 digest of every other file
manifest-signature.json  signature of the manifest, with the key that signs the checkpoints of the audit log
calls.jsonl              the calls, every column; times in UTC
admin-activity.jsonl     changes by administrators in that time: those that name the person, tool, client or
                         credential of the filters, or else a person of the calls; all of them for a time alone
definitions.jsonl        the definition that clients had received of each tool, prompt and resource
*.jsonl                  people, access tokens, connected apps, and grants with what they name, with their history
hash-chain.jsonl         for every call and change, its hash chain up to a signed checkpoint
checkpoints.jsonl        these checkpoints

To verify it, on any machine with toolhub, without its database:

    .venv/bin/python manage.py verifycalls --bundle THIS-FILE.zip --keys KEYS

KEYS is a file with the public key of the installation. Get the key from the installation's operator, not from this
file: "manage.py verifycalls --public-key" prints it there.

The verification shows that each call and change here is as it was logged. It cannot show that no other call exists: the
signature says that this installation found no others in its audit log, and the manifest says when that log was last
verified.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What a case file is made of, by whom and why."""

    search: CallSearch
    reason: str
    made_by: str
    has_bodies: bool = True
    """False: arguments and results are replaced with their digests."""

    def describe(self) -> dict[str, Any]:
        """Return the case as admin activity and the manifest have it."""
        return {"filters": self.search.to_parameters(), "reason": self.reason, "bodies": self.has_bodies}


@dataclass(slots=True)
class _Seen:
    """What the written calls and changes refer to."""

    scope: hooks.CaseScope
    link_ids: array[int] = field(default_factory=lambda: array("q"))
    definitions: dict[tuple[str, int, str], tuple[str, datetime]] = field(default_factory=dict)
    """(method, id in the catalog, hash) -> name and time of the newest call."""
    first: datetime | None = None
    last: datetime | None = None
    """Times of the earliest and of the latest entry."""

    def note_time(self, at: datetime) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)


def chunks(case: Case) -> Iterator[bytes]:
    """Yield the case file. Raise StoreUnavailable, before the first byte, when no checkpoint can be signed."""
    checkpoints.sign_before(SharedStore())
    return _chunks(case)


def _chunks(case: Case) -> Iterator[bytes]:
    made_at = timestamps.from_ms(timestamps.now_ms())
    since, until = case.search.interval()
    bundle, seen = Archive(), _Seen(hooks.CaseScope(since, until, case.search.user, case.search.tool))
    yield from bundle.add_text("README.txt", README)
    yield from bundle.add_lines(archive.CALLS, _list_calls(case, seen))
    yield from bundle.add_lines(archive.ACTIVITY, _list_actions(case, seen))
    yield from bundle.add_lines(archive.DEFINITIONS, _list_definitions(seen))
    for name, records in hooks.catalogue().case_records(seen.scope):
        yield from bundle.add_lines(name, records)
    # Calls that were running at the start may have ended since.
    checkpoints.sign_before(SharedStore())
    proof = _Proof(seen)
    yield from bundle.add_lines(archive.LINKS, proof.list_lines())
    yield from bundle.add_lines(archive.CHECKPOINTS, proof.list_checkpoints())
    last = verification.find_last()
    verified = None
    if last is not None:
        verified = {"at": last.at.isoformat(), "passed": last.ok, "through": last.through, "problem": last.problem}
    yield from bundle.close(
        {
            "made_at": made_at.isoformat(),
            "made_by": case.made_by,
            "installation": settings.PUBLIC_URL,
            "key": keys.key_name(),
            **case.describe(),
            "since": since.isoformat() if since is not None else None,
            "until": until.isoformat() if until is not None else None,
            "not_covered": proof.uncovered,
            "last_verification_of_the_log": verified,
        }
    )


def _list_calls(case: Case, seen: _Seen) -> Iterator[dict[str, Any]]:
    scope = seen.scope
    if case.search.user and "*" not in case.search.user:
        scope.usernames.add(case.search.user)
    for batch in case.search.iterate_batches(BATCH_ROWS):
        for call in batch:
            seen.link_ids.extend({link for link in (call.link, call.end_link) if link})
            seen.note_time(call.started_at)
            scope.usernames.add(call.username)
            scope.credential_ids.add(call.credential_id)
            if call.user_id is not None:
                scope.user_ids.add(call.user_id)
            if call.target_id is not None:
                scope.targets.add((call.method, call.target_id))
                key = call.method, call.target_id, call.definition
                seen.definitions.setdefault(key, (call.name, call.started_at))
            values = rows.serialize(call)
            if not case.has_bodies:
                values |= {name: _omit(values[name]) for name in ("arguments", "result")}
            yield values


def _omit(body: str) -> str:
    return body if body.startswith(chain.PRUNED_PREFIX) else archive.OMITTED_PREFIX + chain.body_digest(body)


def _list_actions(case: Case, seen: _Seen) -> Iterator[dict[str, Any]]:
    """Yield the admin activity in the time of the case, and every removal of old calls: it explains what is missing.

    With a person, tool, client or credential in the filters, only the activity that names it. With other filters, only
    the activity that names a person of the calls, in their time.
    """
    since, until = case.search.interval()
    names = [getattr(case.search, name) for name in NAMES]
    if not any(names) and case.search.to_parameters().keys() - TIMES:
        names = sorted(seen.scope.usernames)[:MAX_NAMES]
        since, until = since or seen.first, until or seen.last
        if not names:
            return
    wanted = Q()
    if since is not None:
        wanted &= Q(pk__gte=id_at(since))
    if until is not None:
        wanted &= Q(pk__lt=id_at(until))
    wanted &= _named(names)
    # An empty condition would add nothing to the other one.
    wanted = wanted | Q(verb=PRUNE_VERB, kind=PRUNE_KIND) if wanted else wanted
    found = Action.objects.filter(wanted)
    for batch in activity.iterate_batches(found, spans.ALL):
        for action in batch:
            seen.link_ids.append(action.link)
            seen.note_time(action.at)
            yield activity.serialize(action)


def _named(names: list[str]) -> Q:
    wanted = Q()
    # Of a pattern such as `agent*`, its longest part.
    for name in filter(None, (max(name.split("*"), key=len) for name in names)):
        spelled = json.dumps(name, ensure_ascii=False)[1:-1]
        wanted |= Q(actor=name) | Q(target__icontains=name)
        wanted |= Q(before__icontains=spelled) | Q(after__icontains=spelled)
    return wanted


def _list_definitions(seen: _Seen) -> Iterator[dict[str, Any]]:
    for (method, target_id, digest), (name, at) in seen.definitions.items():
        found = hooks.catalogue().definition_at(method, target_id, digest, at)
        yield {
            "method": method, "name": name, "target_id": target_id, "hash": digest,
            "matches_the_hash": found is not None and found.exact,
            "saved_at": found.saved_at.isoformat() if found is not None else None,
            "saved_by": found.saved_by if found is not None else "",
            "definition": found.text if found is not None else None,
        }  # fmt: skip


class _Proof:
    """The parts of the hash chains that lead from the entries of a case to signed checkpoints."""

    def __init__(self, seen: _Seen) -> None:
        self._sequences: dict[int, array[int]] = {}
        """writer -> sequences of its entries in the case, in order."""
        for link_id in _sort_once_each(seen.link_ids):
            writer, sequence = chain.split_link_id(link_id)
            self._sequences.setdefault(writer, array("q")).append(sequence)
        self._since = seen.first
        self._used: set[int] = set()
        self.uncovered = 0
        """Number of entries that no checkpoint covers."""

    def list_lines(self) -> Iterator[Any]:
        """Yield for each part an object with its place, then a list for each link: kind, subject, content."""
        heads = self._find_heads()
        for writer, sequences in self._sequences.items():
            position = 0
            while position < len(sequences):
                first = sequences[position]
                number, last = self._find_head(heads.get(writer, []), first)
                if number is None:
                    self.uncovered += 1
                else:
                    self._used.add(number)
                yield {"writer": writer, "first": first, "previous": _hash_before(writer, first), "checkpoint": number}
                yield from _list_links(writer, first, last)
                position = bisect_left(sequences, last + 1, position)

    def list_checkpoints(self) -> Iterator[Any]:
        for numbers in _batches(sorted(self._used)):
            for row in Checkpoint.objects.filter(number__in=numbers).order_by("number"):
                yield json.loads(SignedCheckpoint.from_row(row).line())

    def _find_heads(self) -> dict[int, list[tuple[int, int]]]:
        """Return for each writer (sequence, number) of the checkpoints that name it, as far as its entries reach."""
        heads: dict[int, list[tuple[int, int]]] = {}
        missing = {writer: sequences[-1] for writer, sequences in self._sequences.items()}
        found = Checkpoint.objects.order_by("number")
        if self._since is not None:
            found = found.filter(at__gte=self._since - timedelta(milliseconds=LATE_MS))
        for row in found.iterator(BATCH_ROWS):
            if not missing:
                break
            if not SignedCheckpoint.from_row(row).is_signed:
                continue  # it may hold anything; the verification of the log names it
            named = {writer: head for writer, head in read_heads(row.heads).items() if writer in missing}
            for writer, (sequence, _hash) in named.items():
                heads.setdefault(writer, []).append((sequence, row.number))
                if sequence >= missing[writer]:
                    del missing[writer]
        for one in heads.values():
            one.sort()
        return heads

    def _find_head(self, heads: list[tuple[int, int]], sequence: int) -> tuple[int | None, int]:
        """Return the number and the sequence of the first checkpoint from there on; (None, `sequence`) without one."""
        at = bisect_left(heads, (sequence, 0))
        return (heads[at][1], heads[at][0]) if at < len(heads) else (None, sequence)


def _sort_once_each(link_ids: array[int]) -> Iterator[int]:
    """Yield the ids in order, each once. The millions of a large case are sorted in parts, so that others can run."""
    starts = range(0, len(link_ids), SORTED_AT_ONCE)
    parts = [array("q", sorted(link_ids[start : start + SORTED_AT_ONCE])) for start in starts]
    last = None
    for link_id in heapq.merge(*parts):
        if link_id != last:
            yield link_id
        last = link_id


def _hash_before(writer: int, sequence: int) -> str | None:
    if sequence == 1:
        return chain.START_HASH
    return Link.objects.filter(pk=chain.link_id(writer, sequence - 1)).values_list("hash", flat=True).first()


def _list_links(writer: int, first: int, last: int) -> Iterator[list[str]]:
    while first <= last:
        until = min(last, first + BATCH_ROWS - 1)
        found = Link.objects.filter(pk__gte=chain.link_id(writer, first), pk__lte=chain.link_id(writer, until))
        yield from (list(row) for row in found.order_by("pk").values_list("kind", "subject", "content"))
        first = until + 1


def _batches(numbers: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(numbers), BATCH_ROWS):
        yield numbers[start : start + BATCH_ROWS]
