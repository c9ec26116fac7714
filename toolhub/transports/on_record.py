"""An attempt that is refused before it is dispatched, for its session or its envelope, is on record like any other."""

from __future__ import annotations

import logging

from audit.caller import Caller
from audit.recorder import CannotRecord
from toolhub.server import refusals
from toolhub.server.peer import Peer
from toolhub.transports.exchange import Exchange
from toolhub.wire import jsonrpc

log = logging.getLogger(__name__)


async def refused(request: jsonrpc.Request, exchange: Exchange, revision: str, why: str) -> None:
    if request.method not in refusals.ATTEMPTS:
        return
    caller = Caller(exchange.credential, "http", revision, exchange.address)
    try:
        await refusals.record(request, Peer(caller, "modern", revision, {}), why)
    except CannotRecord as cannot:
        # Nothing runs, so the refusal stands; the log keeps what the record cannot.
        log.warning("A refusal could not be recorded: %s", cannot.reason)
