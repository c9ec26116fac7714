"""How a client becomes known: registration, documents at its own address, and the documents of this server."""

from __future__ import annotations

from typing import Any

from django.test import Client as Browser

from tests.oauth import flow
from tests.oauth.refusals.authorization import PRACTICES, SECURE_REDIRECT, SECURITY, shown
from tests.oauth.refusals.rows import Answer, Row, Scene, Send
from tests.oauth.refusals.tokens import DEVICE_CODE, answered
from toolhub.oauth import authorization
from toolhub.oauth.models import Client

REGISTRATION = "2026-07-28 Client Registration"
DISCOVERY = "2026-07-28 Authorization Server Discovery"
GOOD: dict[str, Any] = {"client_name": "Claude", "redirect_uris": ["https://claude.ai/callback"]}


def send(given: Any, kind: str = "application/json") -> Any:
    return Browser(REMOTE_ADDR="203.0.113.7").post("/oauth/register", given, content_type=kind)


def register(**changes: Any) -> Any:
    """A registration with these members; None leaves one out."""

    def prepare(scene: Scene) -> Send:
        given = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
        return lambda: send(given)

    return prepare


def register_where(registration: str) -> Any:
    def prepare(scene: Scene) -> Send:
        scene.settings.CLIENT_REGISTRATION, scene.settings.CLIENT_HOSTS = registration, ["other.example"]
        return lambda: send(GOOD)

    return prepare


def register_a_device_where_others_are_listed(scene: Scene) -> Send:
    scene.settings.CLIENT_REGISTRATION, scene.settings.CLIENT_HOSTS = "listed", ["other.example"]
    return lambda: send({"client_name": "Claude", "redirect_uris": [], "grant_types": [DEVICE_CODE]})


def register_too_often(scene: Scene) -> Send:
    scene.settings.REGISTRATIONS_RATE = "1/10h"
    assert send({**GOOD, "client_name": "First"}).status_code == 201
    return lambda: send(GOOD)


def register_in_no_json(scene: Scene) -> Send:
    return lambda: send(b"client_name=Claude", "application/x-www-form-urlencoded")


def describe(**changes: Any) -> Any:
    """The authorization request of a client whose document has these members; None leaves one out."""

    def prepare(scene: Scene) -> Send:
        url = scene.documents.describe("/client.json", flow.CALLBACK, **changes)
        document = scene.documents.answers["/client.json"]
        for name in [name for name, value in document.items() if value is None]:
            del document[name]
        return lambda: flow.ask(scene.browser, flow.App(url))

    return prepare


def answer_with(status: int, kind: str, body: bytes, **headers: str) -> Any:
    """The authorization request of a client whose address answers so."""

    def prepare(scene: Scene) -> Send:
        url = scene.documents.describe("/elsewhere.json", flow.CALLBACK).replace("elsewhere", "client")
        scene.documents.answers["/client.json"] = lambda: (status, kind, body, headers)
        return lambda: flow.ask(scene.browser, flow.App(url))

    return prepare


def ask_with_an_address_outside_the_document(scene: Scene) -> Send:
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    return lambda: flow.ask(scene.browser, flow.App(url), redirect_uri="https://evil.example/cb")


def ask_with_a_private_address(scene: Scene) -> Send:
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    scene.settings.CLIENT_NETWORKS = []
    return lambda: flow.ask(scene.browser, flow.App(url))


def ask_by_http(scene: Scene) -> Send:
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    return lambda: flow.ask(scene.browser, flow.App(url.replace("https:", "http:")))


def ask_without_a_path(scene: Scene) -> Send:
    scene.documents.describe("/", flow.CALLBACK)
    return lambda: flow.ask(scene.browser, flow.App(scene.documents.url))


def ask_before_the_sign_in(scene: Scene) -> Send:
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    return lambda: Browser().get(flow.App(url).url())


def ask_where_others_are_listed(scene: Scene) -> Send:
    scene.settings.CLIENT_REGISTRATION, scene.settings.CLIENT_HOSTS = "listed", ["other.example"]
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    return lambda: flow.ask(scene.browser, flow.App(url))


