"""Who acts: the person signed in to the request at hand, or the command that runs.

The request is only remembered; its user is looked up when something is written down, so that a page that changes
nothing asks the database nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase


@dataclass(frozen=True, slots=True)
class Actor:
    """A name for the record, and the account it belongs to if there is one."""

    name: str
    id: int | None = None


_request: ContextVar[HttpRequest | None] = ContextVar("audit_request", default=None)
_acting: ContextVar[Actor | None] = ContextVar("audit_acting", default=None)


class ActorMiddleware:
    """After AuthenticationMiddleware, whose `request.user` it relies on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = _request.set(request)
        try:
            return self.get_response(request)
        finally:
            _request.reset(token)


@contextmanager
def acting(name: str, id: int | None = None) -> Iterator[None]:
    """Everything inside is done by this actor: for commands and background work."""
    token = _acting.set(Actor(name, id))
    try:
        yield
    finally:
        _acting.reset(token)


def current() -> Actor:
    """The actor to write down. Never empty: what nobody asked for was done by the process itself."""
    if (actor := _acting.get()) is not None:
        return actor
    request = _request.get()
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return Actor(user.get_username(), user.pk)
    if request is not None:
        return Actor("nobody signed in")
    return Actor(_command())


def signed_in() -> Any | None:
    """The account behind the request at hand (perhaps an anonymous one); None outside of a request."""
    request = _request.get()
    return None if request is None else getattr(request, "user", None)


def address() -> str:
    """Where the request at hand comes from, "" outside of one."""
    request = _request.get()
    return "" if request is None else str(request.META.get("REMOTE_ADDR") or "")


def _command() -> str:
    program = PurePath(sys.argv[0]).name if sys.argv else ""
    if program in {"manage.py", "django-admin"} and len(sys.argv) > 1:
        return f"command {sys.argv[1]}"
    return "toolhub"
