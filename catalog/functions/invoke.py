"""Calling of registered functions: on the event loop, or in a thread when not async. Independent of the audit log."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from catalog import threads
from catalog.functions.context import Context, SyncContext
from catalog.functions.signatures import Function


async def invoke(function: Function, arguments: dict[str, Any], context: Context) -> Any:
    """Call a registered function: a coroutine function here, any other in a thread."""
    given = function.bind(arguments)
    if function.is_async:
        if function.context is not None:
            given[function.context] = context
        return await function.call(**given)
    around = SyncContext(context, asyncio.get_running_loop())
    if function.context is not None:
        given[function.context] = around
    try:
        return await threads.tools().run(functools.partial(function.call, **given), user_id=context.caller.user_id)
    except asyncio.CancelledError:
        around.release()
        raise
