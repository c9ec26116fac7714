"""A server of tests in a process of its own: a module that prints its address as soon as it listens."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Self

import httpx2

from tests.real_servers import ROOT


class ModuleServer:
    """Runs `python -m MODULE ARGUMENTS`, which answers POST /control with JSON."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.command = [sys.executable, "-m", module, *arguments]
        self.url = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, f"{self.command[2]} did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def post_control(self, wanted: dict[str, Any]) -> dict[str, Any]:
        reply = httpx2.post(f"{self.url}/control", json=wanted, trust_env=False)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found
