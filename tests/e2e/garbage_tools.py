"""What is left of requests and connections in the process that runs this tool."""

from __future__ import annotations

import gc
from collections import Counter
from itertools import chain

from catalog.functions import tool

KINDS = ("BegunCall", "Connection", "EdgeChannel", "EdgeRequest", "EdgeWebSocketProtocol", "EventStream", "Exchange")


@tool()
def count_left(stop: bool = False) -> dict[str, int]:
    """Counts objects by kind, this call's own included; with `stop`, the garbage collector never runs again."""
    if stop:
        gc.collect()
        gc.disable()
    return Counter(kind.__qualname__ for kind in _list_types() if kind.__qualname__ in KINDS)


def _list_types() -> list[type]:
    """Return the type of each object.

    In one step, in which no other thread runs: an object that lives longer because it is counted is a cursor in another
    thread whose statement goes on, and "cannot commit transaction - SQL statements in progress" is what SQLite says
    there.
    """
    return list(map(type, chain.from_iterable(map(gc.get_objects, [None]))))
