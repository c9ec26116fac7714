"""What is left of requests and connections in the process that runs this tool."""

from __future__ import annotations

import gc
from collections import Counter

from catalog.functions import tool

KINDS = ("BegunCall", "Connection", "EdgeChannel", "EdgeRequest", "EdgeWebSocketProtocol", "EventStream", "Exchange")


@tool()
def count_left(stop: bool = False) -> dict[str, int]:
    """Counts objects by kind, this call's own included; with `stop`, the garbage collector never runs again."""
    if stop:
        gc.collect()
        gc.disable()
    return Counter(name for one in gc.get_objects() if (name := type(one).__qualname__) in KINDS)
