"""The items of an upstream server: imported under local names, and compared with the approved definitions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override

from audit.actions import actor, log
from catalog import import_batches, quarantine
from catalog.errors import CallNotLogged
from catalog.language import ENGLISH
from catalog.models import ImportBatch, Prompt, Resource, Tool, Upstream, app_pages
from catalog.models.base import CatalogueItem
from catalog.models.pinned import identity
from catalog.runners.destinations import by_secret
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.secrets import resolve
from catalog.threads import run_in_loop
from catalog.upstreams.listing import KINDS, Definition, Kind, Listing, list_items, page_address
from toolhub.invisible import show

RUNNER = "upstream_mcp"
MODELS: Mapping[Kind, type[CatalogueItem]] = {"tool": Tool, "resource": Resource, "prompt": Prompt}
MAX_NAME_CHARACTERS = 128
MAX_SHOWN_NEW = 200
"""Maximum number of names that are kept of what is not imported."""
SETTINGS_ERRORS = (ValueError, resolve.MissingSecret, CallNotLogged)
"""Errors before a connection attempt, as a sentence in the active language."""
ConnectionWithSecrets = tuple[Connection, Mapping[str, str]]


@dataclass(slots=True)
class Candidate:
    """One listed item, with its local name or address and the reason against an import, if any."""

    kind: Kind
    definition: Definition
    name: str
    """The local name or address after an import."""
    problem: str = ""
    row: CatalogueItem | None = None
    """The item that was imported from it."""

    @property
    def description(self) -> str:
        return show(str(self.definition.get("description", "")))

    @property
    def shown_name(self) -> str:
        return show(identity(self.definition))

    @property
    def link(self) -> str:
        """The page of the imported item."""
        return "" if self.row is None else reverse(f"admin:catalog_{self.kind}_change", args=[self.row.pk])

    @property
    def value(self) -> str:
        """The value in a form: an import takes exactly the reviewed definition. The pin includes the name."""
        return f"{self.kind}:{quarantine.pin(self.definition)}"


class Refusal(NamedTuple):
    name: str
    """The name of the item at its source; "" when the reviewed definition no longer exists there."""
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.name else self.why


@dataclass(slots=True)
class Outcome:
    imported: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    batch: ImportBatch | None = None
    """The imported items as one batch; None when there are none."""


@dataclass(slots=True)
class Comparison:
    changed: list[str] = field(default_factory=list)
    """Names of local items that are, or stay, in quarantine because of the comparison."""
    new: list[str] = field(default_factory=list)
    problem: str = ""


def resolve_connection(upstream: Upstream, user_id: int | None) -> ConnectionWithSecrets:
    """Return the connection, with this user's secrets where personal ones are needed. Raises UpstreamError."""

    def way() -> ConnectionWithSecrets:
        connection = upstream.connection()
        return connection, resolve.resolve_now(by_secret(connection.flows()), user_id)

    def words() -> str:
        try:
            way()
        except SETTINGS_ERRORS as error:
            return _explain(error)
        return ""

    try:
        with override(ENGLISH):
            return way()
    except SETTINGS_ERRORS as error:
        raise UpstreamError(str(error), _explain(error), words) from None


def _explain(error: ValueError | resolve.MissingSecret | CallNotLogged) -> str:
    """Return the error as a sentence for staff and the audit log."""
    return error.audit_message if isinstance(error, resolve.MissingSecret) else str(error)


def discover(
    upstream: Upstream, user_id: int | None, verb: str, lists: Callable[..., Coroutine[Any, Any, Listing]] = list_items
) -> Listing:
    """Connect and list its items, log the admin activity, and store the health. Raises UpstreamError."""
    try:
        found = run_in_loop(lists(*resolve_connection(upstream, user_id)))
    except UpstreamError as error:
        store_health(upstream, problem=error.audit_message)
        log.record(verb, "upstream", logged_name(upstream), None, {"problem": error.audit_message})
        raise
    store_health(upstream, found)
    numbers = {f"{kind}s": len(listed) for kind, listed in found.items.items() if kind == "tool" or listed}
    log.record(verb, "upstream", logged_name(upstream), None, {"revision": found.revision, **numbers})
    return found


def candidates(upstream: Upstream, found: Listing) -> list[Candidate]:
    """Return every listed item with its future local name, and the reason why it cannot be imported."""
    return [one for kind in KINDS for one in _candidates(upstream, kind, found.items[kind])]


