"""The example tools as people call them first, with the official client, on a hub that quickstart made."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
from mcp.client import Client

from tests.catalog.services import WeatherService
from tests.e2e.test_quickstart import use_as_demo
from tests.quickstart import Quickstart


def text(result: Any) -> str:
    assert not result.is_error, result
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


async def test_every_example_takes_the_form_that_people_try_first() -> None:
    with WeatherService() as weather:
        extra = {
            "TOOLHUB_WEATHER_URL": f"{weather.url}/forecast",
            "TOOLHUB_GEOCODING_URL": f"{weather.url}/search",
            "TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        }
        hub = Quickstart(env=extra)
        hub.extra["TOOLHUB_COMMANDS"] = "ls,wc,date,uname"
        with hub:
            pages = await hub.sign_in()
            async with pages:
                tool = (
                    await pages.http.get("/admin/access/pick/", params={"kind": "tool", "q": "execute_command"})
                ).json()
                number = next(row["id"] for row in tool["results"] if row["name"] == "execute_command")
                found = (await pages.http.get("/admin/access/pick/", params={"kind": "user", "q": "demo"})).json()
                demo = next(row["id"] for row in found["results"] if row["name"] == "demo")
                await pages.send(f"/admin/catalog/tool/{number}/change/", timeout="120")
                await pages.send("/admin/catalog/grant/add/", tool=number, user=demo)
            await use_as_demo(hub, use)


async def use(client: Client) -> None:
    assert text(await client.call_tool("get_weather", {"location": "New York"})).startswith(
        "New York, United States: 12.5"
    )
    arguments = {"filepath": "samples/sales.csv", "operations": ["sum", "average", "count"]}
    summary: Any = await client.call_tool("analyze_csv", arguments)
    columns = {(one["column"], one["operation"]) for one in summary.structured_content["results"]}
    assert columns == {(name, what) for name in ("units", "revenue") for what in ("sum", "average", "count")}
    listed = text(await client.call_tool("execute_command", {"command": "ls", "args": ["-la"]}))
    assert listed.startswith("total") and "samples" in listed
    created = text(await client.call_tool("create_issue", {"owner": "o", "repo": "r", "title": "t"}))
    assert created == "Created issue o/r#1: t"
    read = text(await client.call_tool("read_file", {"path": "report.md", "encoding": "base64"}))
    assert base64.b64decode(read).startswith(b"# Sales in the first quarter")
    found: Any = await client.call_tool("search_files", {"query": "lamp"})
    assert {match["path"] for match in found.structured_content["matches"]} == {"samples/sales.csv"}
    chart: Any = await client.call_tool("draw_chart", {"values": [1, 2]})
    assert isinstance(chart.content[1], types.ImageContent)
    sound: Any = await client.call_tool("play_tone", {})
    assert isinstance(sound.content[1], types.AudioContent)
    attached: Any = await client.call_tool("attach_guide", {})
    assert isinstance(attached.content[1], types.EmbeddedResource)
