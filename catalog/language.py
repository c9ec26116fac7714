"""English for clients, the audit log and log lines, whatever the language of the page behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from django.utils.translation import get_language, override

ENGLISH: Final = "en"
P = ParamSpec("P")
T = TypeVar("T")


def in_english(work: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a coroutine function that produces all its sentences in English."""

    @wraps(work)
    async def english(*args: P.args, **named: P.kwargs) -> T:
        if get_language() == ENGLISH:
            return await work(*args, **named)
        with override(ENGLISH):
            return await work(*args, **named)

    return english


__all__ = ["ENGLISH", "in_english"]
