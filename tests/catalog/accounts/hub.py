"""Steps of people and administrators at a hub whose upstream server demands OAuth."""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.auth.models import User
from django.test import Client as Browser

from catalog.models import Prompt, Resource, Secret, Tool, Upstream
from catalog.upstreams import discovery
from tests import factories
from tests.catalog.accounts.service import Service


def make_account(url: str, name: str = "notes", **fields: Any) -> Secret:
    secret = Secret(name=name, kind=Secret.Kind.ACCOUNT, **{"url": url, **fields})
    secret.full_clean()
    secret.save()
    return secret


def make_upstream(url: str, account: str = "notes", name: str = "notes", **fields: Any) -> Upstream:
    upstream = Upstream(
        name=name,
        url=url,
        headers={"Authorization": {"secret": account, "prefix": "Bearer "}},
        allowed_networks=["127.0.0.0/8"],
        **fields,
    )
    upstream.full_clean()
    upstream.save()
    return upstream


def import_everything(upstream: Upstream, staff: User, *people: User) -> None:
    """Import all that the server offers, with the account of this administrator, and grant it to the people."""
    found = discovery.discover(upstream, staff.pk, "discovered")
    outcome = discovery.import_items(upstream, found, [one.value for one in discovery.candidates(upstream, found)])
    assert not outcome.refused, outcome.refused
    for person in people:
        for model in (Tool, Resource, Prompt):
            factories.grant(person, *model.objects.all())


def make_api_tool(url: str, *people: User, account: str = "notes", name: str = "ask_api", **settings: Any) -> Tool:
    headers = {"Authorization": {"secret": account, "prefix": "Bearer "}}
    made = factories.make_tool(
        name,
        runner="http_api",
        settings={"url": url, "static_headers": headers, "retries": 0, **settings},
        input_schema={"type": "object"},
    )
    for person in people:
        factories.grant(person, made)
    return made


def sign_in(user: Any) -> Browser:
    browser = Browser()
    browser.force_login(user if isinstance(user, User) else User.objects.get(username=user))
    return browser


def leave(browser: Browser, name: str = "notes", page: str = "/secrets/") -> str:
    """Press Connect on the page; return the address of the authorization server."""
    shown = re.findall(r'type="hidden" name="destination" value="([^"]*)"', browser.get(page).content.decode())
    answer = browser.post(f"/accounts/{name}/connect/", {"destination": [html.unescape(key) for key in shown]})
    text = answer.content.decode()
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]*)"', text)
    assert answer.status_code == 200 and found, text
    return html.unescape(found[1])


def join(user: Any, service: Service, person: str, name: str = "notes") -> str:
    """Sign in here and connect an account as this person of the service; return the last page here."""
    page = str(connect(sign_in(user), service, person, name).content.decode())
    assert f"“{name}” is connected" in page, page
    return page


def connect(browser: Browser, service: Service, person: str, name: str = "notes") -> Any:
    """Connect an account as this person of the service; return the last page here."""
    return browser.get(service.answer(leave(browser, name), person), follow=True)
