"""Verification of the audit log: every chain, entry and checkpoint, in pages, while calls continue to be logged.

Every call and every change must also be in a chain: rows that were inserted outside the log are found here.

Each checkpoint must follow the previous one, be signed, and name links that exist. Entries that no checkpoint covers
yet are counted: whoever can write SQL could have deleted the newest of them unnoticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.models import CharField, Model, QuerySet
from django.db.models.functions import Cast

from audit import outcomes
from audit.format import chain, keys, timestamps, uuid7
from audit.format.checkpoint import SignedCheckpoint, read_heads
from audit.format.keys import TrustedKeys
from audit.integrity import links as link_checks
from audit.integrity.checkpoints import coverage_text
from audit.integrity.links import BEGIN_KINDS, END_KINDS, PAGE_ROWS, Coverage, PruneLimits, link_name
from audit.integrity.messages import Finding, Problem, Subject, problem
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer

logger = logging.getLogger("audit")

LinkSubjects = dict[int, tuple[str, str]]


def check_ids() -> Iterator[Problem]:
    """Yield a problem for each id in SQLite that is spelled in another way: it may be taken for another one's."""
    if connection.vendor != "sqlite":
        return
    for kind, table in (("call", "audit_call"), ("action", "audit_action")):
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT substr(quote(id), 1, 80) FROM {table}"  # noqa: S608
                " WHERE typeof(id) <> 'text' OR length(id) <> 32 OR id GLOB '*[^0-9a-f]*' LIMIT %s",
                [MAX_PROBLEMS],
            )
            for (id,) in cursor.fetchall():
                yield problem(kind, id, "odd_id")


def check_calls(after: UUID | None, upto: UUID | None) -> Iterator[int | Problem]:
    """Yield a problem for each call that is not in a chain, and the number of calls of each page."""
    columns = ("id", "stored_id", "outcome", "link", "end_link")
    calls = Call.objects.filter(id__lte=upto) if upto is not None else Call.objects.none()
    calls = calls.annotate(stored_id=Cast("id", CharField())).order_by("id")
    while page := list(_after(calls, after).values_list(*columns)[:PAGE_ROWS]):
        links = _load_links([link_id for *_, begin, end in page for link_id in (begin, end) if link_id is not None])
        for id, stored_id, outcome, begin, end in page:
            if not _link_matches(links, begin, id.hex, BEGIN_KINDS) or _is_copy(id, stored_id):
                yield problem("call", id, "call_added")
            elif outcome != outcomes.RUNNING and (end is None or not _link_matches(links, end, id.hex, END_KINDS)):
                yield problem("call", id, "end_not_logged")
            elif outcome == outcomes.RUNNING and end is not None:
                yield problem("call", id, "status_edited")
        after = page[-1][0]
        yield len(page)


def check_actions(after: UUID | None) -> Iterator[Problem]:
    actions = Action.objects.annotate(stored_id=Cast("id", CharField())).order_by("id")
    while page := list(_after(actions, after).values_list("id", "stored_id", "link")[:PAGE_ROWS]):
        links = _load_links([link_id for *_, link_id in page])
        for id, stored_id, link_id in page:
            if not _link_matches(links, link_id, id.hex, frozenset({chain.ACTION})) or _is_copy(id, stored_id):
                yield problem("action", id, "change_added")
        after = page[-1][0]


def _after(rows: QuerySet[Any], after: UUID | None) -> QuerySet[Any]:
    return rows if after is None else rows.filter(id__gt=after)


def _is_copy(id: UUID, stored_id: str) -> bool:
    """Return whether the row has another spelling of the id: SQLite takes it for a different one."""
    return connection.vendor == "sqlite" and stored_id != id.hex


WriterRow = tuple[int, int, bool, str]
"""id, covered, sealed, covered_mac."""


def load_writers() -> list[WriterRow]:
    """Return the writers. Load them before the checkpoints: a checkpoint and what it covers are committed together."""
    return list(Writer.objects.order_by("id").values_list("id", "covered", "sealed", "covered_mac"))


def check_writers(writers: Iterable[WriterRow]) -> Iterator[Problem]:
    """Yield a problem for each writer without a first link: deleting all of a chain leaves its writer behind."""
    for id, *_ in writers:
        if not Link.objects.filter(id=chain.link_id(id, 1)).exists():
            yield problem("link", f"{id}:1", "chain_deleted")


def check_coverage(writers: Iterable[WriterRow], coverage: Coverage) -> Iterator[Problem]:
    """Yield a problem for each writer whose coverage no checkpoint explains: it decides what the next one signs."""
    for id, covered, sealed, mac in writers if coverage.trusted.has_secrets else ():
        signed = coverage.sequence_of(id)
        if keys.is_authentic(coverage_text(id, covered, sealed), mac):
            if covered > signed:
                yield problem("link", f"{id}:{covered}", "checkpoint_of_entry_deleted")
        elif (covered or sealed) and not _has_earlier_key(id, covered, sealed, mac, signed):
            yield problem("link", f"{id}:{covered}", "coverage_edited")


