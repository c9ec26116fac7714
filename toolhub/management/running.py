"""One worker process, from its first moment to its last."""

from __future__ import annotations

import gc
import logging

from django.conf import settings

from audit import recorder
from toolhub.asgi import application, hub
from toolhub.management.serving import HubServer

log = logging.getLogger("toolhub.serving")

GARBAGE_AFTER = 20_000
"""Objects made before the collector looks at the youngest ones. With Python's own 700 it took a quarter of the time of
a server under load, mostly in going through what was loaded at the start and never changes (measured)."""


async def start() -> None:
    await hub.start()
    # Opening the record now, not at the first call, ends what a crashed process left open.
    if reason := await recorder.ready():
        log.error("Calls cannot be logged: %s", reason)
    spare_what_stays()


def spare_what_stays() -> None:
    """Keep the garbage collector away from all that is loaded by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, 10, 10)


def serve(endpoints: list[str], supervisor: int | None = None) -> int:
    """Serve `endpoints` (Twisted's descriptions) until SIGTERM or SIGINT; returns the exit status.

    A worker whose `supervisor` (a process id) is gone stops too: nobody would replace it or pass signals on.
    """
    server = HubServer(
        application,
        endpoints=endpoints,
        on_start=start,
        supervisor=supervisor,
        on_stop=lambda: hub.stop(settings.STOP_SECONDS),
        server_name="",
        ping_interval=20,
        ping_timeout=30,
        # Whose token it is may take as long to look up as a call to record: no handshake ends before that.
        websocket_handshake_timeout=settings.RECORD_SECONDS + 5,
        websocket_connect_timeout=settings.RECORD_SECONDS + 20,
        websocket_max_message_size=settings.MAX_BODY_BYTES,
        websocket_max_frame_size=settings.MAX_BODY_BYTES,
    )
    server.run()
    return server.exit_status
