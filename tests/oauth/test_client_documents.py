"""Clients whose id is the address of their own description: what is fetched, for whom, and what is believed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import cache
from django.test import Client as Browser
from django.utils import timezone

from tests.oauth import flow
from tests.secure_hub import Authority, Documents
from toolhub.egress import connections
from toolhub.oauth import client_documents
from toolhub.oauth.models import Client, ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def documents(authority: Authority, settings: Any) -> Iterator[Documents]:
    settings.CLIENT_NETWORKS = ["127.0.0.0/8", "::1/128"]
    settings.CA_FILE = str(authority.ca_file)
    connections.default_ssl_context.cache_clear()
    cache.clear()
    made = Documents(authority)
    yield made
    made.close()
    connections.default_ssl_context.cache_clear()


@pytest.fixture
def path() -> str:
    """A path that no other test has asked for: failures are remembered for a minute."""
    return f"/client-{next(_numbers)}.json"


def ask(browser: Browser, url: str, **changes: Any) -> Any:
    return flow.ask(browser, flow.App(url), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://other.example/client.json"},
        {"client_id": None},
        {"redirect_uris": None},
        {"redirect_uris": []},
        {"redirect_uris": "http://127.0.0.1/callback"},
        {"redirect_uris": [f"https://a.example/{number}" for number in range(11)]},
        {"redirect_uris": [flow.CALLBACK, "http://evil.example/cb"]},
        {"redirect_uris": [flow.CALLBACK, "javascript:alert(1)"]},
        {"redirect_uris": [flow.CALLBACK, 7]},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_secret": "x"},
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["implicit"]},
        {"grant_types": "authorization_code"},
        {"client_name": 7},
        {"client_name": None},
        {"client_name": " "},
        {"padding": "x" * 17_000},
    ],
)
def test_a_document_that_does_not_describe_a_client_is_not_believed(
    changes: dict[str, Any], documents: Documents, path: str, alices: Browser
) -> None:
    url = documents.describe(path, flow.CALLBACK, **changes)
    page = ask(alices, url)
    assert page.status_code == 400
    assert page.context["problem"] == "document"
    assert documents.asked == [path]
    assert not Client.objects.exists()


@pytest.mark.parametrize(
    "answer",
    [
        (404, "application/json", b"{}", {}),
        (500, "application/json", b"{}", {}),
        (302, "application/json", b"", {"Location": "/elsewhere.json"}),
        (200, "text/html", b"{}", {}),
        (200, "", b"{}", {}),
        (200, "application/json", b"{", {}),
        (200, "application/json", b"\xff", {}),
        (200, "application/json", b"[]", {}),
        (200, "application/json", b"[" * 15_000, {}),
    ],
)
def test_an_answer_that_is_no_document_is_not_believed_nor_followed(
    answer: tuple[Any, ...], documents: Documents, path: str, alices: Browser
) -> None:
    documents.answers[path] = lambda: answer
    page = ask(alices, documents.url + path)
    assert (page.status_code, page.context["problem"]) == (400, "document")
    assert documents.asked == [path]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda url: url.replace("https://", "http://"),
        lambda url: url.replace("https://", "HTTPS://"),
        lambda url: url.replace("https://", "https://user@"),
        lambda url: url + "#part",
        lambda url: url.replace("/client", "/../client"),
        lambda url: url.rsplit("/", 1)[0],
        lambda url: url.rsplit("/", 1)[0] + "/",
        lambda url: "https:///client.json",
    ],
)
def test_an_id_that_is_no_proper_address_is_not_fetched(
    spoil: Any, documents: Documents, path: str, alices: Browser
) -> None:
    url = documents.describe(path, flow.CALLBACK)
    page = ask(alices, spoil(url))
    assert page.status_code == 400
    assert documents.asked == []


def test_no_address_of_a_private_network_is_asked_unless_the_operator_listed_it(
    documents: Documents, path: str, alices: Browser, settings: Any
) -> None:
    settings.CLIENT_NETWORKS = []
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8", "::1/128"]  # of tools, which is another decision
    page = ask(alices, documents.describe(path, flow.CALLBACK))
    assert (page.status_code, page.context["problem"]) == (400, "document")
    assert documents.asked == []
    assert "127.0.0.1" not in page.content.decode()


def test_nothing_is_fetched_for_somebody_who_has_not_signed_in(documents: Documents, path: str) -> None:
    url = documents.describe(path, flow.CALLBACK)
    app = flow.App(url)
    assert Browser().get(app.url())["Location"].startswith("/sign-in/")
    assert app.exchange("thc_x").status_code == 401
    assert app.refresh("thr_x").status_code == 401
    assert app.revoke("tho_x").status_code == 401
    assert documents.asked == []


def test_an_outdated_document_is_not_fetched_for_a_request_without_a_person(
    documents: Documents, path: str, alices: Browser
) -> None:
    app, tokens = flow.connect(alices, flow.App(documents.describe(path, flow.CALLBACK)))
    Client.objects.update(cimd_expires_at=timezone.now() - timedelta(hours=1))
    documents.asked.clear()
    assert app.refresh(tokens["refresh_token"]).status_code == 200
    assert Browser().get(app.url())["Location"].startswith("/sign-in/")
    assert documents.asked == []


def test_a_document_is_kept_fetched_again_when_it_is_old_and_kept_when_that_fails(
    documents: Documents, path: str, alices: Browser
) -> None:
    url = documents.describe(path, flow.CALLBACK)
    assert ask(alices, url).status_code == 200
    assert ask(alices, url).status_code == 200
    assert documents.asked == [path]
    documents.describe(path, flow.CALLBACK, client_name="New name")
    Client.objects.update(cimd_expires_at=timezone.now())
    assert "New name" in ask(alices, url).content.decode()
    documents.answers[path] = lambda: (500, "text/plain", b"", {})
    Client.objects.update(cimd_expires_at=timezone.now())
    assert "New name" in ask(alices, url).content.decode()
    assert documents.asked == [path] * 3


def test_an_address_that_left_the_document_gets_no_code(documents: Documents, path: str, alices: Browser) -> None:
    url = documents.describe(path, flow.CALLBACK)
    assert ask(alices, url).status_code == 200
    documents.describe(path, "https://other.example/cb")
    Client.objects.update(cimd_expires_at=timezone.now())
    assert ask(alices, url).context["problem"] == "redirect"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 86_400),
        ("max-age=3600", 3600),
        ("public, MAX-AGE = 600", 600),
        ("max-age=1", 300),
        ("max-age=999999999", 86_400),
        ("no-store", 300),
        ("max-age=3600, no-cache", 300),
        ("max-age=99999999999999999999", 86_400),
    ],
)
def test_a_document_is_kept_as_long_as_it_says_within_bounds(header: str, seconds: int) -> None:
    assert client_documents.find_keep_seconds(header) == seconds


@pytest.mark.parametrize("registration", ["listed", "nobody"])
def test_only_listed_hosts_have_their_documents_read(
    registration: str, documents: Documents, path: str, alices: Browser, settings: Any
) -> None:
    settings.CLIENT_REGISTRATION, settings.CLIENT_HOSTS = registration, ["other.example"]
    url = documents.describe(path, flow.CALLBACK)
    assert ask(alices, url).context["problem"] == "document"
    assert documents.asked == []
    settings.CLIENT_HOSTS = ["localhost"]
    assert ask(alices, url).status_code == (200 if registration == "listed" else 400)


def test_no_document_is_read_where_documents_are_off_and_known_clients_stay(
    documents: Documents, path: str, alices: Browser, settings: Any
) -> None:
    app, tokens = flow.connect(alices, flow.App(documents.describe(path, flow.CALLBACK)))
    documents.asked.clear()
    settings.CLIENT_DOCUMENTS = False
    Client.objects.update(cimd_expires_at=timezone.now() - timedelta(hours=1))
    assert ask(alices, app.client_id).status_code == 200
    assert app.refresh(tokens["refresh_token"]).status_code == 200
    unknown = documents.describe(f"{path}-2", flow.CALLBACK)
    assert ask(Browser(), unknown).context["problem"] == "document"
    page = ask(alices, unknown)
    assert page.status_code == 400
    assert page.context["problem"] == "document"
    text = page.content.decode()
    assert "add it again" in text and "TOOLHUB_CLIENT_DOCUMENTS" not in text
    assert documents.asked == []


def test_one_person_does_not_make_the_server_ask_for_document_after_document(
    documents: Documents, alices: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolhub.oauth import authorization

    monkeypatch.setattr(authorization, "DOCUMENTS_RATE", "3/10h")
    pages = [ask(alices, f"{documents.url}/missing-{number}.json") for number in range(5)]
    assert [page.status_code for page in pages] == [400, 400, 400, 429, 429]
    assert len(documents.asked) == 3


def test_a_registered_client_is_not_taken_over_by_a_document(documents: Documents, path: str, alices: Browser) -> None:
    url = documents.describe(path, flow.CALLBACK)
    Client.objects.create(
        client_id=url,
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://own.example/cb",
        name="Added by hand",
    )
    assert ask(alices, url).context["problem"] == "redirect"
    assert documents.asked == []
    assert Client.objects.get().name == "Added by hand"


def test_the_page_names_the_host_that_proves_who_asks_and_warns_of_the_own_computer(
    documents: Documents, path: str, alices: Browser
) -> None:
    text = ask(alices, documents.describe(path, flow.CALLBACK)).content.decode()
    assert f"verified: {documents.url.removeprefix('https://')}" in text
    assert "Any program on this computer can claim to be this client" in text
    web = documents.describe(f"{path}2", "https://localhost/cb")
    documents.describe(f"{path}2", "https://web.example/cb")
    page = ask(alices, web, redirect_uri="https://web.example/cb")
    assert "Any program on this computer" not in page.content.decode()


def test_a_name_in_a_document_hides_nothing(documents: Documents, path: str, alices: Browser) -> None:
    url = documents.describe(path, flow.CALLBACK, client_name="Cla\u202eude\n" + "x" * 400)
    assert ask(alices, url).status_code == 200
    name = Client.objects.get().name
    assert "\u202e" not in name
    assert len(name) <= 100


def test_a_client_with_a_document_connects_without_a_registration(
    documents: Documents, path: str, alices: Browser, alice: User
) -> None:
    url = documents.describe(path, flow.CALLBACK)
    flow.connect(alices, flow.App(url))
    app = ConnectedApp.objects.get()
    assert (app.user, app.client.client_id, str(app)) == (alice, url, "Documented client")
    assert app.client.client_type == "public"


def test_the_operator_s_own_authority_is_trusted_by_a_setting_alone(
    documents: Documents, path: str, alices: Browser, settings: Any
) -> None:
    settings.CA_FILE = ""
    connections.default_ssl_context.cache_clear()
    assert ask(alices, documents.describe(path, flow.CALLBACK)).context["problem"] == "document"


def test_grants_that_are_not_offered_here_keep_no_client_out(documents: Documents, path: str, alices: Browser) -> None:
    grants = ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert ask(alices, documents.describe(path, flow.CALLBACK, grant_types=grants)).status_code == 200


def test_json_is_what_the_type_says(documents: Documents, path: str, alices: Browser) -> None:
    url = documents.describe(path, flow.CALLBACK)
    body = json.dumps(documents.answers[path]).encode()
    documents.answers[path] = lambda: (200, "application/client-metadata+json; charset=utf-8", body, {})
    assert ask(alices, url).status_code == 200


def test_a_file_that_holds_no_certificates_is_reported_at_the_start(tmp_path: Path) -> None:
    from django.core.exceptions import ImproperlyConfigured

    from toolhub import env

    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.MonkeyPatch.context() as patch:
        for value in (str(tmp_path / "ca.pem"), str(tmp_path / "missing.pem")):
            patch.setenv("TOOLHUB_CA_FILE", value)
            with pytest.raises(ImproperlyConfigured, match="TOOLHUB_CA_FILE"):
                env.certificates("TOOLHUB_CA_FILE")


def test_a_client_with_a_document_is_on_many_computers_and_each_has_its_connection(
    documents: Documents, path: str, alices: Browser
) -> None:
    url = documents.describe(path, flow.CALLBACK)
    one, tokens = flow.connect(alices, flow.App(url))
    flow.connect(alices, flow.App(url))
    assert ConnectedApp.objects.usable().count() == 2
    assert one.refresh(tokens["refresh_token"]).status_code == 200
