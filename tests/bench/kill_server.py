"""Kill a real server at random moments while clients call over HTTP and WebSocket, and look at what is left.

    python -m tests.bench.kill --server --kills 200 --seed 1 [--postgres]

The server is `manage.py serve` as it is shipped: on SQLite one process, on PostgreSQL and Redis two workers, of which
one is killed at a time, or the supervisor alone (its workers must then stop by themselves), or all of them together.
The called tool writes its call's id into a ledger, with fsync, and answers with it. After the last kill the server is
started once more, and has to end by itself what the dead left open. See `judge` for what has to be true.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.polling import wait_until
from tests.real_servers import ROOT, START_SECONDS, Hub

REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"
CALL = {
    "jsonrpc": "2.0",
    "method": "tools/call",
    "params": {
        "name": "note_call",
        "arguments": {},
        "_meta": {
            f"{META}protocolVersion": REVISION,
            f"{META}clientInfo": {"name": "kill", "version": "1"},
            f"{META}clientCapabilities": {},
        },
    },
}
HTTP_CLIENTS, WEBSOCKET_CLIENTS = 6, 2


def seed() -> str:
    """The tool, for a user with a token."""
    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast(days=7)
    grant_tool("note_call", ["alice"])
    return tokens["alice"]


def judge(acknowledged: str, ledger: str) -> dict[str, Any]:
    """What is logged, against what the clients and the tool saw: `problems` is empty when all promises were kept."""
    from audit.models import Call

    found = {id.hex: outcome for id, outcome in Call.objects.values_list("pk", "outcome")}
    answered, ran = read_ids(acknowledged), read_ids(ledger)
    problems = []
    if lost := [id for id in answered if found.get(id) != "ok"]:
        problems.append(f"{len(lost)} acknowledged calls are not 'ok', first {min(lost)}: {found.get(min(lost))}")
    if unrecorded := ran - set(found):
        problems.append(f"{len(unrecorded)} calls ran and are not on record, first {min(unrecorded)}")
    if unseen := answered - ran:
        problems.append(f"{len(unseen)} calls were answered and did not run, first {min(unseen)}")
    if still := [id for id, outcome in found.items() if outcome == "running"]:
        problems.append(f"{len(still)} calls have no outcome, first {min(still)}")
    unknown = sum(outcome == "unknown" for outcome in found.values())
    return {
        "calls": len(found),
        "acknowledged": len(answered),
        "ran": len(ran),
        "unknown": unknown,
        "problems": problems,
    }


def count_running() -> int:
    from audit.models import Call

    return Call.objects.filter(outcome="running").count()


def read_ids(path: str) -> set[str]:
    file = Path(path)
    return {line for line in file.read_text().splitlines() if len(line) == 32} if file.exists() else set()


class Clients:
    """Threads that call without a pause worth mentioning, and write down whatever they are answered."""

    def __init__(self, hub: Hub, file: Path) -> None:
        self.hub, self.file = hub, file
        self.answered = 0
        self.errors: dict[str, int] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        work = [self.over_http] * HTTP_CLIENTS + [self.over_websocket] * WEBSOCKET_CLIENTS
        self._threads = [threading.Thread(target=target, daemon=True) for target in work]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def wait_for_more(self, number: int = 1) -> None:
        """Returns when so many more calls were answered."""
        wanted = self.answered + number
        wait_until(lambda: self.answered >= wanted, START_SECONDS, f"answers; instead of some: {self.errors}")

    def note(self, message: dict[str, Any]) -> None:
        result: dict[str, Any] = message.get("result") or {"isError": True, "content": []}
        with self._lock:
            if result.get("isError"):
                text = json.dumps(message.get("error") or result["content"])[:200]
                self.errors[text] = self.errors.get(text, 0) + 1
                return
            with self.file.open("a") as file:
                file.write(result["content"][0]["text"] + "\n")
            self.answered += 1

    def over_http(self) -> None:
        headers = {
            "Authorization": f"Bearer {self.hub.seeded}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "note_call",
        }
        body = json.dumps({**CALL, "id": 1})
        while not self._ended.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=30)
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
                while not self._ended.is_set():
                    connection.request("POST", "/mcp", body, headers)
                    content = connection.getresponse().read()
                    if content.startswith(b"{"):
                        self.note(json.loads(content))
                    else:
                        for line in content.splitlines():
                            if line.startswith(b"data: {"):
                                self.note(json.loads(line[6:]))
                    self._ended.wait(random.random() * 0.01)
            self._ended.wait(0.05)

    def over_websocket(self) -> None:
        headers = {"Authorization": f"Bearer {self.hub.seeded}"}
        protocols = [Subprotocol("mcp")]
        while not self._ended.is_set():
            with (
                contextlib.suppress(OSError, WebSocketException, EOFError),
                connect(self.hub.ws_url, subprotocols=protocols, additional_headers=headers, proxy=None) as socket,
            ):
                for number in range(1_000_000):
                    if self._ended.is_set():
                        break
                    socket.send(json.dumps({**CALL, "id": number}))
                    message = json.loads(socket.recv(timeout=30))
                    if message.get("id") == number:
                        self.note(message)
                    self._ended.wait(random.random() * 0.01)
            self._ended.wait(0.05)


def strike(hub: Hub, chance: random.Random, struck: int) -> tuple[str, int]:
    """Kill something; what it was, and how many workers this supervisor has lost by now."""
    assert hub.process is not None
    kinds = ["all"]
    if hub.workers > 1:
        # A supervisor waits longer and longer before it replaces workers that die soon after their start.
        kinds = ["worker"] * 6 + ["supervisor", "all"] if struck < 2 else ["supervisor", "all", "all"]
    kind = chance.choice(kinds)
    if kind == "worker" and (workers := hub.worker_pids()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
        return kind, struck + 1
    if kind == "supervisor":
        workers = hub.worker_pids()
        hub.process.kill()
        hub.process.wait()
        if chance.random() < 0.5:
            # Nobody tells them: they notice it, end their calls and go.
            wait_until(lambda: not any(map(is_alive, workers)), 120, "the end of the workers")
    hub.kill()
    return kind, 0


def is_alive(pid: int) -> bool:
    """Whether the process still does something: one that ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run(kills: int, seed_number: int, postgres: bool, seconds: float = float("inf")) -> dict[str, Any]:
    """So many kills, or as many as there is time for: `kills` of the answer says how many it were."""
    chance = random.Random(seed_number)
    began = time.monotonic()
    workers = 2 if postgres else 1
    hub = Hub(workers=workers, postgres=postgres, redis=postgres, seed=seed)
    head, ledger, answers = hub.folder / "heads.jsonl", hub.folder / "ledger", hub.folder / "answers"
    hub.extra = {
        "TOOLHUB_TOOL_MODULES": "tests.bench.kill_tools",
        "TOOLHUB_CHECKPOINT_SECONDS": "1",
        "TOOLHUB_CHECKPOINT_FILE": str(head),
        "TOOLHUB_STOP_SECONDS": "2",
        "KILL_LEDGER": str(ledger),
    }
    counted: dict[str, int] = {}
    with hub:
        clients = Clients(hub, answers)
        try:
            struck = 0
            deadline = time.monotonic() + seconds
            while sum(counted.values()) < kills and time.monotonic() < deadline:
                if chance.random() < 0.85:
                    clients.wait_for_more(chance.randrange(1, 40))
                # Else soon after the start, when it opens its chain and closes what the dead left.
                time.sleep(chance.random() * chance.choice((0.02, 0.3, 1.0)))
                kind, struck = strike(hub, chance, struck)
                counted[kind] = counted.get(kind, 0) + 1
                if hub.process is None or hub.process.poll() is not None:
                    hub.launch()
                    if chance.random() < 0.85:
                        hub.wait_until_ready()
                    else:
                        hub.wait_until_listening()
            clients.wait_for_more(20)
        finally:
            clients.end()
        hub.kill()
        hub.start()
        wait_until(lambda: hub.call(count_running) == 0, 120, "an outcome for every call")
        assert hub.stop() == 0, hub.log()[-4000:]
        result = hub.call(judge, acknowledged=str(answers), ledger=str(ledger))
        kept = ["--head", str(head)] if head.exists() else []
        verified = subprocess.run(
            [sys.executable, "manage.py", "verifycalls", "--json", *kept],
            cwd=ROOT, env=hub.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if verified.returncode:
            result["problems"].append(f"verifycalls: {verified.stdout[-500:]}{verified.stderr[-500:]}")
    return {
        "kills": sum(counted.values()),
        "seed": seed_number,
        "database": "postgresql" if postgres else "sqlite",
        "workers": workers,
        "killed": counted,
        "seconds": round(time.monotonic() - began, 1),
        **result,
        "links": json.loads(verified.stdout)["links"] if not verified.returncode else None,
        "refusals": clients.errors,
    }
