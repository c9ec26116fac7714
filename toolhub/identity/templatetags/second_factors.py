"""Template tags about passkeys and second factors."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from toolhub.identity.mfa import factors
from toolhub.identity.mfa_adapter import origin

register = template.Library()


@register.simple_tag
def passkey_origin() -> str:
    """Return the web origin at which passkeys work."""
    return origin()


@register.simple_tag
def passkey_attributes() -> SafeString:
    """Return the attributes of a form for passkey.js: the web origin, and what it says when something fails."""
    return format_html(
        'data-origin="{}" data-cancelled="{}" data-known="{}" data-failed="{}"',
        origin(),
        gettext("No passkey was used. Try again, or choose another way."),
        gettext("This device has a passkey for your account already."),
        gettext("The passkey could not be used. Reload the page and try again."),
    )


@register.simple_tag
def has_second_factor(user_id: int) -> bool:
    return factors.has_any(user_id)
