"""The URLs that requests may go to, and parameters as parts of a URL."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import httpx2
from django.utils.translation import gettext_noop as _

from .addresses import is_address
from .errors import Denied, DeniedAddress

MAX_URL_CHARACTERS: Final = 8192

_FORBIDDEN_IN_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC_LABEL: Final = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z")


def parse_url(url: str) -> httpx2.URL:
    """Return `url` if it is a plain http or https URL. Raises DeniedAddress otherwise."""
    if len(url) > MAX_URL_CHARACTERS:
        raise DeniedAddress(_("the URL is longer than %(most)d characters"), most=MAX_URL_CHARACTERS)
    if _FORBIDDEN_IN_URL.search(url):
        raise DeniedAddress(_("the URL contains a space, a backslash or a control character"))
    try:
        parsed = httpx2.URL(url)
        host, port = parsed.raw_host.decode("ascii"), parsed.port
    except (httpx2.InvalidURL, ValueError):
        raise DeniedAddress(_("this is not a URL")) from None
    if parsed.scheme not in ("http", "https"):
        raise DeniedAddress(_("only http and https URLs are allowed"))
    if parsed.userinfo or "@" in url.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0]:
        raise DeniedAddress(_("the URL must not contain a user name or password"))
    if not host or (port is not None and not 1 <= port <= 65535):
        raise DeniedAddress(_("the URL has no host, or its port is not valid"))
    if "%" in host:
        raise DeniedAddress(_("the host must not contain a network interface"))
    # 0x7f.1, 2130706433, 127.1: parsers disagree about these.
    if _NUMERIC_LABEL.match(host.rstrip(".").rpartition(".")[2]) and not is_address(host):
        raise DeniedAddress(
            _("%(host)s is not a valid address. Write IPv4 addresses as four numbers, such as 192.0.2.1"), host=host
        )
    return parsed


def origin_of(url: str) -> str:
    """Return scheme, host and, unless it is the default, port of a URL. Raises DeniedAddress for an unusable URL.

    The host is in lower case and in ASCII, as requests send it.
    """
    parsed = parse_url(url)
    host = parsed.raw_host.decode("ascii").lower()
    port = "" if parsed.port in (None, 443 if parsed.scheme == "https" else 80) else f":{parsed.port}"
    return f"{parsed.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def ensure_below(base: str, url: str) -> str:
    """Return `url` in its final spelling if it has the origin of `base` and a path below it.

    The final URL is checked, however it was put together.
    """
    root, final = parse_url(base), parse_url(url)
    prefix = root.path.rstrip("/")
    if (root.scheme, root.raw_host, root.port) != (final.scheme, final.raw_host, final.port):
        raise DeniedAddress(_("the URL points to a host other than the tool's own"))
    if final.path.rstrip("/") != prefix and not final.path.startswith(prefix + "/"):
        raise DeniedAddress(_("the URL is outside the tool's base path"))
    return str(final)


def safe_path_value(value: object) -> str:
    """Return one parameter as one quoted path segment. Raises Denied when it could address another segment."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise Denied(_("a value in a path must be text or a number"))
    if text in ("", ".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", text):
        odd = _("a value in a path must not be empty, '.' or '..', nor contain slashes or control characters")
        raise Denied(odd)
    return quote(text, safe="")
