"""Verifies the record: every chain, every record, every checkpoint, in pages, while calls go on being recorded."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from django.utils import timezone

from audit import chain, identifiers, times, verify_heads, verify_links, verify_rows
from audit.heads import Head, Heads
from audit.models import Call, Checkpoint, Verification
from audit.verify_links import Problem
from audit.verify_prunes import Prunes

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
            id=identifiers.new_id(),
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
    for problem in verify_heads.check_checkpoints(heads):
        signed.append(problem)
        if len(signed) >= ENOUGH:
            break
    prunes = Prunes()
    for writer in verify_links.chains():
        report.chains += 1
        start = heads.get(writer, (0, chain.START)) if recent else (0, chain.START)
        for found in verify_links.walk(writer, start, prunes):
            if isinstance(found, Problem):
                _add(report, [found])
            else:
                report.links += found
    after = identifiers.first_id_of(times.to_ms(last) - 60_000) if recent and last is not None else _NOTHING
    for found in verify_rows.check_calls(after, upto):
        if isinstance(found, Problem):
            _add(report, [found])
        else:
            report.calls += found
    _add(report, verify_rows.check_actions(after))
    _add(report, verify_rows.check_writers())
    _add(report, verify_heads.check_external(kept))
    _add(report, signed)


def _add(report: Report, problems: Iterable[Problem]) -> None:
    for problem in problems:
        report.problems.append(problem)
        if len(report.problems) >= ENOUGH:
            raise _Enough
