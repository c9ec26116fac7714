"""Redirect addresses of clients: which ones are accepted, and what a person is told about them.

https anywhere, http to the own computer only (RFC 8252, section 7.3), and the schemes of applications that
TOOLHUB_CLIENT_SCHEMES lists (section 7.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings

from toolhub.oauth.resources import ISSUER

MAX_ADDRESSES = 10
MAX_CHARACTERS = 2_000
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_ADDRESS = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")
"""RFC 3986 without the fragment."""
HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""A name in ASCII (others as punycode), or an IPv4 address."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an answer goes, for the person who decides."""

    kind: str
    """`web`, `computer` (a program on the person's own) or `app` (the application that opens the scheme)."""
    name: str
    """The host, with its port unless it is the usual one, or the scheme."""


def find_problem(address: object) -> str:
    """Return what is wrong with a redirect address, in English for the client's developer; "" for an accepted one."""
    if not isinstance(address, str) or not 0 < len(address) <= MAX_CHARACTERS or not _ADDRESS.fullmatch(address):
        return f"each must be an absolute URI of at most {MAX_CHARACTERS:,} characters, without a fragment"
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return "one is no valid URI"
    scheme, host = parts.scheme, parts.hostname or ""
    if scheme and not address.startswith(scheme):
        return "the scheme must be in lower case"
    if scheme in {"http", "https"}:
        if "@" in parts.netloc:
            return "a user name or password is not allowed"
        if host in LOOPBACK_HOSTS:
            return ""
        if scheme == "http":
            return "http is accepted for localhost, 127.0.0.1 and [::1] only; use https"
        return "" if HOST.fullmatch(host) or _is_ipv6(host) else "one has no valid host"
    if scheme in settings.CLIENT_SCHEMES:
        return ""
    return f"the scheme {scheme[:30]!r} is not accepted; the operator can list it in TOOLHUB_CLIENT_SCHEMES"


def _is_ipv6(host: str) -> bool:
    return ":" in host


def hosts_of(addresses: Iterable[str]) -> set[str]:
    """Return the hosts, and the schemes of applications with a colon at the end."""
    found = set()
    for address in addresses:
        parts = urlsplit(address)
        found.add((parts.hostname or "") if parts.scheme in {"http", "https"} else f"{parts.scheme}:")
    return found


def describe(address: str) -> Destination:
    """Return where an accepted address leads."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"}:
        return Destination("app", f"{parts.scheme}:")
    host = parts.hostname or ""
    if host in LOOPBACK_HOSTS:
        return Destination("computer", host)
    return Destination("web", host if parts.port in {None, 443} else f"{host}:{parts.port}")


def policy_source(address: str) -> str:
    """Return the source expression of a Content-Security-Policy for this address.

    Browsers apply `form-action` to the redirect after a form, too (measured with Chromium). A policy has no spelling
    for IPv6 addresses, nor for the address of an application: their scheme stands for them.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or _is_ipv6(host):
        return f"{parts.scheme}:"
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


def add_issuer(address: str) -> str:
    """Return an authorization response with `iss` (RFC 9207), which success and errors need alike."""
    parts = urlsplit(address)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "iss"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("iss", ISSUER)])))
