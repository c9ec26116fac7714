"""Steps of a connection to an upstream server, reported as they begin and end: a page shows them live. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

from toolhub import egress
from toolhub.egress.addresses import is_address

Step = Literal["resolve", "connect", "tls", "initialize", "tool", "resource", "prompt"]
Report: TypeAlias = Callable[[Step, bool, int | None], object]
"""Called with a step, whether it ended, and how many items it found."""
_EVENTS: dict[str, tuple[Step, bool]] = {
    "connection.connect_tcp.complete": ("connect", True),
    "connection.start_tls.started": ("tls", False),
    "connection.start_tls.complete": ("tls", True),
    "http11.send_request_headers.started": ("initialize", False),
    "http2.send_request_headers.started": ("initialize", False),
}
"""Events of the HTTP library, and the beginning or end of a step."""


class Steps:
    """The steps of one connection: the first time of each counts, later requests may open further connections."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._begun: set[Step] = set()
        self._ended: set[Step] = set()

    def begin(self, step: Step) -> None:
        if self._report is not None and step not in self._begun:
            self._begun.add(step)
            self._report(step, False, None)

    def end(self, step: Step, number: int | None = None) -> None:
        if self._report is not None and step in self._begun and step not in self._ended:
            self._ended.add(step)
            self._report(step, True, number)

    def watch_resolver(self, resolve: egress.Resolver) -> egress.Resolver:
        """Return a resolver that reports the look-up of a name, and the connection that follows."""

        async def resolve_and_report(host: str, port: int) -> Sequence[str]:
            self.begin("resolve")
            found = await resolve(host, port)
            self.end("resolve")
            self.begin("connect")
            return found

        return resolve_and_report if self._report is not None else resolve

    def trace(self) -> Callable[[str, Any], Awaitable[None]] | None:
        """Return the function that the HTTP library calls with each event; None when nobody listens."""

        async def hear(event: str, details: Any) -> None:
            if event == "connection.connect_tcp.started" and is_address(details["host"]):
                self.begin("connect")  # without a look-up
            elif event in _EVENTS:
                step, ended = _EVENTS[event]
                (self.end if ended else self.begin)(step)

        return hear if self._report is not None else None
