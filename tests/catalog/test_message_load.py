"""What a sender outside costs the event loop is bounded, message by message and over time."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from catalog.message_load import (
    LINE_VALUES,
    MESSAGE_VALUES,
    VALUES_PER_SECOND,
    MessageLoad,
    MessageLoads,
    TooManyValues,
)
from toolhub.wire.json_size import MAX_VALUES


def make_message(values: int) -> bytes:
    return b"[" + b"1," * (values - 1) + b"1]"


async def measure(work: list[bytes], load: MessageLoad) -> float:
    begun = time.monotonic()
    for message in work:
        await load.read_whole(message)
    return time.monotonic() - begun


async def test_one_large_message_waits_for_nothing_and_a_flood_of_them_does() -> None:
    load = MessageLoad()
    large = make_message(MAX_VALUES * 9 // 10)
    async with asyncio.timeout(20):
        seconds = await measure([large, make_message(VALUES_PER_SECOND * 2 // 5)], load)
    assert seconds >= 0.19


async def test_many_small_messages_and_empty_lines_count_as_well() -> None:
    small = [b"{}"] * (MAX_VALUES // MESSAGE_VALUES)
    seconds = await measure([*small, *[b"{}"] * (VALUES_PER_SECOND // MESSAGE_VALUES // 5)], MessageLoad())
    assert seconds >= 0.19
    load, begun = MessageLoad(), time.monotonic()
    for _ in range(12):
        await load.read_lines(b"\n" * (VALUES_PER_SECOND // LINE_VALUES // 5))
    assert time.monotonic() - begun >= 0.39


async def test_events_of_a_stream_count_as_messages() -> None:
    read, begun = MessageLoad().watch(True), time.monotonic()
    events = b"".join(b"event: x\ndata: {}\n\n" for _ in range(1000))
    for _ in range(3):
        await read(events)
    cost = 3 * 1000 * (1 + MESSAGE_VALUES + 3 * LINE_VALUES)
    assert time.monotonic() - begun >= (cost - MAX_VALUES) / VALUES_PER_SECOND * 0.9


@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_message_with_too_many_values_is_rejected(pieces: int) -> None:
    message = make_message(MAX_VALUES + 1)
    with pytest.raises(TooManyValues, match="more than 200000 values"):
        await MessageLoad().read_whole(message)
    read = MessageLoad().watch(False)
    size = -(-len(message) // pieces)
    for start in range(0, len(message) - size, size):
        await read(message[start : start + size])
    with pytest.raises(TooManyValues):
        await read(message[(pieces - 1) * size :])


async def test_the_lines_of_a_body_cost_nothing() -> None:
    read, begun = MessageLoad().watch(False), time.monotonic()
    await read(b"[\n" + b"\n" * 4_000_000 + b"]")
    assert time.monotonic() - begun < 100


async def test_text_costs_as_little_as_it_takes() -> None:
    text = b'["' + b"a,b,c[" * 1_000_000 + b'"]'
    seconds = await measure([text] * 4, MessageLoad())
    assert 0.39 <= seconds < 100, "24 MB are more than may come at once, and none of it counts as values"


def test_all_connections_to_one_upstream_share_its_load_while_there_are_any() -> None:
    loads = MessageLoads()
    first = loads.of(1)
    assert loads.of(1) is first and loads.of(2) is not first
    first._ready_at = 5.0
    del first
    gc.collect()
    assert loads.of(1)._ready_at == 0.0
