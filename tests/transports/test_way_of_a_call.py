"""The way of one call through the code is the one that ARCHITECTURE.md describes: no file more, no file less."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.test_architecture import ROOT
from toolhub.access.bearer import Authenticator
from toolhub.parts import parts

ARCHITECTURE = ROOT / ".github" / "ARCHITECTURE.md"
ROW = re.compile(r"^\| `((?:audit|catalog|toolhub)/[\w/]+\.py)` \| `([^`]+)` \|", re.MULTILINE)
OURS = tuple(str(ROOT / name) + "/" for name in ("audit", "catalog", "toolhub"))
MAX_FILES = 46


class Trace:
    """The files of ours whose functions are entered while `on`, in any thread that started after `install`."""

    def __init__(self) -> None:
        self.on = False
        self.files: dict[str, set[str]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(OURS):
            file = str(Path(frame.f_code.co_filename).relative_to(ROOT))
            self.files.setdefault(file, set()).add(frame.f_code.co_name)


@pytest.fixture
def trace() -> Iterator[Trace]:
    """Before the audit log's writer starts with the first call: its thread is on the way as well."""
    found = Trace()
    threading.setprofile(found)
    sys.setprofile(found)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)


@pytest.mark.django_db(transaction=True)
async def test_a_call_passes_the_files_that_the_architecture_names_and_no_other(trace: Trace, with_tools: Any) -> None:
    alice = await with_tools("t_add")
    call = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    await alice.modern("tools/call", call)
    authenticator = parts.get(Authenticator)
    while authenticator.cached(alice.token) is None:  # making the token may have been announced after its look-up
        await alice.modern("tools/call", call)
    trace.on = True
    answer = await alice.modern("tools/call", call)
    trace.on = False
    assert answer.status == 200, answer.body
    described = {file: names.split(", ") for file, names in ROW.findall(ARCHITECTURE.read_text(encoding="utf-8"))}
    assert set(trace.files) == set(described), "\n".join(
        f"{file}: {', '.join(sorted(names))}" for file, names in sorted(trace.files.items())
    )
    absent = [(file, name) for file, names in described.items() for name in names
              if name.islower() and name not in trace.files[file]]  # fmt: skip
    assert absent == []
    assert len(described) <= MAX_FILES
