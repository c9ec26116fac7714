"""Checks of a connection before authentication.

Consumers run outside Django's middleware, so Host and Origin are checked here, against the same settings. Host and
Origin together stop a web page from reaching this server through the reader's own browser (DNS rebinding). A missing
Origin passes: AI clients send none. Cookies are never read.

An attempt that is rejected before it is dispatched, for its session or its envelope, is logged like any other.

The connection check page of the client's owner is notified of a rejected client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from audit.recorder import AuditLogUnavailable
from audit.types import Caller
from toolhub.access.token_errors import BadToken, TooManyBadTokens, TooManyLookups
from toolhub.server import errors
from toolhub.server.peer import Peer
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.transports.asgi import Headers, Scope
from toolhub.transports.exchange import Exchange
from toolhub.transports.uploads import FREE_BYTES
from toolhub.wire import jsonrpc

SINGLE_HEADERS = frozenset(
    {
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "origin",
    }
)
"""Headers that affect decisions: duplicates would let a proxy and this server understand different requests."""


CODES_BY_STATUS = {405: "verb", 406: "accept", 413: "large", 415: "content_type", 503: "unavailable"}


class Rejection(Exception):
    """An error with the HTTP status and the sentence of the answer; nothing else happens."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Headers | None = None,
        *,
        code: str = "",
        owner: tuple[int, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or []
        self.code, self.owner = code or CODES_BY_STATUS.get(status, "request"), owner
        """For the connection check: a code for the problem, and the token's owner if known."""


def retry_after(error: TooManyRequests) -> Headers:
    return [(b"retry-after", b"%d" % error.retry_after)]


def read_headers(scope: Scope) -> dict[str, str]:
    """Return headers by lower-case name. Raises Rejection for duplicates of a header that affects decisions."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in headers:
            if name in SINGLE_HEADERS or name.startswith("mcp-param-"):
                raise Rejection(400, f"The header {name} must be sent once.")
            headers[name] = f"{headers[name]}, {value}"
        else:
            headers[name] = value
    return headers


def check(headers: dict[str, str]) -> None:
    """Check Host and Origin. Raises Rejection for a Host that is not ours or an Origin that is foreign."""
    host = headers.get("host")
    if host is None or not is_own_host(host, tuple(settings.ALLOWED_HOSTS)):
        raise Rejection(
            400,
            "This server does not answer for that host. The operator can add it to TOOLHUB_ALLOWED_HOSTS.",
            code="host",
        )
    origin = headers.get("origin")
    if origin is not None and not is_own_origin(
        origin, settings.PUBLIC_URL, tuple(settings.ALLOWED_ORIGINS), tuple(settings.ALLOWED_HOSTS)
    ):
        raise Rejection(
            403,
            "Web pages of this origin may not use this server. The operator can add it to TOOLHUB_ALLOWED_ORIGINS.",
            code="origin",
        )


@lru_cache(maxsize=1024)
def is_own_host(host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether the host is allowed, with any port."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, list(allowed))


@lru_cache(maxsize=1024)
def is_own_origin(origin: str, public_url: str, origins: tuple[str, ...], hosts: tuple[str, ...]) -> bool:
    lowered = origin.strip().lower()
    if lowered in origins:
        return True
    try:
        parts, public = urlsplit(lowered), urlsplit(public_url.lower())
        if (
            parts.scheme not in {"http", "https"}
            or lowered != f"{parts.scheme}://{parts.netloc}"
            or "@" in parts.netloc
        ):
            return False
        _ = parts.port
    except ValueError:
        return False
    if (parts.scheme, parts.netloc) == (public.scheme, public.netloc):
        return True
    # "*" is no permission for calls from a browser.
    return is_own_host(parts.netloc, tuple(host for host in hosts if host != "*"))


def cors(headers: dict[str, str]) -> Headers:
    """Return the headers that an allowed web page needs in order to read the answer."""
    origin = headers.get("origin")
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate, Retry-After"),
        (b"vary", b"Origin"),
    ]


PREFLIGHT: Headers = [
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-max-age", b"600"),
]


def preflight(headers: dict[str, str]) -> Headers:
    """Return the headers of the answer to OPTIONS: the requested headers are allowed, as the origin already is."""
    wanted = headers.get("access-control-request-headers", "")
    allowed = wanted if all(character.isalnum() or character in "-, " for character in wanted) else ""
    return [*cors(headers), *PREFLIGHT, (b"access-control-allow-headers", allowed.encode("latin-1", "ignore"))]


@lru_cache(maxsize=256)
def parse_accept(accept: str | None) -> tuple[bool, bool, bool]:
    """Return (JSON, event stream, web page) as accepted by an Accept header; without one, the first two are True."""
    if accept is None or not accept.strip():
        return True, True, False
    kinds = set()
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if not any(parameter.replace(" ", "") in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for parameter in parameters):
            kinds.add(kind)
    anything = "*/*" in kinds
    return (
        anything or bool(kinds & {"application/json", "application/*"}),
        anything or bool(kinds & {"text/event-stream", "text/*"}),
        bool(kinds & {"text/html", "application/xhtml+xml"}),
    )


@lru_cache(maxsize=256)
def is_json(content_type: str | None) -> bool:
    """Return whether this is application/json in UTF-8: anything else is 415, which also rejects plain HTML forms."""
    kind, *parameters = (piece.strip().lower() for piece in (content_type or "").split(";"))
    charsets = [p.partition("=")[2].strip().strip('"') for p in parameters if p.partition("=")[0].strip() == "charset"]
    return kind == "application/json" and all(charset in {"utf-8", "utf8"} for charset in charsets)


def check_encoding(headers: dict[str, str]) -> None:
    """Check that the body is sent as it is. Raises Rejection: another reader would take it for something else."""
    if headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
        raise Rejection(415, "The body must be sent without a Content-Encoding.", [(b"accept-encoding", b"identity")])


def check_announced_size(headers: dict[str, str]) -> None:
    """Check the announced size of the body. Raises Rejection when it is larger than allowed."""
    length = headers.get("content-length")
    if length is None:
        return
    if not (length.isascii() and length.isdecimal()):
        raise Rejection(400, "The Content-Length is not a number.")
    if int(length[:20]) > settings.MAX_BODY_BYTES:
        raise too_large()


def too_large() -> Rejection:
    return Rejection(413, f"The body is larger than {settings.MAX_BODY_BYTES:,} bytes.")


async def read_body(receive: Any, announced: str | None, grow: Callable[[int], None]) -> bytes | None:
    """Read the whole body; return None when the client disconnected. Raises Rejection when it is too large.

    `grow` is called with the size so far, or as announced, of a larger body, before more of it is read.
    """
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > settings.MAX_BODY_BYTES:
            raise too_large()
        if len(body) > FREE_BYTES:
            grow(len(body))
        return body
    received = bytearray()
    expected = int(announced or 0)
    while message["type"] == "http.request":
        received += message.get("body", b"")
        size = len(received)
        if size > settings.MAX_BODY_BYTES:
            raise too_large()
        if size > FREE_BYTES or expected > FREE_BYTES:
            grow(max(size, expected))
        if not message.get("more_body"):
            return bytes(received)
        message = await receive()
    return None


log = logging.getLogger(__name__)


async def log_rejected(request: jsonrpc.Request, exchange: Exchange, revision: str, reason: str) -> None:
    if request.method not in errors.LOGGED_METHODS:
        return
    caller = Caller(exchange.credential, "http", revision, exchange.address)
    try:
        await errors.log_rejected(request, Peer(caller, "modern", revision, {}), reason)
    except AuditLogUnavailable as cannot:
        # No call runs, so the denial stands; the server log keeps the error that the audit log cannot.
        log.warning("A denied request could not be logged: %s", cannot.reason)


def count_bad_token(server: ServerRole, bad: BadToken, address: str) -> None:
    """Count a token that was not looked up, because of a bound of its address."""
    if isinstance(bad, TooManyLookups):
        server.refuse("lookups", address)
    elif isinstance(bad, TooManyBadTokens):
        server.refuse("invalid_tokens", address)


def report_rejected(server: ServerRole, address: str, rejected: Exception) -> None:
    """Notify the connection check of a rejected client; costs nothing unless such a page is open."""
    if server.pages.keys and isinstance(rejected, Rejection | BadToken):
        user_id, credential = rejected.owner or (None, None)
        server.connect_check.report_rejected(address, rejected.code, user_id, credential)