def _has_earlier_key(writer: int, covered: int, sealed: bool, mac: str, signed: int) -> bool:
    """Return whether a key that is no longer known can explain the keyed digest: a checkpoint says the same."""
    is_flipped = keys.is_authentic(coverage_text(writer, covered, not sealed), mac)
    return bool(mac) and covered == signed > 0 and not is_flipped


def _load_links(link_ids: list[int]) -> LinkSubjects:
    rows = Link.objects.filter(id__in=link_ids).order_by().values_list("id", "subject", "kind")
    return {id: (subject, kind) for id, subject, kind in rows}


def _link_matches(links: LinkSubjects, link_id: int, subject: str, kinds: frozenset[str]) -> bool:
    found = links.get(link_id)
    return found is not None and found[0] == subject and found[1] in kinds


KEY_OVERLAP_MS = 3_600_000
"""How long processes with an earlier key may go on after the first checkpoint with a newer one."""


def check_checkpoints(coverage: Coverage) -> Iterator[Problem]:
    """Yield the problems of the checkpoints in the database, and note in `coverage` what they cover."""
    number = latest_at = 0
    previous: dict[int, str] = {}
    """For each key, the last checkpoint that its holder knows: made with that key or an earlier one."""
    newest_rank, newest_since = len(coverage.trusted.keys), 0
    for row in Checkpoint.objects.order_by("number").iterator():
        checkpoint = SignedCheckpoint.from_row(row)
        number += 1
        subject = Subject("checkpoint", str(row.number))
        missing, number = (number if row.number != number else None), row.number
        found = check_signature(checkpoint, coverage.trusted)
        rank = coverage.trusted.find_rank(row.key)
        if found is not None or rank is None or not timestamps.is_whole(row.at):
            yield Problem(subject, found or Finding("checkpoint_signature"))
            continue  # it vouches for nothing, and the next one does not follow it
        if row.previous != previous.get(rank, chain.START_HASH):
            # Numbers that were taken by rows from outside, and are free again, are no gap when the hashes fit.
            if missing is not None:
                yield problem("checkpoint", missing, "checkpoint_deleted")
            yield Problem(subject, Finding("checkpoint_order"))
        previous |= dict.fromkeys(range(rank + 1), row.hash)
        latest_at = max(latest_at, checkpoint.at)
        if rank < newest_rank:
            newest_rank, newest_since = rank, checkpoint.at
        elif rank > newest_rank and latest_at > newest_since + KEY_OVERLAP_MS:
            yield Problem(subject, Finding("checkpoint_old_key", {"key": row.key}))
            continue
        yield from check_heads(checkpoint, subject)
        for writer, head in read_heads(row.heads).items():
            if head[0] > coverage.sequence_of(writer):
                coverage.heads[writer] = head
        coverage.number, coverage.at = row.number, checkpoint.at


def check_external(external: list[SignedCheckpoint], trusted: TrustedKeys) -> Iterator[Problem]:
    """Yield the differences between external checkpoints and the database: entries first, then checkpoints."""
    good = []
    for checkpoint in external:
        subject = Subject("outside", str(checkpoint.number))
        if found := check_signature(checkpoint, trusted):
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


def check_signature(checkpoint: SignedCheckpoint, trusted: TrustedKeys) -> Finding | None:
    if not checkpoint.hash_matches:
        return Finding("checkpoint_changed")
    if trusted.find_rank(checkpoint.key) is None:
        return Finding("checkpoint_key", {"key": checkpoint.key, "known": ", ".join(trusted.names)})
    return None if checkpoint.is_signed_by(trusted) else Finding("checkpoint_signature")


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


class _ReportFull(Exception):
    """Signal that the report is full."""


@dataclass(slots=True)
class Report:
    """Result of a verification."""

    outside_head: bool
    problems: list[Problem] = field(default_factory=list)
    links: int = 0
    uncovered: int = 0
    """Links that no checkpoint covers yet. They count among `links`."""
    calls: int = 0
    chains: int = 0
    checkpoints: int = 0
    checkpoint: int | None = None
    """Number of the newest checkpoint; None when there is none."""
    checkpoint_at: int = 0
    """Its time in milliseconds."""
    through: str = ""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def first(self) -> str:
        return str(self.problems[0]) if self.problems else ""


