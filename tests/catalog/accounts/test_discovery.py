"""Where people sign in: found from the service, entered by an administrator, or refused for a reason that is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from catalog.accounts import clients, discovery
from catalog.accounts.discovery import Server
from catalog.accounts.problems import SENTENCES, AccountProblem, describe
from catalog.models import Secret
from catalog.models.accounts import Client
from catalog.threads import run_in_loop
from tests.catalog.accounts.hub import make_account
from tests.catalog.accounts.stand_in import AS_METADATA, RESOURCE_METADATA, StandIn

pytestmark = pytest.mark.django_db
ENDPOINTS = ("authorization_endpoint", "token_endpoint")


def discover(secret: Secret) -> Server:
    return run_in_loop(discovery.discover(secret))


def account(stand_in: StandIn, **fields: Any) -> Secret:
    return Secret(name="notes", kind=Secret.Kind.ACCOUNT, **{"url": f"{stand_in.url}/mcp", **fields})


def test_the_service_says_where_people_sign_in_and_what_it_wants(stand_in: StandIn) -> None:
    found = discover(account(stand_in))
    assert (found.issuer, found.resource, found.scope) == (stand_in.url, f"{stand_in.url}/mcp", "notes:read")
    assert found.token_endpoint == f"{stand_in.url}/token" and found.revocation_endpoint == f"{stand_in.url}/revoke"
    assert found.sends_issuer
    assert [one.path for one in stand_in.seen] == ["/mcp", RESOURCE_METADATA, AS_METADATA]
    assert all("authorization" not in one.headers for one in stand_in.seen)


def test_metadata_at_the_known_addresses_is_found_without_a_challenge(stand_in: StandIn) -> None:
    stand_in.answers["/mcp"] = (200, "come in")
    stand_in.answers[RESOURCE_METADATA] = (404, "")
    stand_in.answers["/.well-known/oauth-protected-resource"] = (200, stand_in.resource(scopes_supported=["a", "b"]))
    stand_in.answers[AS_METADATA] = (404, "")
    stand_in.answers["/.well-known/openid-configuration"] = (
        200,
        stand_in.metadata(scopes_supported=["a", "b", "c", "offline_access"]),
    )
    found = discover(account(stand_in))
    assert found.scope == "a b offline_access", "what the resource wants, and a refresh token; never all there is"


def test_a_service_of_an_older_revision_is_its_own_authorization_server(stand_in: StandIn) -> None:
    stand_in.answers["/mcp"], stand_in.answers[RESOURCE_METADATA] = (401, ""), (404, "")
    found = discover(account(stand_in))
    assert (found.issuer, found.resource, found.scope) == (stand_in.url, f"{stand_in.url}/mcp", "")


def test_scopes_that_an_administrator_entered_count(stand_in: StandIn) -> None:
    assert discover(account(stand_in, scopes="only this")).scope == "only this"


def test_entered_endpoints_need_no_request(stand_in: StandIn) -> None:
    addresses = {name: f"{stand_in.url}/{name}" for name in ENDPOINTS}
    found = discover(account(stand_in, url="", client_id="ours", **addresses))
    assert (found.issuer, found.token_endpoint, found.resource) == ("", f"{stand_in.url}/token_endpoint", "")
    assert stand_in.seen == []


Change = Callable[[StandIn], Any]


def metadata(**changes: Any) -> Change:
    return lambda stand_in: stand_in.answers.update({AS_METADATA: (200, stand_in.metadata(**changes))})


def resource(**changes: Any) -> Change:
    return lambda stand_in: stand_in.answers.update({RESOURCE_METADATA: (200, stand_in.resource(**changes))})


def answer(path: str, *given: Any) -> Change:
    return lambda stand_in: stand_in.answers.update({path: given})


def scopes(*names: str) -> Change:
    """Scopes of the resource, whose challenge names none."""

    def change(stand_in: StandIn) -> None:
        stand_in.answers["/mcp"] = (401, "")
        resource(scopes_supported=names)(stand_in)

    return change


REFUSALS: dict[str, tuple[str, Change]] = {
    "metadata of another resource (RFC 9728, 3.3)": ("other_resource", resource(resource="https://other.example/mcp")),
    "metadata of a sibling path": ("other_resource", lambda s: resource(resource=f"{s.url}/other")(s)),
    "metadata of another issuer (RFC 8414, 3.3)": ("other_issuer", metadata(issuer="https://other.example")),
    "no S256, so no PKCE": ("no_pkce", metadata(code_challenge_methods_supported=["plain"])),
    "nothing about PKCE": ("no_pkce", metadata(code_challenge_methods_supported=None)),
    "an authorization endpoint without TLS": ("insecure", metadata(authorization_endpoint="http://other.example/a")),
    "a token endpoint without TLS": ("insecure", metadata(token_endpoint="http://other.example/token")),
    "a registration endpoint without TLS": ("insecure", metadata(registration_endpoint="http://other.example/r")),
    "no metadata at all": ("no_server", answer(AS_METADATA, 404, "")),
    "metadata that is no JSON": ("not_metadata", answer(AS_METADATA, 200, "<html>")),
    "metadata without a token endpoint": ("not_metadata", metadata(token_endpoint=None)),
    "an authorization server that fails": ("status", answer(AS_METADATA, 503, "")),
    "resource metadata that fails": ("status", answer(RESOURCE_METADATA, 500, "")),
    "an authorization server in a private network that nobody entered": (
        "unreachable",
        resource(authorization_servers=["https://127.0.0.5"]),
    ),
    "an authorization server on this machine that nobody entered": (
        "insecure",
        resource(authorization_servers=["http://127.0.0.1:1"]),
    ),
    "a page on somebody's own machine": ("insecure", metadata(authorization_endpoint="http://localhost:1/a")),
    "a scope without an end": ("not_metadata", scopes("a" * 3000)),
    "a redirect": ("no_server", answer(AS_METADATA, 302, "", {"Location": "https://other.example/"})),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_server_that_cannot_be_trusted_is_refused_with_the_reason(stand_in: StandIn, name: str) -> None:
    code, change = REFUSALS[name]
    change(stand_in)
    with pytest.raises(AccountProblem) as refused:
        discover(account(stand_in))
    assert refused.value.code == code
    assert code != "unreachable" or "blocks requests" in str(refused.value.params["why"])
    assert "%(" not in describe(refused.value)
    assert not stand_in.requests("/register")


def test_an_authorization_server_that_the_service_does_not_name_is_refused(stand_in: StandIn) -> None:
    with pytest.raises(AccountProblem, match="issuer_not_listed"):
        discover(account(stand_in, issuer="https://other.example"))


def test_a_private_authorization_server_is_asked_where_an_administrator_entered_it(stand_in: StandIn) -> None:
    with StandIn() as other:
        stand_in.answers[RESOURCE_METADATA] = (200, stand_in.resource(authorization_servers=[other.url]))
        with pytest.raises(AccountProblem, match="insecure"):
            discover(account(stand_in))
        assert other.seen == []
        assert discover(account(stand_in, issuer=other.url)).token_endpoint == f"{other.url}/token"


# --- the client that this server is ----------------------------------------------------------------------------------


def choose(secret: Secret, server: Server) -> tuple[Client, bool]:
    return run_in_loop(clients.choose(secret, server))


def test_a_client_that_was_entered_is_for_its_issuer_alone(stand_in: StandIn) -> None:
    """The service names another authorization server, and wants our secret there."""
    with StandIn() as attacker:
        stand_in.answers[RESOURCE_METADATA] = (200, stand_in.resource(authorization_servers=[attacker.url]))
        secret = account(stand_in, client_id="ours", issuer=stand_in.url)
        secret.enter_client_secret("the secret of our client")
        with pytest.raises(AccountProblem, match="issuer_not_listed"):
            discover(secret)
        secret.issuer = ""  # as a row may be that was stored in another way
        with pytest.raises(AccountProblem, match="no_issuer"):
            clients.find_entered(secret)
        assert attacker.seen == []


def test_this_server_registers_itself_once(stand_in: StandIn) -> None:
    secret = make_account(f"{stand_in.url}/mcp")
    server = discover(secret)
    client, is_new = choose(secret, server)
    assert is_new and (client.client_id, client.method) == ("registered-1", "client_secret_basic")
    clients.keep(secret, server, client)
    secret.refresh_from_db()
    assert "registered-secret" not in secret.registration
    assert choose(secret, server) == (client, False)
    sent = stand_in.requests("/register")
    assert len(sent) == 1
    assert sent[0].document["redirect_uris"] == [clients.redirect_url()]
    assert sent[0].document["grant_types"] == ["authorization_code", "refresh_token"]
    assert sent[0].document["application_type"] == "web"
    elsewhere = Server(
        **{**{name: getattr(server, name) for name in Server.__slots__}, "issuer": "https://other.example"}
    )
    assert choose(secret, elsewhere)[1], "a registration belongs to its issuer (SEP-2352)"
    secret.issuer = stand_in.url
    secret.save()
    assert secret.registration == "", "other addresses, another registration"


def test_a_client_document_is_used_where_the_server_reads_it(stand_in: StandIn, settings: Any, client: Any) -> None:
    stand_in.answers[AS_METADATA] = (200, stand_in.metadata(client_id_metadata_document_supported=True))
    secret = make_account(f"{stand_in.url}/mcp")
    server = discover(secret)
    assert choose(secret, server)[1], "nobody can read the document of a server without https"
    settings.PUBLIC_URL = "https://hub.example.com"
    found, is_new = choose(secret, server)
    assert not is_new and (found.client_id, found.method) == ("https://hub.example.com/accounts/client.json", "none")
    document = client.get("/accounts/client.json").json()
    assert document["client_id"] == found.client_id and document["token_endpoint_auth_method"] == "none"
    assert document["redirect_uris"] == ["https://hub.example.com/accounts/callback/"]
    settings.PUBLIC_URL = "http://localhost:8000"
    assert client.get("/accounts/client.json").status_code == 404


def test_a_client_that_was_entered_comes_first(stand_in: StandIn) -> None:
    secret = account(stand_in, client_id="ours", issuer=stand_in.url)
    secret.enter_client_secret("the secret of our client")
    secret.save()
    found, _new = choose(secret, discover(secret))
    assert (found.client_id, found.client_secret) == ("ours", "the secret of our client")
    assert not stand_in.requests("/register")
    form, headers = clients.authenticate(found, {"a": "b"})
    assert "client_secret" not in form and headers["Authorization"].startswith("Basic ")
    stand_in.answers[AS_METADATA] = (
        200,
        stand_in.metadata(token_endpoint_auth_methods_supported=["client_secret_post"]),
    )
    found, _new = choose(secret, discover(secret))
    assert clients.authenticate(found, {})[0]["client_secret"] == "the secret of our client"


REGISTRATIONS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "refused": ("registration", (400, {"error": "invalid_client_metadata"})),
    "no JSON": ("registration", (201, "<html>")),
    "no client ID": ("registration", (201, {"client_secret": "x"})),
    "an unknown way to authenticate": (
        "registration",
        (201, {"client_id": "x", "token_endpoint_auth_method": "private_key_jwt"}),
    ),
    "a secret that is missing": (
        "registration",
        (201, {"client_id": "x", "token_endpoint_auth_method": "client_secret_post"}),
    ),
    "a secret that ended": (
        "registration",
        (201, {"client_id": "x", "client_secret": "y", "client_secret_expires_at": 1}),
    ),
}


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_a_registration_that_cannot_be_used_is_refused(stand_in: StandIn, name: str) -> None:
    code, stand_in.answers["/register"] = REGISTRATIONS[name]
    secret = make_account(f"{stand_in.url}/mcp")
    server = discover(secret)
    with pytest.raises(AccountProblem) as refused:
        choose(secret, server)
    assert refused.value.code == code


def test_without_registration_an_administrator_learns_the_redirect_address(stand_in: StandIn) -> None:
    stand_in.answers[AS_METADATA] = (200, stand_in.metadata(registration_endpoint=None))
    secret = make_account(f"{stand_in.url}/mcp")
    with pytest.raises(AccountProblem) as refused:
        choose(secret, discover(secret))
    assert clients.redirect_url() in describe(refused.value)


# --- what an administrator enters ------------------------------------------------------------------------------------


ENTRIES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "Enter the URL of the service"),
    "no https": ({"url": "http://mcp.example.com/mcp"}, "https"),
    "no URL": ({"url": "mcp.example.com"}, "allowed"),
    "an issuer without TLS": ({"issuer": "http://login.example.com"}, "https"),
    "one endpoint": ({"token_endpoint": "https://a.example/token"}, "both"),
    "endpoints without a client": (dict.fromkeys(ENDPOINTS, "https://a.example/x"), "client that is registered"),
    "a revocation endpoint alone": (
        {"url": "https://a.example", "revocation_endpoint": "https://a.example/r"},
        "only together",
    ),
    "a client without its issuer": (
        {"url": "https://a.example", "client_id": "ours"},
        "where this client is registered",
    ),
    "the client document of this server": (
        {"issuer": "https://a.example", "client_id": "http://localhost:8000/accounts/client.json"},
        "Leave the client ID empty",
    ),
    "scopes with quotes": ({"url": "https://a.example", "scopes": 'a "b"'}, "without quotes"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_settings_of_an_account_that_could_not_work_are_refused(name: str) -> None:
    fields, says = ENTRIES[name]
    with pytest.raises(ValidationError) as refused:
        Secret(name="notes", kind=Secret.Kind.ACCOUNT, **fields).full_clean()
    assert says in str(refused.value)


def test_a_secret_of_another_kind_has_no_addresses() -> None:
    with pytest.raises(ValidationError, match="Only an account has this"):
        Secret(name="notes", kind=Secret.Kind.SHARED, url="https://a.example").full_clean()


def test_a_stored_client_secret_is_not_sent_to_another_server() -> None:
    secret = Secret(
        name="notes",
        kind=Secret.Kind.ACCOUNT,
        url="https://a.example/mcp",
        issuer="https://a.example",
        client_id="ours",
    )
    secret.enter_client_secret("the secret of our client")
    secret.save()
    stored = Secret._base_manager.filter(pk=secret.pk)
    stored.update(token_endpoint="https://attacker.example/token")  # somebody who can write to the table
    with pytest.raises(AccountProblem, match="client_secret"):
        clients.find_entered(stored.get())
    stored.update(token_endpoint="")
    secret.issuer = "https://attacker.example"
    with pytest.raises(ValidationError, match="enter the client secret again"):
        secret.full_clean()
    with pytest.raises(PermissionDenied):
        secret.save()
    secret.enter_client_secret("another one")
    secret.full_clean()
    secret.save()


def test_every_problem_is_a_sentence_with_a_next_step() -> None:
    values = dict.fromkeys(("where", "why", "status", "found", "redirect"), "X")
    for code in SENTENCES:
        text = describe(AccountProblem(code, **values))
        assert "%" not in text and text.count(". ") + text.endswith(".") >= 1, code
