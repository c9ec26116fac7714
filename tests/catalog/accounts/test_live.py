"""Two people and an upstream server that demands OAuth, at a running hub: on SQLite, and on two workers."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.catalog.accounts.service import Service
from tests.client import HttpClient, RpcError
from tests.e2e.raw import MODERN
from tests.polling import wait_until_async
from tests.real_servers import Hub

SET_UPS: dict[str, dict[str, Any]] = {"sqlite": {}, "two workers": {"workers": 2, "postgres": True, "redis": True}}
PUBLIC = "http://hub.test"
URL_ELICITATION: dict[str, Any] = {"elicitation": {"url": {}}}


def seed() -> dict[str, dict[str, str]]:
    """Tokens and sessions of three people."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from tests.e2e.seed import create_cast

    User.objects.create_superuser("root")
    tokens, sessions = create_cast(), {}
    for name in ("root", "alice", "bob"):
        browser = Client()
        browser.force_login(User.objects.get(username=name))
        sessions[name] = browser.cookies[settings.SESSION_COOKIE_NAME].value
    return {"tokens": tokens, "sessions": sessions}


def add_upstream(url: str) -> None:
    """What an administrator does on the page of the upstream server."""
    from catalog.models import Upstream
    from catalog.upstreams import accounts

    upstream = Upstream(name="notes", url=url, allowed_networks=["127.0.0.0/8"])
    upstream.full_clean()
    upstream.save()
    assert accounts.add(upstream).name == "notes"


def import_tools() -> None:
    from django.contrib.auth.models import User

    from catalog.models import Upstream
    from tests.catalog.accounts.hub import import_everything

    people = [User.objects.get(username=name) for name in ("alice", "bob")]
    import_everything(Upstream.objects.get(), User.objects.get(username="root"), *people)


def end_access_tokens() -> None:
    """Every access token of before is about to end."""
    from django.utils import timezone

    from catalog.models import ConnectedAccount

    ConnectedAccount.objects.update(expires_at=timezone.now())


def forget_accounts(name: str) -> None:
    from catalog.models import PersonalSecret

    PersonalSecret.objects.filter(user__username=name).delete()


def find_in_clear(values: list[str]) -> list[str]:
    """Tables that hold one of the values."""
    from django.apps import apps

    found = []
    for model in apps.get_models():
        text = str(list(model._base_manager.values()))
        found += [model._meta.label for value in values if value in text]
    return found


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.fixture(scope="module", params=SET_UPS, ids=list(SET_UPS))
def hub(request: pytest.FixtureRequest, service: Service) -> Iterator[Hub]:
    env = {
        "TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        "TOOLHUB_PUBLIC_URL": PUBLIC,
        "TOOLHUB_ALLOWED_HOSTS": "127.0.0.1",
    }
    with Hub(seed=seed, env=env, **SET_UPS[request.param]) as running:
        service.control(end="ann")
        running.call(add_upstream, url=service.mcp_url)
        yield running


