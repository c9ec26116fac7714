"""An event loop that no tool can end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger("toolhub.serving")
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end in a loop of its own, like `asyncio.run`, and return its result."""
    with asyncio.Runner() as runner:
        survive_exits(runner.get_loop())
        return runner.run(work)


def survive_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` continue after a SystemExit or KeyboardInterrupt of any task or callback.

    Only `stop` ends it, and the end of what `run_until_complete` was given. asyncio raises both exceptions out of the
    running loop, so a task that a tool made would end the hub with all its calls. Who awaits that task still gets the
    exception. Call this before the loop runs.
    """
    run, run_to_end, stop = loop.run_forever, loop.run_until_complete, loop.stop
    stopping = False
    main: asyncio.Future[Any] | None = None

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
                    # asyncio relies on this exception to end the loop when it ended the main task, too.
                    if main is not None and main.done():
                        raise
                    log.exception("A task tried to end the server, which continues")
                    if not stopping:
                        continue
                return
        finally:
            stopping = False

    def run_until_complete(work: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:
        nonlocal main
        main = asyncio.ensure_future(work, loop=loop)
        try:
            return run_to_end(main)
        finally:
            main = None

    loop.stop, loop.run_forever = stop_and_remember, run_forever  # type: ignore[method-assign]
    loop.run_until_complete = run_until_complete  # type: ignore[method-assign,assignment]
