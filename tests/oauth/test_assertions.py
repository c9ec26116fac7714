"""Assertions of an identity provider (ID-JAG): which are refused, what a right one gives, and how that ends."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import caches
from django.db import connection, connections
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import AccessToken, RefreshToken

from audit.models import Action
from tests.identity.openid_stand_in import DISCOVERY, KEYS, OpenID, make_key, public
from tests.identity.stand_in import Answer
from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.access.token_errors import BadToken
from toolhub.identity.models import Deactivation, Identity, Provider
from toolhub.oauth import assertions, cleanup, tokens
from toolhub.oauth.credentials import ConnectedApps
from toolhub.oauth.models import Client, ConnectedApp, UsedAssertion

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SERVER = "/.well-known/oauth-authorization-server"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture
def company(settings: Any) -> Iterator[OpenID]:
    settings.SIGN_IN_NETWORKS = ["127.0.0.1/32"]
    caches["local"].clear()
    with OpenID() as running:
        yield running
    caches["local"].clear()


@pytest.fixture
def app() -> flow.App:
    """A confidential client that an administrator added."""
    return add_client()


@pytest.fixture
def provider(company: OpenID, app: flow.App) -> Provider:
    """The company, which an administrator lets assert people to that client."""
    row = Provider.objects.create(
        slug="company", name="The company", enabled=True, issuer=company.url, client_id="hub", accepts_assertions=True
    )
    row.assertion_clients.add(Client.objects.get(client_id=app.client_id))
    return row


@pytest.fixture
def identity(provider: Provider, alice: User) -> Identity:
    """alice there, signed in here an hour ago."""
    return Identity.objects.create(
        user=alice,
        provider=provider,
        issuer=provider.issuer,
        subject="1",
        last_sign_in=timezone.now() - timedelta(hours=1),
        valid_until=timezone.now() + timedelta(hours=23),
    )


def add_client(**changes: Any) -> flow.App:
    secret = tokens.new_client_secret()
    values = {
        "name": "Company chat",
        "client_id": tokens.new_code()[4:24],
        "client_type": Client.CLIENT_CONFIDENTIAL,
        "client_secret": digest_of(secret),
        "hash_client_secret": False,
        "authorization_grant_type": Client.GRANT_AUTHORIZATION_CODE,
        "registration_source": Client.RegistrationSource.MANUAL,
    }
    client = Client.objects.create(**{**values, **changes})
    return flow.App(client.client_id, secret)


def write(company: OpenID, app: flow.App, **changes: Any) -> str:
    return company.assert_person(app.client_id, flow.ISSUER, **changes)


def send(app: flow.App, assertion: str | None, **changes: Any) -> Any:
    given = {
        "grant_type": GRANT,
        "assertion": assertion,
        "client_id": app.client_id,
        "client_secret": app.secret,
        "resource": flow.RESOURCE,
        **changes,
    }
    return app.post("/oauth/token", given)


def refused(answer: Any, code: str, status: int = 400) -> str:
    """Check that there is no token, and return the sentence for the developer."""
    found = answer.json()
    assert (answer.status_code, found.get("error")) == (status, code), found
    assert "no-store" in answer["Cache-Control"]
    assert not AccessToken.objects.exists()
    assert not UsedAssertion.objects.exists()
    return str(found.get("error_description", ""))


def encode(part: dict[str, Any] | bytes) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def look_up(token: str) -> Any:
    return ConnectedApps().look_up(digest_of(token))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"typ": "JWT"}, "header typ"),
        ({"typ": "at+jwt"}, "header typ"),
        ({"typ": "text/oauth-id-jag+jwt"}, "header typ"),
        ({"typ": "oauth-id-jag+jwt2"}, "header typ"),
        ({"typ": ""}, "header typ"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": ["x"]}, "format"),
        ({"sub": None}, "claim sub"),
        ({"aud": "https://other.example"}, "aud must be"),
        ({"aud": [flow.ISSUER, "https://other.example"]}, "aud must be"),
        ({"aud": flow.ISSUER + "/"}, "aud must be"),
        ({"aud": flow.RESOURCE}, "aud must be"),
        ({"aud": None}, "claim aud"),
        ({"aud": ""}, "claim aud"),
        ({"resource": "https://other.example/mcp"}, "resource must be"),
        ({"resource": [flow.RESOURCE, "https://other.example/mcp"]}, "resource must be"),
        ({"resource": []}, "resource must be"),
        ({"resource": None}, "resource must be"),
        ({"resource": 1}, "resource must be"),
        ({"client_id": "other"}, "client_id"),
        ({"client_id": ["x"]}, "client_id"),
        ({"client_id": None}, "claim client_id"),
        ({"jti": None}, "claim jti"),
        ({"jti": ""}, "claim jti"),
        ({"jti": 1}, "cannot be read"),
        ({"jti": "x" * 256}, "claim jti"),
        ({"exp": None}, "claim exp"),
        ({"exp": -61 * SECOND}, "expired"),
        ({"exp": "never"}, "cannot be read"),
        ({"exp": float("inf")}, "cannot be read"),
        ({"exp": float("nan")}, "cannot be read"),
        ({"exp": "99999999999"}, "claim exp"),
        ({"exp": timedelta(hours=1)}, "10 minutes"),
        ({"iat": -11 * MINUTE, "exp": MINUTE}, "10 minutes"),
        ({"iat": MINUTE / 2, "exp": -MINUTE / 2}, "after iat"),
        ({"iat": None}, "claim iat"),
        ({"iat": timedelta(hours=1), "exp": timedelta(hours=1, minutes=5)}, "not valid yet"),
        ({"iat": True}, "claim iat"),
        ({"nbf": timedelta(hours=1)}, "not valid yet"),
        ({"scope": ["mcp"]}, "claim scope"),
        ({"kid": "unknown"}, "not signed"),
        ({"padding": "x" * 9000}, "too long"),
    ],
    ids=str,
)
def test_an_assertion_that_is_not_right_in_every_claim_gets_no_token(
    changes: dict[str, Any], words: str, company: OpenID, app: flow.App
) -> None:
    words = {"format": "JWT", "issuer": "of this issuer"}.get(words, words)
    try:
        text = write(company, app, **changes)
    except TypeError:  # the library signs no issuer that is no text
        text = f"{encode({'alg': 'RS256', 'typ': 'oauth-id-jag+jwt'})}.{encode(company.claims(**changes))}.eA"
        words = "of this issuer"
    assert words in refused(send(app, text), "invalid_grant")
    assert send(app, write(company, app)).status_code == 200


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "RS1", ""])
def test_only_asymmetric_signatures_count(algorithm: str, company: OpenID, app: flow.App) -> None:
    header = {"alg": algorithm, "typ": "oauth-id-jag+jwt", "kid": "one"}
    claims = {"aud": flow.ISSUER, "resource": flow.RESOURCE, "client_id": app.client_id, "jti": "x", "scope": "mcp"}
    for signature in ("", encode(b"x" * 32)):
        text = f"{encode(header)}.{encode(company.claims(**claims))}.{signature}"
        assert "header alg" in refused(send(app, text), "invalid_grant")


@pytest.mark.usefixtures("identity")
def test_a_key_that_the_provider_does_not_publish_signs_nothing(company: OpenID, app: flow.App) -> None:
    own = make_key()
    assert "not signed" in refused(send(app, write(company, app, key=own)), "invalid_grant")
    stolen = write(company, app)
    head, _claims, signature = stolen.split(".")
    other = encode(company.claims(aud=flow.ISSUER, client_id=app.client_id, jti="x", resource=flow.RESOURCE, sub="2"))
    assert "not signed" in refused(send(app, f"{head}.{other}.{signature}"), "invalid_grant")


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    "text",
    ["x", "a.b.c", "é", "\x00", "x" * 100_000, f"{encode(b'[]')}.{encode(b'{}')}.", f"{encode(b'[' * 3000)}.e30."],
    ids=lambda text: ascii(text)[:20],
)
def test_garbage_is_refused(text: str, app: flow.App) -> None:
    refused(send(app, text), "invalid_grant")


@pytest.mark.usefixtures("identity")
def test_claims_that_are_nested_without_end_are_refused(company: OpenID, app: flow.App) -> None:
    header = encode({"alg": "RS256", "typ": "oauth-id-jag+jwt", "kid": "one"})
    refused(send(app, f"{header}.{encode(b'[' * 3000)}.eA"), "invalid_grant")


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"client_secret": "ths_invented"}, "invalid_client", 401),
        ({"client_secret": None}, "invalid_client", 401),
        ({"client_id": "unknown"}, "invalid_client", 401),
        ({"client_id": None}, "invalid_client", 401),
        ({"client_id": "x\x00y"}, "invalid_client", 401),
        ({"assertion": None}, "invalid_request", 400),
        ({"assertion": ""}, "invalid_request", 400),
        ({"assertion": ["a.b.c", "d.e.f"]}, "invalid_request", 400),
        ({"resource": "https://other.example/mcp"}, "invalid_target", 400),
        ({"resource": [flow.RESOURCE, "https://other.example/mcp"]}, "invalid_target", 400),
        ({"scope": "files.read"}, "invalid_scope", 400),
        ({"scope": "mcp:write"}, "invalid_scope", 400),
    ],
    ids=str,
)
def test_a_request_that_is_not_right_gets_no_token_and_uses_nothing_up(
    changes: dict[str, Any], code: str, status: int, company: OpenID, app: flow.App
) -> None:
    text = write(company, app)
    refused(send(app, **{"assertion": text, **changes}), code, status)
    assert send(app, text).status_code == 200


@pytest.mark.parametrize("what", ["off", "not accepting", "another type", "another issuer"])
def test_a_provider_that_was_not_turned_on_for_it_asserts_nobody(
    what: str, company: OpenID, app: flow.App, provider: Provider, identity: Identity
) -> None:
    match what:
        case "off":
            provider.enabled = False
        case "not accepting":
            provider.accepts_assertions = False
        case "another type":
            provider.kind = Provider.Kind.SAML
        case "another issuer":
            provider.issuer = "https://other.example"
    provider.save()
    code = "invalid_grant" if what == "another issuer" else "unsupported_grant_type"
    refused(send(app, write(company, app)), code)


def test_nothing_is_accepted_or_offered_until_an_administrator_decides(company: OpenID, app: flow.App) -> None:
    refused(send(app, write(company, app)), "unsupported_grant_type")
    assert "authorization_grant_profiles_supported" not in Browser().get(SERVER).json()
    row = Provider.objects.create(slug="company", name="The company", enabled=True, issuer=company.url)
    assert (row.accepts_assertions, row.assertion_clients.count()) == (False, 0)
    refused(send(app, write(company, app)), "unsupported_grant_type")


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("what", ["not listed", "registered itself", "has a document", "public"])
def test_only_a_confidential_client_that_is_listed_at_the_provider_is_asserted_to(
    what: str, company: OpenID, provider: Provider
) -> None:
    source = Client.RegistrationSource
    match what:
        case "not listed":
            other = add_client()
        case "registered itself":
            other = flow.register(token_endpoint_auth_method="client_secret_post")
        case "has a document":
            other = add_client(registration_source=source.CIMD, client_id="https://client.example/app.json")
        case _:
            other = add_client(client_type=Client.CLIENT_PUBLIC, client_secret="")
            other.secret = ""
    if what != "not listed":  # as nobody can by a page
        provider.assertion_clients.add(Client.objects.get(client_id=other.client_id))
    answer = send(other, write(company, other), client_secret=other.secret or None)
    refused(answer, "unauthorized_client")


@pytest.mark.usefixtures("identity")
def test_a_blocked_client_is_unknown(company: OpenID, app: flow.App) -> None:
    Client.objects.update(blocked=True)
    refused(send(app, write(company, app)), "invalid_client", 401)


@pytest.mark.usefixtures("identity")
def test_an_assertion_for_another_client_is_no_use(company: OpenID, app: flow.App, provider: Provider) -> None:
    thief = add_client()
    provider.assertion_clients.add(Client.objects.get(client_id=thief.client_id))
    known, unknown = (write(company, app, sub=subject) for subject in ("1", "nobody"))
    assert refused(send(thief, known), "invalid_grant") == refused(send(thief, unknown), "invalid_grant")


@pytest.mark.parametrize(
    "what",
    [
        *("unknown", "inactive", "deactivated", "lapsed", "taken back", "removed", "never signed in", "issuer before"),
        *("another provider", "NUL", "half a character"),
    ],
)
def test_whoever_cannot_sign_in_here_reads_like_somebody_unknown(
    what: str, company: OpenID, app: flow.App, provider: Provider, identity: Identity, alice: User
) -> None:
    subject = {"unknown": "2", "NUL": "1\x00", "half a character": "\ud800"}.get(what, "1")
    match what:
        case "inactive":
            alice.is_active = False
            alice.save()
        case "deactivated":
            Deactivation.objects.create(user=alice, reason=Deactivation.Reason.REFUSED)
            type(alice).objects.update(is_active=False)
        case "lapsed":
            Identity.objects.update(valid_until=timezone.now() - SECOND)
        case "taken back":
            Identity.objects.update(valid_until=None)
        case "removed":
            Identity.objects.update(provisioned=False)
        case "never signed in":
            Identity.objects.update(valid_until=None, last_sign_in=None)
        case "issuer before":
            Identity.objects.update(issuer="https://before.example")
        case "another provider":
            other = Provider.objects.create(slug="other", name="Other", enabled=True, issuer=provider.issuer)
            Identity.objects.update(provider=other)
    sentence = refused(send(app, write(company, app, sub=subject)), "invalid_grant")
    assert sentence == "The assertion is about nobody who can sign in here now."
    assert not ConnectedApp.objects.exists()


def test_the_subject_is_in_the_claim_that_the_provider_is_configured_with(
    company: OpenID, app: flow.App, provider: Provider, identity: Identity
) -> None:
    Provider.objects.update(subject_claim="oid")
    assert "claim oid" in refused(send(app, write(company, app)), "invalid_grant")
    assert "nobody" in refused(send(app, write(company, app, oid="2")), "invalid_grant")
    assert send(app, write(company, app, sub="pairwise", oid="1")).status_code == 200


@pytest.mark.usefixtures("identity")
def test_a_provider_that_does_not_answer_is_503_and_the_assertion_stays_good(company: OpenID, app: flow.App) -> None:
    text = write(company, app)
    document = company.answers[DISCOVERY]
    for broken in (Answer({}, 503), Answer(b"<html>"), Answer({"issuer": "https://evil.example"})):
        company.answers[DISCOVERY] = broken
        answer = send(app, text)
        refused(answer, "temporarily_unavailable", 503)
        assert answer["Retry-After"] == "5"
        caches["local"].clear()
    company.answers[DISCOVERY] = document
    keys, company.answers[KEYS] = company.answers[KEYS], Answer({}, 500)
    refused(send(app, text), "temporarily_unavailable", 503)
    company.answers[KEYS] = keys
    assert send(app, text).status_code == 200


@pytest.mark.usefixtures("identity")
def test_a_client_whose_assertions_nobody_signed_waits_and_the_others_do_not(
    company: OpenID, app: flow.App, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assertions, "REFUSED_RATE", "3/10h")
    other = add_client()
    provider.assertion_clients.add(Client.objects.get(client_id=other.client_id))
    for _ in range(3):
        refused(send(app, write(company, app, kid="unknown")), "invalid_grant")
    looked = company.count(KEYS)
    answer = send(app, write(company, app))
    refused(answer, "temporarily_unavailable", 429)
    assert int(answer["Retry-After"]) > 0
    assert company.count(KEYS) == looked
    assert send(other, write(company, other)).status_code == 200


# --- what a right one gives ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"typ": "application/OAuth-ID-JAG+JWT"},
        {"resource": [flow.RESOURCE]},
        {"resource": flow.RESOURCE + "/"},
        {"kid": None},
        {"iat": -MINUTE, "exp": -30 * SECOND},
        {"iat": 30 * SECOND, "exp": 5 * MINUTE},
        {"exp": 10 * MINUTE},
        {"scope": "openid mcp files.read"},
        {"scope": None},
        {"email": "a@b.example", "groups": ["x"]},
    ],
    ids=str,
)
def test_a_right_one_gives_an_access_token_alone(
    changes: dict[str, Any], company: OpenID, app: flow.App, alice: User
) -> None:
    answer = send(app, write(company, app, **changes))
    assert answer.status_code == 200, answer.content
    assert "no-store" in answer["Cache-Control"]
    found = answer.json()
    token = found.pop("access_token")
    assert found == {"token_type": "Bearer", "expires_in": 3600, "scope": "mcp"}
    assert token.startswith("tho_")
    credential = look_up(token)
    assert (credential.user_id, credential.label, credential.toolset_ids) == (alice.pk, "Company chat", None)
    assert token not in repr([*AccessToken.objects.values(), *RefreshToken.objects.values()])


@pytest.mark.usefixtures("identity")
def test_a_client_authenticates_in_the_header_or_in_the_body(company: OpenID, app: flow.App) -> None:
    basic = base64.b64encode(f"{app.client_id}:{app.secret}".encode()).decode()
    answer = app.http.post(
        "/oauth/token",
        f"grant_type={GRANT}&assertion={write(company, app)}",
        content_type="application/x-www-form-urlencoded",
        HTTP_AUTHORIZATION=f"Basic {basic}",
    )
    assert answer.status_code == 200, answer.content


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("offered", "asserted", "asked", "given"),
    [
        (True, "mcp mcp:write", None, "mcp mcp:write"),
        (True, "mcp mcp:write", "mcp", "mcp"),
        (True, "mcp", "mcp mcp:write", "mcp"),
        (True, None, "mcp mcp:write", "mcp"),
        (True, "mcp:write", None, "mcp:write"),
        (False, "mcp mcp:write", "mcp mcp:write", "mcp"),
        (True, "mcp", "mcp:write", ""),
        (True, "", None, ""),
        (True, "files.read", None, ""),
        (False, "mcp:write", None, ""),
    ],
)
def test_the_scope_is_what_is_asserted_asked_for_and_offered(
    offered: bool, asserted: str | None, asked: str | None, given: str, company: OpenID, app: flow.App, settings: Any
) -> None:
    settings.WRITE_SCOPE = offered
    answer = send(app, write(company, app, scope=asserted), scope=asked)
    if given:
        assert answer.json()["scope"] == given
        assert look_up(answer.json()["access_token"]).may_write == ("mcp:write" in given or not offered)
    else:
        refused(answer, "invalid_scope")


@pytest.mark.usefixtures("identity")
def test_a_changed_key_is_looked_up_once_more(company: OpenID, app: flow.App) -> None:
    assert send(app, write(company, app)).status_code == 200
    looked = company.count(KEYS)
    assert send(app, write(company, app)).status_code == 200
    assert company.count(KEYS) == looked, "keys are kept for a while"
    fresh = make_key()
    company.publish(public(fresh, kid="two"))
    assert send(app, write(company, app, key=fresh, kid="two")).status_code == 200
    assert company.count(KEYS) == looked + 1


def test_who_was_provisioned_needs_no_sign_in_before(company: OpenID, app: flow.App, identity: Identity) -> None:
    Identity.objects.update(provisioned=True, valid_until=None, last_sign_in=None)
    answer = send(app, write(company, app))
    assert answer.status_code == 200
    Identity.objects.update(provisioned=False)
    with pytest.raises(BadToken):
        look_up(answer.json()["access_token"])


@pytest.mark.usefixtures("identity")
def test_an_assertion_is_good_once(company: OpenID, app: flow.App, provider: Provider) -> None:
    text = write(company, app, jti="seven")
    assert send(app, text).status_code == 200
    answer = send(app, text)
    assert (answer.status_code, answer.json().get("error")) == (400, "invalid_grant")
    assert "used before" in answer.json()["error_description"]
    assert send(app, write(company, app, jti="seven")).status_code == 400, "another one with the same id"
    assert AccessToken.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("same", [True, False], ids=["one assertion", "four assertions"])
def test_four_at_the_same_time_are_one_connection_and_a_token_for_each_assertion(
    same: bool, company: OpenID, app: flow.App
) -> None:
    texts = [write(company, app)] * 4 if same else [write(company, app) for _ in range(4)]
    barrier = threading.Barrier(4)

    def exchange(text: str) -> Any:
        barrier.wait(60)
        try:
            return send(app, text)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(exchange, texts))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == ([200, 400, 400, 400] if same else [200] * 4), [answer.content for answer in answers]
    assert {answer.json().get("error") for answer in answers} == ({None, "invalid_grant"} if same else {None})
    assert AccessToken.objects.count() == UsedAssertion.objects.count() == (1 if same else 4)
    assert ConnectedApp.objects.count() == 1


# --- the connection, and its end -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("identity")
def test_every_assertion_about_a_person_for_a_client_belongs_to_one_connection(company: OpenID, app: flow.App) -> None:
    first = send(app, write(company, app)).json()["access_token"]
    second = send(app, write(company, app)).json()["access_token"]
    assert first != second
    assert look_up(first).id == look_up(second).id
    stored = ConnectedApp.objects.get()
    assert stored.is_usable and stored.expires > timezone.now() + timedelta(days=89)
    rows = Action.objects.filter(kind="connected app").values_list("verb", "actor")
    assert list(rows) == [("created", "identity provider The company")]


@pytest.mark.usefixtures("identity")
def test_installations_with_different_scopes_change_the_connection_once(
    company: OpenID, app: flow.App, settings: Any
) -> None:
    settings.WRITE_SCOPE = True
    given = [send(app, write(company, app, scope=scope)).json()["scope"] for scope in ("mcp", "mcp mcp:write") * 2]
    assert given == ["mcp", "mcp mcp:write"] * 2
    assert ConnectedApp.objects.get().scope == "mcp mcp:write"
    verbs = Action.objects.filter(kind="connected app").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["created", "changed"]


@pytest.mark.usefixtures("identity")
def test_a_connection_that_was_not_used_for_long_is_taken_up_again(company: OpenID, app: flow.App) -> None:
    send(app, write(company, app))
    ConnectedApp.objects.update(expires=timezone.now() - timedelta(days=1))
    token = send(app, write(company, app)).json()["access_token"]
    assert look_up(token).id == ConnectedApp.objects.get().credential_id
    assert (
        Action.objects.filter(kind="connected app", verb="changed").latest("pk").actor.startswith("identity provider")
    )


def test_the_person_sees_it_and_who_connected_it(
    company: OpenID, app: flow.App, identity: Identity, alices: Browser, browser: Browser
) -> None:
    send(app, write(company, app))
    page = alices.get("/apps/").content.decode()
    assert "Company chat" in page and "The company" in page
    assert "Connected by" in page and "Answers go to" not in page
    stored = ConnectedApp.objects.get()
    text = browser.get(f"/admin/oauth/connectedapp/{stored.pk}/change/").content.decode()
    assert "identity provider The company" in text


@pytest.mark.parametrize("who", ["the person", "an administrator"])
def test_a_disconnected_one_stays_so_until_the_person_allows_it_again(
    who: str, company: OpenID, app: flow.App, identity: Identity, alices: Browser, browser: Browser, bob: User
) -> None:
    before = send(app, write(company, app)).json()["access_token"]
    stored = ConnectedApp.objects.get()
    if who == "the person":
        alices.post(f"/apps/{stored.pk}/revoke/")
    else:
        browser.post("/admin/oauth/connectedapp/", {"action": "revoke_chosen", "_selected_action": [stored.pk]})
    text = write(company, app)
    answer = send(app, text)
    assert (answer.status_code, answer.json().get("error")) == (400, "invalid_grant")
    assert f"{flow.ISSUER}/apps/" in answer.json()["error_description"]
    bobs = Browser()
    bobs.force_login(bob)
    assert bobs.post(f"/apps/{stored.pk}/reconnect/").status_code == 404
    assert send(app, text).status_code == 400
    assert "Allow again" in alices.get("/apps/").content.decode()
    page = alices.post(f"/apps/{stored.pk}/reconnect/", follow=True)
    assert "can connect" in page.content.decode()
    after = send(app, text)
    assert after.status_code == 200, "the refusals used nothing up"
    assert look_up(after.json()["access_token"]).id == stored.credential_id
    with pytest.raises(BadToken):
        look_up(before)


def test_only_an_app_of_a_provider_that_was_disconnected_is_allowed_again(
    company: OpenID, app: flow.App, identity: Identity, alices: Browser
) -> None:
    _own, _tokens = flow.connect(alices)
    own = ConnectedApp.objects.get()
    own.revoke()
    assert alices.post(f"/apps/{own.pk}/reconnect/").status_code == 404
    assert Browser().post(f"/apps/{own.pk}/reconnect/")["Location"].startswith("/sign-in/")
    send(app, write(company, app))
    asserted = ConnectedApp.objects.get(identity__isnull=False)
    assert asserted.reconnect() is False
    own.refresh_from_db()
    assert own.revoked is not None


@pytest.mark.parametrize(
    "what",
    ["inactive", "lapsed", "deleted", "off", "not accepting", "not listed", "blocked", "other issuer", "disconnected"],
)
def test_what_ends_the_assertion_ends_its_tokens(
    what: str, company: OpenID, app: flow.App, provider: Provider, identity: Identity, alice: User
) -> None:
    token = send(app, write(company, app)).json()["access_token"]
    stored = ConnectedApp.objects.get()
    assert ConnectedApps().filter_usable([stored.pk]) == {stored.pk}
    match what:
        case "inactive":
            type(alice).objects.update(is_active=False)
        case "lapsed":
            Identity.objects.update(valid_until=timezone.now() - SECOND)
        case "deleted":
            identity.delete()
        case "off":
            Provider.objects.update(enabled=False)
        case "not accepting":
            Provider.objects.update(accepts_assertions=False)
        case "not listed":
            provider.assertion_clients.clear()
        case "blocked":
            Client.objects.update(blocked=True)
        case "other issuer":
            Provider.objects.update(issuer="https://other.example")
        case "disconnected":
            stored.revoke()
    with pytest.raises(BadToken):
        look_up(token)
    assert ConnectedApps().filter_usable([stored.pk]) == set()


def test_tokens_of_another_identity_of_the_person_end_with_the_first_one_of_this(
    company: OpenID, app: flow.App, identity: Identity
) -> None:
    before = send(app, write(company, app)).json()["access_token"]
    second = Identity.objects.get()
    second.pk, second.subject = None, "2"
    second.save()
    after = send(app, write(company, app, sub="2")).json()["access_token"]
    assert look_up(after).id == ConnectedApp.objects.get().credential_id
    with pytest.raises(BadToken):
        look_up(before)


def test_a_client_gives_back_its_own_token_and_decides_nothing_for_the_person(
    company: OpenID, app: flow.App, identity: Identity
) -> None:
    first, second = (send(app, write(company, app)).json()["access_token"] for _ in range(2))
    assert app.revoke(first, client_secret=app.secret).status_code == 200
    with pytest.raises(BadToken):
        look_up(first)
    assert look_up(second)
    assert send(app, write(company, app)).status_code == 200


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("text", ["assertion {client} {user}", "question"])
def test_no_code_is_taken_for_the_connection(text: str, company: OpenID, app: flow.App, alice: User) -> None:
    send(app, write(company, app))
    stored = ConnectedApp.objects.get()
    code = text.format(client=stored.client_id, user=alice.pk)
    answer = app.exchange(code, client_secret=app.secret)
    assert answer.status_code == 400
    stored.refresh_from_db()
    assert stored.revoked is None


@pytest.mark.usefixtures("identity")
def test_what_nobody_can_use_any_more_is_removed(company: OpenID, app: flow.App) -> None:
    send(app, write(company, app, iat=-MINUTE, exp=-30 * SECOND))
    kept = send(app, write(company, app)).json()["access_token"]
    AccessToken.objects.exclude(token_checksum=digest_of(kept)).update(expires=timezone.now() - SECOND)
    cleanup.clean_up()
    assert UsedAssertion.objects.count() == 2, "one that is young enough for a clock that differs is remembered"
    UsedAssertion.objects.filter(pk=UsedAssertion.objects.earliest("pk").pk).update(expires=timezone.now() - SECOND)
    cleanup.clean_up()
    assert (UsedAssertion.objects.count(), AccessToken.objects.count(), RefreshToken.objects.count()) == (1, 1, 1)
    assert look_up(kept)


@pytest.mark.usefixtures("identity")
def test_no_assertion_is_in_the_log_or_in_the_database(
    company: OpenID, app: flow.App, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [write(company, app), write(company, app, sub="2"), write(company, app, kid="unknown"), write(company, app)]
    for text in [*texts, texts[0]]:
        send(app, text)
    signatures = {text.rpartition(".")[2] for text in texts}
    assert not any(signature in caplog.text for signature in signatures)
    assert "person" in caplog.text and "used" in caplog.text
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            rows = repr(cursor.fetchall())
            assert not any(signature in rows for signature in signatures), table


@pytest.mark.usefixtures("identity")
def test_the_metadata_names_the_grant_while_a_provider_accepts_assertions(provider: Provider) -> None:
    found = Browser().get(SERVER).json()
    assert found["grant_types_supported"][-1] == GRANT
    assert found["authorization_grant_profiles_supported"] == ["urn:ietf:params:oauth:grant-profile:id-jag"]
    provider.enabled = False
    provider.save()
    found = Browser().get(SERVER).json()
    assert GRANT not in found["grant_types_supported"]
    assert "authorization_grant_profiles_supported" not in found
