"""A person with a real browser and a device for passkeys: adds one, signs out, and signs in with it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import seed
from tests.browser.axe import find_violations
from tests.browser.conftest import CHROMIUM, START_TIMEOUT_MS, WIDE, Window
from tests.conftest import missing
from tests.identity.mfa.device import code_of
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
ADDRESS = "http://localhost:8000"
"""The public address of a hub without settings, at which browsers allow passkeys without TLS."""
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
OLD_BROWSER = """delete PublicKeyCredential.parseCreationOptionsFromJSON;
delete PublicKeyCredential.parseRequestOptionsFromJSON; delete PublicKeyCredential.prototype.toJSON;"""
HOME = "/account/security/"


def seed_people() -> int:
    """As elsewhere, and an auditor who has a passkey."""
    from django.contrib.auth.models import User

    from tests.factories import make_passkey

    seed.seed_users()
    auditor = User.objects.get(username="auditor")
    make_passkey(auditor, "Key ring")
    return auditor.pk


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed_people) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(hub: Hub) -> Iterator[Any]:
    """A browser for which the public address is this hub."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        missing("chromium", "no chromium in PATH; TOOLHUB_TEST_CHROMIUM may name one")
    there = f"--host-resolver-rules=MAP localhost 127.0.0.1:{hub.port}"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", there],
            timeout=START_TIMEOUT_MS,
        )
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Any) -> Iterator[Callable[..., Window]]:
    opened: list[tuple[Any, Window]] = []

    def make(**options: Any) -> Window:
        context = chromium.new_context(**{"locale": "en", "reduced_motion": "reduce", **options})
        made = Window(context.new_page(), ADDRESS)
        opened.append((context, made))
        return made

    yield make
    for context, _made in opened:
        context.close()
    assert [line for _context, made in opened for line in made.complaints] == []


