"""The actor of admin activity: the user signed in to the current request, or the running command.

Only a reference to the request is kept; its user is read when a change is logged, so that a page without changes needs
no database query.
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
    """A name for the audit log, and the id of the user if there is one."""

    name: str
    id: int | None = None


_request: ContextVar[HttpRequest | None] = ContextVar("audit_request", default=None)
_overriding_actor: ContextVar[Actor | None] = ContextVar("audit_acting", default=None)


class ActorMiddleware:
    """Middleware that keeps the current request; it must follow AuthenticationMiddleware, which sets `request.user`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = _request.set(request)
        try:
            return self.get_response(request)
        finally:
            _request.reset(token)


@contextmanager
def override(name: str, id: int | None = None) -> Iterator[None]:
    """Attribute every change in the block to this actor: for commands and background work."""
    token = _overriding_actor.set(Actor(name, id))
    try:
        yield
    finally:
        _overriding_actor.reset(token)


def current() -> Actor:
    """Return the actor to log. Never empty: outside of requests and commands, the actor is the process itself."""
    if (actor := _overriding_actor.get()) is not None:
        return actor
    request = _request.get()
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return Actor(user.get_username(), user.pk)
    if request is not None:
        return Actor("nobody signed in")
    return Actor(_describe_process())


def current_user() -> Any | None:
    """Return the user of the current request (perhaps an anonymous one).

    Return None outside of a request, and in a block that acts for somebody or something else.
    """
    if _overriding_actor.get() is not None:
        return None
    request = _request.get()
    return None if request is None else getattr(request, "user", None)


def client_address() -> str:
    """Return the IP address of the current request's client; "" outside of a request."""
    request = _request.get()
    return "" if request is None else str(request.META.get("REMOTE_ADDR") or "")


def _describe_process() -> str:
    program = PurePath(sys.argv[0]).name if sys.argv else ""
    if program in {"manage.py", "django-admin"} and len(sys.argv) > 1:
        return f"command {sys.argv[1]}"
    return "toolhub"
