"""Accounts in the admin: made by hand or from an upstream server, checked, and exported without anything secret."""

from __future__ import annotations

import html
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client as Browser

from audit.models import Action
from catalog import encryption
from catalog.models import Secret, Upstream
from tests.catalog.accounts.hub import make_account, sign_in
from tests.catalog.accounts.stand_in import AS_METADATA, StandIn

pytestmark = pytest.mark.django_db
ADD = "/admin/catalog/secret/add/"
SECRET = "the-secret-of-our-client"


def read(answer: Any) -> str:
    return html.unescape(answer.content.decode())


@pytest.fixture
def admin(root: User) -> Browser:
    return sign_in(root)


def staff(*names: str) -> Browser:
    user = User.objects.create_user("eve", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    return sign_in(user)


def entry(**fields: Any) -> dict[str, Any]:
    own = {"issuer": "https://mcp.example.com"} if "client_id" in fields else {}
    return {"name": "notes", "kind": "account", "url": "https://mcp.example.com/mcp", **own, **fields}


def test_an_account_is_made_by_hand_and_its_client_secret_never_shown(admin: Browser) -> None:
    assert admin.post(ADD, entry(client_id="ours", new_client_secret=SECRET)).status_code == 302
    secret = Secret.objects.get()
    assert encryption.decrypt(secret.client_secret, secret.client_owner) == SECRET
    page = read(admin.get(f"/admin/catalog/secret/{secret.pk}/change/"))
    assert "Check where people sign in" in page and SECRET not in page and secret.client_secret not in page
    changed = {"description": "", "url": secret.url, "issuer": secret.issuer, "client_id": "ours", "scopes": "a b"}
    assert admin.post(f"/admin/catalog/secret/{secret.pk}/change/", changed).status_code == 302
    kept, secret.scopes = secret.client_secret, ""
    secret.refresh_from_db()
    assert secret.client_secret == kept and secret.scopes == "a b"
    logged = str(list(Action.objects.values()))
    assert SECRET not in logged and kept not in logged
    elsewhere = admin.post(f"/admin/catalog/secret/{secret.pk}/change/", {**changed, "url": "https://b.example/mcp"})
    assert elsewhere.status_code == 200 and "enter the client secret again" in read(elsewhere)
    without = admin.post(f"/admin/catalog/secret/{secret.pk}/change/", {**changed, "client_id": ""})
    assert without.status_code == 302
    secret.refresh_from_db()
    assert secret.client_secret == ""


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "a value": ({"new_value": "a value"}, "An account has no value here"),
    "a client secret without a client": ({"new_client_secret": SECRET}, "Enter the ID of the client"),
    "no TLS": ({"url": "http://mcp.example.com/mcp"}, "https"),
    "no address": ({"url": ""}, "Enter the URL of the service"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_account_that_could_not_work_is_refused(admin: Browser, name: str) -> None:
    fields, says = REFUSALS[name]
    answer = admin.post(ADD, entry(**fields))
    assert answer.status_code == 200 and says in read(answer) and SECRET not in read(answer)
    assert not Secret.objects.exists()


def test_the_check_says_where_people_sign_in_and_changes_nothing(admin: Browser, stand_in: StandIn) -> None:
    secret = make_account(f"{stand_in.url}/mcp")
    page = f"/admin/catalog/secret/{secret.pk}/sign-in/"
    assert "It changes nothing" in read(admin.get(page)) and stand_in.seen == []
    found = read(admin.post(page))
    assert f"{stand_in.url}/authorize" in found and "it registers itself" in found and "notes:read" in found
    assert not stand_in.requests("/register")
    stand_in.answers[AS_METADATA] = (200, stand_in.metadata(registration_endpoint=None))
    assert "/accounts/callback/" in read(admin.post(page)) and "To fix:" in read(admin.post(page))


def test_only_who_may_use_secrets_decides_where_people_sign_in(stand_in: StandIn) -> None:
    secret = make_account(f"{stand_in.url}/mcp")
    browser = staff("change_secret", "view_secret", "add_secret")
    page = f"/admin/catalog/secret/{secret.pk}/change/"
    assert browser.post(page, {"description": "Notes.", "url": secret.url}).status_code == 302
    for fields in ({"url": "https://attacker.example"}, {"url": secret.url, "issuer": "https://attacker.example"}):
        refused = browser.post(page, {"description": "", **fields})
        assert refused.status_code == 200 and "to decide where people sign in" in read(refused)
    assert "to decide where people sign in" in read(browser.post(ADD, entry(name="other")))
    secret.refresh_from_db()
    assert (secret.issuer, secret.description) == ("", "Notes.") and Secret.objects.count() == 1


# --- from an upstream server -----------------------------------------------------------------------------------------


@pytest.fixture
def upstream(stand_in: StandIn) -> Upstream:
    return Upstream.objects.create(name="my-notes", url=f"{stand_in.url}/mcp", allowed_networks=["127.0.0.0/8"])


def press(browser: Browser, upstream: Upstream) -> Any:
    return browser.post(f"/admin/catalog/upstream/{upstream.pk}/tools/", {"action": "accounts"}, follow=True)


def test_one_press_gives_an_upstream_server_the_account_of_each_caller(
    admin: Browser, upstream: Upstream, stand_in: StandIn
) -> None:
    shown = read(admin.get(f"/admin/catalog/upstream/{upstream.pk}/tools/"))
    assert "Let people connect their own accounts" in shown
    page = read(press(admin, upstream))
    assert "with their own account “my_notes”" in page
    secret = Secret.objects.get()
    assert (secret.name, secret.kind, secret.url) == ("my_notes", "account", upstream.url)
    assert len(secret.hosts) == 1, "its tokens go nowhere else"
    upstream.refresh_from_db()
    assert upstream.headers == {"Authorization": {"secret": "my_notes", "prefix": "Bearer "}}
    assert "Let people connect their own accounts" not in page
    assert press(admin, upstream).status_code == 403
    assert not stand_in.requests("/register")


def test_a_name_that_another_secret_has_is_not_taken(admin: Browser, upstream: Upstream) -> None:
    make_account("https://a.example", name="my_notes")
    press(admin, upstream)
    assert Secret.objects.filter(name="my_notes_2", url=upstream.url).exists()


def test_a_server_that_says_nowhere_where_to_sign_in_stays_as_it_is(
    admin: Browser, upstream: Upstream, stand_in: StandIn
) -> None:
    stand_in.answers.clear()
    assert "says where to sign in" in read(press(admin, upstream))
    upstream.refresh_from_db()
    assert upstream.headers == {} and not Secret.objects.exists()


@pytest.mark.parametrize("missing", ["use_secret", "add_secret", "change_upstream"])
def test_every_permission_is_needed(upstream: Upstream, stand_in: StandIn, missing: str) -> None:
    needed = {"use_secret", "add_secret", "change_upstream", "view_upstream", "open_private_networks"}
    browser = staff(*needed - {missing})
    assert press(browser, upstream).status_code == 403
    assert not Secret.objects.exists() and stand_in.seen == []


def test_a_file_of_the_catalogue_has_the_account_and_nothing_secret(admin: Browser) -> None:
    admin.post(ADD, entry(client_id="ours", new_client_secret=SECRET))
    secret = Secret.objects.get()
    secret.registration = encryption.encrypt("{}", secret.registration_owner)
    secret.save()
    out = StringIO()
    call_command("exporttools", stdout=out)
    text = out.getvalue()
    assert "https://mcp.example.com/mcp" in text and "client_id: ours" in text
    assert secret.client_secret not in text and secret.registration not in text and "registration" not in text
