"""One worker process, from its start to its exit."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time

from django.conf import settings

from audit import recorder
from audit.background import BackgroundTask, Pacer
from toolhub import memory
from toolhub.asgi import application, hub
from toolhub.management import first_pages
from toolhub.management.daphne_server import HubServer

log = logging.getLogger("toolhub.serving")

GARBAGE_THRESHOLD_OBJECTS = 20_000
"""Number of new objects that triggers a collection of the youngest generation. With Python's own 700, collections took
a quarter of the time of a server under load, mostly in traversing objects that were loaded at the start and never
change (measured).
"""
EXIT_SECONDS = 3.0


async def start() -> None:
    await hub.start()
    # Opening the audit log now, not at the first call, closes the calls that a crashed process left open.
    if reason := await recorder.ready():
        log.error("Calls cannot be logged: %s", reason)
    freeze_loaded_objects()
    BackgroundTask("first-pages", _load_first_pages).start()


def _load_first_pages() -> None:
    began = time.monotonic()
    first_pages.load(Pacer().pause)
    log.info("The first pages were loaded in %.1f s", time.monotonic() - began)


def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD_OBJECTS, 10, 10)


def serve(endpoints: list[str], supervisor: int | None = None) -> int:
    """Serve `endpoints` (Twisted's descriptions) until SIGTERM or SIGINT; return the exit status.

    A worker also stops when its `supervisor` (a process id) is gone: no process would replace it or forward signals.
    """
    memory.return_large_buffers()
    server = HubServer(
        application,
        endpoints=endpoints,
        on_start=start,
        supervisor=supervisor,
        connections=hub.edge,
        on_stop=lambda: hub.stop(settings.STOP_SECONDS),
        server_name="",
        ping_interval=20,
        ping_timeout=30,
        # Looking up a token may take as long as logging a call: no handshake may time out before that.
        websocket_handshake_timeout=settings.RECORD_SECONDS + 5,
        websocket_connect_timeout=settings.RECORD_SECONDS + 20,
        websocket_max_message_size=settings.MAX_BODY_BYTES,
        websocket_max_frame_size=settings.MAX_BODY_BYTES,
    )
    server.run()
    exit_within(EXIT_SECONDS, server.exit_status)
    return server.exit_status


def exit_within(seconds: float, status: int) -> None:
    """End the process after `seconds` if it has not ended by itself.

    A page that was being made when the event loop stopped leaves its thread waiting for that loop, and Python waits for
    every such thread.
    """
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()