def _candidates(upstream: Upstream, kind: Kind, listed: Iterable[Definition]) -> list[Candidate]:
    imported = {identity(quarantine.approved(row)): row for row in _rows(upstream, kind)}
    result = []
    for definition in listed:
        row = imported.get(identity(definition))
        local = _local_identity(upstream, kind, definition) if row is None else str(row)
        result.append(Candidate(kind, definition, local, row=row))
    by_name: dict[str, list[Candidate]] = {}
    for one in result:
        by_name.setdefault(_compared(one), []).append(one)
    taken = _find_holders(kind)
    for name, same in by_name.items():
        for one in same:
            others = [other.shown_name for other in same if other is not one]
            holder = taken.get(name)
            if others:
                both = _("%(tool)s and %(others)s would get the same name: %(name)s.")
                one.problem = both % {"tool": one.shown_name, "others": ", ".join(others[:5]), "name": one.name}
            elif holder is not None and (one.row is None or one.row.pk != holder.pk):
                one.problem = _explain_collision(one, holder)
    return result


def _compared(one: Candidate) -> str:
    return one.name if one.kind == "resource" else one.name.lower()


def _find_holders(kind: Kind) -> dict[str, CatalogueItem]:
    """Return the items that have a name or address already."""
    if kind == "resource":
        return {str(row): row for row in Resource.objects.only("pk", "uri", "uri_template")}
    return {str(row).lower(): row for row in MODELS[kind]._default_manager.all()}


def _explain_collision(one: Candidate, holder: CatalogueItem) -> str:
    words = {"tool": one.shown_name, "name": one.name, "other": str(holder)}
    if one.kind == "resource":
        return _("The resource %(other)s already exists. Change its address there, then import this one.") % words
    if one.kind == "prompt":
        there = _("%(tool)s would be named %(name)s, but the prompt %(other)s already exists. Change the prefix.")
    else:
        there = _("%(tool)s would be named %(name)s, but the tool %(other)s already exists. Change the prefix.")
    return there % words


def import_items(upstream: Upstream, found: Listing, wanted: Iterable[str]) -> Outcome:
    """Import the chosen items (values of `Candidate.value`); reject those that cannot be imported, with a reason."""
    outcome, rows = Outcome(), list[CatalogueItem]()
    choices = {one.value: one for one in candidates(upstream, found)}
    for value in wanted:
        one = choices.get(value)
        if one is None:
            outcome.refused.append(
                Refusal("", _("Something you chose changed in the meantime. List everything again and review it."))
            )
        elif one.problem or one.row is not None:
            there_already = _("Already imported as %(name)s.") % {"name": one.row}
            outcome.refused.append(Refusal(one.shown_name, one.problem or there_already))
        else:
            try:
                with transaction.atomic():
                    row = _new_row(upstream, one)
            except ValidationError as error:
                outcome.refused.append(Refusal(one.shown_name, " ".join(error.messages)))
            else:
                outcome.imported.append(str(row))
                rows.append(row)
    with transaction.atomic():
        outcome.batch = import_batches.record(ImportBatch.Source.UPSTREAM, upstream.name, rows)
    if outcome.imported or outcome.refused:
        refused = [refusal.name or "one that changed after it was looked at" for refusal in outcome.refused]
        after = {"imported": outcome.imported, "refused": refused}
        log.record("imported from", "upstream", logged_name(upstream), None, after)
        store_health(upstream, found)
    return outcome


def compare(upstream: Upstream, found: Listing) -> Comparison:
    """Quarantine every item of this server whose definition is not the approved one, or no longer exists.

    An item that was made by hand is pinned to the definition that the server has now. A kind that could not be listed
    is left alone.
    """
    result = Comparison()
    with actor.override(f"comparison with upstream {upstream.name}"):
        for kind in KINDS:
            if kind not in found.problems:
                _compare(upstream, kind, found.items[kind], result)
    store_health(upstream, found)
    return result


def _compare(upstream: Upstream, kind: Kind, definitions: Iterable[Definition], result: Comparison) -> None:
    listed: dict[str, list[Definition]] = {}
    for definition in definitions:
        listed.setdefault(identity(definition), []).append(definition)
    called = set[str]()
    for row in _made_by_hand(upstream, kind):
        same = {quarantine.pin(one): one for one in listed.get(_source_name(row), ())}
        if len(same) == 1:
            quarantine.pin_existing(row, upstream.origin, next(iter(same.values())))
    for row in _rows(upstream, kind):
        source = _source_name(row)
        called.add(source)
        if not upstream.apps and app_pages.is_page(source):
            continue  # pages are neither listed nor served now
        same_name = listed.get(source, [])
        # Listed twice: a deviation in either definition counts.
        changed = [one for one in same_name if quarantine.pin(one) != row.pinned]
        quarantine.propose(row, changed[0] if changed else same_name[0] if same_name else None)
        if row.quarantined_since is not None:
            result.changed.append(str(row))
    result.new += sorted(listed.keys() - called)


