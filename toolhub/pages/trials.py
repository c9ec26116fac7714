"""`/admin/trials/`: the rules in trial, and what each of them would have changed so far.

Whoever may not read calls gets numbers and their own calls, and no number that tells arguments. Rules of a kind that
the viewer may not view are not there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from audit.queries import trials as noted
from audit.queries.search import time_of
from catalog.admin import grant_form
from catalog.approvals import approvers
from catalog.models import ApprovalRule, Grant, Limit
from catalog.policy import answer_texts, approval_texts, messages, revision, snapshot
from catalog.replay.reach import KINDS
from catalog.trials import tally
from catalog.trials.readability import Readability
from catalog.trials.tally import Key, RuleTally
from toolhub.invisible import show
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

PER_PAGE: Final = 20
READ_CALLS: Final = "audit.view_call"
MODELS: Final[dict[str, Any]] = {"grant": Grant, "limit": Limit, "approval_rule": ApprovalRule}
RELATED: Final[dict[str, tuple[str, ...]]] = {
    "grant": ("tool", "toolset", "resource", "prompt", "user", "group"),
    "limit": ("tool", "toolset", "user", "group"),
    "approval_rule": ("tool", "toolset", "group", "grant", *(f"grant__{one}" for one in Grant.TARGETS)),
}
"""What the sentence about a rule of each kind reads."""
ORDER: Final = ("deny", "ask", "limit", "allow")


@dataclass(frozen=True, slots=True)
class CallLink:
    at: datetime
    address: str


@dataclass(frozen=True, slots=True)
class RowView:
    """The calls of one person with one item, as the page shows them."""

    person: str
    item: str
    calls: int
    changes: list[str]
    newest: list[CallLink]
    more: int


@dataclass(frozen=True, slots=True)
class RuleView:
    """One rule in trial, as the page shows it."""

    kind: str
    row: Any
    sentence: str
    details: str
    replaces: str
    """The rule whose place it takes, as a sentence; "" for a further rule."""
    replaces_address: str
    edited: datetime | None
    """When the rule was last changed, where that is after its trial began."""
    address: str
    decisions: list[tuple[str, str]]
    """Text and address of each page where the viewer may decide about the rule or replay it."""
    tally: RuleTally | None
    """None where the viewer may not know the numbers."""
    totals: list[str]
    rows: list[RowView]

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.row.pk}"


@staff_page()
@never_cache
@require_safe
def trials(request: HttpRequest) -> HttpResponse:
    """Show the rules in trial; with `version`, answer 204 where nothing changed since the page that had it."""
    kinds = [kind for kind in MODELS if may_view(request, kind)]
    if not kinds:
        raise PermissionDenied
    version = _make_version(request.user.has_perm(READ_CALLS))
    if request.GET.get("version") == version:
        return HttpResponse(status=204)
    rows = sorted(_list_rows(kinds), key=lambda one: (one[1].trial_since, one[0], one[1].pk), reverse=True)
    shown = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    before, after = adjacent_pages(shown, lambda number: f"?page={number}")
    presenter = Presenter(request, list(shown))
    context = {
        "version": version,
        "rules": [presenter.present(kind, row) for kind, row in shown],
        "counted_since": presenter.counted_since,
        "most": tally.MAX_READ_CALLS,
        "reads_calls": request.user.has_perm(READ_CALLS),
        "starts": _list_starts(request, kinds),
        "shown": shown,
        "page_before": before,
        "page_after": after,
    }
    return page(request, "admin/pages/trials.html", _("Rules in trial"), **context)


def may_view(request: HttpRequest, kind: str) -> bool:
    """Return whether the viewer may see rules of this kind."""
    return bool(request.user.has_perm(f"catalog.view_{MODELS[kind]._meta.model_name}"))


def _make_version(reads_calls: bool) -> str:
    """Return what changes with every rule, and for who may read calls with every noted one.

    A call that another process logs late has an older id than the newest one, so that it also changes with time. For
    everybody else it changes with nothing else: news of each call would tell what no number may tell.
    """
    minute = int(time.time()) // 60
    oldest = min((trial.since for trial in snapshot.latest().trials), default=None)
    if not reads_calls or oldest is None:
        return f"{revision.current()}-{minute}"
    newest = noted.newest_id(datetime.fromtimestamp(oldest, UTC))
    return f"{revision.current()}-{newest.hex if newest is not None else 0}-{minute}"


def _list_rows(kinds: Iterable[str]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for kind in kinds:
        related = RELATED[kind]
        rows = MODELS[kind].everything.filter(trial=True)
        rows = rows.select_related(*related, "replaces", *(f"replaces__{one}" for one in related))
        rows = approvers.with_approvers(rows) if kind == "approval_rule" else rows
        found += [(kind, row) for row in rows]
    return found


def _list_starts(request: HttpRequest, kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Return (text, address) of the forms in which the viewer may begin a trial."""
    texts = {"grant": _("Try a grant"), "limit": _("Try a limit"), "approval_rule": _("Try an approval rule")}
    names = {kind: MODELS[kind]._meta.model_name for kind in kinds}
    return [
        (texts[kind], f"{reverse(f'admin:catalog_{name}_add')}?trial=1")
        for kind, name in names.items()
        if request.user.has_perm(f"catalog.add_{name}")
    ]


