"""Questions of this application to others that it must not import; `toolhub.composition` answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from toolhub.parts import parts


def _none(user_id: int) -> frozenset[int]:
    return frozenset()


def _nothing_granted(user_id: int) -> bool:
    return False


def _nothing_runs(call_id: UUID, reason: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the catalogue and the server do for accounts and tokens."""

    cancel_call: Callable[[UUID, str], None] = _nothing_runs
    """End a running call, whichever worker runs it, and log this reason. Promises nothing."""
    reaches_anything: Callable[[int], bool] = _nothing_granted
    """Whether a client of this user would find anything: a tool, a resource or a prompt."""
    toolsets_for: Callable[[int], frozenset[int]] = _none
    """The toolsets (primary keys) of which this user may use something: what a token of theirs can be restricted to."""
    user_inlines: tuple[Any, ...] = ()
    """The tables of others on the page of an account."""
    group_inlines: tuple[Any, ...] = ()
    """The same on the page of a group."""


_NOBODY = Neighbours()


def neighbours() -> Neighbours:
    """Return what `toolhub.composition` put in place; without it, there is no catalogue and nothing runs."""
    return parts.find(Neighbours) or _NOBODY
