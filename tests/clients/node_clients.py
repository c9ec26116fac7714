"""How clients that run on Node are started: in a folder like a user's, as the connect page says."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

from tests.clients import installed
from tests.clients.report import clean_environment
from tests.clients.versions import NPM
from tests.real_servers import Hub
from toolhub.access import connect

FOREIGN = Path(__file__).parent / "foreign"
PLAIN = ("--format", "json", "--connect-timeout", "0")
"""Options with which the Inspector writes its result as JSON, and waits for a busy hub."""


def install(home: Path) -> Path:
    """Put the packages of the table into this folder; skips the test where that cannot be."""
    modules = home / "node_modules"
    if not modules.exists():
        modules.symlink_to(installed.npm_packages(*NPM) / "node_modules")
    return home


def node(home: Path, *arguments: str | Path) -> list[str]:
    return [str(home / "node_modules" / "node" / "bin" / "node"), *map(str, arguments)]


def script(home: Path, name: str) -> list[str]:
    return node(home, shutil.copy(FOREIGN / name, home))


def inspector(hub: Hub, home: Path, token: str) -> list[str]:
    """What the connect page says to run, without the method."""
    text = connect.fill(connect.CLIENTS_BY_KEY["inspector"], hub.url, token)[0].text
    said = shlex.split(text.replace("\\\n", ""))
    assert said[:2] == ["npx", "@modelcontextprotocol/inspector"]
    method = said.index("--method")
    assert said[method + 1] == "tools/list"
    return node(home, "node_modules/.bin/mcp-inspector", *said[2:method], *said[method + 2 :], *PLAIN)


def bridge(hub: Hub, home: Path, token: str) -> tuple[list[str], dict[str, str]]:
    """mcp-remote as the connect page says to start it, and its environment."""
    said = connect.fill(connect.CLIENTS_BY_KEY["claude-desktop"], hub.url, token)[0].text
    server = json.loads(said)["mcpServers"]["toolhub"]
    assert [server["command"], *server["args"][:2]] == ["npx", "-y", "mcp-remote"]
    command = node(home, "node_modules/.bin/mcp-remote", *server["args"][2:])
    return command, clean_environment(home, **server["env"])
