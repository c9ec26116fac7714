"""Creation of tools from chosen operations, and comparison of a re-imported document with its existing tools."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from audit.actions import log
from catalog import import_batches, quarantine
from catalog.models import ImportBatch, ImportedDocument, Tool, Toolset, secret_flows
from catalog.openapi import document as documents
from catalog.openapi import proposals as proposing
from catalog.openapi import security
from catalog.openapi.proposals import Choices, Proposal
from catalog.openapi.schemas import plain_text
from catalog.policy import large_changes
from catalog.policy import messages as policy_messages
from catalog.reviews.changes import Change, compare
from catalog.runners import networks, registry
from catalog.runners.destinations import Flow
from toolhub import contact, egress

RUNNER = "http_api"
FETCH_SECONDS = 30.0
PREVIEW_SECONDS = 24 * 3600.0
"""Time after which a document that was previewed and not imported is discarded."""
NEW, SAME, CHANGED, WAITING, GONE = "new", "unchanged", "changed", "waiting for review", "gone"
ADJUSTED = "changed here"
"""The document has the operation as it was approved; only the choices of the import differ."""
STATE_LABELS: dict[str, Promise] = {
    NEW: gettext_lazy("new"),
    SAME: gettext_lazy("unchanged"),
    CHANGED: gettext_lazy("changed"),
    ADJUSTED: gettext_lazy("changed by your choices"),
    WAITING: gettext_lazy("needs review"),
    GONE: gettext_lazy("no longer in the document"),
}


CHANGED_SINCE = gettext_lazy(
    "Somebody else uploaded another version or cancelled this preview. Nothing was imported. Review the document again."
)


class DocumentImportError(Exception):
    """A sentence for the person who imports."""


@dataclass(slots=True)
class Row:
    """One line of the preview."""

    key: str
    state: str
    proposal: Proposal | None
    tool: Tool | None = None
    changes: list[Change] = field(default_factory=list)
    problem: str = ""

    @property
    def choosable(self) -> bool:
        return self.state == NEW and not self.problem

    @property
    def label(self) -> Promise:
        """The label of the state."""
        return STATE_LABELS[self.state]

    @property
    def over_limit(self) -> bool:
        """Whether the operation is only beyond the import limit of one document."""
        return self.tool is None and self.proposal is not None and self.proposal.over_limit

    def matches(self, words: str) -> bool:
        """Return whether all of these words are in the operation's line of the preview."""
        shown = [self.key, self.tool.name if self.tool is not None else ""]
        shown += [self.proposal.name, self.proposal.title, self.proposal.description] if self.proposal else []
        text = " ".join(shown).casefold()
        return all(word in text for word in words.casefold().split())


@dataclass(slots=True)
class Result:
    made: list[Tool] = field(default_factory=list)
    quarantined: list[Tool] = field(default_factory=list)
    adjusted: list[Tool] = field(default_factory=list)
    """Existing tools that follow the choices of this import."""
    added: list[Tool] = field(default_factory=list)
    """Existing tools that are in the chosen toolset from now on."""
    batch: ImportBatch | None = None
    """The made tools as one batch; None when none were made."""


def fetch(url: str) -> bytes:
    """Return the document at an address, fetched through `toolhub.egress`. Raises DocumentImportError."""
    try:
        reply = async_to_sync(egress.fetch)(
            "GET",
            url,
            headers={"Accept": "application/json, application/yaml, text/yaml, */*;q=0.5"},
            timeout=FETCH_SECONDS,
            max_bytes=documents.MAX_BYTES,
            resolver=networks.resolver(),
            allowed=networks.allowed(),
        )
    except egress.EgressError as error:
        raise DocumentImportError(
            _("The document cannot be fetched: %(why)s.") % {"why": error.localized_message}
        ) from None
    if 300 <= reply.status < 400:
        moved = _(
            "The document cannot be fetched: the address answers with a redirect (status %(status)d). Enter the "
            "address that it redirects to."
        )
        raise DocumentImportError(moved % {"status": reply.status})
    if reply.status != 200:
        raise DocumentImportError(
            _("The address answered with HTTP status %(status)d. Check the address.") % {"status": reply.status}
        )
    return reply.body


