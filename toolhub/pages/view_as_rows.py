"""Rows of "View as": each visible or hidden item with its rule, from the decision that answers the user's clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q
from django.urls import reverse

from catalog.models import Prompt, Resource, Tool
from catalog.policy import messages, rules
from catalog.policy.definitions import GRANT, Item, ResourceDefinition, Rule, Snapshot
from catalog.policy.rules import Requester, Visible

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
    """The item, or None when it is switched off."""


@dataclass(frozen=True, slots=True)
class Row:
    entry: Entry
    link: str
    rule: str
    """The rule that shows it, or the one that hides it."""
    rule_link: str
    changes_at: datetime | None
    """The time when the decision changes by itself."""


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
            for pk, name, title in _disabled_items(kind)
            if _matches(words, name, title)
        ]
    return found


def rows(catalogue: Snapshot, who: Requester, found: Iterable[Entry], at: float, environment: str) -> list[Row]:
    """Return the rows of one page's entries, each with its rule."""
    made = []
    for entry in found:
        rule, changes = rules.DISABLED, None
        if entry.item is not None:
            decision = rules.decide(catalogue, who, entry.item, at, environment)
            rule, changes = decision.rule, decision.changes_at
        link = reverse(f"admin:catalog_{entry.kind}_change", args=[entry.id])
        change_time = datetime.fromtimestamp(changes, UTC) if changes is not None else None
        made.append(Row(entry, link, messages.translate(rule), grant_link(rule), change_time))
    return made


def grant_link(rule: Rule) -> str:
    return reverse("admin:catalog_grant_change", args=[rule.params["number"]]) if rule.code == GRANT else ""


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


def _disabled_items(kind: str) -> Iterable[tuple[int, str, str]]:
    off = {"tool": Tool, "resource": Resource, "prompt": Prompt}[kind].objects.filter(enabled=False)
    if kind != "resource":
        return off.order_by("position", "name").values_list("pk", "name", "title")
    return (
        (pk, uri or template, title)
        for pk, uri, template, title in off.values_list("pk", "uri", "uri_template", "title")
    )


def _matches(words: Sequence[str], name: str, title: str) -> bool:
    if not words:
        return True
    text = f"{name} {title}".lower()
    return all(word in text for word in words)
