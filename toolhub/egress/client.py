"""One request, one complete answer, one deadline over name, connection, headers and body."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpcore2
import httpx2
from django.utils.translation import gettext_noop as _

from toolhub import __version__

from .addresses import AllowList
from .connections import ConnectionPools, Resolver
from .errors import DeadlineExceeded, Denied, EgressError, TooLarge, Unreachable
from .urls import parse_url

__all__ = ["Reply", "fetch"]


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*\Z")
_CHARSETS: Final = (
    *("ascii", "us-ascii", "utf-16", "iso-8859-", "latin", "windows-"),
    *("shift_jis", "euc-", "gb", "big5", "koi8-"),
)
# They belong to the connection, or name the target of the request.
_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive"}
    | {"proxy-authorization", "proxy-connection", "accept-encoding"}
)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    """Lower-case names; repeated headers joined with a comma."""
    body: bytes
    media_type: str
    """`application/json` and the like, lower-case, without parameters; "" if there is none."""

    @property
    def text(self) -> str:
        """Return the body in its declared charset, if that is a common one, else as UTF-8; never fails."""
        match = re.search(r"charset=\"?([\w.:-]+)", self.headers.get("content-type", ""), re.IGNORECASE)
        charset = match[1].lower() if match else "utf-8"
        # Python's other codecs are unsafe: some fail on any input, some take quadratic time.
        if charset.startswith(_CHARSETS):
            with contextlib.suppress(LookupError):
                return self.body.decode(charset, "replace")
        return self.body.decode("utf-8", "replace")


async def fetch(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    timeout: float,
    max_bytes: int,
    resolver: Resolver,
    allowed: AllowList = (),
    ssl_context: ssl.SSLContext | None = None,
    pools: ConnectionPools | None = None,
) -> Reply:
    """Send one request and return its complete answer, whatever its status; redirects are not followed.

    Connections are kept in `pools` for the next request; without pools of this event loop, the connection is closed
    after the request.
    """
    shared = pools if pools is not None and pools.belong_to_running_loop() else None
    used = ConnectionPools() if shared is None else shared
    used.belong_to_running_loop()
    try:
        return await _fetch(used, method, url, headers, content, timeout, max_bytes, allowed, resolver, ssl_context)
    finally:
        if shared is None:
            await used.close()


async def _fetch(
    pools: ConnectionPools,
    method: str,
    url: str,
    headers: Mapping[str, str] | None,
    content: bytes | None,
    timeout: float,
    max_bytes: int,
    allowed: AllowList,
    resolver: Resolver,
    ssl_context: ssl.SSLContext | None,
) -> Reply:
    target = parse_url(url)
    request = httpcore2.Request(
        method,
        httpcore2.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path),
        headers=_headers(method, target, headers or {}, content),
        content=content or b"",
    )
    pool = await pools.pool_for(target, allowed, resolver, ssl_context)
    try:
        async with asyncio.timeout(timeout):
            response = await pool.handle_async_request(request)
            try:
                return await _read(response, max_bytes, bodiless=method == "HEAD")
            finally:
                # A body that was not read to its end closes its connection, also when the call is cancelled.
                await response.aclose()
    except TimeoutError:
        late = _("%(host)s did not answer within %(seconds)g seconds")
        raise DeadlineExceeded(late, host=target.host, seconds=timeout) from None
    except httpcore2.TimeoutException:
        raise DeadlineExceeded(_("%(host)s did not answer in time"), host=target.host) from None
    except httpcore2.ConnectError as error:
        untrusted = _("%(host)s has no valid certificate")
        reason = untrusted if _is_tls_error(error) else _("%(host)s cannot be reached")
        raise Unreachable(reason, host=target.host) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise Unreachable(_("%(host)s closed the connection, or did not answer with HTTP"), host=target.host) from error


def _is_tls_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _headers(
    method: str, target: httpx2.URL, given: Mapping[str, str], content: bytes | None
) -> list[tuple[bytes, bytes]]:
    if method not in _METHODS:
        raise Denied(_("the HTTP method %(method)s is not allowed"), method=repr(method))
    lines = [(b"host", target.netloc), (b"accept-encoding", b"gzip")]
    names = {name.lower() for name in given}
    if "user-agent" not in names:
        lines.append((b"user-agent", f"toolhub/{__version__}".encode()))
    if "accept" not in names:
        lines.append((b"accept", b"*/*"))
    for name, value in given.items():
        if not _TOKEN.match(name) or not _HEADER_VALUE.match(value):
            raise Denied(_("the header %(name)s contains characters that HTTP does not allow"), name=repr(name))
        if name.lower() in _OWN_HEADERS:
            raise Denied(_("the header %(name)s cannot be set"), name=name)
        lines.append((name.encode(), value.strip().encode()))
    if content is not None or method in ("POST", "PUT", "PATCH"):
        lines.append((b"content-length", b"%d" % len(content or b"")))
    return lines


async def _read(response: httpcore2.Response, max_bytes: int, *, bodiless: bool) -> Reply:
    headers: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    unpack = _Unpacker("" if bodiless else headers.get("content-encoding", ""), max_bytes)
    announced = headers.get("content-length", "")
    if not bodiless and announced.isascii() and announced.isdigit() and int(announced[:20]) > unpack.max_raw:
        raise TooLarge(_("the response is larger than %(most)d bytes"), most=max_bytes)
    async for chunk in response.aiter_stream():
        unpack.feed(chunk)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return Reply(response.status, headers, unpack.finish(), media_type)


class _Unpacker:
    """A collector of a body up to its cap, counted after unpacking; it never unpacks more than that."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._packed = encoding.strip().lower() in ("gzip", "x-gzip", "deflate")
        if not self._packed and encoding.strip().lower() not in ("", "identity"):
            raise EgressError(_("the response uses an encoding that was not requested"))
        self._max = max_bytes
        self.max_raw = max_bytes + 1024 if self._packed else max_bytes
        self._raw = 0
        self._body = bytearray()
        self._inflate = zlib.decompressobj(wbits=47)

    def feed(self, chunk: bytes) -> None:
        self._raw += len(chunk)
        if self._raw > self.max_raw:
            raise TooLarge(_("the response is larger than %(most)d bytes"), most=self._max)
        if not self._packed:
            self._body += chunk
            return
        try:
            while chunk:
                if self._inflate.eof:
                    if not chunk.startswith(b"\x1f\x8b"):
                        return  # padding after the last member
                    self._inflate = zlib.decompressobj(wbits=47)
                self._body += self._inflate.decompress(chunk, self._max - len(self._body) + 1)
                if len(self._body) > self._max:
                    raise TooLarge(_("the decompressed response is larger than %(most)d bytes"), most=self._max)
                chunk = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        except zlib.error:
            raise EgressError(_("the response is not compressed as its header says")) from None

    def finish(self) -> bytes:
        if self._packed and self._raw and not self._inflate.eof:
            raise EgressError(_("the response ended before its compressed body was complete"))
        return bytes(self._body)
