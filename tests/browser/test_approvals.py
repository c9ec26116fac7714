"""Approving calls in a real browser: a client's call waits for a person, who learns of it and decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import approval_seed, axe
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
TITLE = "prefix => document.title.startsWith(prefix)"
HAS_TWO = "selector => document.querySelectorAll(selector).length === 2"
WAITING = "#waiting-title ~ [data-approval]"
NOTIFICATIONS = """
window.told = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, options) { super(); window.told.push([title, options.tag]); }
};
"""
"""Instead of those of a browser with windows: one without them never allows any."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=approval_seed.seed) as hub:
        yield hub


@pytest.fixture(autouse=True)
def _empty(hub: Hub) -> Iterator[None]:
    yield
    hub.call(approval_seed.withdraw_all)


def has_no_problem(mine: Window) -> None:
    assert mine.too_wide() == ""
    assert axe.find_violations(mine.page) == []


def sign_in(window: Windows, name: str = "bob", path: str = "/approvals/", **options: Any) -> Window:
    mine = window(**options)
    mine.sign_in(name)
    mine.open(path)
    return mine


def waits(page: Any, number: int) -> None:
    """Until the page says by itself that so many requests wait."""
    page.wait_for_function(TITLE, arg=f"({number}) ")
    assert page.inner_text("#approvals-link [data-number]") == str(number)


def state_of(hub: Hub, number: int) -> list[Any]:
    """State and reason of the request for a sum that begins with this number."""
    return next(rest for first, *rest in hub.call(approval_seed.list_states) if first == number)


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.parametrize(("shade", "language"), [("light", "en-US"), ("dark", "zh-CN")])
def test_a_call_is_approved_on_a_telephone_with_three_clicks_and_runs(
    hub: Hub, window: Windows, client: Any, shade: str, language: str
) -> None:
    number = 100 if shade == "light" else 150
    mine = sign_in(window, path="/tools/", color_scheme=shade, locale=language, **PHONE)
    page = mine.page
    assert page.locator("#approvals-link [data-number]").is_hidden()
    call = client(hub.seeded["alice"], "calculate_sum", a=number, b=2)
    waits(page, 1)
    has_no_problem(mine)
    page.click("#approvals-link")
    has_no_problem(mine)
    page.click(f"{WAITING} a.button")
    reason = "a is at least 100" if language == "en-US" else " 100"
    assert "alice" in page.inner_text("#approval") and reason in page.inner_text("#approval")
    has_no_problem(mine)
    box = page.locator("#approve").bounding_box()
    assert box["width"] > 300, "the button is as wide as its card"
    page.click("#approve")
    page.wait_for_selector("text=You approved this call." if language == "en-US" else "text=您批准了此调用。")
    assert text_of(call.result(60)) == str(number + 2)
    assert state_of(hub, number)[0] == "used"
    page.wait_for_selector("#approval[data-state=used]")
    has_no_problem(mine)


def test_a_page_that_is_older_than_its_version_learns_what_it_missed(hub: Hub, window: Windows, client: Any) -> None:
    """As where the approved call runs after the page has read its request, and before it reads the version."""
    mine = sign_in(window)
    page = mine.page
    call = client(hub.seeded["alice"], "calculate_sum", a=170, b=2)
    page.click(f"{WAITING} a.button")
    page.click("#approve")
    assert text_of(call.result(60)) == "172"
    page.wait_for_selector("#approval[data-state=used]")

    def serve_older(route: Any) -> None:
        answer = route.fetch()
        old = answer.text().replace('data-state="used"', 'data-state="approved"')
        route.fulfill(response=answer, body=old if route.request.is_navigation_request() else answer.text())

    page.route("**/approvals/*/", serve_older)
    page.reload()
    assert page.get_attribute("#approval", "data-state") == "approved"
    page.wait_for_selector("#approval[data-state=used]")


@pytest.mark.parametrize(("shade", "language"), [("light", "en-US"), ("dark", "zh-CN")])
def test_a_call_is_approved_from_now_on_on_a_telephone_until_that_is_ended_there(
    hub: Hub, window: Windows, client: Any, shade: str, language: str
) -> None:
    number = 110 if shade == "light" else 160

    def call(first: int = number) -> Any:
        return client(hub.seeded["alice"], "calculate_sum", a=first, b=2)

    mine = sign_in(window, "dora", color_scheme=shade, locale=language, **PHONE)
    page = mine.page
    waiting = call()
    page.click(f"{WAITING} a.button")
    page.click("[aria-labelledby=lasting-title] summary")
    has_no_problem(mine)
    page.click("#lasting")
    page.wait_for_selector("#end-lasting")
    assert text_of(waiting.result(60)) == text_of(call().result(60)) == str(number + 2)
    has_no_problem(mine)
    page.click("#approvals-link")
    page.click("form button.danger[id^=end-]")
    page.wait_for_selector("#end-lasting", state="detached")
    has_no_problem(mine)
    page.click("#approvals-link")
    call()
    page.wait_for_selector(WAITING)


