"""Pages for misdirected browsers: the help page at /mcp, and rejections in the design of the other pages."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header


def mcp_help(accepted: str = "") -> bytes:
    """Return the page for a browser at /mcp, in one of these languages.

    It is rendered once for each language, and needs no database.
    """
    return _mcp_help(_language(accepted))


def _language(accepted: str) -> str:
    """Return the first language of an Accept-Language header that the pages support."""
    for code, _quality in parse_accept_lang_header(accepted.lower()):
        with suppress(LookupError):
            return get_supported_language_variant(code)
    return settings.LANGUAGE_CODE


@cache
def _mcp_help(language: str) -> bytes:
    with translation.override(language):
        return render_to_string("access/mcp_help.html", {"mcp_url": f"{settings.PUBLIC_URL}/mcp"}).encode()
