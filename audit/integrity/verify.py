"""Verifies the record: every chain, every record, every checkpoint, in pages, while calls go on being recorded.

The other direction: every call and every action must be on a chain. What was inserted beside it is found here.

Checkpoints: each follows the one before, is signed, and names links that are there.
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
from audit.integrity.links import BEGINNINGS, ENDS, PAGE, Problem, Prunes, link_name, of_call
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer

Found = dict[int, tuple[str, str]]


def check_calls(after: UUID, upto: UUID) -> Iterator[int | Problem]:
    """The number of calls of each page, and those that nobody recorded."""
    columns = ("id", "outcome", "link", "end_link")
    while page := list(Call.objects.filter(id__gt=after, id__lte=upto).order_by("id").values_list(*columns)[:PAGE]):
        links = _links([place for _, _, begin, end in page for place in (begin, end) if place is not None])
        for id, outcome, begin, end in page:
            if not _is(links, begin, id.hex, BEGINNINGS):
                yield Problem(of_call(id), "Added outside the log: the hash chain has no entry for this call")
            elif outcome != outcomes.RUNNING and (end is None or not _is(links, end, id.hex, ENDS)):
                yield Problem(of_call(id), "its status was never logged: the hash chain has no entry for its end")
            elif outcome == outcomes.RUNNING and end is not None:
                yield Problem(of_call(id), "its status was edited: the hash chain has an entry for its end")
        after = page[-1][0]
        yield len(page)


def check_actions(after: UUID) -> Iterator[Problem]:
    while page := list(Action.objects.filter(id__gt=after).order_by("id").values_list("id", "link")[:PAGE]):
        links = _links([place for _, place in page])
        for id, place in page:
            if not _is(links, place, id.hex, frozenset({chain.ACTION})):
                yield Problem(f"action {id}", "Added outside the log: the hash chain has no entry for this change")
        after = page[-1][0]


def check_writers() -> Iterator[Problem]:
    """A chain that was removed whole leaves its writer behind."""
    for id in Writer.objects.order_by("id").values_list("id", flat=True).iterator():
        if not Link.objects.filter(id=chain.place(id, 1)).exists():
            yield Problem(f"link {id}:1", "missing: the hash chain of this writer was deleted from its start")


def _links(places: list[int]) -> Found:
    rows = Link.objects.filter(id__in=places).order_by().values_list("id", "subject", "kind")
    return {id: (subject, kind) for id, subject, kind in rows}


def _is(links: Found, place: int, subject: str, kinds: frozenset[str]) -> bool:
    found = links.get(place)
    return found is not None and found[0] == subject and found[1] in kinds


def check_checkpoints(heads: Heads) -> Iterator[Problem]:
    """What is wrong with the checkpoints of the database. Collects in `heads` where each chain was signed last."""
    number, previous = 0, chain.START
    for row in Checkpoint.objects.order_by("number").iterator():
        head = Head(row.number, timestamps.to_ms(row.at), row.heads, row.previous, row.hash, row.key, row.signature)
        number += 1
        what = f"checkpoint {row.number}"
        if row.number != number:
            yield Problem(f"checkpoint {number}", "missing: deleted")
            number = row.number
        elif row.previous != previous:
            yield Problem(what, "does not follow the previous checkpoint")
        previous = row.hash
        if problem := unsigned(head):
            yield Problem(what, problem)
            continue
        yield from reached(head, what)
        heads.update(read_heads(row.heads))


def check_external(kept: list[Head]) -> Iterator[Problem]:
    """What a head that is kept elsewhere knows and the database does not: the records first, then the checkpoints."""
    good = []
    for head in kept:
        what = f"external checkpoint {head.number}"
        if problem := unsigned(head):
            yield Problem(what, problem)
        else:
            good.append(head)
            yield from reached(head, what)
    for head in good:
        here = Checkpoint.objects.filter(number=head.number).values_list("hash", flat=True).first()
        if here is None:
            yield Problem(f"checkpoint {head.number}", "missing: only the external checkpoint has it, not the database")
        elif here != head.hash:
            yield Problem(f"checkpoint {head.number}", "differs from the external checkpoint")


def unsigned(head: Head) -> str:
    if not head.fits:
        return "was changed"
    if head.key != keys.name():
        return f"is signed with key {head.key}, but this installation's key is {keys.name()}"
    return "" if head.signed else "its signature is not valid"


def reached(head: Head, what: str) -> Iterator[Problem]:
    heads = read_heads(head.heads)
    places = {chain.place(writer, sequence): digest for writer, (sequence, digest) in heads.items()}
    there = dict(Link.objects.filter(id__in=list(places)).order_by().values_list("id", "hash"))
    for place, digest in places.items():
        if place not in there:
            yield Problem(
                link_name(*chain.where(place)), f"missing: the newest entries were deleted, but {what} names it"
            )
        elif there[place] != digest:
            yield Problem(link_name(*chain.where(place)), f"does not match the hash in {what}")


ENOUGH = 20
"""Problems that are named; the first is what matters."""
_NOTHING = UUID(int=0)


class _Enough(Exception):
    """There is no point in going on."""


@dataclass(slots=True)
class Report:
    """What was found."""

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
    """Checks everything, or with `recent` what came after the last checkpoint. `kept` are heads from elsewhere.

    The result is kept for the admin, unless `keep` says no.
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
            links=report.links,
            outside_head=report.outside_head,
        )
    return report


def _check(report: Report, kept: list[Head], upto: UUID, recent: bool) -> None:
    heads: Heads = {}
    signed: list[Problem] = []
    last = Checkpoint.objects.order_by("-number").values_list("at", flat=True).first()
    report.checkpoints = Checkpoint.objects.count()
    # A changed record is named before the checkpoint that knew it: it comes first in the report.
    for problem in check_checkpoints(heads):
        signed.append(problem)
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
    for problem in problems:
        report.problems.append(problem)
        if len(report.problems) >= ENOUGH:
            raise _Enough
