"""The authorization endpoint: what is refused to the client, what to the person, and what nobody decides for them."""

from __future__ import annotations

from typing import Any

from django.test import Client as Browser

from tests.oauth import flow
from tests.oauth.refusals.rows import PAGE, REDIRECT, Answer, Row, Scene, Send
from toolhub.oauth.models import Client, ConnectedApp

INDEX = "2026-07-28 Authorization"
SECURITY = "2026-07-28 Security Considerations"
PRACTICES = "2026-07-28 Security Best Practices"


VERIFIER = "v" * 43


def ask(*, signed_in: bool = True, **changes: Any) -> Any:
    """The authorization request of a registered client, with these parameters; None leaves one out."""

    def prepare(scene: Scene) -> Send:
        app = flow.register()
        browser = scene.browser if signed_in else Browser()
        return lambda: browser.get(app.url(**changes))

    return prepare


def ask_of_a_blocked_client(scene: Scene) -> Send:
    app = flow.register()
    Client.objects.update(blocked=True)
    return lambda: flow.ask(scene.browser, app)


def ask_a_wrong_thing_for_a_web_site(scene: Scene) -> Send:
    app = flow.register(redirect_uris=["https://evil.example/phish"])
    return lambda: flow.ask(scene.browser, app, response_type="token")


def ask_with_an_address_that_was_registered_before(scene: Scene) -> Send:
    app = flow.register()
    Client.objects.update(redirect_uris="http://127.0.0.1/new")
    return lambda: flow.ask(scene.browser, app)


def ask_with_a_remote_http_address(scene: Scene) -> Send:
    """As a client would have that an earlier release accepted."""
    app = flow.register()
    Client.objects.update(redirect_uris="http://remote.example/cb")
    return lambda: flow.ask(scene.browser, app, redirect_uri="http://remote.example/cb")


def ask_again_with_another_client(scene: Scene) -> Send:
    flow.connect(scene.browser)
    other = flow.register()
    return lambda: flow.ask(scene.browser, other, approval_prompt="auto", prompt="none")


def ask_again(scene: Scene) -> Send:
    app, _tokens = flow.connect(scene.browser)
    return lambda: flow.ask(scene.browser, app, approval_prompt="auto", prompt="none")


def deny(scene: Scene) -> Send:
    app = flow.register()
    page = flow.ask(scene.browser, app)
    return lambda: flow.decide(scene.browser, app, page, decision="deny")


def deny_an_application(scene: Scene) -> Send:
    app = flow.register(redirect_uris=["cursor://anysphere.cursor-retrieval/callback"])
    page = flow.ask(scene.browser, app)
    return lambda: flow.decide(scene.browser, app, page, decision="deny")


def decide_without_the_token_of_this_site(scene: Scene) -> Send:
    strict = scene.signed_in(scene.alice, enforce_csrf_checks=True)
    app = flow.register()
    page = flow.ask(strict, app)
    return lambda: flow.decide(strict, app, page)


def decide_for_somebody_else(scene: Scene) -> Send:
    app = flow.register()
    page = flow.ask(scene.browser, app)
    return lambda: flow.decide(scene.signed_in(scene.bob), app, page)


def decide_about_another_client(scene: Scene) -> Send:
    nonce = flow.ask(scene.browser, flow.register()).context["nonce"]
    given = {"nonce": nonce, "decision": "allow", "access": "everything", "days": 90}
    return lambda: scene.browser.post(flow.register().url(), given)


def decide_twice(scene: Scene) -> Send:
    app = flow.register()
    page = flow.ask(scene.browser, app)
    flow.decide(scene.browser, app, page)
    return lambda: flow.decide(scene.browser, app, page)


def decide_by_a_link(scene: Scene) -> Send:
    app = flow.register()
    page = flow.ask(scene.browser, app)
    more = f"&nonce={page.context['nonce']}&decision=allow&access=everything&days=90"
    return lambda: scene.browser.get(app.url() + more)


# --- what else holds -------------------------------------------------------------------------------------------------


def pkce_is_advertised(scene: Scene, answer: Answer) -> None:
    found = Browser().get("/.well-known/oauth-authorization-server").json()
    assert found["code_challenge_methods_supported"] == ["S256"]


def the_issuer_is_advertised(scene: Scene, answer: Answer) -> None:
    found = Browser().get("/.well-known/oauth-authorization-server").json()
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["issuer"] == flow.ISSUER


