"""Provisioning in the admin: tokens for superusers, shown once; groups to read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from tests import factories
from tests.scim.idp import Idp, make_provider
from toolhub.access.models import digest_of
from toolhub.identity.models import GroupMapping, Provider
from toolhub.scim.models import ROTATION_HOURS, ScimToken

pytestmark = pytest.mark.django_db
TOKENS, GROUPS = "/admin/scim/scimtoken/", "/admin/scim/scimgroup/"
TOKEN = re.compile(r"thi_[A-Za-z0-9_-]{43}")


def find_token(answer: Any) -> str:
    """The only token on a page."""
    (found,) = set(TOKEN.findall(answer.content.decode()))
    return str(found)


def works(provider: Provider, text: str) -> bool:
    return bool(Idp(provider, text).get("Users").status_code == 200)


@pytest.fixture
def nearly_root(db: None) -> Client:
    """Staff with every permission that there is."""
    user = User.objects.create_user("nearly-root", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(user)
    return client


def test_nobody_but_a_superuser_sees_makes_rotates_or_revokes_a_token(idp: Idp, nearly_root: Client) -> None:
    token = ScimToken.objects.get()
    before = ScimToken.objects.values().get()
    page = f"{TOKENS}{token.pk}"
    for url in (TOKENS, f"{TOKENS}add/", f"{page}/change/", f"{page}/rotate/", f"{page}/delete/"):
        assert nearly_root.get(url).status_code == 403, url
    for url, form in (
        (f"{TOKENS}add/", {"provider": idp.provider.pk}),
        (TOKENS, {"action": "revoke_chosen", "_selected_action": [token.pk]}),
        (f"{page}/change/", {"scim_scimtoken_revoke_this": "1"}),
        (f"{page}/rotate/", {}),
    ):
        assert nearly_root.post(url, form).status_code == 403, url
    assert list(ScimToken.objects.values()) == [before]
    assert "scimtoken" not in nearly_root.get("/admin/").content.decode()


def test_a_token_is_shown_once_with_the_address_and_only_its_digest_is_stored(browser: Client) -> None:
    provider = make_provider()
    made = browser.post(f"{TOKENS}add/", {"provider": provider.pk})
    text = find_token(made)
    assert "http://localhost:8000/scim/v2" in made.content.decode()
    assert "no-store" in made["Cache-Control"]
    token = ScimToken.objects.get()
    assert (token.digest, token.prefix) == (digest_of(text), text[:8])
    assert works(provider, text)
    for url in (TOKENS, f"{TOKENS}{token.pk}/change/", "/admin/"):
        page = browser.get(url).content.decode()
        assert text not in page and token.digest not in page
    logged = repr(list(Action.objects.values()))
    assert text not in logged and token.digest not in logged
    assert Action.objects.filter(kind="provisioning token", verb="created", actor="root").count() == 1


def test_a_provider_without_an_issuer_gets_no_token(browser: Client) -> None:
    answer = browser.post(f"{TOKENS}add/", {"provider": make_provider(issuer="").pk})
    assert answer.context["adminform"].form.errors["provider"]
    assert not ScimToken.objects.exists()


def test_a_rotated_token_works_for_a_while_beside_the_new_one(idp: Idp, browser: Client) -> None:
    token = ScimToken.objects.get()
    page = f"{TOKENS}{token.pk}/rotate/"
    assert f"{ROTATION_HOURS} more hours" in browser.get(page).content.decode()
    assert ScimToken.objects.count() == 1
    made = browser.post(page)
    text = find_token(made)
    assert text != idp.token and "no-store" in made["Cache-Control"]
    assert works(idp.provider, idp.token) and works(idp.provider, text)
    assert browser.post(page).status_code == 302, "it is rotated once"
    assert ScimToken.objects.count() == 2
    ScimToken.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(seconds=1))
    assert not works(idp.provider, idp.token) and works(idp.provider, text)


@pytest.mark.parametrize("way", ["list", "page"])
def test_a_revoked_token_is_rejected_at_once(idp: Idp, browser: Client, way: str) -> None:
    token = ScimToken.objects.get()
    if way == "list":
        browser.post(TOKENS, {"action": "revoke_chosen", "_selected_action": [token.pk]})
    else:
        browser.post(f"{TOKENS}{token.pk}/change/", {"scim_scimtoken_revoke_this": "1"})
    assert idp.get("Users").status_code == 401
    assert browser.post(f"{TOKENS}{token.pk}/rotate/").status_code == 302
    assert ScimToken.objects.count() == 1
    assert "revoked" in browser.get(TOKENS).content.decode()


def test_the_list_says_when_and_from_where_a_token_was_used(idp: Idp, browser: Client) -> None:
    idp.get("Users")
    token = ScimToken.objects.get()
    assert token.last_used is not None and token.last_address == idp.address
    idp.get("Users")
    assert ScimToken.objects.get().last_used == token.last_used, "once a minute"
    assert idp.address in browser.get(TOKENS).content.decode()
    assert not Action.objects.filter(kind="provisioning token", verb="changed").exists()


def test_a_token_is_never_deleted_but_with_its_provider(browser: Client) -> None:
    provider = make_provider()
    ScimToken.objects.issue(provider)
    token = ScimToken.objects.get()
    assert browser.post(f"{TOKENS}{token.pk}/delete/", {"post": "yes"}).status_code == 403
    assert browser.post(f"/admin/identity/provider/{provider.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not ScimToken.objects.exists()


def test_groups_say_what_they_give_here_and_lead_to_the_mappings(idp: Idp, browser: Client) -> None:
    ada = idp.make_user()
    mapped = idp.make_group("Analysts", ada, externalId="g-1")
    idp.make_group("Writers\u202e")
    GroupMapping.objects.create(provider=idp.provider, value="g-1", group=factories.make_group("our analysts"))
    page = browser.get(GROUPS).content.decode()
    assert "our analysts" in page
    assert f'href="/admin/identity/provider/{idp.provider.pk}/change/"' in page
    assert page.count("map it") == 1
    assert "\u202e" not in page
    one = browser.get(f"{GROUPS}{mapped['id']}/change/")
    assert one.status_code == 200
    assert "ada@corp.example" in one.content.decode()


def test_groups_are_read_only_for_everybody(idp: Idp, browser: Client, nearly_root: Client) -> None:
    group = idp.make_group("Analysts")
    for client in (browser, nearly_root):
        assert client.get(GROUPS).status_code == 200
        for url in (f"{GROUPS}add/", f"{GROUPS}{group['id']}/change/", f"{GROUPS}{group['id']}/delete/"):
            assert client.post(url, {"display_name": "x", "post": "yes"}).status_code == 403, url
    assert idp.show(group) == group