def ask_for_many_documents(scene: Scene) -> Send:
    scene.monkeypatch.setattr(authorization, "DOCUMENTS_RATE", "1/10h")
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    flow.ask(scene.browser, flow.App(url.replace("client", "missing")))
    return lambda: flow.ask(scene.browser, flow.App(url))


def exchange_without_a_person(scene: Scene) -> Send:
    url = scene.documents.describe("/client.json", flow.CALLBACK)
    return lambda: flow.App(url).exchange("thc_x")


def get(path: str) -> Any:
    return lambda scene: lambda: Browser().get(path)


# --- what else holds -------------------------------------------------------------------------------------------------


def nobody_registered(scene: Scene, answer: Answer) -> None:
    assert not Client.objects.filter(name="Claude").exists()


def it_says_when_to_come_back(scene: Scene, answer: Answer) -> None:
    assert int(answer.headers["retry-after"]) > 0
    nobody_registered(scene, answer)


def registration_is_not_offered(scene: Scene, answer: Answer) -> None:
    found = Browser().get("/.well-known/oauth-authorization-server").json()
    assert "registration_endpoint" not in found
    assert found["client_id_metadata_document_supported"] is False
    nobody_registered(scene, answer)


def it_was_read_and_not_believed(scene: Scene, answer: Answer) -> None:
    assert answer.raw.context["problem"] == "document"
    assert scene.documents.asked == ["/client.json"]
    assert not Client.objects.exists()


def nothing_was_fetched(scene: Scene, answer: Answer) -> None:
    assert scene.documents.asked == []
    assert not Client.objects.exists()


def the_redirect_is_the_problem(scene: Scene, answer: Answer) -> None:
    assert answer.raw.context["problem"] == "redirect"
    assert "evil.example" not in answer.body


def one_document_was_fetched(scene: Scene, answer: Answer) -> None:
    assert scene.documents.asked == ["/missing.json"]


def the_other_document_is_there(scene: Scene, answer: Answer) -> None:
    """OAuth 2.0 Authorization Server Metadata is the one of the two that this server provides."""
    found = Browser().get("/.well-known/oauth-authorization-server").json()
    assert found["authorization_endpoint"] == f"{flow.ISSUER}/oauth/authorize"


# --- the table -------------------------------------------------------------------------------------------------------

MUST_REGISTER = "clients using flows with redirection MUST register their redirection URI values"
INVALID_REDIRECT = "invalid_redirect_uri: The value of one or more redirection URIs is invalid."
INVALID_METADATA = "The value of one of the client metadata fields is invalid and the server has rejected this request."
STRUCTURE = "MUST validate the document structure is valid JSON and contains required fields"
PRIVATE = (
    "blocking private IP ranges and using egress proxies, apply equally to authorization servers fetching client "
    "metadata documents"
)
ABUSE = "Authorization servers fetching metadata documents SHOULD consider Server-Side Request Forgery (SSRF) risks"
ADDRESS = 'The client_id URL MUST use the "https" scheme and contain a path component'


def unregistered(
    name: str,
    where: str,
    sentence: str,
    prepare: Any,
    error: str = "invalid_client_metadata",
    status: int = 400,
    also: Any = nobody_registered,
) -> Row:
    return answered(name, where, sentence, prepare, error, status, also)


def unbelieved(
    name: str, where: str, sentence: str, prepare: Any, status: int = 400, also: Any = it_was_read_and_not_believed
) -> Row:
    return shown(name, where, sentence, prepare, status, also)


