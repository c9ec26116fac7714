"""The person to ask for help, on pages: `{% contact as contact %}` before a sentence with `{{ contact }}`."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from toolhub.contact import link

register = template.Library()


@register.simple_tag
def contact() -> SafeString:
    """Return the name of the contact, linked to the address."""
    return link()
