"""What the company changes, seen by clients that listen: a group that goes, and a person who leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.client import HttpClient, HttpRefusal
from tests.e2e.raw import MODERN
from tests.identity.company import Company
from tests.polling import wait_until_async
from tests.real_servers import Hub

SET_UPS: dict[str, dict[str, Any]] = {"sqlite": {}, "two workers": {"workers": 2, "postgres": True, "redis": True}}
CHANGED = "notifications/tools/list_changed"
MAX_WAIT_SECONDS = 45.0
"""What must happen within five seconds, with room for a machine that does much else."""


def seed() -> None:
    from django.contrib.auth.models import Group

    from tests.e2e.seed import seed_examples
    from tests.factories import grant

    seed_examples()
    group = Group.objects.create(name="Sales")
    from catalog.models import Tool

    grant(group, Tool.objects.get(name="echo"))


def configure(issuer: str) -> None:
    """The company, with a group that is mapped."""
    from django.contrib.auth.models import Group

    from tests.identity import idp
    from toolhub.identity.models import GroupMapping, Provider

    row = Provider(
        slug="company",
        name="The company",
        enabled=True,
        issuer=issuer,
        client_id=idp.CLIENT_ID,
        scopes="openid profile",
    )
    row.set_secret(idp.CLIENT_SECRET)
    row.save()
    GroupMapping.objects.create(provider=row, value="hub-sales", group=Group.objects.get(name="Sales"))


def give_tokens() -> list[str]:
    """Both kinds of credential for dora."""
    from django.contrib.auth.models import User

    from tests.factories import connect_app
    from toolhub.access.models import AccessToken

    dora = User.objects.get(username="dora")
    return [AccessToken.objects.issue(dora, "script")[1], connect_app(dora)[1]["access_token"]]


def make_due() -> None:
    from datetime import timedelta

    from django.utils import timezone

    from toolhub.identity.models import Identity

    Identity.objects.update(checked=timezone.now() - timedelta(days=1))


def read_token() -> str:
    """The provider's token for the next check, as it is stored."""
    from toolhub.identity.models import Identity

    return Identity.objects.get().refresh_token


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with Company(tmp_path_factory.mktemp("company")) as running:
        yield running


@pytest.fixture(scope="module", params=SET_UPS, ids=list(SET_UPS))
def hub(request: pytest.FixtureRequest, company: Company) -> Iterator[Hub]:
    env = {
        "TOOLHUB_TOOL_MODULES": "tests.e2e.functions",
        "TOOLHUB_SIGN_IN_NETWORKS": "127.0.0.1/32",
        "TOOLHUB_PUBLIC_URL": "http://hub.test",
        "TOOLHUB_ALLOWED_HOSTS": "127.0.0.1",
    }
    with Hub(seed=seed, env=env, **SET_UPS[request.param]) as running:
        running.call(configure, issuer=company.url)
        company.control(redirects=["http://hub.test/sign-in/with/company/callback/"])
        yield running


async def sign_in(hub: Hub, company: Company, name: str) -> None:
    """As a browser does, in which the person has signed in to the company."""
    async with httpx2.AsyncClient(trust_env=False, base_url=hub.url) as browser:
        leaving = await browser.get("/sign-in/with/company/")
        assert leaving.status_code == 302, leaving.text
        back = await asyncio.to_thread(company.answer, leaving.headers["location"], name, "http://hub.test")
        answer = await browser.get(back)
        assert (answer.status_code, answer.headers.get("location")) == (302, "/connect/"), answer.text


async def listen(client: HttpClient) -> None:
    if client.revision == MODERN:
        await client.subscribe(toolsListChanged=True)
    else:
        await client.listen()


async def is_refused(client: HttpClient) -> bool:
    try:
        await client.tools()
    except HttpRefusal as refusal:
        return refusal.status == 401
    return False


async def test_the_company_decides_while_clients_listen(hub: Hub, company: Company) -> None:
    company.employ("dora", "hub-sales")
    await sign_in(hub, company, "dora")
    tokens = await asyncio.to_thread(hub.call, give_tokens)
    clients = [HttpClient(hub.mcp_url, token, revision) for token in tokens for revision in ("2025-11-25", MODERN)]
    for client in clients:
        await client.__aenter__()
    try:
        for client in clients:
            assert await client.tools() == ["echo"]
            await listen(client)

        company.employ("dora", "others")
        await asyncio.to_thread(hub.call, make_due)
        for client in clients:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await client.wait_for_message(CHANGED)
            assert await client.tools() == []

        company.employ("dora", "hub-sales")
        for _round in range(3):  # two workers never use one token of the provider twice: it would end the sign-in
            before = await asyncio.to_thread(hub.call, read_token)
            await asyncio.to_thread(hub.call, make_due)

            async def was_checked(before: str = before) -> bool:
                return bool(await asyncio.to_thread(hub.call, read_token) != before)

            await wait_until_async(was_checked, timeout=MAX_WAIT_SECONDS)
        for client in clients:
            assert await client.tools() == ["echo"]

        company.dismiss("dora")
        await asyncio.to_thread(hub.call, make_due)
        for client in clients:

            async def refused(client: HttpClient = client) -> bool:
                return await is_refused(client)

            await wait_until_async(refused, timeout=MAX_WAIT_SECONDS)

            def ended(client: HttpClient = client) -> bool:
                return not client._background

            await wait_until_async(ended, timeout=MAX_WAIT_SECONDS)
    finally:
        for client in clients:
            await client._cancel_background()
            await client.http.aclose()

    company.employ("dora", "hub-sales")
    await sign_in_again(hub, company)


async def sign_in_again(hub: Hub, company: Company) -> None:
    """Who comes back to the company is back here, with the credentials from before."""
    async with httpx2.AsyncClient(trust_env=False, base_url=hub.url) as browser:
        leaving = await browser.get("/sign-in/with/company/")
        back = await asyncio.to_thread(company.answer, leaving.headers["location"], "dora", "http://hub.test")
        answer = await browser.get(back)
        assert answer.status_code == 302
        assert answer.headers["location"] in {"/", "/connect/"}
