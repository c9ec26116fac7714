"""What the holder of a credential sees now, worked out once per snapshot and kept until time changes it.

Who sees a thing now, and why: for the admin's pages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import itemgetter

from django.conf import settings

from audit.types import Credential
from catalog.policy import messages, snapshot
from catalog.policy import rules as policy
from catalog.policy.definitions import Item, Snapshot
from catalog.policy.rules import Decision, Visible, Who

KEPT = 20_000
"""People remembered at once; beyond it the memory starts afresh."""

_memo: dict[tuple[int, frozenset[int] | None], tuple[Snapshot, str, float, Visible]] = {}
"""A bounded cache of what follows from snapshot, person and time alone: it belongs to no part of the process."""
_FOREVER = float("inf")


def page_credential(user_id: int, username: str = "", toolset_ids: frozenset[int] | None = None) -> Credential:
    """A person at a page, where no token speaks for them; with `toolset_ids`, restricted as one of theirs is."""
    return Credential(user_id, username, f"page:{user_id}", "", toolset_ids, None)


def for_credential(credential: Credential, now: float | None = None) -> Visible:
    """About a microsecond when known. Raises NotLoaded before the first load."""
    catalogue = snapshot.current()
    if now is not None:
        return in_snapshot(catalogue, credential, now)
    now = time.time()
    key = (credential.user_id, credential.toolset_ids)
    known = _memo.get(key)
    if known is not None and known[0] is catalogue and now < known[2] and known[1] == settings.ENVIRONMENT:
        return known[3]
    found = in_snapshot(catalogue, credential, now)
    if len(_memo) >= KEPT:
        _memo.clear()
    _memo[key] = (catalogue, settings.ENVIRONMENT, found.changes_at or _FOREVER, found)
    return found


def in_snapshot(catalogue: Snapshot, credential: Credential, now: float) -> Visible:
    """The same for a given snapshot and moment, and not remembered."""
    who = Who(credential.user_id, credential.toolset_ids)
    return policy.decide_all(catalogue, who, now, settings.ENVIRONMENT)


def decide(credential: Credential, item: Item, now: float | None = None) -> Decision:
    """Why this person sees this thing, or does not."""
    who = Who(credential.user_id, credential.toolset_ids)
    moment = time.time() if now is None else now
    return policy.decide(snapshot.current(), who, item, moment, settings.ENVIRONMENT)


SHOWN = 20


@dataclass(frozen=True, slots=True)
class Audience:
    enabled: bool
    users: list[tuple[str, str]]
    """User name and deciding rule, in the language of the page, of the first ones by name."""
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
        [(name, messages.translate(rule)) for name, rule in sorted(users, key=itemgetter(0))[:SHOWN]],
        len(users),
        [messages.translate(rule.rule) for rule in rules[:SHOWN]],
        max(0, len(rules) - SHOWN),
    )
