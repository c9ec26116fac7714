"""`manage.py mcpstdio`: a real process on two pipes, with nothing but protocol on its stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import seed
from tests.polling import wait_until
from tests.real_servers import ROOT, Hub
from tests.wire.official import validate_server_message
from toolhub.wire.versions import HANDSHAKE

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ENVELOPE = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """Its stores alone: nothing is served over HTTP."""
    made = Hub(env={"TOOLHUB_TOOL_MODULES": "tests.e2e.functions"})
    try:
        made.prepare()
        made.seeded = made.call(seed.seed_examples)
        yield made
    finally:
        made.remove()


class Stdio:
    def __init__(self, hub: Hub, **variables: str) -> None:
        self.errors = hub.folder / "stdio.log"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "mcpstdio"],
                cwd=ROOT,
                env={**hub.environment(), "TOOLHUB_TOKEN": hub.seeded["alice"], **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.next_id = 0

    def __enter__(self) -> Stdio:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def message(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), f"{line!r}\n{self.errors.read_text()}"
        found: dict[str, Any] = json.loads(line)
        return found

    def start(self, method: str, params: dict[str, Any] | None = None) -> int:
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params or {}})
        return self.next_id

    def request(self, method: str, params: dict[str, Any] | None = None, revision: str = "2025-11-25") -> Any:
        """The result, whatever comes before it."""
        wanted = self.start(method, params)
        while True:
            message = self.message()
            validate_server_message(revision, message, method)
            if message.get("id") == wanted:
                return message.get("result", message.get("error"))

    def initialize(self, revision: str) -> Any:
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "stdio", "version": "1"}}
        result = self.request("initialize", hello, revision)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result


def outcomes() -> list[list[str]]:
    from audit.models import Call

    return [[call.name, call.transport, call.outcome] for call in Call.objects.order_by("started_at", "id")]


def test_every_revision_is_served_and_logged_over_stdio(hub: Hub) -> None:
    before = len(hub.call(outcomes))
    for revision in HANDSHAKE:
        with Stdio(hub) as client:
            assert client.initialize(revision)["protocolVersion"] == revision
            result = client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, revision)
            assert result["content"][0]["text"] == "3"
            if revision == "2025-11-25":
                params = {"name": "add", "arguments": {"a": 2, "b": 2}, "_meta": ENVELOPE}
                assert client.request("tools/call", params, MODERN)["resultType"] == "complete"
    assert hub.call(outcomes)[before:] == [["add", "stdio", "ok"]] * 5


def test_running_calls_answer_after_the_end_of_the_input(hub: Hub) -> None:
    with Stdio(hub) as client:
        client.initialize("2025-11-25")
        wanted = client.start("tools/call", {"name": "steps", "arguments": {"count": 5}})
        out, _ = client.process.communicate(timeout=120)
        answers = [json.loads(line) for line in out.splitlines()]
        assert [answer["id"] for answer in answers if "result" in answer] == [wanted]
        assert client.process.returncode == 0
        assert "Traceback" not in client.errors.read_text()


def test_more_requests_than_run_at_once_are_all_answered(hub: Hub) -> None:
    with Stdio(hub) as client:
        client.initialize("2025-11-25")
        wanted = {client.start("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(200)}
        out, _ = client.process.communicate(timeout=120)
        answers = [json.loads(line) for line in out.splitlines()]
        assert {answer["id"] for answer in answers} == wanted
        assert all(answer["result"]["isError"] is False for answer in answers)


def test_printing_tools_and_broken_lines_do_not_disturb_the_protocol(hub: Hub) -> None:
    with Stdio(hub) as client:
        client.initialize("2025-11-25")
        assert client.request("tools/call", {"name": "prints", "arguments": {}})["content"][0]["text"] == "printed"
        assert client.process.stdin is not None
        client.process.stdin.write(b"\n{nonsense\n")
        client.process.stdin.flush()
        assert client.message()["error"]["code"] == -32700
        assert client.request("ping") == {}


def test_a_signal_ends_the_command_and_its_calls_are_logged(hub: Hub, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with Stdio(hub, TOOLHUB_STOP_SECONDS="1") as client:
        client.initialize("2025-11-25")
        client.start("tools/call", {"name": "wait", "arguments": {"seconds": 100, "started": str(started)}})
        wait_until(started.exists)
        client.process.terminate()
        client.process.communicate(timeout=120)
    assert hub.call(outcomes)[-1] == ["wait", "stdio", "cancelled"]


@pytest.mark.parametrize("token,says", [("", "TOOLHUB_TOKEN"), ("thp_" + "x" * 43, "rejected")])
def test_without_a_good_token_the_command_says_so_and_ends(hub: Hub, token: str, says: str) -> None:
    with Stdio(hub, TOOLHUB_TOKEN=token) as client:
        out, _ = client.process.communicate(timeout=120)
        assert out == b""
        assert client.process.returncode != 0
        assert says in client.errors.read_text() and "Traceback" not in client.errors.read_text()


def test_the_token_may_be_in_a_file(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(hub.seeded["bob"] + "\n")
    done = subprocess.run(
        [sys.executable, "manage.py", "mcpstdio", "--token-file", str(file)],
        cwd=ROOT,
        env=hub.environment(),
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}).encode(),
        capture_output=True,
        timeout=120,
    )
    assert [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]] == ["echo"]
    missing = hub.environment() | {"TOOLHUB_TOKEN": ""}
    failed = subprocess.run(
        [sys.executable, "manage.py", "mcpstdio", "--token-file", str(tmp_path / "nothing")],
        cwd=ROOT,
        env=missing,
        capture_output=True,
        timeout=120,
    )
    assert failed.returncode != 0 and b"nothing" in failed.stderr and failed.stdout == b""