async def open_page(browser: httpx2.AsyncClient, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def connect(hub: Hub, service: Service, person: str, name: str, page: str = "/secrets/") -> str:
    """Press the button on this page, sign in at the service, and return the page on which the person ends."""
    cookies = {"toolhub_session": hub.seeded["sessions"][person]}
    async with httpx2.AsyncClient(trust_env=False, base_url=hub.url, cookies=cookies, timeout=60) as browser:
        shown = await open_page(browser, page)
        data = {
            "csrfmiddlewaretoken": re.findall(r'name="csrfmiddlewaretoken" value="([^"]*)"', shown)[-1],
            "destination": [html.unescape(key) for key in re.findall(r'name="destination" value="([^"]*)"', shown)],
        }
        leaving = await browser.post("/accounts/notes/connect/", data=data, headers={"Origin": hub.url})
        found = re.search(r'http-equiv="refresh" content="0;url=([^"]*)"', leaving.text)
        assert leaving.status_code == 200 and found, leaving.text
        back = await asyncio.to_thread(service.answer, html.unescape(found[1]), name)
        done = await browser.get(back)
        assert done.status_code == 302 and done.headers["location"] == "/secrets/", done.text
        return await open_page(browser, "/secrets/")


def client(hub: Hub, person: str, revision: str, capabilities: dict[str, Any] | None = None) -> HttpClient:
    token = hub.seeded["tokens"][person]
    return HttpClient(hub.mcp_url, token, revision, capabilities=capabilities or {})


async def has_tool(asking: HttpClient, name: str = "whoami") -> bool:
    return name in await asking.tools()


async def test_two_people_use_one_server_with_their_own_accounts(hub: Hub, service: Service) -> None:
    assert "“notes” is connected" in await connect(hub, service, "root", "ops")
    await asyncio.to_thread(hub.call, import_tools)

    # A client that can show links gets one, and it leads to the page that connects the account.
    async with client(hub, "alice", "2025-11-25", URL_ELICITATION) as asking:
        await wait_until_async(lambda: has_tool(asking), what="the tool in the list")
        with pytest.raises(RpcError) as raised:
            await asking.call("whoami")
    assert raised.value.code == -32042
    link = raised.value.data["elicitations"][0]["url"]
    assert link.startswith(f"{PUBLIC}/accounts/notes/")
    path = link.removeprefix(PUBLIC)
    cookies = {"toolhub_session": hub.seeded["sessions"]["bob"]}
    async with httpx2.AsyncClient(trust_env=False, base_url=hub.url, cookies=cookies) as his:
        assert (await his.get(path)).status_code == 403
    assert "“notes” is connected" in await connect(hub, service, "alice", "ann", path)

    # A client of 2026-07-28 is asked, and its next request waits while the person connects the account.
    async with client(hub, "bob", MODERN, URL_ELICITATION) as asking:
        asked = await asking.call("whoami")
        ((key, request),) = asked["inputRequests"].items()
        assert request["params"]["url"].startswith(f"{PUBLIC}/accounts/notes/")
        answers = {key: {"action": "accept"}}
        waiting = asyncio.create_task(
            asking.request(
                "tools/call",
                {"name": "whoami", "arguments": {}, "inputResponses": answers, "requestState": asked["requestState"]},
            )
        )
        await connect(hub, service, "bob", "ben", request["params"]["url"].removeprefix(PUBLIC))
        assert (await waiting)["content"][0]["text"] == "ben"

    # A hundred calls at once, while every access token has ended: each person is themselves, refreshed once.
    before = service.control()
    await asyncio.to_thread(hub.call, end_access_tokens)
    clients = [client(hub, person, revision) for person in ("alice", "bob") for revision in ("2025-11-25", MODERN)]
    for one in clients:
        await one.__aenter__()
    try:
        said = await asyncio.gather(*(one.text("whoami") for one in clients for _ in range(25)))
    finally:
        for one in clients:
            await one.__aexit__(None, None)
    assert said == ["ann"] * 50 + ["ben"] * 50
    after = service.control()
    assert (after["refreshed"] - before["refreshed"], after["reused"]) == (2, before["reused"])

    # What the service revokes, its owner connects again; nobody else notices.
    service.control(end="ann")
    async with client(hub, "alice", MODERN) as asking:
        refused = await asking.call("whoami")
        assert refused["isError"] and f"{PUBLIC}/accounts/notes/" in refused["content"][0]["text"]
    async with client(hub, "bob", MODERN) as asking:
        assert await asking.text("whoami") == "ben"
    assert "“notes” is connected" in await connect(hub, service, "alice", "ann")
    async with client(hub, "alice", MODERN) as asking:
        assert await asking.text("whoami") == "ann"

    # No token is anywhere in clear.
    tokens = service.control()["tokens"]
    assert len(tokens) >= 8
    assert await asyncio.to_thread(hub.call, find_in_clear, values=tokens) == []
    log = hub.log()
    assert not [token for token in tokens if token in log]


async def test_the_official_client_gets_its_answer_when_the_person_has_connected(
    hub: Hub, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client shows the link, asks again by itself, and the hub answers as soon as the account is connected."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)
    await asyncio.to_thread(hub.call, forget_accounts, name="bob")
    pages: list[asyncio.Task[str]] = []

    async def show_link(context: Any, params: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        path = params.url.removeprefix(PUBLIC)
        pages.append(asyncio.create_task(connect(hub, service, "bob", "ben", path)))
        return types.ElicitResult(action="accept")

    headers = {"Authorization": f"Bearer {hub.seeded['tokens']['bob']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=90, trust_env=False) as http,
        Client(streamable_http_client(hub.mcp_url, http_client=http), elicitation_callback=show_link) as official,
    ):
        result = await official.call_tool("whoami", {})
    assert [block.text for block in result.content if isinstance(block, types.TextContent)] == ["ben"]
    assert "“notes” is connected" in await pages[0]
