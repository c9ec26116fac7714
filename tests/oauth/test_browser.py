"""A person with a real browser: from the client's address to the answer, in both languages, without a paste."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.browser.axe import find_violations
from tests.browser.conftest import chromium as chromium
from tests.oauth import people
from tests.oauth.flow import challenge_of
from tests.oauth.people import PASSWORD, Callback
from tests.oauth.test_clients import Person, Storage, connect, use
from tests.secure_hub import SecureHub

pytestmark = pytest.mark.chromium
VERIFIER = "v" * 50


def seed() -> dict[str, str]:
    from catalog.models import Tool
    from tests.factories import make_toolset

    tokens = people.seed()
    for tool in Tool.objects.all():
        tool.toolsets.add(make_toolset("Numbers" if tool.name == "add" else "Everything else"))
    return tokens


@pytest.fixture(scope="module")
def site() -> Iterator[SecureHub]:
    with SecureHub(seed=seed, env={"TOOLHUB_TOOL_MODULES": "tests.e2e.functions"}) as running:
        yield running


def register(site: SecureHub, redirect_uri: str, name: str = "Claude") -> str:
    given = {"client_name": name, "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
    answer = httpx2.post(f"{site.url}/oauth/register", json=given, verify=site.authority.trust())
    client_id: str = answer.json()["client_id"]
    return client_id


def address(site: SecureHub, client_id: str, redirect_uri: str, state: str = "s") -> str:
    given = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
    }
    return f"{site.url}/oauth/authorize?{httpx2.QueryParams(given)}"


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(ignore_https_errors=True, locale="en")
    made = context.new_page()
    made.complaints = []
    made.on("console", lambda message: made.complaints.append(message.text) if message.type == "error" else None)
    yield made
    context.close()


def sign_in(page: Any, name: str = "alice") -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.click("form.card button.primary")


def exchange(site: SecureHub, client_id: str, redirect_uri: str, code: str) -> dict[str, Any]:
    given = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "code": code,
        "code_verifier": VERIFIER,
    }
    answer = httpx2.post(f"{site.url}/oauth/token", data=given, verify=site.authority.trust())
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_two_clicks_lead_from_the_client_to_its_answer(site: SecureHub, callback: Callback, page: Any) -> None:
    client_id = register(site, callback.url)
    page.goto(address(site, client_id, callback.url))
    sign_in(page)
    page.wait_for_selector("text=Connect Claude?")
    assert find_violations(page) == []
    page.click("button[value=allow]")
    page.wait_for_url(f"{callback.url}?**")
    found = callback.answers.get(timeout=60)
    assert (found["state"], found["iss"]) == ("s", site.url)
    tokens = exchange(site, client_id, callback.url, found["code"])
    assert tokens["access_token"].startswith("tho_")
    assert page.complaints == []


def test_the_person_restricts_the_client_and_disconnects_it(site: SecureHub, callback: Callback, page: Any) -> None:
    client_id = register(site, callback.url, "Restricted client")
    page.goto(address(site, client_id, callback.url))
    sign_in(page)
    page.wait_for_selector("text=Connect Restricted client?")
    assert not page.is_visible("text=Everything else")
    page.check("input[value=some]")
    page.wait_for_selector("text=Everything else")
    page.click("button[value=allow]")
    page.wait_for_selector("text=Choose at least one toolset.")
    page.check("label:has-text('Numbers') input")
    page.select_option("#id_days", "7")
    page.click("button[value=allow]")
    page.wait_for_url(f"{callback.url}?**")
    exchange(site, client_id, callback.url, callback.answers.get(timeout=60)["code"])
    page.goto(f"{site.url}/apps/")
    card = page.locator("article", has_text="Restricted client")
    assert "Numbers" in card.inner_text()
    assert find_violations(page) == []
    card.locator("summary").click()
    card.locator("button.danger").click()
    page.wait_for_selector("text=was disconnected")
    assert page.locator("details.ended article", has_text="Restricted client").count() == 1


def test_who_denies_sends_the_client_back_with_the_reason(site: SecureHub, callback: Callback, page: Any) -> None:
    page.goto(address(site, register(site, callback.url), callback.url))
    sign_in(page)
    page.click("button[value=deny]")
    page.wait_for_url(f"{callback.url}?**")
    found = callback.answers.get(timeout=60)
    assert (found["error"], found["iss"]) == ("access_denied", site.url)


def test_an_answer_to_another_site_and_to_an_application_passes_the_policy_of_the_page(
    site: SecureHub, page: Any
) -> None:
    site.documents.answers["/cb"] = {}
    web = f"{site.documents.url}/cb"
    page.route(f"{web}?**", lambda route: route.fulfill(status=200, content_type="text/html", body="<p>here</p>"))
    page.goto(address(site, register(site, web), web))
    sign_in(page)
    page.click("button[value=allow]")
    page.wait_for_url(f"{web}?**")
    assert urlsplit(page.url).query.startswith("code=thc_")
    page.goto(address(site, register(site, "cursor://callback"), "cursor://callback"))
    page.click("button[value=allow]")
    page.wait_for_selector("text=Back to the client")
    assert page.get_attribute("main a.button", "href").startswith("cursor://callback?code=thc_")
    assert [text for text in page.complaints if "Content Security Policy" in text] == []


def follow(site: SecureHub, callback: Callback, name: str) -> Any:
    """Connect an official client that signs this person in, and let it call a tool."""
    person, storage = Person(site, name), Storage()

    async def run() -> None:
        async with connect(site, person, storage, callback) as client:
            await use(client)

    return asyncio.run(run())


def stage(page: Any, name: str, state: str) -> None:
    page.wait_for_selector(f'[data-stage="{name}"][data-state="{state}"]')


def test_the_connect_page_follows_the_client_that_is_being_connected_step_by_step(
    site: SecureHub, callback: Callback, page: Any
) -> None:
    page.goto(f"{site.url}/connect/claude-code/")
    sign_in(page)
    page.wait_for_selector('#check [data-live="live"]')
    stage(page, "found", "now")
    assert not page.is_visible("text=Create token for this client"), "no token is needed"
    assert f"{site.url}/mcp" in page.inner_text("#sign-in-1")
    # Another client of alice is at work all the time.
    wrong = {"Authorization": f"Bearer {site.hub.seeded['alice']}", "Accept": "application/json, text/event-stream"}
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "another", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    trust = site.authority.trust()
    assert httpx2.post(f"{site.url}/mcp", headers=wrong, json=message, verify=trust).status_code == 200
    httpx2.post(f"{site.url}/", verify=trust)
    page.wait_for_selector('[data-reason="path"]:visible')
    with ThreadPoolExecutor(1) as threads:
        threads.submit(follow, site, callback, "alice").result(120)
    for name in ("found", "introduced", "allowed", "token", "revision", "tools", "call"):
        stage(page, name, "done")
    page.wait_for_selector("[data-connected]:visible")
    assert page.text_content("[data-token]") == "Python SDK"
    assert not page.is_visible("[data-reason]")


def test_a_client_that_says_nothing_gets_a_hint_and_a_placeholder_is_recognised(site: SecureHub, page: Any) -> None:
    page.clock.install()
    page.goto(f"{site.url}/connect/cursor/")
    sign_in(page)
    page.wait_for_selector('#check [data-live="live"]')
    assert page.get_attribute("text=Add to Cursor", "href").startswith("cursor://")
    page.clock.fast_forward(31_000)
    page.wait_for_selector('[data-reason="silence"]:visible')
    headers = {"Authorization": "Bearer thp_YOUR_TOKEN", "Accept": "application/json, text/event-stream"}
    httpx2.post(f"{site.url}/mcp", headers=headers, json={}, verify=site.authority.trust())
    page.wait_for_selector('[data-reason="placeholder"]:visible')


@pytest.mark.parametrize("width", [390, 1280])
def test_the_pages_fit_and_are_readable_in_chinese_too(
    site: SecureHub, callback: Callback, chromium: Any, width: int
) -> None:
    context = chromium.new_context(
        ignore_https_errors=True, locale="zh-CN", viewport={"width": width, "height": 800}, color_scheme="dark"
    )
    page = context.new_page()
    page.goto(address(site, register(site, callback.url, "很长的名字" * 12), callback.url))
    sign_in(page)
    page.wait_for_selector("form.consent")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert find_violations(page) == []
    context.close()
