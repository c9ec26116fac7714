"""Real Python clients against a real hub: the official SDK, old and new, and FastMCP's."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.clients import installed
from tests.clients.catalogue import Person
from tests.clients.report import TOOLS, WAIT_SECONDS, check, check_audit_log, output, run
from tests.clients.sdk import INFO, use
from tests.clients.versions import (
    EVERY,
    FASTMCP,
    FASTMCP_CLIENT,
    HANDSHAKE,
    LATEST_HANDSHAKE,
    MODERN,
    PYTHON_1,
    SDK_1,
)
from tests.conftest import missing
from tests.real_servers import ROOT, Hub
from toolhub.access import connect

Somebody = Callable[[], Person]
Environments = Mapping[str, Future[Path]]
FOREIGN = Path(__file__).parent / "foreign"


@pytest.fixture(scope="module", autouse=True)
def environments() -> Iterator[Environments]:
    """Where these packages are not installed yet, they are while other tests run."""
    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(installed.environment, name) for name in (SDK_1, FASTMCP_CLIENT)}


@pytest.mark.parametrize("revision", EVERY)
async def test_the_python_sdk_over_http(
    hub: Hub, somebody: Somebody, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if revision != MODERN:
        # It always proposes the newest revision it knows; this is how it is made to propose an older one.
        monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", revision)
    person = somebody()
    headers = {"Authorization": f"Bearer {person.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS, trust_env=False) as http,
        Client(
            streamable_http_client(hub.mcp_url, http_client=http),
            mode="auto" if revision == MODERN else "legacy",
            client_info=INFO,
        ) as client,
    ):
        check(await use(client), revision)
    check_audit_log(hub, person, transport="http", revision=revision)


@pytest.mark.parametrize("revision", [LATEST_HANDSHAKE, MODERN])
async def test_the_python_sdk_over_stdio(hub: Hub, somebody: Somebody, revision: str) -> None:
    person = somebody()
    command = StdioServerParameters(
        command=sys.executable,
        args=["manage.py", "mcpstdio"],
        cwd=str(ROOT),
        env={**hub.environment(), "TOOLHUB_TOKEN": person.token},
    )
    async with Client(command, mode="auto" if revision == MODERN else "legacy", client_info=INFO) as client:
        check(await use(client), revision)
    check_audit_log(hub, person, transport="stdio", revision=revision)


def test_the_python_sdk_1_over_http_and_websocket(
    hub: Hub, somebody: Somebody, environments: Environments, tmp_path: Path
) -> None:
    python = environments[SDK_1].result()
    uses = [(transport, revision) for transport in ("http", "websocket") for revision in HANDSHAKE]
    run(hub, [str(python), str(FOREIGN / "python_sdk_1.py")], tmp_path, PYTHON_1.version, uses, somebody)


def test_fastmcp_over_http(hub: Hub, somebody: Somebody, environments: Environments, tmp_path: Path) -> None:
    python = environments[FASTMCP_CLIENT].result()
    uses = [("http", LATEST_HANDSHAKE), ("http", MODERN)]
    run(hub, [str(python), str(FOREIGN / "fastmcp_client.py")], tmp_path, FASTMCP.version, uses, somebody)


def test_the_python_instructions_of_the_connect_page_work(hub: Hub, somebody: Somebody, tmp_path: Path) -> None:
    token = somebody().token
    (tmp_path / "list_tools.py").write_text(connect.fill(connect.CLIENTS_BY_KEY["python"], hub.url, token)[1].text)
    listed = output([sys.executable, "list_tools.py"], tmp_path)
    assert [line.split(" - ")[0] for line in listed.splitlines()] == TOOLS


def test_the_curl_instructions_of_the_connect_page_work(hub: Hub, somebody: Somebody, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        missing("curl", "it is not installed")
    token = somebody().token
    said = connect.fill(connect.CLIENTS_BY_KEY["curl"], hub.url, token)[0].text
    answer = json.loads(output(["sh", "-c", said], tmp_path))
    assert [tool["name"] for tool in answer["result"]["tools"]] == TOOLS
