"""What happens shows while it happens: a real client connects while the page watches, and its calls come and go."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.browser import seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed.seed_callers) as hub:
        yield hub


@pytest.fixture
def client(hub: Hub) -> Iterator[Any]:
    """client(token, name, **arguments) lists the tools and calls one, as a program of its own would."""
    threads = ThreadPoolExecutor(max_workers=4)

    async def run(token: str, name: str, arguments: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http,
            Client(streamable_http_client(hub.mcp_url, http_client=http)) as connection,
        ):
            await connection.list_tools()
            return await connection.call_tool(name, arguments) if name else None

    def start(token: str, name: str = "", **arguments: Any) -> Future[Any]:
        return threads.submit(lambda: asyncio.run(run(token, name, arguments)))

    yield start
    threads.shutdown(wait=False, cancel_futures=True)


def stage(page: Any, name: str, state: str) -> None:
    page.wait_for_selector(f'[data-stage="{name}"][data-state="{state}"]')


def row(page: Any, text: str) -> Any:
    return page.locator("tr.calls-row", has_text=text).first


def test_a_rejected_client_is_explained_on_the_open_page(hub: Hub, window: Windows) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/connect/curl/")
    page.wait_for_selector('#check [data-live="live"]')
    stage(page, "token", "now")
    wrong = {"Authorization": "Bearer thp_" + "x" * 43, "Accept": "application/json, text/event-stream"}
    assert httpx2.post(hub.mcp_url, headers=wrong, json={}, timeout=60, trust_env=False).status_code == 401
    page.wait_for_selector('[data-reason="unknown"]:visible')
    stage(page, "token", "failed")


def test_from_signing_in_to_a_connected_client_with_a_token(hub: Hub, window: Windows, client: Any) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.page
    page.click("nav >> text=Connect")
    page.click("text=Cursor")
    page.click("text=Without a browser: use a token")
    page.click("text=Create token for this client")
    page.wait_for_selector('#check [data-live="live"]')
    stage(page, "token", "now")
    (token,) = set(TOKEN.findall(page.text_content("#snippet-1")))
    client(token).result(60)
    for name in ("token", "revision", "tools"):
        stage(page, name, "done")
    page.wait_for_selector("[data-connected]:visible")
    assert page.text_content("[data-count]") == "2"
    assert page.text_content("[data-token]") == "Cursor"
    stage(page, "call", "now")
    client(token, "calculate_sum", a=1, b=2).result(60)
    stage(page, "call", "done")


def test_a_call_appears_by_itself_with_its_progress_and_is_cancelled(hub: Hub, window: Windows, client: Any) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/calls/")
    page.wait_for_selector('[data-live="live"]')
    token = hub.call(seed.token, username="alice")
    running = client(token, "long_task", seconds=60, steps=60)
    slow = row(page, "long_task")
    slow.wait_for()
    slow.locator("progress").wait_for()
    call_id = slow.get_attribute("data-call")
    mine.note("[data-said]")
    slow.locator("text=Cancel").click()
    page.wait_for_selector(f'[data-call="{call_id}"] >> text=cancelled')
    mine.read_note("[data-said]", "The call was cancelled.")
    assert hub.call(seed.outcome, call_id=call_id) == ["cancelled", "cancelled by alice in the browser"]
    assert running.exception(60) is not None


def test_a_scrolled_page_shows_a_notice_and_does_not_jump(hub: Hub, window: Windows, client: Any) -> None:
    token = hub.call(seed.token, username="alice")
    for number in range(6):
        client(token, "calculate_sum", a=number, b=2).result(60)
    mine = window(viewport={"width": 800, "height": 300})
    mine.sign_in("alice")
    page = mine.open("/calls/")
    page.wait_for_selector('[data-live="live"]')
    rows = page.locator("tr.calls-row").count()
    page.evaluate("scrollTo(0, document.getElementById('calls').offsetTop + 150)")
    where = page.evaluate("scrollY")
    client(token, "calculate_sum", a=1, b=2).result(60)
    page.wait_for_selector("[data-fresh]:visible")
    assert (page.evaluate("scrollY"), page.locator("tr.calls-row").count()) == (where, rows)
    page.click("[data-fresh]")
    page.wait_for_function("rows => document.querySelectorAll('tr.calls-row').length > rows", arg=rows)


def test_the_page_of_a_running_call_shows_its_end(hub: Hub, window: Windows, client: Any) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/calls/?outcome=running")
    page.wait_for_selector('[data-live="live"]')
    running = client(hub.call(seed.token, username="alice"), "long_task", seconds=60, steps=60)
    slow = row(page, "long_task")
    slow.wait_for()
    slow.locator("a").click()
    page.wait_for_selector("#call progress:visible")
    page.click("#call >> text=Cancel")
    page.wait_for_selector("h1 >> text=cancelled")
    assert page.locator("form[data-cancel]").count() == 0
    assert running.exception(60) is not None


def test_from_a_calls_id_to_its_page_it_is_one_paste_and_enter(hub: Hub, window: Windows, client: Any) -> None:
    client(hub.call(seed.token, username="alice"), "calculate_sum", a=1, b=2).result(60)
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/calls/")
    call_id = row(page, "calculate_sum").get_attribute("data-call")
    page.fill("#q", call_id)
    page.press("#q", "Enter")
    page.wait_for_url(f"**/calls/{call_id}/")
