"""Jobs that a process repeats in the background, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """Work that is repeated every so many seconds."""

    name: str
    every_seconds: float
    run: Callable[[], None]