def read(data: bytes) -> dict[str, Any]:
    try:
        return documents.parse(data)
    except documents.DocumentError as error:
        raise DocumentImportError(str(error)) from None


def prepare(data: bytes, source: str, *, again: ImportedDocument | None = None) -> ImportedDocument:
    """Store a document for review. One from the same source as before is imported again, not twice.

    The same source: the same address, or for uploaded files the same name and title; half of them are "openapi.json".

    A document that was never imported is a draft until it is. Raises DocumentImportError, ValidationError.
    """
    content = read(data)
    discard_expired()
    info = content.get("info")
    info = info if isinstance(info, dict) else {}
    title = " ".join(plain_text(info.get("title"), 200).split()) or "Untitled"
    with transaction.atomic():
        row = again or _find_imported(source, title) or ImportedDocument(source=source)
        if row._state.adding:
            row.name, row.draft = _free_name(title), True
        if row.draft:
            row.title, row.document_version = title, plain_text(str(info.get("version", "")), 100)
        row.pending, row.pending_source = data.decode("utf-8-sig"), source
        row.pending_at = timezone.now()
        row.full_clean()
        row.save()
    return row


def _find_imported(source: str, title: str) -> ImportedDocument | None:
    found = ImportedDocument.objects.filter(source=source)
    return (found if "://" in source else found.filter(title=title)).first()


def cancel(row: ImportedDocument) -> None:
    """Discard the document under review: a draft is removed, an imported one stays as it was imported last."""
    _discard(ImportedDocument.objects.filter(pk=row.pk))


def discard_expired() -> None:
    """Discard the documents that nobody imported within PREVIEW_SECONDS."""
    before = timezone.now() - timedelta(seconds=PREVIEW_SECONDS)
    _discard(ImportedDocument.objects.filter(pending_at__lt=before))


def _discard(found: QuerySet[Any]) -> None:
    found.filter(draft=True).delete()
    found.filter(draft=False, pending_at__isnull=False).update(pending="", pending_source="", pending_at=None)


