"""Verification of one hash chain, link by link, and of every entry that its links name.

Only calls and bodies that retention removed, according to its own entries in the chain, may be missing. An entry is
believed when a signed checkpoint covers it, or else when a keyed digest shows that this installation wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.actions import ledger
from audit.format import chain, keys, timestamps
from audit.format.checkpoint import Heads
from audit.format.keys import TrustedKeys
from audit.integrity.messages import Finding, Problem, Subject
from audit.models import Action, Call, Link, Writer
from audit.writing import entries

PRUNE_VERB, PRUNE_KIND = "pruned", "calls"
ROWS, BODIES = "rows", "bodies"
MAX_TRANSACTION_LINKS = 1_000
"""Maximum links of one transaction, of which the last has the keyed digest: `audit.writing.writer` writes no more."""
LATE_MS = 600_000
"""How much older than the newest checkpoint an entry without one may be: its transaction may have taken so long."""


@dataclass(slots=True)
class Coverage:
    """Entries that signed checkpoints cover."""

    trusted: TrustedKeys
    heads: Heads = field(default_factory=dict)
    """Last entry of each chain that a checkpoint names."""
    number: int | None = None
    """Newest checkpoint; None when there is none."""
    at: int = 0
    """Its time in milliseconds."""

    def sequence_of(self, writer: int) -> int:
        """Return the last sequence of the chain that is covered."""
        return self.heads[writer][0] if writer in self.heads else 0

    def vouches_for(self, link: Link) -> bool:
        """Return whether a checkpoint covers the link, or a keyed digest shows that this installation wrote it."""
        writer, sequence = chain.split_link_id(link.id)
        if sequence <= self.sequence_of(writer):
            return True
        return self.trusted.has_secrets and is_authentic(link)


def is_authentic(link: Link) -> bool:
    """Return whether the keyed digest of its transaction is valid, and the hashes up to there are as computed."""
    fits, last = check_transaction(link)
    if not fits or last is None:
        return False
    return keys.is_authentic(chain.mac_text(*chain.split_link_id(last.id), last.hash), last.mac)


def check_transaction(link: Link) -> tuple[bool, Link | None]:
    """Return whether the hashes from the link on are as computed, and the next link that has a keyed digest.

    Without such a link among the next ones, all of those must fit.
    """
    writer, sequence = chain.split_link_id(link.id)
    end = chain.link_id(writer, sequence + MAX_TRANSACTION_LINKS)
    rows = Link.objects.filter(id__gte=link.id - 1, id__lt=end).order_by("id").iterator(100)
    previous = chain.START_HASH if sequence == 1 else None
    for row in rows:
        if row.id < link.id:
            if sequence > 1:
                previous = row.hash
            continue
        if previous is None or row.id != chain.link_id(writer, sequence):
            return False, None
        if row.hash != chain.link_hash(writer, sequence, previous, row.kind, row.subject, row.content):
            return False, None
        if row.mac:
            return True, row
        previous, sequence = row.hash, sequence + 1
    return previous is not None, None


class PruneLimits:
    """The newest calls up to which rows and bodies were removed, according to logged prunes that are vouched for."""

    def __init__(self, vouches_for: Callable[[Link], bool] = is_authentic) -> None:
        self._limits = {ROWS: "", BODIES: ""}
        self._vouches_for = vouches_for

    def covers(self, what: str, call: str) -> bool:
        """Return whether a logged prune removed it, including prunes that ran since the last check."""
        return self._covers_known(what, call) or (self._reload() and self._covers_known(what, call))

    def _covers_known(self, what: str, call: str) -> bool:
        # A removed row includes its bodies.
        return call < self._limits[ROWS] or (what == BODIES and call < self._limits[BODIES])

    def _reload(self) -> bool:
        before = dict(self._limits)
        for what, limit in self._read_logged_limits():
            self._limits[what] = max(self._limits[what], limit)
        return self._limits != before

    def _read_logged_limits(self) -> Iterator[tuple[str, str]]:
        for action in Action.objects.filter(verb=PRUNE_VERB, kind=PRUNE_KIND).order_by("id").iterator():
            # The chains of admin activity are verified separately; here the entry only has to be in one of them.
            link = Link.objects.filter(id=action.link, kind=chain.ACTION, subject=action.id.hex).first()
            if link is None or link.content != ledger.action_content(action):
                continue
            try:
                after = json.loads(action.after)
                what, limit = after["what"], after["before"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            is_further = what in self._limits and isinstance(limit, str) and limit > self._limits[what]
            if is_further and self._vouches_for(link):
                yield what, limit


PAGE_ROWS = 500
BEGIN_KINDS = frozenset({chain.BEGIN, chain.REFUSED})
END_KINDS = frozenset({chain.FINISH, chain.CLOSED, chain.REFUSED})
_CALL_COLUMNS = (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS, "writer", "link", "end_link", "body_state")
_END_OFFSET = chain.END_OFFSET
_STARTED, _ARGUMENTS, _ENDED, _RESULT = (
    chain.STARTED_INDEX,
    chain.ARGUMENTS_INDEX,
    _END_OFFSET + chain.ENDED_INDEX,
    _END_OFFSET + chain.RESULT_INDEX,
)


def link_name(place: int) -> str:
    """Return the name of a link: writer:sequence."""
    return "{}:{}".format(*chain.split_link_id(place))


def iterate_writers() -> Iterator[int]:
    """Yield every number of a writer that has links, negative ones too, with one index lookup each."""
    places = Link.objects.order_by("id").values_list("id", flat=True)
    found = places.first()
    while found is not None:
        writer = chain.split_link_id(found)[0]
        yield writer
        found = places.filter(id__gt=chain.link_id(writer, chain.MAX_SEQUENCE)).first()


def last_sequence(writer: int) -> int:
    links = Link.objects.filter(id__gte=chain.link_id(writer, 0), id__lt=chain.link_id(writer + 1, 0))
    found = links.order_by("-id").values_list("id", flat=True).first()
    return chain.split_link_id(found)[1] if found is not None else 0


def walk(
    writer: int, start: tuple[int, str], upto: int, coverage: Coverage, prune_limits: PruneLimits
) -> Iterator[int | Problem]:
    """Yield the problems of each page of links after `start`, then its number of links, up to the sequence `upto`."""
    sequence, previous = start
    for link in Link.objects.filter(id=chain.link_id(writer, 0)):
        yield Problem(_subject(link), Finding("not_authentic"))  # the first link of a chain has the sequence 1
    vouched = max(sequence, coverage.sequence_of(writer))
    doubtful: Link | None = None
    while sequence < upto:
        page = list(
            Link.objects.filter(id__gt=chain.link_id(writer, sequence), id__lte=chain.link_id(writer, upto)).order_by(
                "id"
            )[:PAGE_ROWS]
        )
        if not page:
            break
        for link in page:
            at = chain.split_link_id(link.id)[1]
            sequence += 1
            if at != sequence:
                last = "" if at == sequence + 1 else str(at - 1)
                missing = Subject("link", f"{writer}:{sequence}", upto=last)
                yield Problem(missing, Finding("deleted_before", {"next": _subject(link)}))
                sequence = at
            elif link.hash != chain.link_hash(writer, sequence, previous, link.kind, link.subject, link.content):
                yield Problem(_subject(link), Finding("entry_changed"))
            if (link.writer, link.sequence) != (writer, at):
                yield Problem(_subject(link), Finding("entry_renumbered"))
            previous = link.hash
            if at > vouched and link.mac and keys.is_authentic(chain.mac_text(writer, at, link.hash), link.mac):
                vouched, doubtful = at, None
            elif at > vouched and doubtful is None:
                doubtful = link
        yield from _check_entries(page, coverage, prune_limits)
        yield len(page)
    if doubtful is not None and coverage.trusted.has_secrets:
        last = "" if sequence == chain.split_link_id(doubtful.id)[1] else str(sequence)
        yield Problem(replace(_subject(doubtful), upto=last), Finding("not_authentic"))


def _subject(link: Link) -> Subject:
    place = link_name(link.id)
    if link.kind == chain.OPENED or len(link.subject) != 32:
        return Subject("link", place)
    try:
        return Subject("action" if link.kind == chain.ACTION else "call", str(UUID(link.subject)), place, link.kind)
    except ValueError:
        return Subject("link", place)


def _check_entries(page: Sequence[Link], coverage: Coverage, prune_limits: PruneLimits) -> Iterator[Problem]:
    kinds = BEGIN_KINDS | END_KINDS
    calls = _load_calls(link.subject for link in page if link.kind in kinds)
    actions = _load_actions(link.subject for link in page if link.kind == chain.ACTION)
    for link in page:
        at: datetime | None = None
        if link.kind in kinds:
            call = calls.get(link.subject)
            found = _check_call(link, call, prune_limits)
            at = call[_STARTED] if call is not None and link.kind in BEGIN_KINDS else None
        elif link.kind == chain.ACTION:
            action = actions.get(link.subject)
            found = _check_action(link, action)
            at = action.at if action is not None else None
        elif link.kind == chain.OPENED:
            found = _check_writer(link)
        else:
            found = Finding("unknown_type", {"type": repr(link.kind)})
        if found is None and at is not None:
            found = _check_age(link, at, coverage)
        if found:
            yield Problem(_subject(link), found)


def _check_age(link: Link, at: datetime, coverage: Coverage) -> Finding | None:
    """Return a problem for an entry that an earlier checkpoint should cover; only its keyed digest could explain it."""
    writer, sequence = chain.split_link_id(link.id)
    if coverage.trusted.has_secrets or coverage.number is None or sequence <= coverage.sequence_of(writer):
        return None
    if timestamps.to_ms(at) >= coverage.at - LATE_MS:
        return None
    return Finding("older_than_checkpoint", {"checkpoint": Subject("checkpoint", str(coverage.number))})


def _parse_ids(subjects: Iterable[str]) -> list[UUID]:
    found = []
    for subject in subjects:
        try:
            found.append(UUID(subject))
        except ValueError:
            continue  # a changed link; its hash was reported already
    return found


def _load_calls(subjects: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    rows = Call.objects.filter(id__in=_parse_ids(subjects)).order_by().values_list(*_CALL_COLUMNS)
    return {row[0].hex: row for row in rows}


def _load_actions(subjects: Iterable[str]) -> dict[str, Action]:
    return {action.id.hex: action for action in Action.objects.filter(id__in=_parse_ids(subjects)).order_by()}


def check_call(link: Link, call: Call, prune_limits: PruneLimits) -> Finding | None:
    """Return the problem of a call according to one of its own links; None when there is none."""
    return _check_call(link, tuple(getattr(call, name) for name in _CALL_COLUMNS), prune_limits)


def _check_call(link: Link, row: tuple[Any, ...] | None, prune_limits: PruneLimits) -> Finding | None:
    if row is None:
        return None if prune_limits.covers("rows", link.subject) else Finding("call_deleted")
    writer, begin, end, state = row[-4:]
    if state not in {"", "pruned"}:
        return Finding("body_state", {"state": repr(state)})
    if state == "pruned" and not prune_limits.covers("bodies", link.subject):
        return Finding("bodies_removed")
    if link.kind in BEGIN_KINDS and begin != link.id:
        return Finding("start_moved")
    if link.kind in BEGIN_KINDS and writer != chain.split_link_id(link.id)[0]:
        return Finding("writer_changed")
    if link.kind in END_KINDS and end != link.id:
        return Finding("end_moved")
    values = list(row[:-4])
    values[0] = row[0].hex
    if link.kind == chain.BEGIN and end is None and tuple(values[_END_OFFSET:]) != entries.OPEN_END:
        return Finding("end_before_end")
    if not all(timestamps.is_whole(values[at]) for at in (_STARTED, _ENDED) if values[at] is not None):
        return Finding("edited")
    values[_STARTED] = timestamps.to_ms(values[_STARTED])
    values[_ARGUMENTS] = _digest(values[_ARGUMENTS], state)
    ended = values[_ENDED]
    values[_ENDED] = timestamps.to_ms(ended) if ended is not None else None
    values[_RESULT] = _digest(values[_RESULT], state)
    if chain.call_content(link.kind, values) != link.content:
        return Finding({chain.BEGIN: "start_edited", chain.REFUSED: "edited"}.get(link.kind, "end_edited"))
    return None


def _digest(text: str, state: str) -> str:
    if state == "pruned" and text.startswith(chain.PRUNED_PREFIX):
        return text[len(chain.PRUNED_PREFIX) :]
    return chain.body_digest(text)


def _check_action(link: Link, action: Action | None) -> Finding | None:
    if action is None:
        return Finding("change_deleted")
    if action.link != link.id:
        return Finding("link_changed")
    if ledger.action_content(action) != link.content or not timestamps.is_whole(action.at):
        return Finding("edited")
    return None


def _check_writer(link: Link) -> Finding | None:
    writer = Writer.objects.filter(id=link.writer).first()
    if writer is None:
        return Finding("writer_deleted")
    if ledger.writer_content(writer) != link.content or not timestamps.is_whole(writer.started):
        return Finding("writer_edited")
    return None
