"""Real clients that run on Node against a real hub: the official SDK, new and old, the Inspector, and mcp-remote."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.clients.catalogue import Person
from tests.clients.node_clients import bridge, inspector, install, node, script
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
    TYPESCRIPT_1,
    TYPESCRIPT_2,
)
from tests.real_servers import Hub
from toolhub.access import connect

Somebody = Callable[[], Person]
pytestmark = pytest.mark.node


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder like a user's, in which the packages are installed."""
    return install(tmp_path)


def test_the_typescript_sdk_2_over_http(hub: Hub, somebody: Somebody, project: Path) -> None:
    uses = [("http", revision) for revision in EVERY]
    run(hub, script(project, "typescript_sdk_2.mjs"), project, TYPESCRIPT_2.version, uses, somebody)


def test_the_typescript_sdk_1_over_http_and_websocket(hub: Hub, somebody: Somebody, project: Path) -> None:
    uses = [("http", LATEST_HANDSHAKE), ("websocket", LATEST_HANDSHAKE)]
    run(hub, script(project, "typescript_sdk_1.mjs"), project, TYPESCRIPT_1.version, uses, somebody)


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
    (command, *arguments), environment = bridge(hub, project, person.token)
    server = StdioServerParameters(command=command, args=arguments, cwd=str(project), env=environment)
    async with Client(server, mode="auto" if revision == MODERN else "legacy", client_info=INFO) as client:
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
