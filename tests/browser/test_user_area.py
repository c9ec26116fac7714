"""The user's pages in a real browser, served by the real server."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser import seed
from tests.browser.conftest import Window, call_as_client
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
PAGES = (
    "/tools/",
    "/calls/",
    "/tokens/",
    "/connect/",
    "/connect/claude-desktop/",
    "/connect/curl/",
    "/password/",
    "/secrets/",
)
ADMIN_PAGES: tuple[str, ...] = (
    "/admin/",
    "/admin/auth/user/",
    "/admin/access/accesstoken/",
    "/admin/access/accesstoken/add/",
)
ADMIN_PAGES += ("/admin/catalog/secret/", "/admin/catalog/secret/add/")
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_window_or_breaks_its_policy(hub: Hub, window: Windows, width: int) -> None:
    mine = window(viewport={"width": width, "height": 844}, color_scheme="dark" if width == 390 else "light")
    mine.open("/sign-in/")
    wide = [mine.too_wide()]
    mine.sign_in("alice")
    for path in (*PAGES, f"/calls/{hub.seeded['call']}/"):
        page = mine.open(path)
        page.evaluate("for (const part of document.querySelectorAll('main details')) part.open = true")
        wide.append(mine.too_wide())
    assert [problem for problem in wide if problem] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_user_pages_of_the_admin_work_under_their_policy(hub: Hub, window: Windows, width: int) -> None:
    mine = window(viewport={"width": width, "height": 900})
    mine.sign_in("root", "/admin/login/")
    wide = []
    for path in (*ADMIN_PAGES, f"/admin/auth/user/{hub.seeded['alice']}/change/"):
        mine.open(path)
        wide.append(mine.too_wide())
    assert [problem for problem in wide if problem] == []


def test_from_signing_in_to_a_clients_settings_that_hold_a_token_once(hub: Hub, window: Windows) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.page
    page.click("nav >> text=Connect")
    page.click("nav.chips >> text=Cursor")
    assert not TOKEN.search(page.content())
    page.click("text=Without a browser: use a token")
    page.click("text=Create token for this client")
    page.wait_for_selector("text=You see it only once")
    (token,) = set(TOKEN.findall(page.locator("#snippet-1").inner_text()))
    assert hashlib.sha256(token.encode()).hexdigest() == hub.call(seed.digests, username="alice")[0]
    assert page.locator("text=Add to Cursor").get_attribute("href").startswith("cursor://")
    page.click("nav >> text=Connect")
    assert not TOKEN.search(page.content())


def test_a_second_connect_of_a_client_rotates_its_token_and_the_old_one_works_on(hub: Hub, window: Windows) -> None:
    mine = window(viewport={"width": 390, "height": 844})
    mine.sign_in("alice")
    page = mine.open("/connect/vscode/")
    page.click("text=Without a browser: use a token")
    page.click("text=Create token for this client")
    page.wait_for_selector("text=You see it only once")
    (before,) = set(TOKEN.findall(page.content()))
    mine.open("/connect/vscode/")
    page.click("text=Without a browser: use a token")
    page.wait_for_selector("text=You already have a token for VS Code.")
    page.locator(".offered summary").click()
    page.select_option(".offered select", label="1 hour")
    page.click(".offered >> text=Rotate token")
    page.wait_for_selector("[role=status] >> text=The old token works until")
    (after,) = set(TOKEN.findall(page.content()))
    assert before != after
    assert mine.too_wide() == ""
    for token in (after, before):
        assert "3" in call_as_client(hub, token, "calculate_sum", {"a": 1, "b": 2}, "vscode", "1")
    mine.open("/tokens/")
    assert not TOKEN.search(page.content())
    replaced = page.locator("article", has_text="Replaced; works until")
    assert replaced.locator("h3 + p code").inner_text() == f"{before[:8]}…"
    replaced.locator("text=less than a minute ago from 127.0.0.1").wait_for()


def test_a_token_is_renamed_and_a_name_that_is_refused_stays_to_be_corrected(window: Windows) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/tokens/")
    page.fill("#id_name", "old name")
    page.click("text=Create token")
    page.locator("[aria-label='Rename old name']").click()
    page.locator("details.confirm[open] input[name=name]").fill("\u200b")
    page.click("details.confirm[open] >> text=Rename token")
    page.wait_for_selector("details.confirm[open] .wrong >> text=Use visible characters")
    page.locator("details.confirm[open] input[name=name]").fill("new name")
    page.click("details.confirm[open] >> text=Rename token")
    page.wait_for_selector("[role=status] >> text=“old name” is now called “new name”.")
    assert page.locator("article h3", has_text="new name").count() == 1


@pytest.mark.parametrize(
    ("key", "number", "program"), [("python", 2, [sys.executable, "-c"]), ("curl", 1, ["bash", "-c"])]
)
def test_the_pasted_command_lists_the_users_tools(
    hub: Hub, window: Windows, key: str, number: int, program: list[str]
) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open(f"/connect/{key}/")
    page.click("text=Create token for this client")
    page.wait_for_selector("text=You see it only once")
    pasted = page.locator(f"#snippet-{number}").inner_text().replace("http://localhost:8000", hub.url)
    done = subprocess.run([*program, pasted], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "calculate_sum" in done.stdout
    assert "get_weather" in done.stdout


def test_a_browser_that_opens_the_clients_address_gets_directions(window: Windows) -> None:
    mine = window()
    page = mine.open("/mcp")
    page.wait_for_selector("text=This address is for AI clients")
    assert mine.too_wide() == ""
    page.click("text=Connect a client")
    page.wait_for_url("**/sign-in/?next=/connect/")


def test_a_token_is_made_copied_and_revoked(hub: Hub, window: Windows) -> None:
    mine = window(permissions=["clipboard-read", "clipboard-write"])
    mine.sign_in("alice")
    page = mine.open("/tokens/")
    page.fill("#id_name", "a passing laptop")
    page.click("text=Create token")
    token = page.locator("#new-token").inner_text()
    mine.note("[data-copy=new-token]")
    page.click("[data-copy=new-token]")
    mine.read_note("[data-copy=new-token]", "Copied")
    assert page.evaluate("navigator.clipboard.readText()") == token
    card = page.locator("article", has_text="a passing laptop")
    card.locator("summary", has_text="Revoke").click()
    card.locator("text=Revoke token").click()
    page.wait_for_selector("[role=status] >> text=was revoked")
    assert hashlib.sha256(token.encode()).hexdigest() not in hub.call(seed.digests, username="alice")


def test_the_search_box_hides_rows_that_do_not_match(window: Windows) -> None:
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/tools/")
    assert page.locator("details.tool:visible").count() == 3
    page.fill("[data-filter]", "WEATHER place")
    assert page.locator("details.tool:visible").count() == 1
    page.fill("[data-filter]", "")
    page.select_option("[data-kind]", "reads")
    assert page.locator("details.tool:visible h2").inner_text().startswith("Calculate a sum")
    page.fill("[data-filter]", "no such thing")
    page.wait_for_selector("text=Nothing matches")


def test_every_page_can_be_used_with_the_keyboard_alone(window: Windows) -> None:
    mine = window()
    page = mine.open("/sign-in/")

    def focused(what: str) -> None:
        """The browser moves the focus with its next frame."""
        page.wait_for_function(f"document.activeElement.{what}")

    focused("id === 'id_username'")
    page.keyboard.type("charlie")
    page.keyboard.press("Tab")
    page.keyboard.type(seed.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=No tools yet")
    page.wait_for_load_state()  # what is pressed is for scripts, too
    page.keyboard.press("Tab")
    focused("className === 'skip'")
    page.keyboard.press("Enter")
    focused("id === 'content'")
    page.focus("details.menu summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Sign out")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=Sign out", state="hidden")


def test_without_javascript_everything_that_matters_works(window: Windows) -> None:
    mine = window(java_script_enabled=False)
    mine.sign_in("alice")
    page = mine.open("/tools/")
    page.fill("#filter", "weather")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tools/?q=weather*")
    assert page.locator("details.tool").count() == 1
    page.click("details.menu summary")
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in/")


def test_a_secret_is_entered_replaced_and_removed_and_never_shown(window: Windows) -> None:
    mine = window(java_script_enabled=False)
    mine.sign_in("alice", "/secrets/")
    page = mine.page
    for value, button in (("the first value", "Save"), ("the second value", "Replace")):
        assert page.input_value("[name=value]") == "" and page.get_attribute("[name=value]", "type") == "password"
        page.fill("[name=value]", value)
        with page.expect_navigation():
            page.click(f"button:has-text('{button}')")
        page.wait_for_selector("text=was saved")
        assert value not in page.content()
    page.click("summary:has-text('Remove')")
    page.click("text=Remove secret")
    page.wait_for_selector("text=was removed")
    assert page.inner_text(".badge.warn") == "missing"


def test_a_call_just_made_is_found_by_its_owner_and_by_the_auditor_with_hostile_texts_as_text(
    hub: Hub, window: Windows, tmp_path: Path
) -> None:
    token = hub.call(seed.token, username="alice")
    assert "result" in call_as_client(hub, token, "calculate_sum", {"a": seed.HOSTILE, "b": 1}, seed.HOSTILE, "1")
    mine = window()
    mine.sign_in("alice")
    page = mine.open("/calls/")
    row = page.locator("tr.calls-row").first
    assert seed.HOSTILE in row.inner_text()
    assert "Invalid arguments" in row.inner_text()
    row.locator("a").first.click()
    page.wait_for_url(re.compile(r"/calls/[0-9a-f-]{36}/"))
    assert json.loads(page.locator("#arguments").inner_text()) == {"a": seed.HOSTILE, "b": 1}
    call_id = page.locator("#call-id").inner_text()

    theirs = window()
    theirs.sign_in("auditor", "/admin/login/")
    page = theirs.open(f"/admin/audit/call/?q={call_id}")
    page.wait_for_selector("#call-arguments")  # an id leads to its page at once
    assert json.loads(page.locator("#call-arguments").inner_text()) == {"a": seed.HOSTILE, "b": 1}
    page = theirs.open(f"/admin/audit/call/{hub.seeded['call']}/change/")
    assert "<img src=x onerror=alert(1)>" in (page.locator("#call-result").text_content() or "")
    # TOOLHUB_TEST_SHOTS names a folder for whoever wants to look at what the auditor sees.
    picture = Path(os.environ.get("TOOLHUB_TEST_SHOTS", tmp_path)) / "auditor-call.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