def the_page_asks(scene: Scene, answer: Answer) -> None:
    """It names the client and the host that the answer goes to, and says that the name proves nothing."""
    assert answer.raw.context["nonce"]
    for text in ("Testing client", "<code>127.0.0.1</code>", "not verified", "Anybody can register a client"):
        assert text in answer.body
    assert "no-store" in answer.headers["cache-control"]


def the_form_goes_to_the_client_alone(scene: Scene, answer: Answer) -> None:
    assert "form-action 'self' http://127.0.0.1:41234;" in answer.headers["content-security-policy"]


def the_page_asks_again(scene: Scene, answer: Answer) -> None:
    assert answer.raw.context["note"] == "expired"


def other_scopes_are_not_granted(scene: Scene, answer: Answer) -> None:
    query = answer.raw.wsgi_request.GET
    app = flow.App(query["client_id"], verifier=VERIFIER)
    code = flow.parameters(flow.decide(scene.browser, app, answer.raw))["code"]
    assert app.exchange(code).json()["scope"] == "mcp"


def nobody_is_connected(scene: Scene, answer: Answer) -> None:
    assert not ConnectedApp.objects.exists()


def nothing_strange_is_shown(scene: Scene, answer: Answer) -> None:
    assert "evil.example" not in answer.body


def the_error_is_a_link(scene: Scene, answer: Answer) -> None:
    address = answer.raw.context["address"]
    assert address.startswith("https://evil.example/phish?error=unsupported_response_type&")
    assert address.endswith("&iss=http%3A%2F%2Flocalhost%3A8000")


def the_application_reads_the_error(scene: Scene, answer: Answer) -> None:
    address = answer.raw.context["address"]
    assert address.startswith("cursor://anysphere.cursor-retrieval/callback?error=access_denied&")
    assert address.endswith("&iss=http%3A%2F%2Flocalhost%3A8000")


# --- the table -------------------------------------------------------------------------------------------------------

EXACT = "Authorization servers MUST validate exact redirect URIs against pre-registered values"
NOT_REDIRECTED = "MUST NOT automatically redirect the user-agent to the invalid redirection URI"
SECURE_REDIRECT = "All redirect URIs MUST be either localhost or use HTTPS."
OURS = "MUST identify the MCP server that the client intends to use the token with."
ONCE = "Request and response parameters MUST NOT be included more than once."
CONSENT = (
    "ensure that a malicious client cannot obtain authorization without the awareness and explicit consent of the "
    "resource owner"
)


def redirected(name: str, where: str, sentence: str, prepare: Any, error: str, also: Any = None) -> Row:
    return Row(name, where, sentence, prepare, REDIRECT, 302, error, also)


def shown(name: str, where: str, sentence: str, prepare: Any, status: int = 400, also: Any = None) -> Row:
    return Row(name, where, sentence, prepare, PAGE, status, "", also)


