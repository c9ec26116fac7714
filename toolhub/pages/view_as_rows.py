"""Rows of "View as": each visible item with its rule, each hidden one with everything that hides it.

The answers are those of the decision that answers the user's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q
from django.urls import reverse

from catalog.conditions.forms import Form
from catalog.policy import approval_texts, loader, messages, rules
from catalog.policy.definitions import Item, ResourceDefinition, Snapshot, ToolDefinition
from catalog.policy.obstacles import Explainer
from catalog.policy.rules import Requester, Visible
from toolhub.pages.access import remedies
from toolhub.pages.access.remedies import Advice, Advisor, Asked

SEARCH_FIELDS = (
    "tool__name",
    "toolset__name",
    "resource__uri",
    "prompt__name",
    "user__username",
    "group__name",
    "note",
)
"""Fields that a search for grants covers."""
ITEM_KINDS = ("tool", "resource", "prompt")


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the catalogue before any decision about it: cheap enough for ten thousand."""

    kind: str
    id: int
    name: str
    title: str
    seen: bool
    item: Item | None
    """The item, or None when nobody can use it: it is switched off, or its upstream server is."""


@dataclass(frozen=True, slots=True)
class Row:
    entry: Entry
    link: str
    rule: str
    """The rule that shows it; of a hidden item, everything that hides it."""
    rule_link: str
    changes_at: datetime | None
    """The time when the decision changes by itself."""
    advice: Advice | None
    """What hides it, and what can be done; None for a visible item."""
    narrowed_by: tuple[tuple[int, str], ...] = ()
    """Number and address of the grants whose conditions narrow the definition that the person sees."""
    asks: tuple[str, ...] = ()
    """Whom calls of a visible tool ask for approval, in sentences."""


def entries(catalogue: Snapshot, seen: Visible, kind: str, *, which: str, words: Sequence[str]) -> list[Entry]:
    """Return the matching entries.

    `which` is "yes" (visible), "no" (hidden) or "" (all); every word must occur in name or title.
    """
    shown = {("tool", item.id) for item, _rule in seen.tools.values()}
    shown |= {("resource", item.id) for found in (seen.resources, seen.templates) for item, _rule in found.values()}
    shown |= {("prompt", item.id) for item, _rule in seen.prompts.values()}
    found = []
    for item in _items(catalogue, kind):
        name = item.uri if isinstance(item, ResourceDefinition) else item.name
        visible = (kind, item.id) in shown
        if (not which or visible == (which == "yes")) and _matches(words, name, item.title):
            found.append(Entry(kind, item.id, name, item.title, visible, item))
    if which != "yes":
        found += [
            Entry(kind, pk, name, title, False, None)
            for pk, name, title in _absent_items(kind)
            if (kind, pk) not in catalogue.items and _matches(words, name, title)
        ]
    return found


def rows(catalogue: Snapshot, who: Requester, username: str, found: Sequence[Entry], advisor: Advisor) -> list[Row]:
    """Return the rows of one page's entries, each with its rule or with what hides it."""
    hidden = [entry for entry in found if not entry.seen]
    explainer = Explainer(catalogue, advisor.now, advisor.environment)
    off = [entry for entry in hidden if entry.item is None]
    facts = remedies.load_facts(off[0].kind, [entry.id for entry in off]) if off else {}
    asked = []
    for entry in hidden:
        item = remedies.ItemFacts.of_definition(entry.item) if entry.item is not None else facts.get(entry.id)
        if item is not None:  # otherwise it was deleted a moment ago
            asked.append(Asked(who.user_id, username, item, explainer.explain(who, item.target)))
    advised = {one.asked.item.target.id: one for one in advisor.advise(asked)}
    return [_row(catalogue, who, entry, advisor, advised.get(entry.id)) for entry in found]


def _row(catalogue: Snapshot, who: Requester, entry: Entry, advisor: Advisor, advice: Advice | None) -> Row:
    rule, changes = rules.DISABLED, None
    narrowed_by: tuple[tuple[int, str], ...] = ()
    asks: list[str] = []
    if entry.item is not None:
        decision = rules.decide(catalogue, who, entry.item, advisor.now, advisor.environment)
        rule, changes = decision.rule, decision.changes_at
        if decision.visible and decision.form is not None:
            numbers = _find_narrowing(decision.form)
            narrowed_by = tuple((number, remedies.grant_address(number)) for number in numbers)
        if decision.visible and isinstance(entry.item, ToolDefinition):
            asks = approval_texts.describe_asks(catalogue, who, entry.item, advisor.now, advisor.environment, own=False)
    link = reverse(f"admin:catalog_{entry.kind}_change", args=[entry.id])
    change_time = datetime.fromtimestamp(changes, UTC) if changes is not None else None
    text = advice.text if advice is not None else messages.translate(rule)
    return Row(entry, link, text, remedies.grant_link(rule), change_time, advice, narrowed_by, tuple(asks))


def _find_narrowing(form: Form) -> list[int]:
    """Return the ids of the grants whose conditions narrow the definition: of those that allow, and that deny."""
    allowing = [way.alternative.grant_id for way in form.ways if not way.alternative.is_free]
    denying = [
        denial.grant_id
        for denial in form.permission.denials
        if any(form.original.has_place(one.steps) for one in denial.constraints)
    ]
    return sorted([*allowing, *denying])


def grants_filter(user_id: int) -> Q:
    """Return a filter for the grants that concern a user: their own, their groups', everyone's."""
    return Q(user_id=user_id) | Q(group__user=user_id) | Q(everyone=True)


def environments(catalogue: Snapshot, own: str) -> list[str]:
    """Return every environment that a grant names, and this installation's own."""
    return sorted({own}.union(*(rule.environments for rule in catalogue.grants)))


def _items(catalogue: Snapshot, kind: str) -> Iterable[Item]:
    if kind == "tool":
        return catalogue.tools.values()
    if kind == "prompt":
        return catalogue.prompts.values()
    return (*catalogue.resources.values(), *catalogue.templates)


def _absent_items(kind: str) -> Iterable[tuple[int, str, str]]:
    """Yield the primary key, name and title of what may be missing in a snapshot, for itself or for its server."""
    upstream = Q(runner=loader.UPSTREAM) if kind == "tool" else ~Q(upstream="")
    off = remedies.MODELS[kind]._default_manager.filter(Q(enabled=False) | upstream)
    if kind != "resource":
        yield from off.order_by("position", "name").values_list("pk", "name", "title")
        return
    for pk, uri, template, title in off.values_list("pk", "uri", "uri_template", "title"):
        yield pk, uri or template, title


def _matches(words: Sequence[str], name: str, title: str) -> bool:
    if not words:
        return True
    text = f"{name} {title}".lower()
    return all(word in text for word in words)
