"""JSON Schema of tools: rules to store one (`check`) and the compiled check of arguments (`validator`, `find_problem`).

A quick check runs on the event loop; a longer one goes on in a thread, with a time limit, also for schemas that were
stored before there were limits.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from catalog import threads
from catalog.canonical import dumps
from catalog.schemas import errors, full_check, patterns, schema_rules
from catalog.schemas.errors import SchemaProblem
from catalog.schemas.flat_check import compile_flat
from catalog.schemas.full_check import compile_full
from catalog.schemas.schema_rules import check, check_result, check_stored, reject

__all__ = [
    "MAX_ARGUMENTS_SECONDS",
    "MAX_RESULT_SECONDS",
    "Check",
    "check",
    "check_defaults",
    "check_result",
    "check_stored",
    "drop_wrong_defaults",
    "find_others",
    "find_problem",
    "validator",
]

MAX_COMPILED = 20_000
MAX_INLINE_BYTES = 16_384
MAX_INLINE_FLAT_BYTES = 262_144
MAX_LOOP_SECONDS = 0.02
MAX_ARGUMENTS_SECONDS = 0.2
"""Limit of processor time, in a thread."""
MAX_RESULT_SECONDS = 2.0
"""Limit for results, which are larger, and come from sources that the administrator chose."""
TOO_MUCH = SchemaProblem((), errors.TOO_COMPLEX)
UNUSABLE = SchemaProblem((), errors.UNUSABLE)
MAX_SHOWN_CHARACTERS = 100
"""Number of characters of a wrong default that its refusal shows."""
log = logging.getLogger(__name__)

_lock = threading.Lock()
_compiled: OrderedDict[str, Check] = OrderedDict()
"""A bounded cache of values that follow from their key alone: it belongs to no part of the process."""


def check_defaults(schema: Any) -> None:
    """Raise ValidationError with a sentence when a default breaks the schema that it belongs to.

    For schemas that are written here: a client would send such a default and be denied. A schema that `check_result`
    rejects is left to it.
    """
    try:
        check_result(schema)
    except ValidationError:
        return
    try:
        wrong = full_check.find_wrong_defaults(schema)
    except patterns.BudgetError:
        reject(_("The defaults of the schema take too long to check. Simplify it."))
    if wrong:
        part = schema_rules.subschemas(schema)[wrong[0]]
        value = "..." if errors.is_secret(part) else dumps(part["default"])[:MAX_SHOWN_CHARACTERS]
        sentence = _("The default %(value)s at %(where)s does not fit the schema there. Change one of the two.")
        reject(sentence, f"{wrong[0]}/default", where=wrong[0] or _("the root"), value=value)


def drop_wrong_defaults(schema: dict[str, Any]) -> list[str]:
    """Remove the defaults that break their schema, from a schema that was checked; return their JSON pointers."""
    parts = schema_rules.subschemas(schema)
    try:
        wrong = full_check.find_wrong_defaults(schema)
    except patterns.BudgetError:
        wrong = [pointer for pointer, part in parts.items() if "default" in part]
    for pointer in wrong:
        del parts[pointer]["default"]
    return wrong


class Check:
    """A compiled schema; a call returns None, or the problem that names the field and what was expected."""

    __slots__ = ("_collect", "_flat", "_full", "_has_patterns", "_schema", "flat")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._flat = self._full = None
        self._collect: Callable[[Any, float], list[SchemaProblem]] | None = None
        self._schema = schema
        try:
            self._flat = compile_flat(schema)
            self._full = None if self._flat is not None else compile_full(schema)
        except (ValidationError, ValueError, TypeError, AttributeError, RecursionError) as error:
            log.warning("a stored schema cannot be used: %s", error)
        self.flat = self._flat is not None
        self._has_patterns = "pattern" in repr(schema)

    def __call__(self, value: Any, seconds: float = MAX_ARGUMENTS_SECONDS) -> SchemaProblem | None:
        """Return the problem of `value` or None; TOO_MUCH after `seconds` of processor time."""
        try:
            if self._flat is not None:
                if self._has_patterns:
                    patterns.set_regex_budget(seconds)
                return self._flat(value)
            return UNUSABLE if self._full is None else self._full(value, seconds)
        except patterns.BudgetError:
            return TOO_MUCH
        except (TypeError, ValueError, AttributeError, KeyError, LookupError) as error:
            log.warning("a stored schema cannot be used: %s: %s", type(error).__name__, error)
            return UNUSABLE

    def find_others(self, value: Any, first: SchemaProblem, seconds: float) -> SchemaProblem:
        """Return `first` with the other problems of `value`, or instead of it what the schema itself says."""
        try:
            if self._collect is None:
                self._collect = full_check.compile_collector(self._schema)
            found = self._collect(value, seconds)
        except (ValidationError, TypeError, ValueError, AttributeError, LookupError) as error:
            log.warning("the problems of a value cannot be collected: %s: %s", type(error).__name__, error)
            return first
        if not found:
            return first
        # The first one may be of an alternative that was not meant, or have no words of the schema's own.
        same = next((one for one in found if (one.path, one.code) == (first.path, first.code)), None)
        main = first if same is not None else next((one for one in found if one.path == first.path), found[0])
        rest = [one for one in found if (one.path, one.code) != (main.path, main.code)]
        return replace(main, others=tuple(rest))


def validator(definition_hash: str, schema: dict[str, Any]) -> Check:
    """Return the check of one definition, compiled once.

    The hash must not be that of another schema: for a tool's output, for example, prefix it.
    """
    found = _compiled.get(definition_hash)
    if found is None:
        found = Check(schema)
        with _lock:
            _compiled[definition_hash] = found
            if len(_compiled) > MAX_COMPILED:
                _compiled.popitem(last=False)
    return found


async def find_problem(
    check: Check, value: Any, size: int, seconds: float = MAX_ARGUMENTS_SECONDS, user_id: int | None = None
) -> SchemaProblem | None:
    """Return the problem of a value of about `size` bytes, or None, without blocking the event loop.

    A large one is checked in one of the threads, for `user_id` in one of the threads of that user.
    """
    if size <= (MAX_INLINE_FLAT_BYTES if check.flat else MAX_INLINE_BYTES):
        found = check(value, MAX_LOOP_SECONDS)
        if found is not TOO_MUCH:
            return found
    try:
        return await threads.checks().run(lambda: check(value, seconds), user_id=user_id)
    except threads.Busy:
        return SchemaProblem((), errors.BUSY)


async def find_others(
    check: Check, value: Any, size: int, first: SchemaProblem, user_id: int | None = None
) -> SchemaProblem:
    """Return what `find_problem` found in arguments, with the other problems beside it."""
    if first.code in errors.WHOLE_CODES:
        return first
    if size <= MAX_INLINE_BYTES:
        return check.find_others(value, first, MAX_LOOP_SECONDS)
    try:
        find = functools.partial(check.find_others, value, first, MAX_ARGUMENTS_SECONDS)
        return await threads.checks().run(find, user_id=user_id)
    except threads.Busy:
        return first
