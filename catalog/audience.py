"""Who sees a thing now, and why: for the admin's pages."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.conf import settings

from catalog import policy, rule_words, snapshot
from catalog.definitions import Item
from catalog.policy import Who

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Audience:
    enabled: bool
    users: list[tuple[str, str]]
    """User name and deciding rule of the first ones by name."""
    count: int
    limits: list[str]
    """Those of the first few limits; `more_limits` is how many there are besides."""
    more_limits: int = 0

    @property
    def more(self) -> int:
        return self.count - len(self.users)


def of(kind: str, pk: int) -> Audience:
    catalogue = snapshot.latest()
    item: Item | None = catalogue.items.get((kind, pk))
    if item is None:
        return Audience(False, [], 0, [])
    now, environment = time.time(), settings.ENVIRONMENT
    users = []
    for user_id, member in catalogue.members.items():
        decision = policy.decide(catalogue, Who(user_id), item, now, environment)
        if decision.visible:
            users.append((member.username, decision.rule))
    rules = catalogue.limits_by_tool.get(pk, ()) if kind == "tool" else ()
    return Audience(
        True,
        [(name, rule_words.said(rule)) for name, rule in sorted(users)[:SHOWN]],
        len(users),
        [rule_words.said(rule.label) for rule in rules[:SHOWN]],
        max(0, len(rules) - SHOWN),
    )