def run(
    external: list[SignedCheckpoint] | None = None,
    *,
    recent: bool = False,
    store: bool = True,
    trusted: TrustedKeys | None = None,
    step: Callable[[], None] | None = None,
) -> Report:
    """Verify everything, or with `recent` only entries after the last checkpoint.

    `external` are external checkpoints; `trusted` are the public keys to believe, by default those of the settings. The
    result is stored for the admin unless `store` is False. `step` is called after each page of entries. Raise
    ValueError when the settings name an invalid key.
    """
    coverage = Coverage(trusted or TrustedKeys.from_settings())
    report = Report(outside_head=bool(external))
    try:
        largest = UUID(int=(1 << 128) - 1)
        upto = Call.objects.filter(id__lte=largest).order_by("-id").values_list("id", flat=True).first()
        report.through = str(upto or "")
        _check(report, coverage, external or [], upto, recent, step or _continue)
    except _ReportFull:
        pass
    except Exception as error:
        if is_outage(error):
            raise
        # A database stores values that no program can read. What this installation wrote can always be read.
        report.problems.append(problem("log", "", "unreadable", error=str(error)[:200]))
    if store:
        if not report.ok:
            logger.error("the audit log was changed: %s", report.first)
        _store(report)
    return report


def is_outage(error: Exception) -> bool:
    """Return whether the database or the memory failed, and not only the reading of a stored value."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return connection.vendor != "sqlite" or "decode" not in str(error).lower()
    return isinstance(error, MemoryError)


def _continue() -> None:
    """Continue at once."""


def _check(
    report: Report,
    coverage: Coverage,
    external: list[SignedCheckpoint],
    upto: UUID | None,
    recent: bool,
    step: Callable[[], None],
) -> None:
    signed: list[Problem] = []
    writers = load_writers()
    report.checkpoints = Checkpoint.objects.count()
    # A changed entry must come before its checkpoint in the report, so problems of checkpoints are added at the end.
    for one in check_checkpoints(coverage):
        signed.append(one)
        if len(signed) >= MAX_PROBLEMS:
            break
    report.checkpoint, report.checkpoint_at = coverage.number, coverage.at
    if coverage.number is None and signed and signed[0].finding.code == "checkpoint_key":
        _add_problems(report, [signed.pop(0)])  # with a wrong key everything else looks wrong, too
    prune_limits = PruneLimits(coverage.vouches_for)
    for writer in link_checks.iterate_writers():
        report.chains += 1
        start = coverage.heads.get(writer, (0, chain.START_HASH)) if recent else (0, chain.START_HASH)
        last = link_checks.last_sequence(writer)
        report.uncovered += max(0, last - coverage.sequence_of(writer))
        for found in link_checks.walk(writer, start, last, coverage, prune_limits):
            if isinstance(found, Problem):
                _add_problems(report, [found])
            else:
                report.links += found
                step()
    _add_problems(report, check_ids())
    after = uuid7.first_id_of(coverage.at - 60_000) if recent and coverage.number is not None else None
    for found in check_calls(after, upto):
        if isinstance(found, Problem):
            _add_problems(report, [found])
        else:
            report.calls += found
            step()
    _add_problems(report, check_actions(after))
    _add_problems(report, check_writers(writers))
    _add_problems(report, check_external(external, coverage.trusted))
    _add_problems(report, signed)
    _add_problems(report, check_coverage(writers, coverage))


def _add_problems(report: Report, problems: Iterable[Problem]) -> None:
    for one in problems:
        report.problems.append(one)
        if len(report.problems) >= MAX_PROBLEMS:
            raise _ReportFull


def _store(report: Report) -> None:
    result = Verification(
        id=uuid7.new_id(),
        at=timestamps.from_ms(timestamps.now_ms()),
        ok=report.ok,
        through=report.through,
        problem=report.first,
        problem_reason=report.problems[0].reason.text if report.problems else "",
        links=report.links,
        uncovered=report.uncovered,
        checkpoint=report.checkpoint,
        outside_head=report.outside_head,
    )
    save(result)


def save(result: Verification) -> None:
    """Store the result with its keyed digest."""
    result.mac = keys.make_mac(_result_text(result))
    result.save(force_insert=True)


def find_last() -> Verification | None:
    """Return the newest stored result. One that was inserted or edited with SQL is not believed."""
    return next(iter(read_rows(Verification.objects.order_by("-id")[:MAX_RESULTS], is_genuine)), None)


T = TypeVar("T", bound=Model)


def read_rows(rows: QuerySet[T], is_wanted: Callable[[T], bool]) -> list[T]:
    """Return the wanted rows for a page; none when one of the rows holds a value that cannot be read.

    Verification names it.
    """
    try:
        return [row for row in rows if is_wanted(row)]
    except Exception as error:
        if is_outage(error):
            raise
        logger.error("%s cannot be read, run verifycalls: %s", rows.model._meta.db_table, error)
        return []


def is_genuine(result: Verification) -> bool:
    """Return whether this installation stored the result as it is."""
    return keys.is_authentic(_result_text(result), result.mac)


def _result_text(result: Verification) -> str:
    values = [getattr(result, name) for name in _RESULT_COLUMNS]
    return "verification " + chain.encode([result.id.hex, timestamps.to_ms(result.at), *values])


_RESULT_COLUMNS = (*("ok", "through", "problem", "problem_reason", "links", "uncovered", "checkpoint", "outside_head"),)
MAX_RESULTS = 20
"""Maximum stored results that are searched for a genuine one."""
