"""An event loop that no tool can end."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger("toolhub.serving")


def survive_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` continue after a SystemExit or KeyboardInterrupt of any task or callback; only `stop` ends it.

    asyncio raises both out of the running loop, so a task that a tool made would end the hub with all its calls. Who
    awaits that task still gets the exception. Call this before the loop runs.
    """
    run, stop = loop.run_forever, loop.stop
    stopping = False

    def stop_and_remember() -> None:
        nonlocal stopping
        stopping = True
        stop()

    def run_forever() -> None:
        nonlocal stopping
        try:
            while True:
                try:
                    run()
                except (SystemExit, KeyboardInterrupt):
                    log.exception("A task tried to end the server, which continues")
                    if not stopping:
                        continue
                return
        finally:
            stopping = False

    loop.stop, loop.run_forever = stop_and_remember, run_forever  # type: ignore[method-assign]
