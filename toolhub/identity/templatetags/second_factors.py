"""Template tags about passkeys and second factors."""

from __future__ import annotations

from django import template

from toolhub.identity.mfa import factors
from toolhub.identity.mfa_adapter import origin

register = template.Library()


@register.simple_tag
def passkey_origin() -> str:
    """Return the web origin at which passkeys work."""
    return origin()


@register.simple_tag
def has_second_factor(user_id: int) -> bool:
    return factors.has_any(user_id)
