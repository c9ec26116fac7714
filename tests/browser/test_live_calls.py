"""What happens shows while it happens: a real client connects while the page watches, and its calls come and go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.browser import seed
from tests.browser.conftest import Window
from tests.polling import wait_until
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
TRY_LATER = 1013


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed.seed_callers) as hub:
        yield hub


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


# --- a connection that comes to nothing ------------------------------------------------------------------------------


class Sockets:
    """The server's side of one open page, whose clock goes on only in `comes_back_within`."""

    def __init__(self, page: Any) -> None:
        self.page, self.opened, self.closed = page, 0, 0
        self._current: Any = None
        page.clock.install()
        page.route_web_socket("**/ws/live", self._open)

    def open_page(self, path: str) -> None:
        self.page.goto(path)
        self.page.clock.pause_at(self.page.evaluate("Date.now()") + 1000)
        # Without the 0, Playwright calls what `onState` returned, which ends it.
        self.page.evaluate("window.lost = 0; toolhub.onState((state) => { window.lost += state === 'waiting'; }); 0")

    def _open(self, socket: Any) -> None:
        self.opened += 1
        socket.on_message(lambda _watch: setattr(self, "_current", socket))

    def close(self, *, after: str = "", seconds: int = 0) -> None:
        """Close the page's socket once it watches, after this message and after it lasted so long."""
        wait_until(lambda: self.page.evaluate("0") or self._current, what="a page that watches")
        if after:
            self._current.send(after)
        self.page.clock.run_for(seconds * 1000)
        self._current.close(code=TRY_LATER)
        self._current, self.closed = None, self.closed + 1
        wait_until(lambda: self.page.evaluate("window.lost") == self.closed, what="the page noticed")

    def comes_back_within(self, seconds: float) -> bool:
        """Let this time pass on the page, or less if it opens another socket, and return whether it did."""
        before, left = self.opened, int(seconds * 1000)
        # A socket that opens before all the time has passed must not take the rest for its own age.
        while left > 0 and self.opened == before:
            self.page.clock.run_for(min(left, 1000))
            self.page.evaluate("0")  # whatever the page did has arrived here
            left -= 1000
        return self.opened > before


@pytest.fixture
def sockets(hub: Hub, window: Windows) -> Sockets:
    """A page whose connection was closed as soon as it was there, six times."""
    mine = window()
    mine.sign_in("alice")
    found = Sockets(mine.page)
    found.open_page(f"{hub.url}/calls/")
    for _ in range(6):
        found.close()
        assert found.comes_back_within(46)
    return found


def test_a_connection_that_is_closed_at_once_is_tried_less_and_less_often(sockets: Sockets) -> None:
    sockets.close()
    assert not sockets.comes_back_within(14)
    assert sockets.comes_back_within(32)


@pytest.mark.parametrize(
    "good", [{"after": '{"topic": "calls", "id": null}'}, {"seconds": 6}], ids=["it brought news", "it lasted"]
)
def test_a_good_connection_is_tried_again_soon(sockets: Sockets, good: Any) -> None:
    sockets.close(**good)
    assert sockets.comes_back_within(0.8)
