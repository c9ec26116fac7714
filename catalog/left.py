"""What is left of a person's limits, for pages; counts nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from redis.exceptions import RedisError

from audit.caller import Credential
from catalog import limits, snapshot
from catalog.definitions import LimitRule, ToolDefinition
from catalog.limits import Remaining

log = logging.getLogger(__name__)


def remaining_for(credential: Credential, tool: ToolDefinition) -> list[Remaining]:
    """The tightest first; empty when there is no limit, or while the counters cannot be read."""
    try:
        return limits.remaining(snapshot.current(), tool, credential)
    except (RedisError, OSError) as error:
        log.warning("cannot read what is left of a limit: %s", type(error).__name__)
        return []


def applying_to(credential: Credential) -> list[LimitRule]:
    """Every limit that speaks about this person, in the order in which they were made."""
    return limits.applying(snapshot.current(), credential)


def remaining_of_rules(credential: Credential, rules: Sequence[LimitRule]) -> list[tuple[LimitRule, Remaining | None]]:
    """What is left of each of these; None while the counters cannot be read."""
    try:
        return [*limits.remaining_of(snapshot.current(), rules, credential)]
    except (RedisError, OSError) as error:
        log.warning("cannot read what is left of a limit: %s", type(error).__name__)
        return [(rule, None) for rule in rules]
