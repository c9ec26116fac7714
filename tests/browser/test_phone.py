"""On a telephone every page is read from top to bottom: no word a letter a line, no table that scrolls sideways."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser import demo, states
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
BROKEN = """() => {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim();
    if (text.length < 6 || !texts.currentNode.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const lines = new Set([...range.getClientRects()].map((place) => Math.round(place.top)));
    if (lines.size > 3 && text.length / lines.size < 4) found.push(text.slice(0, 40));
  }
  return [...new Set(found)];
}"""
"""Texts that have fewer than four characters on a line."""
SIDEWAYS = """() => [...document.querySelectorAll("table")].filter((table) => {
  if (!table.checkVisibility() || table.matches(".th-matrix")) return false;
  for (let box = table; box !== document.body; box = box.parentElement)
    if (box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX)) return true;
  return false;
}).map((table) => table.caption?.textContent || table.id || table.className)"""
"""Tables that are broader than their place; the matrix is one by its nature."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=states.fill) as hub:
        yield hub


@pytest.mark.parametrize("whose", ["alice", "root"])
def test_no_page_on_a_telephone_breaks_words_into_letters_or_scrolls_a_table(
    hub: Hub, window: Callable[..., Window], whose: str
) -> None:
    mine = window(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    mine.sign_in(whose, "/admin/login/" if whose == "root" else "/sign-in/")
    wrong = []
    for person, address in demo.addresses():
        if person != whose or "no-such" in address or not demo.is_page(mine, address.format(**hub.seeded)):
            continue
        wrong += [f"{address}: {text!r} is broken into letters" for text in mine.page.evaluate(BROKEN)]
        wrong += [f"{address}: the table {name!r} scrolls sideways" for name in mine.page.evaluate(SIDEWAYS)]
    assert wrong == []


def test_a_setting_on_a_telephone_is_one_line_until_it_is_opened(hub: Hub, window: Callable[..., Window]) -> None:
    root = window(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    root.sign_in("root", "/admin/login/?next=/admin/settings/")
    page = root.page
    meaning = page.get_by_text("Every absolute link starts with it").locator("visible=true")
    closed = page.evaluate("document.querySelector('.th-settings').offsetHeight")
    assert closed < 60 * page.locator(".th-settings tbody tr").count()
    assert meaning.count() == 0
    page.locator("summary", has_text="TOOLHUB_PUBLIC_URL").press("Enter")
    meaning.wait_for()
    page.wait_for_function("height => document.querySelector('.th-settings').offsetHeight > height", arg=closed)
    root.open("/admin/settings/#TOOLHUB_SECRET_KEY")
    assert page.locator("#TOOLHUB_SECRET_KEY td").first.is_visible()
    assert page.locator("#TOOLHUB_PUBLIC_URL td").first.is_hidden()
