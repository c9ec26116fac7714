"""The same checks under an httpx2 client, for clients of other protocols that bring their own HTTP (MCP).

Every URL is checked, every connection goes to a checked address, nothing is compressed, and an answer that is not an
event stream has a cap. The client itself must not follow redirects or use proxies: build it with `checked_client`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import httpx2
from django.utils.translation import gettext_noop as _

from .addresses import AllowList
from .connections import Resolver, default_ssl_context, new_pool
from .errors import DeniedAddress, EgressError, TooLarge
from .urls import parse_url

MAX_CONNECTIONS = 16
KEEP_ALIVE_SECONDS = 15.0
Watch: TypeAlias = Callable[[bool], Callable[[bytes], Awaitable[None]]]
"""Called for every response, with whether it is an event stream: returns the function that is awaited with each piece
before it is passed on. An EgressError that it raises ends the response."""

Trace: TypeAlias = Callable[[str, Any], Awaitable[None]]
"""Awaited with every event of the HTTP library, such as "connection.connect_tcp.started", and its details."""
OnStatus: TypeAlias = Callable[[httpx2.Request, int], None]
"""Called with the request and the status of every response, for clients of other protocols that do not pass it on."""


class EgressTransportError(httpx2.TransportError):
    """An EgressError inside a client that knows its own errors only; `reason` is not for the caller."""

    def __init__(self, error: EgressError, request: httpx2.Request | None = None) -> None:
        super().__init__(str(error), request=request)
        self.reason: str = getattr(error, "reason", "")
        self.error = error

    @property
    def localized_message(self) -> str:
        return self.error.localized_message


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream, self._remaining_bytes, self._max_bytes = stream, max_bytes, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._remaining_bytes -= len(chunk)
            if self._remaining_bytes < 0:
                raise EgressTransportError(
                    TooLarge(_("the response is larger than %(most)d bytes"), most=self._max_bytes)
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _WatchedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, read: Callable[[bytes], Awaitable[None]]) -> None:
        self._stream, self._read = stream, read

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            try:
                await self._read(piece)
            except EgressError as error:
                raise EgressTransportError(error) from None
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class CheckedTransport(httpx2.AsyncHTTPTransport):
    def __init__(
        self,
        allowed: AllowList,
        resolver: Resolver,
        context: ssl.SSLContext,
        max_bytes: int,
        watch: Watch | None = None,
        on_status: OnStatus | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(verify=context, trust_env=False)
        # A pool of its own, not that of `fetch`: it ends with this client, which belongs to one user and one token.
        self._pool = new_pool(allowed, resolver, context, MAX_CONNECTIONS, KEEP_ALIVE_SECONDS)
        self._max_bytes, self._watch, self._on_status, self._trace = max_bytes, watch, on_status, trace

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            parse_url(str(request.url))
            request.headers["accept-encoding"] = "identity"
            if self._trace is not None:
                request.extensions = {**request.extensions, "trace": self._trace}
            response = await super().handle_async_request(request)
        except EgressError as error:
            raise EgressTransportError(error, request) from None
        if self._on_status is not None:
            self._on_status(request, response.status_code)
        if response.has_redirect_location:
            await response.aclose()
            led_on = _("%(host)s sent a redirect (HTTP status %(status)d), which is not followed")
            raise EgressTransportError(
                DeniedAddress(led_on, host=request.url.host, status=response.status_code), request
            )
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise EgressTransportError(
                EgressError(_("the response is compressed, but compression was not requested")), request
            )
        streaming = response.headers.get("content-type", "").strip().lower().startswith("text/event-stream")
        if not streaming and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _CappedStream(response.stream, self._max_bytes)
        if self._watch is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _WatchedStream(response.stream, self._watch(streaming))
        return response


def checked_client(
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    read_timeout: float | None = None,
    max_bytes: int,
    resolver: Resolver,
    allowed: AllowList = (),
    ssl_context: ssl.SSLContext | None = None,
    watch: Watch | None = None,
    on_status: OnStatus | None = None,
    trace: Trace | None = None,
) -> httpx2.AsyncClient:
    """Return a client with these checks.

    `read_timeout` is the maximum silence of a stream in seconds; None: unlimited.
    """
    return httpx2.AsyncClient(
        headers=dict(headers or {}),
        timeout=httpx2.Timeout(timeout, read=read_timeout),
        transport=CheckedTransport(
            allowed, resolver, ssl_context or default_ssl_context(), max_bytes, watch, on_status, trace
        ),
        follow_redirects=False,
        trust_env=False,
    )
