"""Reviewing changed definitions in a real browser: no attack is out of sight, and decisions are made and undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser import review_seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
SIZES = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}
HOLDS_MARK = """(wanted) => {
  const seen = [...document.querySelectorAll("#review ins, #review del")].filter((mark) => {
    const box = mark.getClientRects()[0];
    const inside = box && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
    return inside && box.width > 0;
  });
  return [seen.length > 0, seen.map((mark) => mark.textContent).join(" ").includes(wanted)];
}"""
"""Whether a marked change is in the window without scrolling, and whether these marks hold the text."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=review_seed.seed) as hub:
        yield hub


@pytest.fixture
def tools(hub: Hub) -> dict[str, int]:
    """Every tool anew, with its change waiting."""
    made: dict[str, int] = hub.call(review_seed.quarantine_all)
    return made


@pytest.fixture
def rita(window: Windows) -> Window:
    mine = window(viewport=SIZES["wide"])
    mine.sign_in("rita", "/admin/login/")
    return mine


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_every_hostile_change_is_marked_where_the_reviewer_looks(
    hub: Hub, tools: dict[str, int], window: Windows, size: str, locale: str
) -> None:
    mine = window(viewport=SIZES[size], locale=locale)
    mine.sign_in("rita", "/admin/login/")
    unseen = []
    for name, (_before, _after, text) in review_seed.ATTACKS.items():
        page = mine.open(f"/admin/catalog/tool/{tools[name]}/review/")
        page.evaluate("document.fonts.ready")
        wanted = text if locale == "en" or not text.startswith("200") else "200"
        if page.evaluate(HOLDS_MARK, wanted) != [True, True]:
            unseen.append(f"{name}: {page.evaluate(HOLDS_MARK, wanted)}")
        if wide := mine.too_wide():
            unseen.append(wide)
    assert not unseen


def test_a_dangerous_change_is_rejected_first_and_approved_only_after_reading(
    hub: Hub, tools: dict[str, int], rita: Window
) -> None:
    page = rita.open(f"/admin/catalog/tool/{tools['zero_width']}/review/")
    buttons = page.locator("#decide button").all_inner_texts()
    assert [text.strip() for text in buttons] == ["Reject", "Approve"]
    page.click("#decide button[value=approve]")
    page.wait_for_selector("text=Read the warnings first")
    page.check("#decide input[name=read]")
    page.click("#decide button[value=approve]")
    page.wait_for_selector("text=met_zero_width is approved and available again.")
    assert hub.call(review_seed.get_states)["zero_width"] == "served"
    assert f"/{tools['zero_width_inside']}/review/" in page.url, "the next one is open"
    page.click("#decide button[value=reject]")
    page.wait_for_selector("text=It stays quarantined.")
    page.click("#review nav >> text=Needs review")
    page.wait_for_selector("#review-queue")
    page.click("li:has-text('met_zero_width_inside') button:has-text('Undo')")
    page.wait_for_selector("text=1 decision undone, waits for review again: met_zero_width_inside.")
    assert hub.call(review_seed.get_states)["zero_width_inside"] == "needs review"


def test_all_without_danger_are_approved_with_two_clicks_and_undone_with_one(
    hub: Hub, tools: dict[str, int], rita: Window
) -> None:
    page = rita.open("/admin/review/")
    page.click("text=Select all without danger")
    page.click("text=Approve selected")
    page.wait_for_selector("text=/\\d changes approved/")
    states = hub.call(review_seed.get_states)
    assert states["harmless"] == states["one_word"] == "served"
    assert states["zero_width"] == states["enum"] == states["parameter"] == "needs review"
    page.click("li:has-text('rita approved') button:has-text('Undo')")
    page.wait_for_selector("text=/\\d decisions undone/")
    assert set(hub.call(review_seed.get_states).values()) == {"needs review"}


def test_a_rejected_change_is_taken_up_again_with_the_keyboard_alone(
    hub: Hub, tools: dict[str, int], rita: Window
) -> None:
    page = rita.open(f"/admin/catalog/tool/{tools['harmless']}/review/")
    page.focus("#decide button[value=reject]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/review/")
    page = rita.open("/admin/review/?state=rejected")
    page.focus("a:has-text('met_harmless')")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=a reviewer rejected its change")
    page.focus("button[value=undo]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#decide")
    assert hub.call(review_seed.get_states)["harmless"] == "needs review"
