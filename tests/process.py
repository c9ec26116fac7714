"""Parts of the process for one test."""

from __future__ import annotations

from typing import TypeVar

import pytest

from toolhub.parts import parts

T = TypeVar("T")


def replace_part(monkeypatch: pytest.MonkeyPatch, part: T) -> T:
    """Give the process this part, in place of the one of its kind, for the length of the test."""
    monkeypatch.setitem(parts._parts, type(part), part)
    return part
