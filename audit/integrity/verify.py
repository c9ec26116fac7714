"""Verification of the audit log: every chain, entry and checkpoint, in pages, while calls continue to be logged.

Every call and every change must also be in a chain: rows that were inserted outside the log are found here.

Each checkpoint must follow the previous one, be signed, and name links that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from django.utils import timezone

from audit import outcomes
from audit.format import chain, timestamps, uuid7
from audit.integrity import keys
from audit.integrity import links as link_checks
from audit.integrity.checkpoints import Head, Heads, read_heads
from audit.integrity.links import BEGINNINGS, ENDS, PAGE, Prunes, link_name
from audit.integrity.messages import Finding, Problem, Subject, problem
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer

Found = dict[int, tuple[str, str]]


def check_calls(after: UUID, upto: UUID) -> Iterator[int | Problem]:
    """Yield a problem for each call that is not in a chain, and the number of calls of each page."""
    columns = ("id", "outcome", "link", "end_link")
    while page := list(Call.objects.filter(id__gt=after, id__lte=upto).order_by("id").values_list(*columns)[:PAGE]):
        links = _links([place for _, _, begin, end in page for place in (begin, end) if place is not None])
        for id, outcome, begin, end in page:
            if not _is(links, begin, id.hex, BEGINNINGS):
                yield problem("call", id, "call_added")
            elif outcome != outcomes.RUNNING and (end is None or not _is(links, end, id.hex, ENDS)):
                yield problem("call", id, "end_not_logged")
            elif outcome == outcomes.RUNNING and end is not None:
                yield problem("call", id, "status_edited")
        after = page[-1][0]
        yield len(page)


def check_actions(after: UUID) -> Iterator[Problem]:
    while page := list(Action.objects.filter(id__gt=after).order_by("id").values_list("id", "link")[:PAGE]):
        links = _links([place for _, place in page])
        for id, place in page:
            if not _is(links, place, id.hex, frozenset({chain.ACTION})):
                yield problem("action", id, "change_added")
        after = page[-1][0]


def check_writers() -> Iterator[Problem]:
    """Yield a problem for each writer without a first link: deleting all of a chain leaves its writer behind."""
    for id in Writer.objects.order_by("id").values_list("id", flat=True).iterator():
        if not Link.objects.filter(id=chain.place(id, 1)).exists():
            yield problem("link", f"{id}:1", "chain_deleted")


def _links(places: list[int]) -> Found:
    rows = Link.objects.filter(id__in=places).order_by().values_list("id", "subject", "kind")
    return {id: (subject, kind) for id, subject, kind in rows}


def _is(links: Found, place: int, subject: str, kinds: frozenset[str]) -> bool:
    found = links.get(place)
    return found is not None and found[0] == subject and found[1] in kinds


def check_checkpoints(heads: Heads) -> Iterator[Problem]:
    """Yield the problems of the checkpoints in the database, and collect each chain's last signed head in `heads`."""
    number, previous = 0, chain.START
    for row in Checkpoint.objects.order_by("number").iterator():
        head = Head(row.number, timestamps.to_ms(row.at), row.heads, row.previous, row.hash, row.key, row.signature)
        number += 1
        subject = Subject("checkpoint", str(row.number))
        if row.number != number:
            yield problem("checkpoint", number, "checkpoint_deleted")
            number = row.number
        elif row.previous != previous:
            yield Problem(subject, Finding("checkpoint_order"))
        previous = row.hash
        if found := unsigned(head):
            yield Problem(subject, found)
            continue
        yield from reached(head, subject)
        heads.update(read_heads(row.heads))


