"""Patterns in linear time: RE2 instead of Python's `re`, in which a schema's pattern could run for hours.

Linear means text length times pattern size, and both may be large: `set_regex_budget` limits the product.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import re2
from django.utils.translation import gettext as _

MAX_PATTERN_CHARACTERS = 1_000
STEPS_PER_SECOND = 25_000_000
"""Characters times the size of the pattern's program per second, where it is slowest."""


class BudgetError(Exception):
    """An error for a check that would take too long."""


class _Local(threading.local):
    remaining_steps = float("inf")


_local = _Local()


def set_regex_budget(seconds: float) -> None:
    """Set the pattern budget, in seconds, of the check that this thread begins; work beyond it raises BudgetError."""
    _local.remaining_steps = seconds * STEPS_PER_SECOND


@contextmanager
def regex_budget(seconds: float) -> Iterator[None]:
    """Limit the work of the block to a pattern budget; what was left of an outer one goes on after it."""
    before = _local.remaining_steps
    set_regex_budget(seconds)
    try:
        yield
    finally:
        _local.remaining_steps = before


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return options


_OPTIONS = _options()


@lru_cache(maxsize=4096)
def searcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern matches anywhere in a text.

    Raises ValueError with a sentence when RE2 cannot run the pattern.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(_("a pattern can have at most %(most)d characters") % {"most": MAX_PATTERN_CHARACTERS})
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        unusable = _("the pattern %(pattern)s cannot be used (%(why)s)")
        raise ValueError(unusable % {"pattern": pattern[:100], "why": reason[:200]}) from None

    search, size = compiled.search, compiled.programsize

    def matches(text: str) -> bool:
        remaining_steps = _local.remaining_steps - size * len(text)
        if remaining_steps < 0:
            raise BudgetError
        _local.remaining_steps = remaining_steps
        try:
            return search(text) is not None
        except UnicodeEncodeError:  # a lone surrogate is no text that a pattern could mean
            return False

    return matches
