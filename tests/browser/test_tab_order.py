"""Every kind of page by the Tab key alone: each stop is seen and has a name, and the end is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import demo, states
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
MAX_STOPS = 700
PAGES = {
    "alice": (
        *("/tools/", "/tools/calculate_sum/", "/calls/", "/calls/{failed}/", "/calls/{results}/", "/tokens/"),
        *("/connect/", "/connect/cursor/", "/secrets/", "/requests/", "/requests/toolset/{long_toolset}/"),
        *("/apps/", "/account/", "/account/security/"),
    ),
    "root": (
        "/admin/",
        "/admin/catalog/tool/",
        "/admin/catalog/grant/?q=alice",
        "/admin/search/?q=cal",
        "/admin/catalog/tool/{tool}/change/",
        "/admin/catalog/tool/add/",
        "/admin/catalog/grant/add/",
        "/admin/auth/user/{user}/change/",
        "/admin/catalog/upstream/{upstream}/tools/",
        "/admin/catalog/tool/{tool}/delete/",
        "/admin/catalog/tool/{tool}/tests/",
        "/admin/catalog/tool/{tool}/try/",
        "/admin/catalog/tool/{tool}/compare/",
        "/admin/view-as/?user=alice",
        "/admin/access/user/{user}/",
        "/admin/access/tool/{tool}/",
        "/admin/access/toolset/{long_toolset}/",
        "/admin/access/group/{auth_group}/",
        "/admin/access/give/",
        "/admin/access/matrix/",
        "/admin/access/matrix/{catalog_toolset}/0/",
        "/admin/access/change/",
        "/admin/review/",
        "/admin/catalog/tool/{changed}/review/",
        "/admin/requests/",
        "/admin/requests/{access_request}/",
        "/admin/requests/calls/",
        "/admin/audit/call/?q=sum",
        "/admin/audit/call/{failed}/change/",
        "/admin/audit/call/case-file/?user__id__exact={user}",
        "/admin/audit/call/views/",
        "/admin/imports/",
        "/admin/imports/{batch}/",
        "/admin/imports/{batch}/undo/",
        "/admin/settings/",
        "/admin/jobs/",
        "/admin/sessions/",
        "/admin/health/",
        "/admin/backups/",
    ),
}
"""A page of each kind."""
WATCH = """() => {
  const looks = (element) => {
    const found = [];
    // What shows the focus may be a box around the field, or the label of a field that is not seen itself.
    const around = [element, element.parentElement, element.parentElement?.parentElement, ...(element.labels || [])];
    for (const one of around.filter(Boolean)) {
      const style = getComputedStyle(one);
      const outline = style.outlineStyle === "none" || style.outline;
      found.push([outline, style.boxShadow, style.borderColor, style.backgroundColor].join("|"));
    }
    return found.join("\\n");
  };
  const nameOf = (element) => {
    const texts = (element.getAttribute("aria-labelledby") || "").split(" ").filter(Boolean)
      .map((id) => document.getElementById(id)?.textContent || "");
    const images = [...element.querySelectorAll("[alt], [aria-label], [title]")]
      .map((one) => one.alt || one.ariaLabel || one.title);
    const content = element.matches("input, select, textarea") ? [] : [element.textContent];
    const button = element.matches("input[type=submit], input[type=button]") ? [element.value] : [];
    return [element.getAttribute("aria-label"), ...texts, ...[...(element.labels || [])].map((one) => one.textContent),
      element.title, ...images, ...content, ...button].join(" ").trim();
  };
  const describe = (element) => `<${element.tagName.toLowerCase()} id=${element.id} name=${element.name || ""} class=` +
    `${String(element.className).slice(0, 60)}> ${element.textContent.trim().replace(/\\s+/g, " ").slice(0, 40)}`;
  const seen = new Set();
  let before = null;
  window.watchFocus = () => {
    const found = [];
    const now = document.activeElement;
    // A field for a date has a stop for each of its parts, a sound one for each of its buttons.
    const hasParts = now?.matches("input[type^=date], input[type=time], audio");
    if (hasParts && before?.element === now) return { end: false, found };
    if (before && before.element.isConnected && before.element !== now && looks(before.element) === before.looks)
      found.push(`the focus is not seen at ${describe(before.element)}`);
    before = null;
    if (!now || now === document.body) return { end: true, found };
    if (seen.has(now)) return { end: true, found: [...found, `trapped: back at ${describe(now)}`] };
    seen.add(now);
    if (!nameOf(now)) found.push(`no name: ${describe(now)}`);
    const place = now.getBoundingClientRect();
    const shown = place.width > 1 && place.height > 1 && now.checkVisibility();
    if (!shown && !now.labels?.length) found.push(`not visible: ${describe(now)}`);
    // Bars that stay in their place may lie over it, and then nobody sees where the focus is.
    const x = (Math.max(place.left, 0) + Math.min(place.right, innerWidth)) / 2;
    const y = (Math.max(place.top, 0) + Math.min(place.bottom, innerHeight)) / 2;
    const top = document.elementFromPoint(x, y);
    const own = [now.parentElement, ...(now.labels || [])];
    if (shown && top && !top.contains(now) && !own.some((one) => one.contains(top)))
      found.push(`${describe(top)} lies over ${describe(now)}`);
    if (place.bottom <= 0 || place.top >= innerHeight || place.right <= 0 || place.left >= innerWidth)
      found.push(`outside of the window: ${describe(now)}`);
    before = { element: now, looks: looks(now) };
    return { end: false, found };
  };
}"""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=states.fill) as hub:
        yield hub


def walk(page: Any) -> list[str]:
    """Go through the page by Tab; what is wrong on the way."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.evaluate(WATCH)
    wrong: list[str] = []
    for stop in range(MAX_STOPS):
        page.keyboard.press("Tab")
        answer = page.evaluate("watchFocus()")
        wrong += answer["found"]
        if answer["end"]:
            return wrong if stop > 3 else [*wrong, f"only {stop} stops"]
    return [*wrong, f"no end after {MAX_STOPS} stops"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("whose", PAGES)
def test_every_kind_of_page_is_walked_by_the_tab_key(
    hub: Hub, window: Callable[..., Window], whose: str, width: int
) -> None:
    mine = window(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    mine.sign_in(whose, "/admin/login/" if whose == "root" else "/sign-in/")
    wrong = []
    for address in PAGES[whose]:
        page = mine.open(address.format(**hub.seeded))
        demo.stop_motion(page)
        wrong += [f"{address}: {problem}" for problem in dict.fromkeys(walk(page))]
    assert not wrong, "\n".join(wrong)
