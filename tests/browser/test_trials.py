"""Rules in trial in a real browser: the page follows what is called, and a rule is replayed before it is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import trial_seed
from tests.browser.axe import find_violations
from tests.browser.conftest import Window
from tests.browser.test_phone import BROKEN
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
PAGE = "/admin/trials/"
PHONE = {"width": 390, "height": 844}
STATUS = "#replay [data-status]"
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=trial_seed.seed) as hub:
        yield hub


def sign_in(window: Windows, path: str, **options: Any) -> Window:
    mine = window(reduced_motion="reduce", **options)
    mine.sign_in("root", f"/admin/login/?next={path}")
    return mine


def test_the_page_follows_calls_and_rules_and_keeps_the_focus(hub: Hub, window: Windows, client: Any) -> None:
    mine = sign_in(window, PAGE)
    page, denial = mine.page, hub.seeded["denial"]
    numbers = f"#trial-grant-{denial}-numbers"
    assert page.inner_text(numbers) == "No call would have had another answer so far."
    page.focus(f"#trial-grant-{denial} >> text=End trial")
    focused = page.evaluate_handle("document.activeElement")
    assert not client(hub.seeded["alice"], "calculate_sum", a=1, b=2).result(60).is_error, "nothing is applied"
    page.wait_for_selector(f"{numbers} >> text=1 call would have been denied.")
    assert "alice" in page.inner_text(numbers) and "allowed → denied" in page.inner_text(numbers)
    assert page.evaluate("(before) => document.activeElement === before", focused)

    page.focus(f"{numbers} tbody a")
    address = page.evaluate("document.activeElement.getAttribute('href')")
    client(hub.seeded["alice"], "calculate_sum", a=3, b=4).result(60)
    page.wait_for_selector(f"{numbers} >> text=2 calls would have been denied.")
    assert page.evaluate("document.activeElement.getAttribute('href')") == address

    limit = hub.call(trial_seed.add_trial)
    page.wait_for_selector(f"#trial-limit-{limit}")
    assert page.evaluate("document.activeElement.getAttribute('href')") == address
    assert find_violations(page) == [] and mine.too_wide() == ""
    hub.call(trial_seed.end_trial, key=limit)
    page.wait_for_selector(f"#trial-limit-{limit}", state="detached")
    page.click(f"{numbers} tbody a >> nth=0")
    page.wait_for_url("**/admin/audit/call/*/change/")


def test_a_hidden_page_does_not_ask_and_one_that_comes_back_does_at_once(hub: Hub, window: Windows) -> None:
    page = sign_in(window, "/admin/").page
    page.clock.install()
    page.goto(hub.url + PAGE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if asks(request) else None)
    with page.expect_response(asks):
        page.clock.run_for(5_000)
    page.evaluate(HIDE, True)
    page.clock.run_for(60_000)
    assert len(asked) == 1
    with page.expect_response(asks):
        page.evaluate(HIDE, False)


def asks(exchange: Any) -> bool:
    return "version=" in exchange.url


def test_a_rule_in_trial_is_replayed_from_its_form_by_keyboard_on_a_telephone(
    hub: Hub, window: Windows, client: Any
) -> None:
    client(hub.seeded["alice"], "calculate_sum", a=5, b=6).result(60)
    mine = sign_in(window, PAGE, viewport=PHONE, color_scheme="dark")
    page = mine.page
    page.click(f"#trial-grant-{hub.seeded['denial']} >> text=Replay")
    page.wait_for_selector("#replay:focus")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "replay-days"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{STATUS}[data-end=good]")
    assert "calls of the last 7 days would have another answer." in page.inner_text(STATUS)
    report = page.inner_text("#replay [data-report]")
    assert "alice" in report and "allowed → denied" in report
    assert page.evaluate(BROKEN) == [] and mine.too_wide() == "" and find_violations(page) == []
    page.click("#replay [data-report] a >> nth=0")
    page.wait_for_url("**/admin/audit/call/*/change/")


def test_a_new_rule_is_replayed_and_nothing_is_saved(hub: Hub, window: Windows) -> None:
    before = hub.call(trial_seed.count_grants)
    page = sign_in(window, "/admin/").open(f"/admin/catalog/grant/add/?effect=deny&tool={hub.seeded['tool']}")
    page.click("#replay [data-start]")
    page.wait_for_selector(f"{STATUS}[data-end=bad] >> text=Fix the form, then replay it again.")
    assert page.locator("#replay [data-problems] li").count() > 0
    page.check("#id_everyone")
    page.select_option("#replay-days", "30")
    page.click("#replay [data-start]")
    page.wait_for_selector(f"{STATUS}[data-end=good] >> text=calls of the last 30 days would have another answer.")
    assert page.locator("#replay [data-problems]").is_hidden()
    assert hub.call(trial_seed.count_grants) == before


def test_who_cancels_a_replay_is_told_so_and_can_replay_again(hub: Hub, window: Windows) -> None:
    page = sign_in(window, f"/admin/catalog/grant/{hub.seeded['denial']}/change/").page
    held: list[Any] = []
    page.route("**/admin/catalog/grant/replay/**", lambda route: held.append(route))
    page.click("#replay [data-start]")
    page.click("#replay [data-cancel]")
    page.wait_for_selector(f"{STATUS}:text-is('The replay was cancelled.')")
    assert page.evaluate("document.activeElement.matches('[data-start]')")
    page.unroute("**/admin/catalog/grant/replay/**")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{STATUS}[data-end=good]")
    assert len(held) == 1
