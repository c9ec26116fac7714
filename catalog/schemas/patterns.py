"""Patterns in linear time: RE2 instead of Python's `re`, in which a schema's pattern could run for hours.

Linear means the length of the text times the size of the pattern, and both may be large: `allow` limits the product.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

import re2
from django.utils.translation import gettext as _

LONGEST = 1_000
STEPS_PER_SECOND = 25_000_000
"""Characters times the size of the pattern's program per second, where it is slowest."""


class TooMuch(Exception):
    """An error for a check that would take too long."""


class _Local(threading.local):
    left = float("inf")


_local = _Local()


def allow(seconds: float) -> None:
    """Set the pattern budget, in seconds, of the check that this thread begins; work beyond it raises TooMuch."""
    _local.left = seconds * STEPS_PER_SECOND


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
    if len(pattern) > LONGEST:
        raise ValueError(_("a pattern can have at most %(most)d characters") % {"most": LONGEST})
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        unusable = _("the pattern %(pattern)s cannot be used (%(why)s)")
        raise ValueError(unusable % {"pattern": pattern[:100], "why": reason[:200]}) from None

    search, size = compiled.search, compiled.programsize

    def matches(text: str) -> bool:
        left = _local.left - size * len(text)
        if left < 0:
            raise TooMuch
        _local.left = left
        try:
            return search(text) is not None
        except UnicodeEncodeError:  # a lone surrogate is no text that a pattern could mean
            return False

    return matches
