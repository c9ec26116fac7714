"""Logging of admin activity, with the actor of the current request and without secrets, and of signing in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest

from audit.actions import actor as actors
from audit.actions import ledger
from audit.models import Action
from audit.redaction import redactor

Recorded: TypeAlias = Action
"""A logged action, for `record_again`."""


class _Encoder(DjangoJSONEncoder):
    """JSON encoder that converts times to UTC: those from a form are in the zone of the user who filled it in."""

    def default(self, o: Any) -> Any:
        return super().default(o.astimezone(UTC) if isinstance(o, datetime) and o.tzinfo else o)


_redactor = redactor.redactor(None, redactor.REDACTED)


def record(
    verb: str,
    kind: str,
    target: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    *,
    actor: str | None = None,
) -> None:
    """Log one admin change, in the transaction of the change itself: both are kept, or neither is."""
    name = actor if actor is not None else actors.current().name
    ledger.write(name[:200], verb, kind, redactor.redact_text(target)[:500], _redact(before), _redact(after))


def recorded() -> list[Recorded]:
    """Return all actions of the default database, oldest first; for a copy of it in which a change was prepared."""
    return list(Action.objects.order_by("link"))


def record_again(actions: Sequence[Recorded]) -> None:
    """Log actions that `recorded` returned, in the transaction of the change itself."""
    ledger.write_again(actions)


def _redact(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    plain: dict[str, Any] = _redactor.value(json.loads(json.dumps(dict(values), cls=_Encoder)))
    return plain


def connect_signals() -> None:
    """Log every sign-in, sign-out and failed sign-in."""
    user_logged_in.connect(_log_sign_in, dispatch_uid="audit.actions.log.signed_in")
    user_logged_out.connect(_log_sign_out, dispatch_uid="audit.actions.log.signed_out")
    user_login_failed.connect(_log_failed_sign_in, dispatch_uid="audit.actions.log.sign_in_failed")


def _client_address(request: HttpRequest | None) -> str:
    return actors.client_address() if request is None else str(request.META.get("REMOTE_ADDR") or "")


def _describe_attempt(request: HttpRequest | None) -> dict[str, str]:
    """Return the client's address, and the method where the page of the sign-in named one."""
    method = getattr(request, "sign_in_method", "")
    return {"address": _client_address(request)} | ({"with": method} if method else {})


def _log_sign_in(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    name = user.get_username()
    record("signed in", "session", name, None, _describe_attempt(request), actor=name)


def _log_sign_out(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    if user is not None:
        name = user.get_username()
        record("signed out", "session", name, None, {"address": _client_address(request)}, actor=name)


def _log_failed_sign_in(*, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    users = get_user_model()
    name = str(credentials.get(users.USERNAME_FIELD) or credentials.get("username") or "")
    # Users may type their password into the wrong field: an unknown username is stored as a digest only.
    known = not name or users._default_manager.filter(**{users.USERNAME_FIELD: name}).exists()
    target = name if known else redactor.rules().inline(name)
    record("failed to sign in", "session", target, None, _describe_attempt(request), actor="nobody signed in")
