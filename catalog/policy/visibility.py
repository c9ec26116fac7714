"""Visible items of a credential, computed once per snapshot and kept until they change with time.

Also names the users who have access to an item, and the rules, for the admin's pages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from django.conf import settings

from audit.types import Credential
from catalog.policy import asking, messages, snapshot
from catalog.policy import rules as policy
from catalog.policy.asking import Ask
from catalog.policy.definitions import GrantRule, Item, Member, Snapshot, ToolDefinition
from catalog.policy.rules import Decision, Requester, Visible

MAX_NARROWED_INLINE = 20
"""Number of definitions that may be narrowed on the event loop: 20 ms."""
MAX_CACHED_USERS = 20_000
"""Maximum number of remembered people; above it the cache is emptied."""

Key: TypeAlias = tuple[int, frozenset[int] | None]
_cache: dict[Key, tuple[Snapshot, str, float, Visible]] = {}
"""A bounded cache of values that follow from snapshot, person and time alone: it belongs to no part of the process."""
_FOREVER = float("inf")


def page_credential(user_id: int, username: str = "", toolset_ids: frozenset[int] | None = None) -> Credential:
    """Return the credential of a person at a page, without a token; with `toolset_ids`, restricted as a token is."""
    return Credential(user_id, username, f"page:{user_id}", "", toolset_ids, None)


async def prepare(credential: Credential) -> None:
    """Compute the visible items of a credential in a thread, where that would block the event loop.

    Narrowing a definition takes a millisecond. Without grants that narrow many, or with a known answer, this does
    nothing.
    """
    try:
        catalogue = snapshot.current()
    except snapshot.NotLoaded:
        return
    if _find_known(_key_of(credential), catalogue, time.time()) is not None:
        return
    if policy.count_narrowed(catalogue, credential.user_id, MAX_NARROWED_INLINE) >= MAX_NARROWED_INLINE:
        await asyncio.to_thread(for_credential, credential)


def for_credential(credential: Credential, now: float | None = None) -> Visible:
    """Return the visible items of a credential; takes about a microsecond when cached.

    Raises NotLoaded before the first load.
    """
    catalogue = snapshot.current()
    if now is not None:
        return in_snapshot(catalogue, credential, now)
    now = time.time()
    key = _key_of(credential)
    known = _find_known(key, catalogue, now)
    if known is not None:
        return known
    found = in_snapshot(catalogue, credential, now)
    if len(_cache) >= MAX_CACHED_USERS:
        _cache.clear()
    _cache[key] = (catalogue, settings.ENVIRONMENT, found.changes_at or _FOREVER, found)
    return found


def _key_of(credential: Credential) -> Key:
    return (credential.user_id, credential.toolset_ids)


def _find_known(key: Key, catalogue: Snapshot, now: float) -> Visible | None:
    known = _cache.get(key)
    if known is not None and known[0] is catalogue and now < known[2] and known[1] == settings.ENVIRONMENT:
        return known[3]
    return None


def in_snapshot(catalogue: Snapshot, credential: Credential, now: float) -> Visible:
    """Return the visible items for a given snapshot and time, without caching."""
    requester = Requester(credential.user_id, credential.toolset_ids)
    return policy.decide_all(catalogue, requester, now, settings.ENVIRONMENT)


def reaches_origin(credential: Credential, origin: Iterable[int] | None) -> bool:
    """Return whether this credential reaches what a call of the same user left behind; see `rules.reaches_origin`."""
    return policy.reaches_origin(Requester(credential.user_id, credential.toolset_ids), origin)


def decide(credential: Credential, item: Item, now: float | None = None) -> Decision:
    """Return the decision for this person and this item, with its reason."""
    requester = Requester(credential.user_id, credential.toolset_ids)
    time_now = time.time() if now is None else now
    return policy.decide(snapshot.current(), requester, item, time_now, settings.ENVIRONMENT)


def find_asks(credential: Credential, tool: ToolDefinition) -> list[Ask]:
    """Return the questions that calls of the tool by this person can ask before they run, now and here."""
    catalogue = snapshot.current()
    if tool.id not in catalogue.asking_tools:
        return []
    requester = Requester(credential.user_id, credential.toolset_ids)
    return asking.all_asks(catalogue, requester, tool, time.time(), settings.ENVIRONMENT)


def may_wait(credential: Credential, tool: ToolDefinition) -> bool:
    """Return whether calls of the tool by this person can wait for the approval of others."""
    return any(ask.asks == asking.APPROVERS for ask in find_asks(credential, tool))


MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class Audience:
    enabled: bool
    users: list[tuple[str, str]]
    """User name and deciding rule, in the language of the page, of the first users by name."""
    count: int
    limits: list[str]
    """The first few limits; `more_limits` is the number of the others."""
    more_limits: int = 0

    @property
    def more(self) -> int:
        return self.count - len(self.users)


def find_audience(kind: str, pk: int) -> Audience:
    catalogue = snapshot.latest()
    item: Item | None = catalogue.items.get((kind, pk))
    if item is None:
        return Audience(False, [], 0, [])
    now, environment = time.time(), settings.ENVIRONMENT
    users = []
    for user_id, member in catalogue.members.items():
        decision = policy.decide(catalogue, Requester(user_id), item, now, environment)
        if decision.visible:
            users.append((member.username, decision.rule))
    rules = catalogue.limits_by_tool.get(pk, ()) if kind == "tool" else ()
    return Audience(
        True,
        [(name, messages.translate(rule)) for name, rule in sorted(users, key=itemgetter(0))[:MAX_LISTED]],
        len(users),
        [messages.translate(rule.rule) for rule in rules[:MAX_LISTED]],
        max(0, len(rules) - MAX_LISTED),
    )


def count_toolset_audience(toolset_id: int) -> int:
    """Return how many active users a grant in force allows this toolset, here and now.

    Denials are not subtracted. A grant with conditions counts as one without, and flags are those of each user.
    """
    catalogue, now = snapshot.latest(), time.time()
    found = [
        rule
        for rule in catalogue.grants
        if (rule.target_kind, rule.target_id, rule.effect) == ("toolset", toolset_id, "allow")
        and policy.is_in_force(rule, now)
        and policy.applies_in(rule, settings.ENVIRONMENT)
    ]
    allowing: dict[tuple[str, int | None], list[GrantRule]] = {}
    for rule in found:
        allowing.setdefault((rule.subject_kind, rule.subject_id), []).append(rule)

    def is_allowed(user_id: int, member: Member) -> bool:
        subjects = [("everyone", None), ("user", user_id), *(("group", key) for key in member.group_ids)]
        rules = (rule for subject in subjects for rule in allowing.get(subject, ()))
        return any(policy.is_switched_on(catalogue, rule, user_id) for rule in rules)

    return sum(member.is_active and is_allowed(user_id, member) for user_id, member in catalogue.members.items())