def digest(text: str) -> str:
    """Return the SHA-256 of a document, as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _free_name(title: str) -> str:
    name, number = title[:190], 2
    while ImportedDocument.objects.filter(name=name).exists():
        name, number = f"{title[:190]} {number}", number + 1
    return name


def rows(row: ImportedDocument, choices: Choices) -> list[Row]:
    """Return every operation of the document to import, and every tool whose operation no longer exists."""
    content = read(row.text.encode())
    tools = {quarantine.approved(tool).get("name"): tool for tool in Tool.objects.filter(origin=row.origin)}
    taken = {name.lower() for name in Tool.objects.values_list("name", flat=True)}
    found = []
    refusals = SecretRefusals()
    earlier = _earlier_pins(row, content) if tools else {}
    for proposal in proposing.build_proposals(content, choices, row.text_source):
        tool = tools.pop(proposal.key, None)
        if tool is None:
            problem = proposal.problem
            if not problem and proposal.name.lower() in taken:
                taken_already = _("A tool named %(name)s already exists. Choose a prefix.")
                problem = taken_already % {"name": proposal.name}
            problem = problem or refusals.find(proposal)
            found.append(Row(proposal.key, NEW, proposal, problem=problem))
        else:
            found.append(_compare_row(proposal, tool, earlier.get(proposal.key, "")))
    found += [Row(str(key), GONE, None, tool) for key, tool in tools.items() if tool.pinned != quarantine.GONE_PIN]
    return found


class SecretRefusals:
    """The reasons against new tools because of the secrets that they would send; asked once for each destination."""

    def __init__(self) -> None:
        self._known: dict[frozenset[Flow], str] = {frozenset(): ""}

    def find(self, proposal: Proposal) -> str:
        flows = registry.flows(RUNNER, proposal.settings)
        if flows not in self._known:
            self._known[flows] = secret_flows.find_refusal(flows) or secret_flows.find_binding_problem(flows)
        return self._known[flows]


def describe_secrets(found: Iterable[Row]) -> list[str]:
    """Return where the proposed tools send secrets, one sentence for each secret and destination."""
    flows: set[Flow] = set()
    for row in found:
        if row.proposal is not None and not row.proposal.problem:
            flows |= registry.flows(RUNNER, row.proposal.settings)
    return secret_flows.describe(flows)


MAX_MISSING = 10
"""Maximum number of sentences about missing secrets; the most frequent ones are shown."""


def describe_missing(found: Iterable[Row], *, may_create: bool) -> list[str]:
    """Return how many of the proposed tools send no credentials, one sentence for each kind of missing secret."""
    counts = Counter(
        row.proposal.missing
        for row in found
        if row.proposal is not None and not row.proposal.problem and row.proposal.missing is not None
    )
    return [_describe_missing(number, missing, may_create) for missing, number in counts.most_common(MAX_MISSING)]


def _describe_missing(number: int, missing: tuple[tuple[str, ...], ...], may_create: bool) -> str:
    if not missing:
        sentence = ngettext(
            "%(number)s operation sends no credentials: a secret cannot serve its security scheme.",
            "%(number)s operations send no credentials: a secret cannot serve their security scheme.",
            number,
        )
        return sentence % {"number": number}
    values = {"number": number, "names": security.join_alternatives(missing)}
    if may_create:
        sentence = ngettext(
            "%(number)s operation sends no credentials: choose or create a secret for %(names)s.",
            "%(number)s operations send no credentials: choose or create a secret for %(names)s.",
            number,
        )
        return sentence % values
    sentence = ngettext(
        "%(number)s operation sends no credentials: choose a secret for %(names)s, or ask %(contact)s to add one.",
        "%(number)s operations send no credentials: choose a secret for %(names)s, or ask %(contact)s to add one.",
        number,
    )
    return contact.fill(sentence, **values)


def _earlier_pins(row: ImportedDocument, content: dict[str, Any]) -> dict[str, str]:
    """Return {key of the operation: pin} of this document with the choices of the last import."""
    if row.imported_at is None:
        return {}
    kept = row.choices
    choices = Choices(kept["server"], kept["prefix"], kept["secrets"], kept["outputs"])
    found = proposing.build_proposals(content, choices, row.text_source)
    return {one.key: quarantine.pin(one.definition()) for one in found if not one.problem}


def _compare_row(proposal: Proposal, tool: Tool, earlier: str) -> Row:
    """Return the row of an operation that has a tool; `earlier` is its pin with the choices of the last import."""
    if proposal.problem:
        return Row(proposal.key, CHANGED, proposal, tool, problem=proposal.problem)
    if quarantine.pin(proposal.definition()) == tool.pinned:
        state = SAME if tool.quarantined_since is None else WAITING
        return Row(proposal.key, state, proposal, tool)
    definition = quarantine.pinned_members(proposal.definition())
    shown = compare(quarantine.approved(tool), definition)
    # Texts of the document that earlier choices left out, such as schemas of results, were never approved.
    ours = all(change.member == "settings" or change.member not in definition for change in shown)
    state = ADJUSTED if ours and earlier == tool.pinned and tool.quarantined_since is None else CHANGED
    return Row(proposal.key, state, proposal, tool, shown)


def apply(row: ImportedDocument, choices: Choices, chosen: Collection[str], toolset: Toolset | None, by: Any) -> Result:
    """Create tools from the chosen operations; quarantine the changed and vanished ones of earlier imports.

    Existing tools whose operation is as it was approved follow the choices at once, if `by` may change tools; and they
    join the toolset if another one was chosen than at the last import. Calls are logged meanwhile: see `large_changes`.
    Raises DocumentImportError, and then nothing was changed.
    """

    def work() -> Result:
        stored = ImportedDocument.objects.filter(pk=row.pk).first()
        if stored is None or stored.text != row.text:
            raise DocumentImportError(str(CHANGED_SINCE))
        return _apply(stored, choices, chosen, toolset, by)

    try:
        result = large_changes.run(work)
    except large_changes.Stale:
        raise DocumentImportError(str(policy_messages.CHANGED_MEANWHILE)) from None
    row.refresh_from_db()
    return result


def _apply(
    row: ImportedDocument, choices: Choices, chosen: Collection[str], toolset: Toolset | None, by: Any
) -> Result:
    result = Result()
    may_change = by.has_perm("catalog.change_tool")
    found = rows(row, choices)
    for line in found:
        if line.state == NEW and line.key in chosen:
            if line.problem or line.proposal is None:
                raise DocumentImportError(f"{line.key}: {line.problem}")
            result.made.append(_create_tool(row, line.proposal, toolset))
        elif line.tool is not None and line.proposal is not None and line.state == ADJUSTED and may_change:
            _adjust(line.tool, line.proposal)
            result.adjusted.append(line.tool)
        elif line.tool is not None and line.state in (CHANGED, ADJUSTED, GONE, WAITING):
            # An operation that cannot be imported any more counts as removed: its tool must not be called in the
            # old form.
            usable = line.proposal is not None and not line.proposal.problem
            if quarantine.propose(line.tool, line.proposal.definition() if usable and line.proposal else None):
                result.quarantined.append(line.tool)
    earlier = str(row.choices.get("toolset", ""))
    if toolset is not None and toolset.name != earlier and may_change:
        served = [line.tool for line in found if line.tool is not None and line.state in (SAME, ADJUSTED)]
        result.added = _join_toolset(toolset, served, earlier)
    _save_import(row, choices, toolset, by)
    source = row.name if "://" in row.source else row.source
    result.batch = import_batches.record(ImportBatch.Source.OPENAPI, source, result.made)
    log.record(
        "imported",
        "OpenAPI document",
        f"{row} (id {row.pk})",
        None,
        {
            "source": row.source,
            "sha256": row.sha256,
            "made": [tool.name for tool in result.made],
            "quarantined": [tool.name for tool in result.quarantined],
            "adjusted": [tool.name for tool in result.adjusted],
            "added to the toolset": [tool.name for tool in result.added],
        },
    )
    return result


def _adjust(tool: Tool, proposal: Proposal) -> None:
    try:
        quarantine.follow(tool, proposal.definition())
    except ValidationError as error:
        raise DocumentImportError(f"{proposal.key}: {' '.join(error.messages)}") from None


def _join_toolset(toolset: Toolset, tools: list[Tool], earlier: str) -> list[Tool]:
    """Add tools to a toolset; return those that were not in it.

    A tool that somebody took out of the earlier toolset, or switched off, stays as it is.
    """
    rows = Tool.objects.filter(pk__in=[tool.pk for tool in tools], enabled=True, quarantined_since=None)
    if earlier:
        rows = rows.filter(toolsets__name=earlier)
    missing = list(rows.exclude(toolsets=toolset).order_by("pk"))
    for tool in missing:
        tool.toolsets.add(toolset)
    return missing


def _create_tool(row: ImportedDocument, proposal: Proposal, toolset: Toolset | None) -> Tool:
    tool = Tool(name=proposal.name, runner=RUNNER, origin=row.origin)
    try:
        quarantine.adopt(tool, proposal.definition())
        tool.full_clean()
    except ValidationError as error:
        raise DocumentImportError(f"{proposal.key}: {' '.join(error.messages)}") from None
    tool.save()
    if toolset is not None:
        tool.toolsets.add(toolset)
    return tool


def _save_import(row: ImportedDocument, choices: Choices, toolset: Toolset | None, by: Any) -> None:
    text = row.text
    content = read(text.encode())
    info = content.get("info")
    info = info if isinstance(info, dict) else {}
    row.sha256 = digest(text)
    row.title = " ".join(plain_text(info.get("title"), 200).split()) or row.title
    row.document_version = plain_text(str(info.get("version", "")), 100)
    row.keep(text)
    row.source, row.pending, row.pending_source, row.pending_at = row.text_source, "", "", None
    row.draft = False
    row.choices = {
        "server": choices.server,
        "prefix": choices.prefix,
        "secrets": {name: secret for name, secret in choices.secrets.items() if secret},
        "outputs": choices.outputs,
        "toolset": toolset.name if toolset is not None else "",
    }
    row.imported_at, row.imported_by = timezone.now(), by if getattr(by, "pk", None) else None
    row.save()