ROWS = (
    # --- registration
    unregistered(
        "registration-without-a-redirect",
        "RFC 7591, section 2",
        MUST_REGISTER,
        register(redirect_uris=None),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-with-eleven-redirects",
        "gap 4",
        "A client has at most ten redirect addresses.",
        register(redirect_uris=[f"https://a.example/{number}" for number in range(11)]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-by-http-to-a-remote-host",
        f"gap 4; {SECURITY}, Communication Security",
        SECURE_REDIRECT,
        register(redirect_uris=["https://a.example/cb", "http://evil.example/cb"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-of-a-host-that-begins-like-the-own-computer",
        f"{SECURITY}, Communication Security",
        SECURE_REDIRECT,
        register(redirect_uris=["http://127.0.0.1.evil.example/cb"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-of-a-script",
        "RFC 7591, section 3.2.2",
        INVALID_REDIRECT,
        register(redirect_uris=["javascript:alert(1)"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-of-a-scheme-that-is-not-listed",
        f"{SECURITY}, Communication Security",
        SECURE_REDIRECT,
        register(redirect_uris=["myapp://callback"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-with-a-fragment",
        "RFC 6749, section 3.1.2",
        "The endpoint URI MUST NOT include a fragment component.",
        register(redirect_uris=["https://a.example/cb#part"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-with-a-wildcard",
        f"{PRACTICES}, Redirect URI Validation",
        "Use exact string matching (not pattern matching or wildcards)",
        register(redirect_uris=["https://*.example/cb"]),
        "invalid_redirect_uri",
    ),
    unregistered(
        "registration-for-client-credentials",
        "gap 4",
        "Every token is somebody's: no client gets one for itself.",
        register(grant_types=["client_credentials"]),
    ),
    unregistered(
        "registration-for-the-implicit-grant",
        "RFC 7591, section 3.2.2",
        INVALID_METADATA,
        register(grant_types=["implicit"], response_types=["token"]),
    ),
    unregistered(
        "registration-for-passwords",
        "RFC 9700, section 2.4",
        "The resource owner password credentials grant [RFC6749] MUST NOT be used.",
        register(grant_types=["password", "refresh_token"]),
    ),
    unregistered(
        "registration-for-tokens-in-the-redirect",
        "RFC 7591, section 3.2.2",
        INVALID_METADATA,
        register(response_types=["token"]),
    ),
    unregistered(
        "registration-with-private-key-jwt",
        "gap 14",
        "A client cannot choose an authentication that this server does not check.",
        register(token_endpoint_auth_method="private_key_jwt"),
    ),
    unregistered(
        "registration-with-a-name-that-is-no-text",
        "gap 4",
        "The name that people read is a text.",
        register(client_name=7),
    ),
    unregistered("registration-in-no-json", "RFC 7591, section 3.2.2", INVALID_METADATA, register_in_no_json),
    unregistered(
        "registration-too-large",
        "gap 4",
        "A registration has at most 65,536 bytes.",
        register(padding="x" * 70_000),
    ),
    unregistered(
        "registration-of-a-device-where-others-are-listed",
        f"{PRACTICES}, CIMD Trust Policies",
        "Allowlists for trusted domains (for protected servers)",
        register_a_device_where_others_are_listed,
        "access_denied",
        403,
    ),
    unregistered(
        "registration-where-others-are-listed",
        f"{PRACTICES}, CIMD Trust Policies",
        "Allowlists for trusted domains (for protected servers)",
        register_where("listed"),
        "access_denied",
        403,
    ),
    unregistered(
        "registration-where-nobody-may",
        f"{PRACTICES}, CIMD Trust Policies",
        "Servers maintain full control over their access policies.",
        register_where("nobody"),
        "access_denied",
        403,
        registration_is_not_offered,
    ),
    unregistered(
        "registration-too-often",
        "gap 4",
        "One address registers so many clients in an hour, and no more.",
        register_too_often,
        "temporarily_unavailable",
        429,
        it_says_when_to_come_back,
    ),
    # --- documents of clients
    unbelieved(
        "document-of-another-client",
        f"{REGISTRATION}, Implementation Requirements",
        "MUST validate that the fetched document's client_id matches the URL exactly",
        describe(client_id="https://other.example/client.json"),
    ),
    unbelieved(
        "document-without-an-id", f"{REGISTRATION}, Implementation Requirements", STRUCTURE, describe(client_id=None)
    ),
    unbelieved(
        "document-without-a-name",
        f"{REGISTRATION}, Implementation Requirements",
        STRUCTURE,
        describe(client_name=None),
    ),
    unbelieved(
        "document-without-redirects",
        f"{REGISTRATION}, Implementation Requirements",
        STRUCTURE,
        describe(redirect_uris=None),
    ),
    unbelieved(
        "document-that-is-no-json",
        f"{REGISTRATION}, Implementation Requirements",
        STRUCTURE,
        answer_with(200, "application/json", b"{"),
    ),
    shown(
        "redirect-outside-the-document",
        f"{REGISTRATION}, Implementation Requirements",
        "MUST validate redirect URIs presented in an authorization request against those in the metadata document",
        ask_with_an_address_outside_the_document,
        also=the_redirect_is_the_problem,
    ),
    unbelieved(
        "document-with-a-remote-http-redirect",
        f"{SECURITY}, Communication Security",
        SECURE_REDIRECT,
        describe(redirect_uris=[flow.CALLBACK, "http://evil.example/cb"]),
    ),
    unbelieved(
        "document-with-a-secret",
        f"{SECURITY}, Token Theft",
        "Clients and servers MUST implement secure token storage",
        describe(token_endpoint_auth_method="client_secret_basic", client_secret="x"),
    ),
    unbelieved(
        "document-at-a-private-address",
        f"{PRACTICES}, SSRF Against Authorization Servers",
        PRIVATE,
        ask_with_a_private_address,
        also=nothing_was_fetched,
    ),
    unbelieved(
        "document-that-is-too-large",
        f"{SECURITY}, Authorization Server Abuse Protection",
        ABUSE,
        describe(padding="x" * 17_000),
    ),
    unbelieved(
        "document-that-redirects",
        "draft-ietf-oauth-client-id-metadata-document-02, section 5",
        "The authorization server MUST NOT automatically follow HTTP redirects when fetching the Client ID Metadata "
        "Document.",
        answer_with(302, "application/json", b"", Location="/elsewhere.json"),
    ),
    unbelieved(
        "document-at-an-http-address",
        f"{REGISTRATION}, Implementation Requirements",
        ADDRESS,
        ask_by_http,
        also=nothing_was_fetched,
    ),
    unbelieved(
        "document-without-a-path",
        f"{REGISTRATION}, Implementation Requirements",
        ADDRESS,
        ask_without_a_path,
        also=nothing_was_fetched,
    ),
    unbelieved(
        "document-before-the-sign-in",
        f"{SECURITY}, Authorization Server Abuse Protection",
        ABUSE,
        ask_before_the_sign_in,
        302,
        nothing_was_fetched,
    ),
    unbelieved(
        "document-where-others-are-listed",
        f"{PRACTICES}, CIMD Trust Policies",
        "Allowlists for trusted domains (for protected servers)",
        ask_where_others_are_listed,
        also=nothing_was_fetched,
    ),
    unbelieved(
        "documents-too-often",
        "gap 12",
        "One person makes this server fetch so many documents in ten minutes, and no more.",
        ask_for_many_documents,
        429,
        one_document_was_fetched,
    ),
    answered(
        "document-for-an-exchange",
        f"{SECURITY}, Authorization Server Abuse Protection",
        ABUSE,
        exchange_without_a_person,
        "invalid_client",
        401,
        nothing_was_fetched,
    ),
    # --- documents of this server
    answered(
        "openid-configuration",
        "2026-07-28 Authorization, Overview",
        "MCP authorization servers MUST provide at least one of the following discovery mechanisms",
        get("/.well-known/openid-configuration"),
        "not_found",
        404,
        the_other_document_is_there,
    ),
    answered(
        "metadata-of-another-resource",
        f"{DISCOVERY}, Protected Resource Metadata Discovery Requirements",
        "At the path of the server's MCP endpoint",
        get("/.well-known/oauth-protected-resource/other"),
        "not_found",
        404,
    ),
)
