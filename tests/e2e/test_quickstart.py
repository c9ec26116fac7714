"""`manage.py quickstart` as people start it: with Node its example of an MCP server works, without it all else does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from catalog.processes import allowlist
from tests.clients.installed import npx_cache
from tests.conftest import missing
from tests.e2e import proofs
from tests.e2e.pages import Forms, Pages
from tests.quickstart import Quickstart

NPX, EVERYTHING = "npx", "@modelcontextprotocol/server-everything@2026.8.31"
"""What starts the example upstream, as catalog/examples/catalogue.yaml has it."""


async def use_as_demo(hub: Quickstart, use: Callable[[Client], Any]) -> Any:
    """With the official client, as the user that quickstart made."""
    headers = {"Authorization": f"Bearer {hub.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http,
        Client(streamable_http_client(hub.mcp_url, http_client=http)) as client,
    ):
        return await use(client)


async def list_tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def parse_forms(page: str) -> list[list[tuple[str, str]]]:
    parser = Forms()
    parser.feed(page)
    return parser.forms


async def press(pages: Pages, path: str, **fields: Any) -> str:
    """The page that a button of this page leads to."""
    token = next(
        value for form in parse_forms(await pages.get(path)) for name, value in form if name == "csrfmiddlewaretoken"
    )
    answer = await pages.http.post(path, data={"csrfmiddlewaretoken": token, **fields}, follow_redirects=True)
    assert answer.status_code == 200, answer.text[-2000:]
    return answer.text


async def test_without_node_everything_else_works_and_it_says_what_is_missing(tmp_path: Path) -> None:
    hub = Quickstart(programs=tmp_path)
    with hub:
        said = hub.find_in_output(r"(Example upstream .*)")
        assert f"not available: npx is listed in TOOLHUB_COMMANDS, but was not found in {tmp_path}." in said
        assert "It needs npx, which comes with Node." in said

        async def use(client: Client) -> None:
            assert {"calculate_sum", "read_file", "long_task"} <= await list_tool_names(client)
            result: Any = await client.call_tool("calculate_sum", {"a": 20, "b": 22})
            assert result.content[0].text == "42"

        await use_as_demo(hub, use)
        pages = await hub.sign_in("demo")
        async with pages:
            assert "calculate_sum" in await pages.get("/tools/")
        pages = await hub.sign_in()
        async with pages:
            tools = "/admin" + said.rpartition("/admin")[2]
            shown = await pages.get(tools.replace("/tools/", "/change/"))
            assert 'name="enabled"' in shown and not any(("enabled", "on") in form for form in parse_forms(shown))
            tried = await press(pages, tools, action="test")
            assert "was not found in" in tried


async def test_with_node_the_official_server_is_imported_granted_and_really_called() -> None:
    if shutil.which(NPX, path=allowlist.PATH) is None:
        missing("node", f"no {NPX} on {allowlist.PATH}")
    hub = Quickstart()
    shutil.copytree(npx_cache(EVERYTHING), hub.folder / "data" / "npm", symlinks=True)
    with hub:
        tools = "/admin" + hub.find_in_output(r"Example upstream +list its tools at \S+/admin(\S+)")
        pages = await hub.sign_in()
        async with pages:
            listed = await press(pages, tools, action="discover")
            (echo,) = re.findall(r'value="([^"]+)" aria-label="everything_echo"', listed)
            assert "everything_echo" in await press(pages, tools, action="import", item=echo)
            imported = await pages.get(tools)
            (number,) = re.findall(r'/admin/catalog/tool/(\d+)/change/"[^>]*>everything_echo<', imported)
            # A machine that is busy with other tests takes its time to start Node.
            await pages.send(f"/admin/catalog/tool/{number}/change/", timeout="120")
            assert "everything_echo" not in await use_as_demo(hub, list_tool_names), (
                "nobody sees it before it is granted"
            )
            found = (await pages.http.get("/admin/access/pick/", params={"kind": "user", "q": "demo"})).json()
            (demo,) = [row["id"] for row in found["results"] if row["name"] == "demo"]
            await pages.send("/admin/catalog/grant/add/", tool=number, user=demo)

        async def use(client: Client) -> None:
            assert "everything_echo" in await list_tool_names(client)
            result: Any = await client.call_tool("everything_echo", {"message": "hello from the hub"})
            assert not result.is_error, result
            assert "hello from the hub" in result.content[0].text

        await use_as_demo(hub, use)
        (call,) = hub.call(proofs.list_calls, name="everything_echo")
        assert call[1:3] == ["demo", "ok"]


@pytest.mark.postgres
async def test_on_postgresql_it_serves_the_same_in_one_process() -> None:
    with Quickstart(postgres=True) as hub:

        async def use(client: Client) -> None:
            assert {"calculate_sum", "read_file", "long_task"} <= await list_tool_names(client)
            result: Any = await client.call_tool("calculate_sum", {"a": 20, "b": 22})
            assert result.content[0].text == "42"

        await use_as_demo(hub, use)
        assert len(hub.call(proofs.list_calls, name="calculate_sum")) == 1
        assert not list((hub.folder / "data").glob("*.sqlite3-wal")), "the audit log is on PostgreSQL"
        pages = await hub.sign_in("demo")
        async with pages:
            assert "calculate_sum" in await pages.get("/tools/")
        pages = await hub.sign_in()
        async with pages:
            answer = await pages.http.get("/", follow_redirects=True)
            assert answer.url.path == "/admin/" and "Next steps" in answer.text