def attach_device(page: Any, **changes: Any) -> tuple[Any, str]:
    """A device for passkeys at this page."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": {**DEVICE, **changes}})
    return session, added["authenticatorId"]


def add_passkey(mine: Window, name: str) -> None:
    page = mine.open(f"{HOME}passkeys/add/")
    page.fill("#id_name", name)
    page.click("text=Create passkey")


def sign_out(mine: Window) -> None:
    mine.page.click("details.menu summary")
    mine.page.click("details.menu button")
    mine.page.wait_for_url("**/sign-in/**")


def remove_all(hub: Hub, name: str = "alice") -> None:
    hub.manage("removefactors", name)


@pytest.mark.parametrize("age", ["new", "old"])
def test_a_person_adds_a_passkey_signs_out_and_signs_in_with_it(
    hub: Hub, window: Callable[..., Window], age: str
) -> None:
    mine = window()
    if age == "old":
        mine.page.add_init_script(OLD_BROWSER)
    mine.sign_in("alice")
    attach_device(mine.page)
    add_passkey(mine, "Laptop")
    mine.page.wait_for_selector("#codes")
    assert len(mine.page.inner_text("#codes").split()) == 10
    with mine.page.expect_download() as download:
        mine.page.click("text=Download")
    assert mine.page.inner_text("#codes").split()[0] in Path(download.value.path()).read_text()
    mine.page.click("text=Done")
    mine.page.wait_for_selector("text=10 codes left")
    sign_out(mine)
    page = mine.open("/sign-in/?next=/tokens/")
    page.click("text=Sign in with a passkey")
    page.wait_for_url("**/tokens/")
    # With the password, it is the second step.
    sign_out(mine)
    page.fill("#id_username", "alice")
    page.fill("#id_password", seed.PASSWORD)
    page.click("form.card button.primary")
    page.wait_for_url("**/second-step/")
    page.click("text=Use a passkey")
    page.wait_for_selector("details.menu")
    # The same device is not added twice.
    add_passkey(mine, "Again")
    page.wait_for_selector("[data-problem]:visible")
    assert "has a passkey for your account already" in page.inner_text("[data-problem]")
    page.goto(f"{ADDRESS}{HOME}")
    page.click("summary[aria-label='Remove Laptop']")
    page.click("text=Remove passkey")
    page.wait_for_selector("text=was removed")


def test_who_verifies_nothing_adds_nothing(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window()
    mine.sign_in("charlie")
    attach_device(mine.page, isUserVerified=False)
    add_passkey(mine, "Laptop")
    mine.page.wait_for_selector("[data-problem]:visible")
    assert "No passkey was used" in mine.page.inner_text("[data-problem]")
    assert mine.page.is_enabled("text=Create passkey")


def test_a_browser_at_another_address_is_told_the_right_one(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window()
    mine.url = hub.url
    mine.sign_in("charlie")
    page = mine.open(f"{HOME}passkeys/add/")
    page.wait_for_load_state("networkidle")
    assert page.is_visible(f"text={ADDRESS}") and not page.is_visible("text=Create passkey")
    sign_out(mine)
    assert not page.is_visible("text=Sign in with a passkey")


def test_the_app_is_set_up_and_asked_for_without_scripts(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window(java_script_enabled=False)
    mine.sign_in("charlie")
    page = mine.open(f"{HOME}app/")
    shown = re.sub(r"\s", "", page.text_content("#seed"))
    page.fill("#id_code", code_of(shown, -1))
    page.click("text=Set up app")
    codes = page.text_content("#codes").split()
    page.click("text=Done")
    page.click("details.menu summary")
    page.click("details.menu button")
    page.fill("#id_username", "charlie")
    page.fill("#id_password", seed.PASSWORD)
    page.click("form.card button.primary")
    page.fill("#id_code", codes[0])
    page.click("text=Continue")
    assert page.text_content("details.menu .who") == "charlie"
    remove_all(hub, "charlie")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_fit_and_are_readable(
    hub: Hub, window: Callable[..., Window], width: int, theme: str, pictures: Path | None
) -> None:
    mine = window(viewport={"width": width, "height": 900}, color_scheme=theme)
    found: list[str] = []

    def look(name: str) -> None:
        mine.page.wait_for_load_state("networkidle")
        found.extend(find_violations(mine.page))
        assert mine.page.evaluate(WIDE) <= 0, name
        if pictures is not None:
            mine.page.screenshot(path=pictures / f"{name}-{width}-{theme}.png", full_page=True)

    mine.open("/sign-in/")
    look("sign-in")
    mine.sign_in("root", "/sign-in/?next=/account/")
    look("account")
    attach_device(mine.page)
    mine.open(HOME)
    look("empty")
    mine.open(f"{HOME}passkeys/add/")
    look("add")
    add_passkey(mine, "A security key with a long name on my ring of keys")
    mine.page.wait_for_selector("#codes")
    look("codes")
    mine.open(f"{HOME}app/")
    look("app")
    mine.page.fill("#id_code", code_of(re.sub(r"\s", "", mine.page.inner_text("#seed")), -1))
    mine.page.click("text=Set up app")
    mine.page.wait_for_selector("text=was set up")
    look("security")
    mine.page.click("summary[aria-label^=Rename]")
    look("rename")
    mine.open(f"{HOME}confirm/")
    look("confirm")
    mine.open(f"/admin/auth/user/{hub.seeded}/change/")
    look("admin-user")
    mine.page.click("text=Remove second factors")
    mine.page.wait_for_selector("text=Key ring")
    look("admin-remove")
    other = window(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = other.open("/sign-in/")
    page.fill("#id_username", "root")
    page.fill("#id_password", seed.PASSWORD)
    page.click("form.card button.primary")
    page.wait_for_url("**/second-step/")
    page.fill("#id_code", "000000")
    page.click("text=Continue")
    page.wait_for_selector("[role=alert]:visible")
    mine, before = other, mine
    look("second-step")
    mine = before
    remove_all(hub, "root")
    assert found == []


@pytest.fixture
def pictures(request: pytest.FixtureRequest) -> Path | None:
    """A folder for pictures, for whoever wants to look at the pages."""
    folder = os.environ.get("TOOLHUB_TEST_PICTURES")
    return Path(folder) if folder else None
