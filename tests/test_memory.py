"""Memory that is no longer used goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolhub import memory

ROOT = Path(__file__).resolve().parents[1]
BUFFERS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from toolhub.memory import resident_bytes, return_large_buffers
return_large_buffers()
THREADS, BYTES = 16, 15_000_000
together = Barrier(THREADS)
def use_buffer(index):
    together.wait()
    buffer = bytearray(BYTES)
    together.wait()
with ThreadPoolExecutor(THREADS) as pool:
    before = resident_bytes()
    for _ in range(5):
        list(pool.map(use_buffer, range(THREADS)))
    print(resident_bytes() - before)
"""
PAGES = """
from toolhub.memory import FreePages, resident_bytes
pages = FreePages()
objects = [bytearray(20_000) for _ in range(10_000)]
full = resident_bytes()
del objects[::2]
kept = resident_bytes()
pages.give_back()
print(full, kept, resident_bytes())
"""


def run(code: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_large_buffers_of_many_threads_are_given_back_when_they_are_freed() -> None:
    (grown,) = run(BUFFERS)
    assert grown < 20_000_000


def test_free_pages_between_smaller_objects_are_given_back() -> None:
    full, kept, after = run(PAGES)
    assert kept > full - 20_000_000, "the C library keeps them by itself"
    assert after < kept - 40_000_000


@pytest.mark.parametrize(
    ("past", "amount"), [("_bytes", memory.MAX_GROWTH_BYTES), ("_at", memory.MAX_AGE_SECONDS)], ids=["growth", "time"]
)
def test_free_pages_are_looked_for_after_growth_or_a_while(past: str, amount: float) -> None:
    pages, asked = memory.FreePages(), list[int]()
    pages._trim = asked.append
    pages.give_back()
    assert asked == []
    setattr(pages, past, getattr(pages, past) - amount)
    pages.give_back()
    pages.give_back()
    assert asked == [0]


def test_the_memory_of_this_process_is_read_in_bytes() -> None:
    before = memory.resident_bytes()
    held = bytearray(50_000_000)
    assert 40_000_000 < memory.resident_bytes() - before < 80_000_000
    assert len(held) == 50_000_000
