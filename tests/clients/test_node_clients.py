"""Real clients that run on Node against a real hub: the official SDK, new and old, the Inspector, and mcp-remote."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.clients import installed
from tests.clients.catalogue import Person
from tests.clients.report import (
    CALLS,
    DONE,
    NAME,
    REFUSED,
    SUM,
    SUMMARY,
    TOOLS,
    check,
    check_audit_log,
    clean_environment,
    output,
    run,
)
from tests.clients.sdk import INFO, use
from tests.clients.versions import (
    EVERY,
    INSPECTOR,
    LATEST_HANDSHAKE,
    MCP_REMOTE,
    MODERN,
    NPM,
    TYPESCRIPT_1,
    TYPESCRIPT_2,
)
from tests.real_servers import Hub
from toolhub.access import connect

Somebody = Callable[[], Person]
FOREIGN = Path(__file__).parent / "foreign"
pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def packages() -> Path:
    return installed.npm_packages(*NPM)


@pytest.fixture
def project(packages: Path, tmp_path: Path) -> Path:
    """A folder like a user's, in which the packages are installed."""
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    return tmp_path


def node(project: Path, *arguments: str | Path) -> list[str]:
    return [str(project / "node_modules" / "node" / "bin" / "node"), *map(str, arguments)]


def script(project: Path, name: str) -> list[str]:
    return node(project, shutil.copy(FOREIGN / name, project))


def test_the_typescript_sdk_2_over_http(hub: Hub, somebody: Somebody, project: Path) -> None:
    uses = [("http", revision) for revision in EVERY]
    run(hub, script(project, "typescript_sdk_2.mjs"), project, TYPESCRIPT_2.version, uses, somebody)


def test_the_typescript_sdk_1_over_http_and_websocket(hub: Hub, somebody: Somebody, project: Path) -> None:
    uses = [("http", LATEST_HANDSHAKE), ("websocket", LATEST_HANDSHAKE)]
    run(hub, script(project, "typescript_sdk_1.mjs"), project, TYPESCRIPT_1.version, uses, somebody)


PLAIN = ("--format", "json", "--connect-timeout", "0")


def inspector(hub: Hub, project: Path, token: str) -> list[str]:
    """What the connect page says to run, without the method."""
    text = connect.fill(connect.CLIENTS_BY_KEY["inspector"], hub.url, token)[0].text
    said = shlex.split(text.replace("\\\n", ""))
    assert said[:2] == ["npx", "@modelcontextprotocol/inspector"]
    method = said.index("--method")
    assert said[method + 1] == "tools/list"
    return node(project, "node_modules/.bin/mcp-inspector", *said[2:method], *said[method + 2 :], *PLAIN)


@pytest.mark.parametrize(("era", "revision"), [("legacy", LATEST_HANDSHAKE), ("modern", MODERN)])
def test_the_inspector_in_a_terminal(hub: Hub, somebody: Somebody, project: Path, era: str, revision: str) -> None:
    person = somebody()
    command = [*inspector(hub, project, person.token), "--protocol-era", era, "--method"]
    homes = [project / name for name in ("tools/list", *CALLS)]
    for home in homes:
        home.mkdir(parents=True)
        (home / "node_modules").symlink_to(project / "node_modules")
    called = [
        ["tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)]
        for name, arguments in CALLS.items()
    ]
    # One process each, and none needs another.
    with ThreadPoolExecutor() as pool:
        given = list(pool.map(output, ([*command, *rest] for rest in (["tools/list"], *called)), homes))
    listed, total, csv, long = (json.loads(text)["result"] for text in given)
    assert [tool["name"] for tool in listed["tools"]] == TOOLS
    assert total["content"][0]["text"] == SUM
    assert json.loads(csv["content"][0]["text"]) == csv["structuredContent"] == SUMMARY
    assert long["content"][0]["text"] == DONE
    # It does not even try a tool that is not in its list.
    check_audit_log(hub, person, transport="http", revision=revision, client="inspector-cli", refused=False)


@pytest.mark.parametrize(
    ("revision", "name"), [(LATEST_HANDSHAKE, f"{NAME} (via mcp-remote {MCP_REMOTE.version})"), (MODERN, NAME)]
)
async def test_mcp_remote_bridges_stdio(hub: Hub, somebody: Somebody, project: Path, revision: str, name: str) -> None:
    person = somebody()
    said = connect.fill(connect.CLIENTS_BY_KEY["claude-desktop"], hub.url, person.token)[0].text
    server = json.loads(said)["mcpServers"]["toolhub"]
    assert [server["command"], *server["args"][:2]] == ["npx", "-y", "mcp-remote"]
    command, *arguments = node(project, "node_modules/.bin/mcp-remote", *server["args"][2:])
    bridge = StdioServerParameters(
        command=command, args=arguments, cwd=str(project), env=clean_environment(project, **server["env"])
    )
    async with Client(bridge, mode="auto" if revision == MODERN else "legacy", client_info=INFO) as client:
        check(await use(client), revision)
    check_audit_log(hub, person, transport="http", revision=revision, client=name)


def test_the_inspector_is_refused_with_a_wrong_token(hub: Hub, project: Path) -> None:
    command = inspector(hub, project, "thp_" + "x" * 43)
    output([*command, "--stored-auth-only", "--method", "tools/list"], project, status=3)


def test_the_typescript_instructions_of_the_connect_page_work(hub: Hub, somebody: Somebody, project: Path) -> None:
    token = somebody().token
    (project / "list-tools.mjs").write_text(connect.fill(connect.CLIENTS_BY_KEY["typescript"], hub.url, token)[1].text)
    listed = output(node(project, "list-tools.mjs"), project)
    assert all(f"'{name}'" in listed for name in TOOLS) and REFUSED not in listed


def test_the_inspector_is_the_one_in_the_table(project: Path) -> None:
    assert output(node(project, "node_modules/.bin/mcp-inspector", "--version"), project).strip() == INSPECTOR.version
