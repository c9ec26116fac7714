"""What a person can request: the toolsets that administrators opened for requests, as far as people may see them.

A toolset that is not open for requests, or holds nothing that could be used now, does not exist here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.models import Toolset
from catalog.policy import snapshot
from catalog.policy.definitions import Item, Rule, Snapshot, ToolDefinition
from catalog.policy.rules import Key, Visible


@dataclass(frozen=True, slots=True)
class RequestableToolset:
    """One toolset that a person can request, without what is switched off or quarantined."""

    toolset: Toolset
    tools: tuple[ToolDefinition, ...]
    others: int
    """Number of its resources and prompts: a grant of the toolset includes them."""
    own: frozenset[int]
    """The tools (primary keys) that the person may use already, without conditions of the grants that allow it."""
    partial: frozenset[int]
    """The tools (primary keys) that the person may use already under such conditions: for some calls."""
    is_complete: bool
    """Whether the person may use everything in it already, without such conditions."""

    def find(self, name: str) -> ToolDefinition | None:
        """Return its tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether every word is in its texts, or in those of one of its tools."""
        text = f"{self.toolset.name} {self.toolset.request_text}".lower()
        left = [word for word in words if word not in text]
        return not left or any(all(word in describe(tool) for word in left) for tool in self.tools)


def describe(tool: ToolDefinition) -> str:
    """Return what people can search of a tool."""
    return f"{tool.name} {tool.title} {tool.description}".lower()


def list_toolsets(visible: Visible, *, words: Sequence[str] = ()) -> list[RequestableToolset]:
    """Return the toolsets that can be requested and that a person who sees this does not fully have, by name."""
    found = _build(visible, Toolset.objects.filter(requestable=True).order_by("name"))
    return [choice for choice in found if not choice.is_complete and choice.matches(words)]


def find_toolset(visible: Visible, key: int) -> RequestableToolset | None:
    """Return one toolset that can be requested, also when the person has all of it; None for any other."""
    return next(iter(_build(visible, Toolset.objects.filter(requestable=True, pk=key))), None)


def _build(visible: Visible, toolsets: Iterable[Toolset]) -> list[RequestableToolset]:
    catalogue, own = snapshot.current(), _own_items(visible)
    found = (_build_one(catalogue, toolset, *own) for toolset in toolsets)
    return [choice for choice in found if choice is not None]


def _build_one(
    catalogue: Snapshot, toolset: Toolset, own: frozenset[Key], partial: frozenset[Key]
) -> RequestableToolset | None:
    items = [item for item in catalogue.by_toolset.get(toolset.pk, ()) if not item.quarantined]
    if not items:
        return None
    tools = tuple(item for item in items if isinstance(item, ToolDefinition))
    return RequestableToolset(
        toolset,
        tools,
        len(items) - len(tools),
        frozenset(tool.id for tool in tools if ("tool", tool.id) in own),
        frozenset(tool.id for tool in tools if ("tool", tool.id) in partial),
        all((item.kind, item.id) in own for item in items),
    )


def _own_items(visible: Visible) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the items that a person may use freely, and those that grants with conditions alone allow.

    Denials narrow free access too, but another grant would not widen it: what they leave counts as free.
    """
    kinds: tuple[Iterable[tuple[Item, Rule]], ...] = (
        visible.tools.values(),
        visible.resources.values(),
        visible.templates.values(),
        visible.prompts.values(),
    )
    found: tuple[set[Key], set[Key]] = set(), set()
    for item, rule in (pair for kind in kinds for pair in kind):
        found[bool(rule.params.get("conditional"))].add((item.kind, item.id))
    return frozenset(found[False]), frozenset(found[True])
