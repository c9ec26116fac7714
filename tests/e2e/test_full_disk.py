"""A file system that is really full: what clients are told, what the server logs, and that nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client import HttpClient, RpcError
from tests.e2e import seed
from tests.polling import wait_until, wait_until_async
from tests.real_servers import Hub

MODERN = "2026-07-28"
CALLS = 3
SIZE = "12m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator of the machine can mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all that is left, but for not even one block."""
    filler = folder / "filler"
    descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, b"x" * 4096)
    os.close(descriptor)
    return filler


async def test_a_full_disk_is_named_to_clients_and_logged_in_a_few_lines(small_disk: Path, tmp_path: Path) -> None:
    env = {
        "TOOLHUB_DATA_DIR": str(small_disk / "data"),
        "TOOLHUB_MIN_FREE_MB": "0",  # as when the disk becomes full faster than anybody looks
        "TOOLHUB_TOOL_MODULES": "tests.e2e.functions",
    }
    with Hub(env=env, seed=seed.seed_examples) as hub:  # a traceback in its log fails the test
        async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as client:
            marks = [tmp_path / f"started-{number}" for number in range(CALLS)]
            running = [asyncio.create_task(client.text("wait", {"seconds": 3, "started": str(mark)})) for mark in marks]
            await wait_until_async(lambda: all(mark.exists() for mark in marks))
            filler = fill(small_disk)
            with pytest.raises(RpcError, match="calls cannot be logged now: the disk"):
                await client.text("add", {"a": 1, "b": 2})
            for ended in await asyncio.gather(*running, return_exceptions=True):
                assert isinstance(ended, RpcError), ended
                assert "The tool ran, but the end of the call cannot be logged" in str(ended)
                assert "No space left on device" in str(ended) and "Internal error" not in str(ended)
            assert hub.get("/readyz")[0] == 503
            filler.unlink()
            wait_until(lambda: hub.get("/readyz")[0] == 200)
            assert await client.text("add", {"a": 1, "b": 2}) == "3"
        problems = [
            line for line in hub.log().splitlines() if "ERROR" in line or "WARNING" in line or "CRITICAL" in line
        ]
        assert len(problems) <= 5 + 3 * CALLS, "\n".join(problems)
        assert hub.call(seed.count_calls, name="wait", outcome="ok") == CALLS
        assert json.loads(hub.manage("verifycalls", "--json"))["ok"]