ROWS = (
    # --- errors that go to the client
    redirected(
        "unsupported-response-type",
        "gap 2; RFC 9207, section 2",
        "In authorization responses to the client, including error responses, an authorization server supporting this "
        "specification MUST indicate its identity by including the iss parameter in the response.",
        ask(response_type="id_token"),
        "unsupported_response_type",
        the_issuer_is_advertised,
    ),
    redirected(
        "implicit-grant",
        f"{INDEX}, Overview",
        "Authorization servers MUST implement OAuth 2.1 with appropriate security measures",
        ask(response_type="token"),
        "unsupported_response_type",
    ),
    redirected(
        "hybrid-response-type",
        f"{INDEX}, Overview",
        "Authorization servers MUST implement OAuth 2.1 with appropriate security measures",
        ask(response_type="code token"),
        "unauthorized_client",
    ),
    redirected(
        "missing-response-type",
        "RFC 6749, section 3.1.1",
        'If an authorization request is missing the "response_type" parameter, or if the response type is not '
        "understood, the authorization server MUST return an error response",
        ask(response_type=None),
        "invalid_request",
    ),
    redirected(
        "missing-code-challenge",
        "RFC 7636, section 4.4.1",
        'the authorization endpoint MUST return the authorization error response with the "error" value set to '
        '"invalid_request"',
        ask(code_challenge=None),
        "invalid_request",
        pkce_is_advertised,
    ),
    redirected(
        "missing-code-challenge-before-the-sign-in",
        "gap 11",
        "The request is checked before anybody signs in.",
        ask(signed_in=False, code_challenge=None),
        "invalid_request",
    ),
    redirected(
        "plain-code-challenge",
        f"{SECURITY}, Authorization Code Protection",
        "MCP clients MUST use the S256 code challenge method when technically capable",
        ask(code_challenge_method="plain"),
        "invalid_request",
    ),
    redirected(
        "code-challenge-without-a-method",
        "RFC 7636, section 4.3",
        'defaults to "plain" if not present in the request',
        ask(code_challenge_method=None),
        "invalid_request",
    ),
    redirected(
        "short-code-challenge",
        "RFC 7636, section 4.2",
        "code_challenge = BASE64URL-ENCODE(SHA256(ASCII(code_verifier)))",
        ask(code_challenge="short"),
        "invalid_request",
    ),
    redirected(
        "repeated-code-challenge",
        "RFC 6749, section 3.1",
        ONCE,
        ask(code_challenge=["x" * 43, "y" * 43]),
        "invalid_request",
    ),
    redirected(
        "foreign-resource",
        f"{INDEX}, Resource Parameter Implementation",
        OURS,
        ask(resource="https://other.example/mcp"),
        "invalid_target",
    ),
    redirected(
        "foreign-resource-beside-ours",
        f"{INDEX}, Resource Parameter Implementation",
        OURS,
        ask(resource=[flow.RESOURCE, "https://other.example/mcp"]),
        "invalid_target",
    ),
    redirected(
        "resource-below-ours",
        "gap 5",
        "A resource that is not /mcp of this server is refused, not granted as it is spelt.",
        ask(resource=f"{flow.RESOURCE}/other"),
        "invalid_target",
    ),
    redirected(
        "resource-with-a-fragment",
        f"{INDEX}, Canonical Server URI",
        "https://mcp.example.com#fragment (contains fragment)",
        ask(resource=f"{flow.RESOURCE}#part"),
        "invalid_target",
    ),
    redirected(
        "resource-without-a-scheme",
        f"{INDEX}, Canonical Server URI",
        "mcp.example.com (missing scheme)",
        ask(resource=flow.RESOURCE.partition("//")[2]),
        "invalid_target",
    ),
    redirected(
        "denied",
        f"{INDEX}, Authorization Response Validation",
        "Authorization servers that include the iss parameter MUST advertise this by setting "
        "authorization_response_iss_parameter_supported to true in their metadata",
        deny,
        "access_denied",
        the_issuer_is_advertised,
    ),
    shown(
        "denied-to-an-application",
        f"{INDEX}, Authorization Response Validation",
        "MCP authorization servers SHOULD include the iss parameter in authorization responses, including error "
        "responses",
        deny_an_application,
        200,
        the_application_reads_the_error,
    ),
    # --- requests that are answered to nobody but the person
    shown("unknown-client", "RFC 6749, section 4.1.2.1", NOT_REDIRECTED, ask(client_id="unknown")),
    shown(
        "unknown-client-before-the-sign-in",
        "gap 11",
        "The person of an unknown client does not have to sign in first.",
        ask(signed_in=False, client_id="unknown"),
    ),
    shown("missing-client", "RFC 6749, section 4.1.2.1", NOT_REDIRECTED, ask(client_id=None)),
    shown(
        "blocked-client",
        f"{PRACTICES}, CIMD Trust Policies",
        "Servers maintain full control over their access policies.",
        ask_of_a_blocked_client,
    ),
    shown(
        "redirect-to-another-host",
        f"{SECURITY}, Open Redirection",
        EXACT,
        ask(redirect_uri="https://evil.example/callback"),
        also=nothing_strange_is_shown,
    ),
    shown(
        "redirect-to-another-path",
        f"{SECURITY}, Open Redirection",
        EXACT,
        ask(redirect_uri=f"{flow.CALLBACK}/other"),
    ),
    shown(
        "redirect-with-another-query",
        f"{PRACTICES}, Redirect URI Validation",
        "Use exact string matching (not pattern matching or wildcards)",
        ask(redirect_uri=f"{flow.CALLBACK}?next=x"),
    ),
    shown(
        "redirect-to-another-name-of-the-own-computer",
        f"{PRACTICES}, Redirect URI Validation",
        "Validate that the redirect_uri in authorization requests exactly matches the registered URI",
        ask(redirect_uri=flow.CALLBACK.replace("127.0.0.1", "localhost")),
    ),
    shown(
        "redirect-that-was-registered-before",
        f"{PRACTICES}, Redirect URI Validation",
        "Reject requests if the redirect_uri has changed without re-registration",
        ask_with_an_address_that_was_registered_before,
    ),
    shown(
        "redirect-by-http-to-a-remote-host",
        f"{SECURITY}, Communication Security",
        SECURE_REDIRECT,
        ask_with_a_remote_http_address,
    ),
    shown(
        "redirect-to-a-script",
        f"{SECURITY}, Open Redirection",
        "Authorization servers MUST take precautions to prevent redirecting user agents to untrusted URI's",
        ask(redirect_uri="javascript:alert(1)"),
    ),
    shown(
        "redirect-with-a-fragment",
        "RFC 6749, section 3.1.2",
        "The endpoint URI MUST NOT include a fragment component.",
        ask(redirect_uri=f"{flow.CALLBACK}#part"),
    ),
    shown(
        "redirect-with-a-user-name",
        f"{SECURITY}, Open Redirection",
        EXACT,
        ask(redirect_uri="http://127.0.0.1:41234@evil.example/callback"),
        also=nothing_strange_is_shown,
    ),
    shown(
        "repeated-redirect",
        "RFC 6749, section 3.1",
        ONCE,
        ask(redirect_uri=[flow.CALLBACK, "https://evil.example/"]),
        also=nothing_strange_is_shown,
    ),
    shown("repeated-state", "RFC 6749, section 3.1", ONCE, ask(state=["a", "b"])),
    shown(
        "error-for-a-site-that-anybody-registered",
        f"{SECURITY}, Open Redirection",
        "Authorization servers SHOULD only automatically redirect the user agent if it trusts the redirection URI.",
        ask_a_wrong_thing_for_a_web_site,
        also=the_error_is_a_link,
    ),
    shown(
        "scopes-of-another-server",
        "gap 10",
        "Scopes that this server does not know are ignored, and not granted.",
        ask(scope="mcp openid admin", code_challenge=flow.challenge_of(VERIFIER)),
        200,
        other_scopes_are_not_granted,
    ),
    # --- decisions that nobody made
    shown(
        "not-signed-in",
        "RFC 6749, section 3.1",
        "The authorization server MUST first verify the identity of the resource owner.",
        ask(signed_in=False),
        302,
        nobody_is_connected,
    ),
    shown(
        "approval-prompt-auto",
        "gap 3",
        "A client cannot ask for a code without the question to the person.",
        ask(approval_prompt="auto", prompt="none"),
        200,
        the_page_asks,
    ),
    shown(
        "approval-prompt-auto-of-a-connected-client",
        f"{SECURITY}, Localhost Redirect URI Risks",
        "MUST clearly display the redirect URI hostname during authorization",
        ask_again,
        200,
        the_page_asks,
    ),
    shown(
        "another-client-of-the-same-person",
        f"{SECURITY}, Confused Deputy Problem",
        "MUST obtain user consent for each dynamically registered client",
        ask_again_with_another_client,
        200,
        the_page_asks,
    ),
    shown(
        "consent-in-a-frame",
        f"gap 1; {PRACTICES}, Consent UI Requirements",
        "Prevent iframing via frame-ancestors CSP directive or X-Frame-Options: DENY to prevent clickjacking",
        ask(),
        200,
        the_form_goes_to_the_client_alone,
    ),
    shown(
        "consent-by-a-form-of-another-site",
        f"{PRACTICES}, Consent UI Requirements",
        "Implement CSRF protection (e.g., state parameter, CSRF tokens)",
        decide_without_the_token_of_this_site,
        403,
        nobody_is_connected,
    ),
    shown("consent-by-a-link", "RFC 6749, section 10.12", CONSENT, decide_by_a_link, 200, nobody_is_connected),
    shown(
        "consent-of-another-person",
        "RFC 6749, section 10.12",
        CONSENT,
        decide_for_somebody_else,
        200,
        the_page_asks_again,
    ),
    shown(
        "consent-about-another-client",
        f"{PRACTICES}, Consent Cookie Security",
        'Bind to the specific client_id (not just "user has consented")',
        decide_about_another_client,
        200,
        the_page_asks_again,
    ),
    shown("consent-twice", "RFC 6749, section 10.12", CONSENT, decide_twice, 200, the_page_asks_again),
)
