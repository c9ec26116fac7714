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
from audit.integrity.checkpoints import Heads, SignedCheckpoint, read_heads
from audit.integrity.links import BEGIN_KINDS, END_KINDS, PAGE_ROWS, PruneLimits, link_name
from audit.integrity.messages import Finding, Problem, Subject, problem
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer

LinkSubjects = dict[int, tuple[str, str]]


def check_calls(after: UUID, upto: UUID) -> Iterator[int | Problem]:
    """Yield a problem for each call that is not in a chain, and the number of calls of each page."""
    columns = ("id", "outcome", "link", "end_link")
    while page := list(
        Call.objects.filter(id__gt=after, id__lte=upto).order_by("id").values_list(*columns)[:PAGE_ROWS]
    ):
        links = _load_links([link_id for _, _, begin, end in page for link_id in (begin, end) if link_id is not None])
        for id, outcome, begin, end in page:
            if not _link_matches(links, begin, id.hex, BEGIN_KINDS):
                yield problem("call", id, "call_added")
            elif outcome != outcomes.RUNNING and (end is None or not _link_matches(links, end, id.hex, END_KINDS)):
                yield problem("call", id, "end_not_logged")
            elif outcome == outcomes.RUNNING and end is not None:
                yield problem("call", id, "status_edited")
        after = page[-1][0]
        yield len(page)


def check_actions(after: UUID) -> Iterator[Problem]:
    while page := list(Action.objects.filter(id__gt=after).order_by("id").values_list("id", "link")[:PAGE_ROWS]):
        links = _load_links([link_id for _, link_id in page])
        for id, link_id in page:
            if not _link_matches(links, link_id, id.hex, frozenset({chain.ACTION})):
                yield problem("action", id, "change_added")
        after = page[-1][0]


def check_writers() -> Iterator[Problem]:
    """Yield a problem for each writer without a first link: deleting all of a chain leaves its writer behind."""
    for id in Writer.objects.order_by("id").values_list("id", flat=True).iterator():
        if not Link.objects.filter(id=chain.link_id(id, 1)).exists():
            yield problem("link", f"{id}:1", "chain_deleted")


def _load_links(link_ids: list[int]) -> LinkSubjects:
    rows = Link.objects.filter(id__in=link_ids).order_by().values_list("id", "subject", "kind")
    return {id: (subject, kind) for id, subject, kind in rows}


def _link_matches(links: LinkSubjects, link_id: int, subject: str, kinds: frozenset[str]) -> bool:
    found = links.get(link_id)
    return found is not None and found[0] == subject and found[1] in kinds


def check_checkpoints(heads: Heads) -> Iterator[Problem]:
    """Yield the problems of the checkpoints in the database, and collect each chain's last signed head in `heads`."""
    number, previous = 0, chain.START_HASH
    for row in Checkpoint.objects.order_by("number").iterator():
        checkpoint = SignedCheckpoint(
            row.number, timestamps.to_ms(row.at), row.heads, row.previous, row.hash, row.key, row.signature
        )
        number += 1
        subject = Subject("checkpoint", str(row.number))
        if row.number != number:
            yield problem("checkpoint", number, "checkpoint_deleted")
            number = row.number
        elif row.previous != previous:
            yield Problem(subject, Finding("checkpoint_order"))
        previous = row.hash
        if found := check_signature(checkpoint):
            yield Problem(subject, found)
            continue
        yield from check_heads(checkpoint, subject)
        heads.update(read_heads(row.heads))


def check_external(external: list[SignedCheckpoint]) -> Iterator[Problem]:
    """Yield the differences between external checkpoints and the database: entries first, then checkpoints."""
    good = []
    for checkpoint in external:
        subject = Subject("outside", str(checkpoint.number))
        if found := check_signature(checkpoint):
            yield Problem(subject, found)
        else:
            good.append(checkpoint)
            yield from check_heads(checkpoint, subject)
    for checkpoint in good:
        here = Checkpoint.objects.filter(number=checkpoint.number).values_list("hash", flat=True).first()
        if here is None:
            yield problem("checkpoint", checkpoint.number, "checkpoint_outside_only")
        elif here != checkpoint.hash:
            yield problem("checkpoint", checkpoint.number, "checkpoint_differs")


def check_signature(checkpoint: SignedCheckpoint) -> Finding | None:
    if not checkpoint.hash_matches:
        return Finding("checkpoint_changed")
    if checkpoint.key != keys.key_name():
        return Finding("checkpoint_key", {"key": checkpoint.key, "own": keys.key_name()})
    return None if checkpoint.is_signed else Finding("checkpoint_signature")


def check_heads(checkpoint: SignedCheckpoint, subject: Subject) -> Iterator[Problem]:
    heads = read_heads(checkpoint.heads)
    link_ids = {chain.link_id(writer, sequence): digest for writer, (sequence, digest) in heads.items()}
    hashes = dict(Link.objects.filter(id__in=list(link_ids)).order_by().values_list("id", "hash"))
    for link_id, digest in link_ids.items():
        if link_id not in hashes:
            yield problem("link", link_name(link_id), "newest_deleted", checkpoint=subject)
        elif hashes[link_id] != digest:
            yield problem("link", link_name(link_id), "hash_differs", checkpoint=subject)


MAX_PROBLEMS = 20
"""Maximum problems in a report; the first one matters most."""
_NIL_ID = UUID(int=0)


class _ReportFull(Exception):
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


def run(external: list[SignedCheckpoint] | None = None, *, recent: bool = False, store: bool = True) -> Report:
    """Verify everything, or with `recent` only entries after the last checkpoint.

    `external` are external checkpoints. The result is stored for the admin unless `store` is False.
    """
    report = Report(outside_head=bool(external))
    upto = Call.objects.order_by("-id").values_list("id", flat=True).first()
    report.through = str(upto or "")
    with suppress(_ReportFull):
        _check(report, external or [], upto or _NIL_ID, recent)
    if store:
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


def _check(report: Report, external: list[SignedCheckpoint], upto: UUID, recent: bool) -> None:
    heads: Heads = {}
    signed: list[Problem] = []
    last = Checkpoint.objects.order_by("-number").values_list("at", flat=True).first()
    report.checkpoints = Checkpoint.objects.count()
    # A changed entry must come before its checkpoint in the report, so problems of checkpoints are added at the end.
    for one in check_checkpoints(heads):
        signed.append(one)
        if len(signed) >= MAX_PROBLEMS:
            break
    prune_limits = PruneLimits()
    for writer in link_checks.iterate_writers():
        report.chains += 1
        start = heads.get(writer, (0, chain.START_HASH)) if recent else (0, chain.START_HASH)
        for found in link_checks.walk(writer, start, prune_limits):
            if isinstance(found, Problem):
                _add_problems(report, [found])
            else:
                report.links += found
    after = uuid7.first_id_of(timestamps.to_ms(last) - 60_000) if recent and last is not None else _NIL_ID
    for found in check_calls(after, upto):
        if isinstance(found, Problem):
            _add_problems(report, [found])
        else:
            report.calls += found
    _add_problems(report, check_actions(after))
    _add_problems(report, check_writers())
    _add_problems(report, check_external(external))
    _add_problems(report, signed)


def _add_problems(report: Report, problems: Iterable[Problem]) -> None:
    for one in problems:
        report.problems.append(one)
        if len(report.problems) >= MAX_PROBLEMS:
            raise _ReportFull
