"""One real server and one real browser for each module; every page's console is watched."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.browser import seed
from tests.browser.hands import Program
from tests.conftest import missing
from tests.real_servers import Hub

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first is the same engine without the windows and menus around it, and needs half the processor time."""
CHROMIUM = os.environ.get("TOOLHUB_TEST_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), "")
TIMEOUT_MS = 60_000
START_TIMEOUT_MS = 180_000


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed.seed_users) as hub:
        yield hub


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    # For the module and not the session: while it is open, the thread has a running event loop, which async tests mind.
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        missing("chromium", "no chromium in PATH; TOOLHUB_TEST_CHROMIUM may name one")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=START_TIMEOUT_MS,
        )
        yield browser
        browser.close()


WIDE = """document.fonts.ready.then(
  () => document.documentElement.scrollWidth - document.documentElement.clientWidth)"""
"""Until their font is there, icons are words."""
NOTE = """(selector) => {
  const element = document.querySelector(selector);
  const keep = () => {
    if (!element.hidden) element.dataset.noted = (element.dataset.noted || "") + element.textContent + " / ";
  };
  const changes = { childList: true, characterData: true, subtree: true, attributeFilter: ["hidden"] };
  new MutationObserver(keep).observe(element, changes);
}"""


class Window:
    """A browser window of one person, and everything its console complained about."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        self.icons: list[str] = []
        """Complaints that the site has no icon: whenever they come, one cannot tell which page it was."""
        self.shows_data = False
        """What is no page of ours, such as JSON, names no icon."""
        page.set_default_timeout(TIMEOUT_MS)
        page.context.set_default_timeout(TIMEOUT_MS)
        page.on("console", self._complain)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("dialog", self._no_dialog)
        page.on("request", self._stays_here)
        self._click, page.click = page.click, self._clicked

    def _clicked(self, *args: Any, **options: Any) -> None:
        """A click may lead to another page, whose elements are there before its scripts listen to them."""
        self._click(*args, **options)
        self.page.wait_for_load_state()

    def _complain(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            icon = str(message.location.get("url", "")).endswith("/favicon.ico")
            (self.icons if icon else self.complaints).append(f"{self.page.url}: {message.text}")

    def _no_dialog(self, dialog: Any) -> None:
        self.complaints.append(f"{self.page.url}: a dialog: {dialog.message}")
        dialog.dismiss()

    def _stays_here(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"{self.page.url}: asks {request.url}")

    def open(self, path: str) -> Any:
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, name: str, path: str = "/sign-in/") -> None:
        page = self.open(path)
        page.fill("#id_username", name)
        page.fill("#id_password", seed.PASSWORD)
        page.click("form button[type=submit], form button.primary")
        page.wait_for_url(lambda url: "sign-in" not in url and "login" not in url)

    def note(self, selector: str) -> None:
        """Keep what this element says from now on, for `read_note`: some of it stands there for seconds only, which a
        busy machine can miss."""
        self.page.evaluate(NOTE, selector)

    def read_note(self, selector: str, text: str) -> None:
        """Wait until it has said so."""
        self.page.wait_for_selector(f'{selector}[data-noted*="{text}"]', state="attached")

    def too_wide(self) -> str:
        wide = self.page.evaluate(WIDE)
        return f"{self.page.url} is {wide} px wider than the window" if wide > 0 else ""


@pytest.fixture
def window(hub: Hub, chromium: Any) -> Iterator[Callable[..., Window]]:
    opened: list[tuple[Any, Window]] = []

    def make(**options: Any) -> Window:
        context = chromium.new_context(**options)
        made = Window(context.new_page(), hub.url)
        opened.append((context, made))
        return made

    yield make
    for context, _ in opened:
        context.close()
    said = [line for _, made in opened for line in made.complaints + ([] if made.shows_data else made.icons)]
    assert said == []


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


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def call_as_client(hub: Hub, token: str, tool: str, arguments: dict[str, Any], client: str, version: str) -> str:
    """What a client that calls itself so is answered when it calls a tool."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": version},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    answer = httpx2.post(
        hub.mcp_url,
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        },
        timeout=60,
        trust_env=False,
    )
    return str(answer.text)
