"""Authentication of identity providers by their provisioning tokens."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from toolhub import client_address
from toolhub.access import bearer, throttle
from toolhub.access.models import digest_of
from toolhub.access.personal_tokens import LAST_USED_SECONDS
from toolhub.access.token_errors import BadToken
from toolhub.scim.errors import ScimError
from toolhub.scim.models import ScimToken

log = logging.getLogger(__name__)

PATTERN = re.compile(r"thi_[A-Za-z0-9_-]{43}")


def authenticate(request: HttpRequest) -> ScimToken:
    """Return the token of a request, and note that it was used. Raises ScimError."""
    try:
        text = bearer.from_header(request.headers.get("Authorization"))
    except BadToken:
        raise _reject(sent=False) from None
    address = str(request.META.get("REMOTE_ADDR") or "")
    token = _find(text)
    if token is None:
        raise _count_invalid(address)
    if seconds := throttle.reserve(
        [throttle.Counter("provisioning", str(token.pk), settings.PROVISIONING_RATE)]
    ).seconds:
        raise ScimError(
            429, f"Too many requests with this token. Try again in {seconds} s.", headers={"Retry-After": str(seconds)}
        )
    if not token.provider.enabled:
        raise ScimError(403, f'The identity provider "{token.provider}" is switched off here.')
    if not token.provider.issuer:
        raise ScimError(403, f'The identity provider "{token.provider}" has no issuer here: enter it in the admin.')
    _mark_used(token, address)
    return token


def _find(text: str) -> ScimToken | None:
    if not PATTERN.fullmatch(text):
        return None
    return ScimToken.objects.usable().select_related("provider").filter(digest=digest_of(text)).first()


def _count_invalid(address: str) -> ScimError:
    """Count an invalid token, together with those at /mcp, and return the answer to it."""
    source = client_address.counted(address)
    log.info("a provisioning token was rejected (from %s)", address or "an unknown address")
    seconds = throttle.wait_seconds("bad-token", source, settings.BAD_TOKENS_RATE, count=False) if source else 0
    if seconds:
        text = f"Too many invalid tokens came from this address. Try again in {seconds} s."
        return ScimError(429, text, headers={"Retry-After": str(seconds)})
    if source:
        throttle.wait_seconds("bad-token", source, settings.BAD_TOKENS_RATE, count=True)
    return _reject(sent=True)


def _reject(*, sent: bool) -> ScimError:
    error = ', error="invalid_token"' if sent else ""
    return ScimError(
        401,
        "A valid provisioning token is required: Authorization: Bearer thi_...",
        headers={"WWW-Authenticate": f'Bearer realm="toolhub provisioning"{error}'},
    )


def _mark_used(token: ScimToken, address: str) -> None:
    now = timezone.now()
    recent = Q(last_used__gt=now - timedelta(seconds=LAST_USED_SECONDS), last_address=address[:64])
    ScimToken.objects.filter(pk=token.pk).exclude(recent).update(last_used=now, last_address=address[:64])
