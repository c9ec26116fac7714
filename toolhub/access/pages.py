"""Pages for browsers that stray: the one that opens /mcp, and refusals in the look of the rest."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header


def mcp_help(accepted: str = "") -> bytes:
    """What a browser that accepts these languages sees at /mcp. Made once for each that there is; needs no database."""
    return _mcp_help(_language(accepted))


def _language(accepted: str) -> str:
    """The first of an Accept-Language header that the pages are written in."""
    for code, _quality in parse_accept_lang_header(accepted.lower()):
        with suppress(LookupError):
            return get_supported_language_variant(code)
    return settings.LANGUAGE_CODE


@cache
def _mcp_help(language: str) -> bytes:
    with translation.override(language):
        return render_to_string("access/mcp_help.html", {"mcp_url": f"{settings.PUBLIC_URL}/mcp"}).encode()