def refresh(upstream: Upstream, user_id: int | None = None) -> Comparison:
    """List and compare now. A server that cannot be reached changes nothing but its health."""
    try:
        found = run_in_loop(list_items(*resolve_connection(upstream, user_id)))
    except UpstreamError as error:
        store_health(upstream, problem=error.audit_message)
        return Comparison(problem=error.audit_message)
    return compare(upstream, found)


def store_health(upstream: Upstream, found: Listing | None = None, problem: str = "") -> None:
    """Store the health, which is neither logged nor a change of the catalogue."""
    rows = Upstream.objects.filter(pk=upstream.pk)
    if found is None:
        rows.update(last_error=problem[:1000])
    else:
        new: list[str] = []
        for kind in KINDS:
            imported = {identity(quarantine.approved(row)) for row in _rows(upstream, kind)}
            new += sorted({identity(definition) for definition in found.items[kind]} - imported)
        new = new[:MAX_SHOWN_NEW]
        rows.update(
            last_seen=timezone.now(), last_error="", revision=found.revision, server=found.server, new_tools=new
        )
    upstream.refresh_from_db()


def secret_uses() -> Iterator[tuple[str, resolve.Use]]:
    """Yield (name of a secret, its use) for every use, for `catalog.secrets.resolve.uses`."""
    for upstream in Upstream.objects.all():
        for name, destinations in by_secret(upstream.secret_flows()).items():
            yield name, resolve.Use(_("upstream server %s") % upstream.name, destinations)


def local_name(upstream: Upstream, name: str) -> str:
    """Return a valid name under the upstream's prefix; a shortened one ends with a hash of the whole name."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", name) or "tool"
    whole = f"{upstream.prefix}{upstream.separator}{clean}" if upstream.prefix else clean
    if len(whole) <= MAX_NAME_CHARACTERS:
        return whole
    return f"{whole[: MAX_NAME_CHARACTERS - 9]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def imported_items(upstream: Upstream) -> list[CatalogueItem]:
    """Return the tools, resources and prompts that came from this server."""
    return [row for kind in KINDS for row in _rows(upstream, kind)]


def named_upstream(row: CatalogueItem) -> str:
    """Return the name of the upstream server that a tool, resource or prompt belongs to; empty for none."""
    if isinstance(row, Tool):
        named = row.settings.get("upstream") if row.runner == RUNNER and isinstance(row.settings, dict) else ""
        return named if isinstance(named, str) else ""
    return str(getattr(row, "upstream", ""))


def _local_identity(upstream: Upstream, kind: Kind, definition: Definition) -> str:
    source = identity(definition)
    if kind != "resource":
        return local_name(upstream, source)
    return page_address(upstream.connection(), source) if app_pages.is_page(source) else source


def _new_row(upstream: Upstream, one: Candidate) -> CatalogueItem:
    source = identity(one.definition)
    row: CatalogueItem
    if one.kind == "tool":
        settings = {"upstream": upstream.name, "tool": source}
        row = Tool(name=one.name, runner=RUNNER, settings=settings, origin=upstream.origin)
        blank = f"The tool {source} of {upstream.name}, which does not describe it."
    elif one.kind == "prompt":
        row = Prompt(name=one.name, upstream=upstream.name, source=source, origin=upstream.origin)
        blank = f"The prompt {source} of {upstream.name}, which does not describe it."
    else:
        address = "uri_template" if "uriTemplate" in one.definition else "uri"
        row = Resource(**{address: one.name}, upstream=upstream.name, source=source, origin=upstream.origin)
        blank = ""
    quarantine.adopt(row, one.definition)
    if not row.description.strip():
        row.description = blank
    row.full_clean()
    row.save()
    return row


def _rows(upstream: Upstream, kind: Kind) -> list[CatalogueItem]:
    return list(MODELS[kind]._default_manager.filter(origin=upstream.origin))


def _made_by_hand(upstream: Upstream, kind: Kind) -> list[CatalogueItem]:
    """Return the items that use this server and were neither imported from it nor pinned yet."""
    rows = MODELS[kind]._default_manager.filter(origin="", pinned="")
    rows = rows.filter(runner=RUNNER) if kind == "tool" else rows.filter(upstream=upstream.name)
    return [row for row in rows if named_upstream(row) == upstream.name]


def _source_name(row: CatalogueItem) -> str:
    """Return the name that is really asked for: somebody may have changed it after the approval."""
    return str(row.settings.get("tool") if isinstance(row, Tool) else getattr(row, "source", ""))


def logged_name(upstream: Upstream) -> str:
    return f"{upstream} (id {upstream.pk})"
