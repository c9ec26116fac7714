"""The identity providers that are configured, in the admin or in the environment."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse

from audit.actions import actor
from toolhub.identity.models import Provider

ENVIRONMENT_SLUG = "sso"

log = logging.getLogger(__name__)


def list_enabled() -> list[Provider]:
    """Return the providers that people can sign in with now."""
    sync_environment()
    return list(Provider.objects.filter(enabled=True))


def find(slug: str) -> Provider | None:
    """Return the provider with this short name, on or off."""
    if slug == ENVIRONMENT_SLUG:
        sync_environment()
    return Provider.objects.filter(slug=slug).first()


def callback_url(slug: str) -> str:
    """Return the address to which an OpenID Connect provider, or GitHub, sends people back."""
    return f"{settings.PUBLIC_URL}{reverse('identity:callback', args=[slug])}"


def sync_environment() -> None:
    """Bring the row of the provider in the environment in line with TOOLHUB_OIDC_*, or turn it off without them."""
    stored = Provider.objects.filter(from_environment=True).first()
    wanted: dict[str, Any] = {"enabled": False}
    if settings.OIDC_ISSUER:
        wanted = {
            "enabled": True,
            "name": settings.OIDC_NAME,
            "kind": Provider.Kind.OPENID,
            "issuer": settings.OIDC_ISSUER,
            "client_id": settings.OIDC_CLIENT_ID,
            "scopes": settings.OIDC_SCOPES,
            "groups_claim": settings.OIDC_GROUPS_CLAIM,
            "subject_claim": settings.OIDC_SUBJECT_CLAIM,
        }
    elif stored is None:
        return
    if stored is not None and all(getattr(stored, name) == value for name, value in wanted.items()):
        return
    row = stored or Provider(slug=ENVIRONMENT_SLUG, from_environment=True)
    for name, value in wanted.items():
        setattr(row, name, value)
    try:
        with transaction.atomic(), actor.override("environment"):
            row.save()
    except IntegrityError:
        if not Provider.objects.filter(from_environment=True).exists():  # otherwise another process was faster
            # The sign-in page asks, too, and people must reach it: with their passwords they can repair this.
            log.error("TOOLHUB_OIDC_ISSUER is not used: rename the identity provider whose short name is %s.", row.slug)
