"""Trying a tool, viewing as a user and changing grants as a person would: in a real browser, on a real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import Window
from tests.pages import try_seed
from tests.polling import wait_until
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=try_seed.seed, env={"TOOLHUB_TOOL_MODULES": "catalog.examples,tests.pages.try_tools"}) as hub:
        yield hub


@pytest.fixture
def mine(window: Windows) -> Window:
    mine = window()
    mine.sign_in("root", "/admin/login/")
    return mine


def outcome(hub: Hub, name: str) -> str:
    return str([row for row in hub.call(try_seed.list_calls) if row["name"] == name][-1]["outcome"])


def test_a_tool_is_tried_from_its_page_as_its_user_watched_and_cancelled(
    hub: Hub, mine: Window, tmp_path: Path
) -> None:
    page = mine.open(f"/admin/catalog/tool/{hub.seeded['try_steps']}/change/")
    page.click(f"a[href='/admin/catalog/tool/{hub.seeded['try_steps']}/try/']")
    page.fill("#user", "ali")
    page.wait_for_selector("#user-choices option[value=alice]", state="attached")
    page.fill("#user", "alice")
    page.fill("#argument-0", str(tmp_path / "never"))
    page.click("#try-run")
    page.wait_for_selector("text=the first step")
    assert page.locator("#try-progress").get_attribute("max") == "3"
    page.reload()
    page.wait_for_selector("text=the first step")
    assert page.input_value("#argument-0") == str(tmp_path / "never"), "a page that is opened again shows it all"
    page.click("#try-cancel")
    page.wait_for_selector("#try-outcome >> text=The call was cancelled.")
    assert page.is_hidden("#try-running")
    assert outcome(hub, "try_steps") == "cancelled"
    page.click("text=View call")
    page.wait_for_selector("text=tried in the admin by root")


@pytest.mark.parametrize("lost", ["try_tool_as_other", "staff"])
def test_losing_the_permission_to_try_shows_a_message_and_ends_the_call(
    hub: Hub, window: Windows, tmp_path: Path, lost: str
) -> None:
    mine = window()
    mine.sign_in("deputy", "/admin/login/")
    page = mine.open(f"/admin/catalog/tool/{hub.seeded['try_steps']}/try/?user=alice")
    page.fill("#argument-0", str(tmp_path / "never"))
    page.click("#try-run")
    page.wait_for_selector("text=the first step")
    try:
        hub.call(try_seed.take_away, username="deputy", what=lost)
        page.wait_for_selector("#try-message >> text=You no longer have permission to view this run")
        assert page.is_hidden("#try-running")
        wait_until(lambda: outcome(hub, "try_steps") == "cancelled", what="the end of the call")
    finally:
        hub.call(try_seed.give_back, username="deputy")
    complaint = mine.complaints.pop()
    assert complaint.endswith("403 (Forbidden)"), "asked once, and not again"


def test_a_wrong_argument_is_marked_and_focused_and_a_right_one_runs(hub: Hub, mine: Window) -> None:
    page = mine.open(f"/admin/catalog/tool/{hub.seeded['add']}/try/?user=alice")
    page.fill("#argument-0", "forty")
    page.press("#argument-0", "Enter")
    page.wait_for_selector("#argument-0-error:has-text('must be a number')")
    assert page.evaluate("document.activeElement.id") == "argument-0"
    assert page.get_attribute("#argument-0", "aria-invalid") == "true"
    page.fill("#argument-0", "40")
    page.press("#argument-0", "Enter")
    page.wait_for_selector("#try-outcome .th-badge")
    assert page.get_attribute("#argument-0", "aria-invalid") is None
    assert page.input_value("#argument-0") == "40"


def test_a_question_stays_as_it_is_typed_until_it_is_answered(hub: Hub, mine: Window) -> None:
    page = mine.open(f"/admin/catalog/tool/{hub.seeded['try_ask']}/try/?user=alice")
    page.click("#try-run")
    page.wait_for_selector("#try-questions form")
    assert page.locator("#try-questions b").count() == 0, "what a tool asks is text"
    with page.expect_response(re.compile(r"/try/[0-9a-f-]{36}/$")):
        page.fill("#try-questions textarea", "J")
    with page.expect_response(re.compile(r"/try/[0-9a-f-]{36}/$")):
        pass
    assert page.input_value("#try-questions textarea") == "J", "asking for news takes nothing away"
    page.click("#try-questions button[value=accept]")
    page.wait_for_selector("#try-questions .th-error:has-text('at least 2 characters')")
    page.fill("#try-questions textarea", "Jo")
    for _ in range(2):
        with page.expect_response(re.compile(r"/try/[0-9a-f-]{36}/$")):
            pass
    assert page.input_value("#try-questions textarea") == "Jo", "nor from an answer that was wrong before"
    page.click("#try-questions button[value=accept]")
    page.wait_for_selector("#try-outcome pre:has-text('Jo')")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_result_shows_and_plays_under_the_policy(hub: Hub, window: Windows, width: int) -> None:
    mine = window(viewport={"width": width, "height": 900}, color_scheme="dark" if width == 390 else "light")
    mine.sign_in("root", "/admin/login/")
    page = mine.open(f"/admin/catalog/tool/{hub.seeded['try_everything']}/try/?user=alice")
    page.click("#try-run")
    page.wait_for_selector("#try-outcome .th-badge")
    assert wait_until(lambda: page.evaluate("document.querySelector('#try-outcome img').naturalWidth")) == 2
    wait_until(lambda: page.evaluate("document.querySelector('#try-outcome audio').readyState") >= 1, what="the sound")
    assert page.locator("#try-outcome script").count() == 0
    wide = [mine.too_wide()]
    for path in ("/admin/view-as/?user=alice", "/admin/access/matrix/", "/admin/access/matrix/1/0/"):
        mine.open(path)
        wide.append(mine.too_wide())
    for path in (f"/admin/access/tool/{hub.seeded['add']}/", "/admin/access/change/?toolset=1&user=1"):
        mine.open(path)
        wide.append(mine.too_wide())
    assert [problem for problem in wide if problem] == []


def test_a_cell_of_the_matrix_is_a_link_all_over_however_tall_its_row_is(window: Windows) -> None:
    mine = window(viewport={"width": 390, "height": 900})
    mine.sign_in("root", "/admin/login/")
    page = mine.open("/admin/access/matrix/")
    heights = page.evaluate("""() => {
        const row = document.querySelector(".th-matrix tbody tr")
        row.querySelector("th").append(" of which the name is so long that it takes some lines")
        return [...row.querySelectorAll("td")].map(cell => [cell.clientHeight, cell.querySelector("a").offsetHeight])
    }""")
    assert all(cell > 60 and abs(cell - link) <= 1 for cell, link in heights) and heights


def test_grants_are_changed_by_searching_choosing_and_confirming_and_view_as_shows_it(hub: Hub, mine: Window) -> None:
    page = mine.open("/admin/view-as/?user=charlie&sees=yes")
    page.wait_for_selector("text=This user sees none of these")
    page = mine.open("/admin/access/matrix/")
    page.click("text=Change many grants")
    page.check("[data-picker=toolset] [data-found] label:has-text('Numbers') input")
    page.fill("[data-picker=user] [data-search]", "char")
    page.check("[data-picker=user] [data-found] label:has-text('charlie') input")
    page.fill("[data-picker=user] [data-search]", "alic")
    page.wait_for_selector("[data-picker=user] [data-found] label:has-text('alice')")
    assert page.is_checked("[data-picker=user] [data-chosen] label:has-text('charlie') input"), "a search keeps it"
    page.click("button[name=look]")
    page.wait_for_selector("#bulk-confirm >> text=Grants to create")
    page.click("text=Apply changes")
    page.wait_for_selector("text=1 grant was created")
    page = mine.open("/admin/view-as/?user=charlie&sees=yes")
    page.wait_for_selector("td:has-text('allow toolset Numbers to user charlie')")
    page = mine.open("/admin/access/matrix/")
    page.click("td.none a >> nth=0")
    page.click("button[value=deny]")
    page.wait_for_selector("td.deny")
    page = mine.open("/admin/view-as/?user=charlie&sees=no&q=try_add")
    page.wait_for_selector("td:has-text('deny toolset Numbers to everyone')")
