"""The whole way in a browser: an administrator turns a provider on, a person comes from it and connects a client."""

from __future__ import annotations

import asyncio
import queue
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp.client.auth import AuthorizationCodeResult

from tests.browser.axe import find_violations
from tests.browser.conftest import chromium as chromium
from tests.identity import idp
from tests.identity.company import Company
from tests.oauth import people
from tests.oauth.people import PASSWORD, Callback
from tests.oauth.test_clients import Storage, connect, use
from tests.secure_hub import SecureHub

pytestmark = pytest.mark.chromium


def seed() -> dict[str, str]:
    from django.contrib.auth.models import Group, User

    from catalog.models import Tool
    from tests.factories import grant

    tokens = people.seed()
    User.objects.create_superuser("root", password=PASSWORD)
    group = Group.objects.create(name="Sales")
    for tool in Tool.objects.all():
        grant(group, tool)
    return tokens


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with Company(tmp_path_factory.mktemp("company")) as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[SecureHub]:
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions", "TOOLHUB_SIGN_IN_NETWORKS": "127.0.0.1/32"}
    with SecureHub(seed=seed, env=env) as running:
        yield running


@pytest.fixture
def callback() -> Iterator[Callback]:
    with people.callback() as waiting:
        yield waiting


class BrowserPerson:
    """A person of the company, whose browser the test drives while the client waits in another thread."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.addresses: queue.Queue[str] = queue.Queue()
        self.provider: Any = None

    async def open(self, address: str) -> None:
        self.addresses.put(address)

    async def wait(self) -> AuthorizationCodeResult:
        found = await asyncio.to_thread(self.callback.answers.get, timeout=120)
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


def run_client(site: SecureHub, person: Any, callback: Callback) -> None:
    async def run() -> None:
        async with connect(site, person, Storage(), callback) as client:
            await use(client)

    asyncio.run(run())


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_from_the_settings_of_a_provider_to_a_connected_client(
    site: SecureHub, company: Company, callback: Callback, chromium: Any, locale: str
) -> None:
    slug = f"company-{locale.lower()}"
    name = f"person-{secrets.token_hex(3)}"
    company.control(redirects=[f"{site.url}/sign-in/with/{slug}/callback/"])
    company.employ(name, "hub-sales")
    context = chromium.new_context(ignore_https_errors=True, locale=locale, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{site.url}/admin/identity/provider/add/")
    page.fill("#id_username", "root")
    page.fill("#id_password", PASSWORD)
    page.click("form button[type=submit]:visible, form.card button:visible")
    page.wait_for_selector("#id_slug")
    page.wait_for_load_state()  # until then, nothing notes that a person typed there
    page.fill("#id_slug", slug)
    page.press("#id_slug", "Tab")  # what a person typed is not filled in from the name
    page.fill("#id_name", "The company")
    assert page.input_value("#id_slug") == slug
    page.click("button[name=_save]")
    page.wait_for_selector("#id_issuer")
    assert f"{site.url}/sign-in/with/{slug}/callback/" in page.inner_text("#provider_form")
    page.fill("#id_issuer", company.url)
    page.fill("#id_client_id", idp.CLIENT_ID)
    page.fill("#id_new_secret", idp.CLIENT_SECRET)
    page.check("#id_enabled")
    page.locator(".add-row:visible").first.click()
    page.fill("#id_mappings-0-value", "hub-sales")
    page.click("#id_mappings-0-group + .select2")
    page.keyboard.type("Sales")
    page.click(".select2-results__option:has-text('Sales')")
    page.click("button[name=_continue]")
    page.wait_for_selector("#id_mappings-0-value")
    page.click("a[href$='/test/']")
    page.click("button[value=check]")
    page.wait_for_selector("#checks")
    assert page.locator("#checks strong").count() == 0
    assert find_violations(page) == []
    context.close()

    context = chromium.new_context(ignore_https_errors=True, locale=locale)
    page = context.new_page()
    person = BrowserPerson(callback)
    with ThreadPoolExecutor(1) as threads:
        client = threads.submit(run_client, site, person, callback)
        page.goto(person.addresses.get(timeout=120))
        page.click(f".ways a[href*='{slug}']")  # the first click
        page.fill("input[name=name]", name)  # at the company, which knows most people already
        page.click("button")
        page.wait_for_selector("form.consent")
        assert find_violations(page) == []
        page.click("button[value=allow]")  # the second and last one
        client.result(120)
    page.goto(f"{site.url}/account/")
    page.goto(f"{site.url}/apps/")
    card = page.locator("article").first
    assert "Python SDK" in card.inner_text()
    card.locator("summary").click()
    card.locator("button.danger").click()
    page.wait_for_selector("details.ended article", state="attached")
    context.close()