def test_without_scripts_a_call_is_denied_with_a_reason_that_its_client_reads(
    hub: Hub, window: Windows, client: Any
) -> None:
    call = client(hub.seeded["alice"], "calculate_sum", a=200, b=2)
    learns = sign_in(window)
    learns.page.wait_for_selector(WAITING)
    page = sign_in(window, java_script_enabled=False).page
    page.click(f"{WAITING} a.button")
    assert page.locator(".keys").is_hidden()
    page.fill("#id_reason", "Ask for less.")
    page.click("#deny")
    page.wait_for_selector("text=You denied this call.")
    result = call.result(60)
    assert result.is_error and "bob denied this call: Ask for less." in text_of(result)
    assert state_of(hub, 200) == ["denied", "Ask for less."]


def test_the_keys_decide_only_where_nobody_types(hub: Hub, window: Windows, client: Any) -> None:
    calls = [client(hub.seeded["alice"], "calculate_sum", a=number, b=0) for number in (300, 301)]
    page = sign_in(window).page
    waits(page, 2)
    page.wait_for_function(HAS_TWO, arg=WAITING)
    page.click(f"{WAITING} a.button >> nth=0")
    page.wait_for_selector(".keys >> text=opens the next request")
    first = page.url
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("j")
    page.wait_for_url(first)
    page.wait_for_load_state()
    page.keyboard.press("Control+a")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.id") == "id_reason"
    page.keyboard.type("ajd")
    assert page.input_value("#id_reason") == "ajd" and page.url == first
    assert {state_of(hub, number)[0] for number in (300, 301)} == {"waiting"}
    page.fill("#id_reason", "")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")
    assert page.evaluate("document.activeElement.id") == "approve"
    assert {state_of(hub, number)[0] for number in (300, 301)} == {"waiting"}, "a key alone decides nothing"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=You approved this call.")
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.wait_for_load_state()
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=You approved this call.")
    assert sorted(text_of(call.result(60)) for call in calls) == ["300", "301"]


def test_the_list_follows_what_is_asked_and_keeps_the_focus(hub: Hub, window: Windows, client: Any) -> None:
    page = sign_in(window).page
    client(hub.seeded["alice"], "calculate_sum", a=400, b=0)
    page.wait_for_selector(WAITING)
    page.focus(f"{WAITING} h3 a")
    focused = page.evaluate("document.activeElement.id")
    client(hub.seeded["charlie"], "calculate_sum", a=401, b=0)
    page.wait_for_function(HAS_TWO, arg=WAITING)
    waits(page, 2)
    assert focused and page.evaluate("document.activeElement.id") == focused
    hub.call(approval_seed.withdraw_all)
    page.wait_for_selector("text=Nothing waits for you.")
    page.wait_for_function("() => !document.title.startsWith('(')")
    assert page.evaluate("document.activeElement.id") == "content", "what had the focus is gone"


def test_what_was_typed_stays_until_somebody_else_decides_and_then_the_page_says_who(
    hub: Hub, window: Windows, client: Any
) -> None:
    client(hub.seeded["alice"], "calculate_sum", a=500, b=0)
    page = sign_in(window).page
    page.wait_for_selector(WAITING)
    page.click(f"{WAITING} a.button")
    page.fill("#id_reason", "I would rather")
    client(hub.seeded["charlie"], "calculate_sum", a=501, b=0)
    waits(page, 2)
    assert page.input_value("#id_reason") == "I would rather"
    other = sign_in(window, "dora", path=page.url.removeprefix(hub.url)).page
    other.click("#approve")
    other.wait_for_selector("text=You approved this call.")
    page.wait_for_selector("#approval:not([data-state=waiting]) >> text=dora approved this call")
    assert page.locator("#approve").count() == 0 and page.locator("#id_reason").count() == 0


def test_a_browser_is_told_of_new_requests_once_its_person_wants_that(hub: Hub, window: Windows, client: Any) -> None:
    mine = window()
    mine.page.add_init_script(NOTIFICATIONS)
    mine.sign_in("bob")
    page = mine.open("/approvals/")
    button = page.locator("[data-notify] button")
    assert button.get_attribute("aria-pressed") == "false"
    first = client(hub.seeded["alice"], "calculate_sum", a=600, b=0)
    waits(page, 1)
    assert page.evaluate("told") == [], "nobody asked for it"
    button.click()
    page.wait_for_selector("[data-notify] button[aria-pressed=true]")
    client(hub.seeded["charlie"], "calculate_sum", a=601, b=0)
    page.wait_for_function("() => told.length > 0")
    ((title, tag),) = page.evaluate("told")
    assert title == "A call waits for your approval"
    page.wait_for_selector(f"#view-{tag}")
    button.click()
    page.wait_for_selector("[data-notify] button[aria-pressed=false]")
    assert not first.done()
