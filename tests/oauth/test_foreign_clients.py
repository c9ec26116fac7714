"""Clients of other environments that were never configured here: they find the sign-in, and a person does the rest."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients import installed
from tests.clients.report import clean_environment
from tests.clients.versions import NPM, PYTHON_1
from tests.oauth import people
from tests.oauth.people import Callback
from tests.oauth.test_clients import list_apps
from tests.polling import wait_until
from tests.secure_hub import SecureHub

FOREIGN = Path(__file__).parent.parent / "clients" / "foreign"
WAIT_SECONDS = 180
TOOLS = ["add", "ask_name", "chatter", "come_back", "echo", "prints", "steps", "touch", "wait"]
LINK = re.compile(r"https://localhost:\d+/(?:oauth/authorize\?|device/)[!-~]+")


@pytest.fixture(scope="module")
def packages() -> Path:
    return installed.npm_packages(*NPM)


@pytest.fixture
def project(packages: Path, tmp_path: Path) -> Path:
    """A folder like a user's, in which the packages are installed."""
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    return tmp_path


class Program:
    """A client in a process of its own, whose output is read line by line."""

    def __init__(self, command: Sequence[str | Path], where: Path, site: SecureHub, **options: Any) -> None:
        ca_file = str(site.authority.ca_file)
        self.log = (where / "errors.log").open("w+")
        options.setdefault("stderr", self.log)
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=where,
            env=clean_environment(
                where, NODE_EXTRA_CA_CERTS=ca_file, TEST_CA_FILE=ca_file, MCP_INSPECTOR_SECRET_STORE="file"
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.process.kill()
        with self.process, self.log:
            pass

    def errors(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def write(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        return json.loads(line)

    def find_link(self) -> str:
        """The address that it asks the person to open."""

        def look() -> str | None:
            ended = self.process.poll() is not None
            found = LINK.search(self.errors())
            assert found or not ended, self.errors()
            return found[0] if found else None

        return str(wait_until(look, WAIT_SECONDS, "an address to open"))

    def wait(self) -> str:
        status = self.process.wait(WAIT_SECONDS)
        text = self.errors()
        assert status == 0, text
        return text


def play(program: Program, site: SecureHub, callback: Callback) -> dict[str, Any]:
    """Be the person of this client until it is done; return its report."""
    program.write({"url": site.mcp_url, "redirect": callback.url})
    while True:
        message = program.read()
        if "done" in message:
            found: dict[str, Any] = message["done"]
            return found
        program.write({"sent": people.answer(message["open"], site.authority.trust())})


def check(report: dict[str, Any]) -> None:
    assert report == {
        "tools": TOOLS,
        "sum": "3",
        "echo": "hello",
        "scopes": ["mcp", "mcp mcp:write"],
        "asked": 2,
    }


@pytest.mark.node
def test_the_typescript_sdk_2_signs_in_and_asks_for_more(site: SecureHub, callback: Callback, project: Path) -> None:
    script = shutil.copy(FOREIGN / "oauth_typescript_2.mjs", project)
    with Program([project / "node_modules/node/bin/node", script], project, site) as program:
        check(play(program, site, callback))


def test_the_python_sdk_1_signs_in_and_asks_for_more(site: SecureHub, callback: Callback, tmp_path: Path) -> None:
    python = installed.environment(f"mcp[ws]=={PYTHON_1.version}")
    with Program([python, FOREIGN / "oauth_python_1.py"], tmp_path, site) as program:
        check(play(program, site, callback))


@pytest.mark.node
def test_mcp_remote_signs_in_with_a_browser(site: SecureHub, project: Path) -> None:
    node, remote = project / "node_modules/node/bin/node", project / "node_modules/mcp-remote/dist/client.js"
    with Program([node, remote, site.mcp_url], project, site) as program:
        sent = people.answer(program.find_link(), site.authority.trust())
        assert httpx2.get(sent).status_code == 200
        text = program.wait()
    assert '"name": "add"' in text
    assert site.hub.call(list_apps)[-1]["user"] == "alice"


@pytest.mark.node
def test_mcp_remote_signs_in_with_a_code_in_a_terminal(site: SecureHub, project: Path) -> None:
    node, remote = project / "node_modules/node/bin/node", project / "node_modules/mcp-remote/dist/client.js"
    with Program([node, remote, site.mcp_url, "--device-code"], project, site) as program:
        page = people.enter_code(program.find_link(), site.authority.trust())
        assert "is connected" in page
        text = program.wait()
    assert "Authorized." in text
    assert '"name": "add"' in text


class Terminal:
    """A terminal for what a program says to the person in front of it; it is written to a file."""

    def __init__(self) -> None:
        self.screen, self.line = pty.openpty()

    def copy(self, program: Program) -> None:
        os.close(self.line)
        threading.Thread(target=self._copy, args=(program.log.name,), daemon=True).start()

    def _copy(self, log: str) -> None:
        ended = contextlib.suppress(OSError)  # the program has ended
        with open(self.screen, "rb", buffering=0) as screen, open(log, "ab", buffering=0) as target, ended:
            while said := screen.read(4096):
                target.write(said)


@pytest.mark.node
def test_the_inspector_signs_in_with_a_browser_and_keeps_what_it_got(site: SecureHub, project: Path) -> None:
    command: list[str | Path] = [project / "node_modules/node/bin/node", project / "node_modules/.bin/mcp-inspector"]
    command += ["--cli", site.mcp_url, "--transport", "http", "--format", "json", "--connect-timeout", "0"]
    command += ["--callback-url", "http://127.0.0.1:0/oauth/callback", "--method"]
    terminal = Terminal()
    with Program([*command, "tools/list"], project, site, stderr=terminal.line) as program:
        terminal.copy(program)
        sent = people.answer(program.find_link(), site.authority.trust())
        assert httpx2.get(sent).status_code == 200
        listed = program.read()
    assert [tool["name"] for tool in listed["result"]["tools"]] == TOOLS
    called = ["tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2", "--stored-auth-only"]
    with Program([*command, *called], project, site) as program:
        total = program.read()
        program.wait()
    assert total["result"]["content"][0]["text"] == "3"
    assert site.hub.call(list_apps)[-1]["user"] == "alice"
