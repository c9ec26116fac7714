"""In a browser: an administrator lets people connect accounts, imports with their own, and a person follows a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.threads import run_in_loop
from tests.browser.axe import find_violations
from tests.browser.conftest import chromium as chromium
from tests.catalog.accounts.service import Service
from tests.catalog.accounts.test_live import URL_ELICITATION, has_tool
from tests.client import HttpClient, RpcError
from tests.oauth import people
from tests.oauth.people import PASSWORD
from tests.polling import wait_until_async
from tests.secure_hub import SecureHub

pytestmark = pytest.mark.chromium
SHOTS = os.environ.get("TOOLHUB_TEST_SHOTS", "")


def seed() -> dict[str, str]:
    from django.contrib.auth.models import User

    tokens = people.seed()
    User.objects.create_superuser("root", password=PASSWORD)
    return tokens


def add_upstream(url: str, name: str) -> int:
    from catalog.models import Upstream

    return int(Upstream.objects.create(name=name, prefix=name, url=url, allowed_networks=["127.0.0.0/8"]).pk)


def grant_to_alice(name: str) -> None:
    from django.contrib.auth.models import User

    from catalog.models import Tool
    from tests.factories import grant

    grant(User.objects.get(username="alice"), Tool.objects.get(name=name))


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[SecureHub]:
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions", "TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8"}
    with SecureHub(seed=seed, env=env) as running:
        yield running


def sign_in(page: Any, name: str) -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.click("form button[type=submit]:visible, form.card button:visible")


def look(page: Any, name: str) -> None:
    """Check the page for everybody, and keep pictures of it where somebody wants to see them."""
    assert find_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"), name
    for shade in ("light", "dark") if SHOTS else ():
        page.emulate_media(color_scheme=shade)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=Path(SHOTS) / f"{name}-{width}-{shade}.png", full_page=True)
    if SHOTS:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 900})


async def ask_for_link(site: SecureHub, tool: str) -> str:
    """The link that a client of alice gets for this tool."""
    async with HttpClient(
        site.hub.mcp_url, site.hub.seeded["alice"], "2025-11-25", capabilities=URL_ELICITATION
    ) as one:
        await wait_until_async(lambda: has_tool(one, tool), what="the tool in the list")
        with pytest.raises(RpcError) as raised:
            await one.call(tool)
        return str(raised.value.data["elicitations"][0]["url"])


async def use(site: SecureHub, tool: str) -> str:
    async with HttpClient(site.hub.mcp_url, site.hub.seeded["alice"], "2025-11-25") as one:
        return await one.text(tool)


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_from_an_upstream_server_that_wants_a_sign_in_to_the_answer_of_a_tool(
    site: SecureHub, service: Service, chromium: Any, locale: str
) -> None:
    name = f"notes-{locale.lower()}"
    account = name.replace("-", "_")
    number = site.hub.call(add_upstream, url=service.mcp_url, name=name)
    context = chromium.new_context(ignore_https_errors=True, locale=locale, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{site.url}/admin/catalog/upstream/{number}/tools/")
    sign_in(page, "root")
    page.click("button[value=test]")
    page.wait_for_selector("text=401")
    look(page, f"{locale}-upstream")
    page.click("button[value=accounts]")
    page.wait_for_selector(f"text={account}")
    page.click("#upstream-tools a[href='/secrets/']")
    look(page, f"{locale}-accounts-before")
    page.click(f"#{account} form[action$='/connect/'] button")
    page.wait_for_selector("text=Who are you?")
    page.click("text=ben")
    page.wait_for_selector(f"#{account} .badge.good")
    look(page, f"{locale}-accounts-after")
    page.goto(f"{site.url}/admin/catalog/secret/?q={account}")
    page.click(f"table a:has-text('{account}')")
    page.click("a[href$='/sign-in/']")
    page.click("button[value=check]")
    page.wait_for_selector("#result")
    look(page, f"{locale}-check")
    page.goto(f"{site.url}/admin/catalog/upstream/{number}/tools/")
    page.click("button[value=discover]")
    page.check(f"input[name=item][aria-label='{name}_whoami']")
    page.click("form:has(input[name=item]) button")
    page.wait_for_url("**/admin/imports/*/")
    page.goto(f"{site.url}/admin/catalog/upstream/{number}/tools/")
    page.wait_for_selector("#upstream-tools a[href*='/admin/catalog/tool/']")
    imported = f"{name}_whoami"
    context.close()

    site.hub.call(grant_to_alice, name=imported)
    link = run_in_loop(ask_for_link(site, imported))
    context = chromium.new_context(ignore_https_errors=True, locale=locale, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(link)
    sign_in(page, "alice")
    page.wait_for_selector("form[action$='/connect/']")
    look(page, f"{locale}-link")
    page.click("form[action$='/connect/'] button")
    page.wait_for_selector("text=Who are you?")
    page.click("text=decline")
    page.wait_for_selector("h1")
    look(page, f"{locale}-declined")
    page.goto(link)
    page.click("form[action$='/connect/'] button")
    page.click("text=ann")
    page.wait_for_selector(f"#{account} .badge.good")
    said = run_in_loop(use(site, imported))
    assert said == "ann"
    page.click(f"#{account} details.confirm summary")
    page.click(f"#{account} details.confirm button")
    page.wait_for_selector(f"#{account} .badge.warn")
    context.close()

    context = chromium.new_context(ignore_https_errors=True, locale=locale, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(link)
    sign_in(page, "bob")
    page.wait_for_selector("p.code:has-text('403')")
    look(page, f"{locale}-refused")
    context.close()