class Presenter:
    """The rules of one page with their numbers, for one viewer."""

    def __init__(self, request: HttpRequest, rows: list[tuple[str, Any]]) -> None:
        self._request = request
        self._reads_calls = request.user.has_perm(READ_CALLS)
        since: dict[Key, datetime] = {(kind, row.pk): row.trial_since for kind, row in rows}
        reader_id = None if self._reads_calls else request.user.pk
        counted = tally.count(since, reader_id)
        self.counted_since = counted.counted_since
        readable = set(since) if self._reads_calls else _find_countable(since)
        self._tallies = {key: found for key, found in counted.rules.items() if key in readable}
        self._edited = _find_edits(since)

    def present(self, kind: str, row: Any) -> RuleView:
        model = row._meta.model_name
        found = self._tallies.get((kind, row.pk))
        replaced, edited = row.replaces, self._edited.get((kind, row.pk))
        address = reverse(f"admin:catalog_{model}_change", args=[row.pk])
        return RuleView(
            kind,
            row,
            show(messages.translate(messages.rule_of(row))),
            _describe(row),
            show(messages.translate(messages.rule_of(replaced))) if replaced is not None else "",
            reverse(f"admin:catalog_{model}_change", args=[replaced.pk]) if replaced is not None else "",
            edited if edited is not None and (edited - row.trial_since).total_seconds() > 1 else None,
            address,
            self._list_decisions(row, address),
            found,
            _describe_totals(found) if found is not None else [],
            [self._present_row(one) for one in found.rows] if found is not None else [],
        )

    def _list_decisions(self, row: Any, address: str) -> list[tuple[str, str]]:
        model, user = row._meta.model_name, self._request.user
        may_change, may_delete = (user.has_perm(f"catalog.{verb}_{model}") for verb in ("change", "delete"))
        found = []
        if may_change and (may_delete or row.replaces_id is None):
            found.append((_("Put in force"), reverse(f"admin:catalog_{model}_put_in_force", args=[row.pk])))
        if may_delete:
            found.append((_("End trial"), reverse(f"admin:catalog_{model}_end_trial", args=[row.pk])))
        return [*found, (_("Replay"), f"{address}#replay")] if may_change else found

    def _present_row(self, row: tally.Row) -> RowView:
        changes = [(before, after, number) for (before, after), number in row.changes.most_common()]
        name = show(row.name)
        return RowView(
            show(row.username),
            answer_texts.name_item(KINDS.get(row.method, "tool"), name),
            row.calls,
            answer_texts.describe_changes(changes),
            [CallLink(time_of(key), self._find_address(key)) for key in row.newest],
            row.more,
        )

    def _find_address(self, call: UUID) -> str:
        """Return the page of a call: for auditors their own, else that of its owner, who is the viewer."""
        return reverse("admin:audit_call_change" if self._reads_calls else "access:call", args=[call])


def _find_countable(since: dict[Key, datetime]) -> set[Key]:
    """Return the rules whose numbers tell nothing about the arguments of calls."""
    if not since:
        return set()
    catalogue = snapshot.latest()
    readability = Readability(catalogue, min(since.values()))
    return {(trial.kind, trial.id) for trial in catalogue.trials if not readability.tells_arguments(trial)}


def _find_edits(keys: Iterable[Key]) -> dict[Key, datetime]:
    """Return when each rule was last changed."""
    ids: dict[str, list[int]] = {}
    for kind, key in keys:
        ids.setdefault(kind, []).append(key)
    return {
        (kind, key): edited
        for kind, found in ids.items()
        for key, edited in MODELS[kind]
        .history.filter(id__in=found)
        .order_by()
        .values_list("id")
        .annotate(Max("history_date"))
    }


def _describe(row: Any) -> str:
    """Return what its name does not say about a rule."""
    if isinstance(row, ApprovalRule):
        return approval_texts.describe_rule(row, row.approver_count)  # type: ignore[attr-defined]
    return grant_form.describe(row) if isinstance(row, Grant) else ""


def _describe_totals(found: RuleTally) -> list[str]:
    totals: dict[str, int] = {}
    for (_before, after), number in found.changes.items():
        totals[after] = totals.get(after, 0) + number
    return [answer_texts.describe_total(after, totals[after]) for after in ORDER if after in totals]
