"""The first run of a new administrator: from `manage.py quickstart` to a colleague's client that calls an HTTP tool of
their own. Every click, Enter and submit of both people counts; typing does not."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.browser import axe
from tests.browser.conftest import Window
from tests.browser.hands import Hand, Program
from tests.quickstart import Quickstart

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
MAX_CLICKS = 25
PASSWORD = "a horse that nobody knows"
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
SETTING = re.compile(r"Add it to (TOOLHUB_\w+) \(for example ([\w./:]+)\) and restart\.")


class FirstRun(Quickstart):
    """With the address that it prints: nothing but the port is chosen."""

    def __init__(self) -> None:
        super().__init__()
        del self.extra["TOOLHUB_PUBLIC_URL"]

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def restart(self, **settings: str) -> None:
        """Ctrl+C, and the same command once more with these settings, at the same address."""
        self.stop()
        self.extra |= settings
        self.wanted_port = self.port
        self.start()


class Prices(BaseHTTPRequestHandler):
    """The HTTP API of the company: it answers with the price of an item."""

    def do_GET(self) -> None:
        (item,) = parse_qs(urlsplit(self.path).query)["item"]
        body = json.dumps({"item": item, "price": "4.20"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def hub() -> Iterator[FirstRun]:
    with FirstRun() as hub:
        yield hub


@pytest.fixture
def prices() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Prices)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/price"
    server.shutdown()
    thread.join()
    server.server_close()


def list_steps(root: Window) -> dict[str, bool]:
    """The checklist on Overview: each step, and whether it is ticked off."""
    steps = root.page.locator("#next-steps li").all()
    return {step.locator("a").inner_text(): "Done" in step.inner_text() for step in steps}


def has_no_problem(mine: Window) -> None:
    assert mine.too_wide() == ""
    assert axe.find_violations(mine.page) == []


def test_from_quickstart_to_a_colleagues_client_in_at_most_25_clicks(
    hub: FirstRun, window: Windows, program: Program, prices: str
) -> None:
    counts: dict[str, int] = {}
    root = window(permissions=["clipboard-read", "clipboard-write"])
    hand = Hand(root.page)

    sign_in(hub, root, hand)
    counts["administrator signs in"] = hand.take_count()

    setting, value = add_tool(root, hand, prices)
    counts["administrator adds the tool"] = hand.take_count()
    hub.restart(**{setting: value})

    give_access_to_new_group(root, hand)
    counts["administrator gives access"] = hand.take_count()

    link = invite(root, hand)
    counts["administrator invites"] = hand.take_count()

    colleague = window(permissions=["clipboard-read", "clipboard-write"])
    theirs = Hand(colleague.page)
    accept(colleague, theirs, link)
    counts["colleague accepts"] = theirs.take_count()

    snippet = connect(colleague, theirs)
    counts["colleague connects"] = theirs.take_count()

    program.does(call_price(snippet))
    colleague.page.wait_for_selector('[data-stage="call"][data-state="done"]')
    colleague.page.click("#check >> text=My calls")
    colleague.page.wait_for_selector("tr:has-text('get_price'):has-text('Success')")
    has_no_problem(colleague)

    hand.sidebar("Calls")
    root.page.wait_for_selector("tr:has-text('get_price'):has-text('grace'):has-text('Success')")
    counts["administrator finds the call"] = hand.take_count()
    root.open("/admin/")
    assert list_steps(root) == {
        "Add a tool": True,
        "Give access": True,
        "Invite people": True,
        "Connect a client": True,
        "Set an external checkpoint": False,
        "Back up": False,
    }
    total = sum(counts.values())
    sys.stdout.writelines(f"{name}: {number}\n" for name, number in {**counts, "together": total}.items())
    assert total <= MAX_CLICKS, counts


def sign_in(hub: FirstRun, root: Window, hand: Hand) -> None:
    page = root.open("/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", hub.find_password())
    hand.press("#id_password", "Enter")
    page.wait_for_url(f"{root.url}/admin/")
    steps = list_steps(root)
    assert len(steps) == 6 and not any(steps.values())


def add_tool(root: Window, hand: Hand, url: str) -> tuple[str, str]:
    """A tool of the type HTTP API with one argument; the setting that its page asks for, and a value."""
    page = root.page
    hand.click("#next-steps >> text=Add a tool of your own")
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    hand.choose("#id_runner", "http_api")
    page.fill("[data-step=url] input", url)
    hand.click("[data-step=query] >> button:has-text('Add')")
    page.keyboard.type("item")
    page.keyboard.press("Tab")
    page.keyboard.type("item")
    page.fill("#id_name", "get_price")
    page.fill("#id_description", "Return the price of an item. Use it for questions about prices. Changes nothing.")
    hand.click('role=tab[name="Parameters"]')
    hand.click("text=Add a parameter")
    page.keyboard.type("item")
    row = page.locator("#tool-section-2 tbody[data-row]").first
    row.locator("[data-column=description]").fill("The name of the item.")
    hand.click(row.locator("[data-column=required]"))
    said = page.locator("#tool-look", has_text="TOOLHUB_ALLOW_PRIVATE_NETWORKS")
    said.wait_for()
    found = SETTING.search(said.inner_text())
    assert found is not None, said.inner_text()
    hand.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    return found[1], found[2]


def give_access_to_new_group(root: Window, hand: Hand) -> None:
    page = root.page
    hand.sidebar("Overview")
    page.wait_for_selector("#next-steps")
    assert list_steps(root)["Add a tool"], "the step ticks itself off"
    hand.click("#next-steps >> text=Give access")
    assert "get_price" in page.inner_text("[data-picker=what] [data-chosen]")
    page.fill("[data-picker=who] [data-search]", "Sales")
    hand.click("button:has-text('New group')")
    page.wait_for_selector("text=The group Sales was created.")
    assert "Sales" in page.inner_text("[data-picker=who] [data-chosen]")
    has_no_problem(root)
    hand.click("button.primary:has-text('Give access')")
    page.wait_for_selector("#give-preview .th-note.warn:has-text('get_price')")
    has_no_problem(root)
    hand.click("text=Apply changes")
    page.wait_for_selector("#next-steps")
    assert "1 grant was created." in page.inner_text("body")
    assert not list_steps(root)["Give access"], "nobody is in the group yet"


def invite(root: Window, hand: Hand) -> str:
    """The link for the colleague, as it is in the clipboard."""
    page = root.page
    hand.click("#next-steps >> text=Invite people")
    page.fill("#id_addresses", "grace@example.com")
    hand.click(".field-groups .select2-selection")
    hand.click(".select2-results__option >> text=Sales")
    hand.click("button[name=_save]")
    page.wait_for_selector("#made")
    has_no_problem(root)
    root.note("[data-copy-text=link-1]")
    hand.click("[data-copy-text=link-1]")
    root.read_note("[data-copy-text=link-1]", "Copied")
    link: str = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{root.url}/invitation/")
    return link


def accept(colleague: Window, hand: Hand, link: str) -> None:
    hand.clicks += 1  # on the link, in a message
    page = colleague.open(link.removeprefix(colleague.url))
    assert page.input_value("#id_username") == "grace"
    page.fill("#id_password1", PASSWORD)
    page.fill("#id_password2", PASSWORD)
    has_no_problem(colleague)
    hand.press("#id_password2", "Enter")
    page.wait_for_url("**/connect/")
    assert page.locator("#nothing").count() == 0, "the tool of the group is there"


def connect(colleague: Window, hand: Hand) -> str:
    """What the page puts into the clipboard for the client."""
    page = colleague.page
    hand.click("nav.chips >> text=Python SDK")
    hand.click("text=Create token for this client")
    page.wait_for_selector('#check [data-live="live"]')
    copy = page.locator("[data-copy^=snippet-]").last
    name = copy.get_attribute("data-copy")
    colleague.note(f"[data-copy={name}]")
    hand.click(copy)
    colleague.read_note(f"[data-copy={name}]", "Copied")
    snippet: str = page.evaluate("navigator.clipboard.readText()")
    return snippet


async def call_price(snippet: str) -> None:
    """The official client, with the address and the token of the snippet."""
    (token,), (url,) = set(TOKEN.findall(snippet)), set(re.findall(r"http://[\w.:]+/mcp", snippet))
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["get_price"]
        result: Any = await client.call_tool("get_price", {"item": "tea"})
        assert not result.is_error, result
        assert "4.20" in result.content[0].text