def check_external(kept: list[Head]) -> Iterator[Problem]:
    """Yield the differences between external checkpoints and the database: entries first, then checkpoints."""
    good = []
    for head in kept:
        subject = Subject("outside", str(head.number))
        if found := unsigned(head):
            yield Problem(subject, found)
        else:
            good.append(head)
            yield from reached(head, subject)
    for head in good:
        here = Checkpoint.objects.filter(number=head.number).values_list("hash", flat=True).first()
        if here is None:
            yield problem("checkpoint", head.number, "checkpoint_outside_only")
        elif here != head.hash:
            yield problem("checkpoint", head.number, "checkpoint_differs")


def unsigned(head: Head) -> Finding | None:
    if not head.fits:
        return Finding("checkpoint_changed")
    if head.key != keys.name():
        return Finding("checkpoint_key", {"key": head.key, "own": keys.name()})
    return None if head.signed else Finding("checkpoint_signature")


def reached(head: Head, subject: Subject) -> Iterator[Problem]:
    heads = read_heads(head.heads)
    places = {chain.place(writer, sequence): digest for writer, (sequence, digest) in heads.items()}
    there = dict(Link.objects.filter(id__in=list(places)).order_by().values_list("id", "hash"))
    for place, digest in places.items():
        if place not in there:
            yield problem("link", link_name(place), "newest_deleted", checkpoint=subject)
        elif there[place] != digest:
            yield problem("link", link_name(place), "hash_differs", checkpoint=subject)


ENOUGH = 20
"""Maximum problems in a report; the first one matters most."""
_NOTHING = UUID(int=0)


class _Enough(Exception):
    """Signal that the report is full."""


@dataclass(slots=True)
class Report:
    """Result of a verification."""

    outside_head: bool
    problems: list[Problem] = field(default_factory=list)
    links: int = 0
    calls: int = 0
    chains: int = 0
    checkpoints: int = 0
    through: str = ""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def first(self) -> str:
        return str(self.problems[0]) if self.problems else ""


def run(kept: list[Head] | None = None, *, recent: bool = False, keep: bool = True) -> Report:
    """Verify everything, or with `recent` only entries after the last checkpoint.

    `kept` are external checkpoints. The result is stored for the admin unless `keep` is False.
    """
    report = Report(outside_head=bool(kept))
    upto = Call.objects.order_by("-id").values_list("id", flat=True).first()
    report.through = str(upto or "")
    with suppress(_Enough):
        _check(report, kept or [], upto or _NOTHING, recent)
    if keep:
        Verification.objects.create(
            id=uuid7.new_id(),
            at=timezone.now(),
            ok=report.ok,
            through=report.through,
            problem=report.first,
            problem_reason=report.problems[0].reason.text if report.problems else "",
            links=report.links,
            outside_head=report.outside_head,
        )
    return report


def _check(report: Report, kept: list[Head], upto: UUID, recent: bool) -> None:
    heads: Heads = {}
    signed: list[Problem] = []
    last = Checkpoint.objects.order_by("-number").values_list("at", flat=True).first()
    report.checkpoints = Checkpoint.objects.count()
    # A changed entry must come before its checkpoint in the report, so problems of checkpoints are added at the end.
    for one in check_checkpoints(heads):
        signed.append(one)
        if len(signed) >= ENOUGH:
            break
    prunes = Prunes()
    for writer in link_checks.chains():
        report.chains += 1
        start = heads.get(writer, (0, chain.START)) if recent else (0, chain.START)
        for found in link_checks.walk(writer, start, prunes):
            if isinstance(found, Problem):
                _add(report, [found])
            else:
                report.links += found
    after = uuid7.first_id_of(timestamps.to_ms(last) - 60_000) if recent and last is not None else _NOTHING
    for found in check_calls(after, upto):
        if isinstance(found, Problem):
            _add(report, [found])
        else:
            report.calls += found
    _add(report, check_actions(after))
    _add(report, check_writers())
    _add(report, check_external(kept))
    _add(report, signed)


def _add(report: Report, problems: Iterable[Problem]) -> None:
    for one in problems:
        report.problems.append(one)
        if len(report.problems) >= ENOUGH:
            raise _Enough
