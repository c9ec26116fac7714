"""The token endpoint and the one that revokes: codes, refresh tokens, and who a client is."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import AccessToken, Grant

from tests.oauth import flow
from tests.oauth.refusals.authorization import INDEX, ONCE, OURS, SECURITY
from tests.oauth.refusals.rows import JSON, Answer, Row, Scene, Send
from toolhub.access.models import digest_of
from toolhub.oauth import rotation
from toolhub.oauth.models import Client, ConnectedApp

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
FORM = "application/x-www-form-urlencoded"
SHORT_VERIFIER = "x" * 42


def exchange(**changes: Any) -> Any:
    """The exchange of a code, with these parameters; None leaves one out."""

    def prepare(scene: Scene) -> Send:
        app = flow.register()
        code = flow.get_code(scene.browser, app)
        return lambda: app.exchange(**{"code": code, **changes})

    return prepare


def refresh(**changes: Any) -> Any:
    def prepare(scene: Scene) -> Send:
        app, tokens = flow.connect(scene.browser)
        return lambda: app.refresh(**{"token": tokens["refresh_token"], **changes})

    return prepare


def exchange_with_basic(client_id: str, secret: str, scheme: str = "Basic", /, **more: str) -> Any:
    """The exchange of a code by a confidential client; "" stands for its own id or secret, also in the body."""

    def prepare(scene: Scene) -> Send:
        app = flow.register(token_endpoint_auth_method="client_secret_basic")
        code = flow.get_code(scene.browser, app)
        own = {"client_id": app.client_id, "client_secret": app.secret}
        pair = f"{client_id or app.client_id}:{secret or app.secret}"
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": app.redirect_uri,
            "code_verifier": app.verifier,
            **{name: value or own[name] for name, value in more.items()},
        }
        header = f"{scheme} {base64.b64encode(pair.encode()).decode()}"
        return lambda: app.http.post("/oauth/token", urlencode(given), content_type=FORM, HTTP_AUTHORIZATION=header)

    return prepare


def exchange_with_secret(secret: str | None) -> Any:
    def prepare(scene: Scene) -> Send:
        app = flow.register(token_endpoint_auth_method="client_secret_post")
        code = flow.get_code(scene.browser, app)
        return lambda: app.exchange(code, client_secret=secret)

    return prepare


def exchange_with_the_stored_secret(scene: Scene) -> Send:
    app = flow.register(token_endpoint_auth_method="client_secret_post")
    code = flow.get_code(scene.browser, app)
    return lambda: app.exchange(code, client_secret=Client.objects.get().client_secret)


def exchange_an_expired_code(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    Grant.objects.update(expires=timezone.now() - timedelta(seconds=1))
    return lambda: app.exchange(code)


def exchange_twice(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    assert app.exchange(code).status_code == 200
    return lambda: app.exchange(code)


def exchange_as_another_client(scene: Scene) -> Send:
    app, thief = flow.register(), flow.register()
    code = flow.get_code(scene.browser, app)
    thief.verifier = app.verifier
    return lambda: thief.exchange(code)


def exchange_as_a_blocked_client(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    Client.objects.update(blocked=True)
    return lambda: app.exchange(code)


def exchange_for_somebody_who_left(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    type(scene.alice).objects.update(is_active=False)
    return lambda: app.exchange(code)


def exchange_with_a_short_verifier(scene: Scene) -> Send:
    app = flow.register()
    app.verifier = SHORT_VERIFIER
    code = flow.get_code(scene.browser, app)
    return lambda: app.exchange(code)


def exchange_with_a_repeated_code(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    return lambda: app.exchange(["thc_other", code])  # type: ignore[arg-type]


def exchange_in_the_address(scene: Scene) -> Send:
    app = flow.register(token_endpoint_auth_method="client_secret_post")
    code = flow.get_code(scene.browser, app)
    given = {"grant_type": "authorization_code", "code": code, "code_verifier": app.verifier}
    return lambda: app.post(f"/oauth/token?client_id={app.client_id}&client_secret={app.secret}", given)


def exchange_in_json(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    given = {"grant_type": "authorization_code", "client_id": app.client_id, "code": code}
    return lambda: app.http.post(
        "/oauth/token", {**given, "code_verifier": app.verifier}, content_type="application/json"
    )


def exchange_with_get(scene: Scene) -> Send:
    app = flow.register()
    code = flow.get_code(scene.browser, app)
    given = {"grant_type": "authorization_code", "client_id": app.client_id, "code": code}
    return lambda: app.http.get("/oauth/token", {**given, "code_verifier": app.verifier})


def exchange_in_a_web_page(scene: Scene) -> Send:
    app = flow.register()
    given = {"grant_type": "authorization_code", "client_id": app.client_id, "code": "thc_invented"}
    origin = "https://playground.example"
    return lambda: app.http.post("/oauth/token", urlencode(given), content_type=FORM, HTTP_ORIGIN=origin)


def refresh_as_another_client(scene: Scene) -> Send:
    _app, tokens = flow.connect(scene.browser)
    thief = flow.register()
    return lambda: thief.refresh(tokens["refresh_token"])


def refresh_with_more_scopes(scene: Scene) -> Send:
    scene.settings.WRITE_SCOPE = True
    app, tokens = flow.connect(scene.browser)
    return lambda: app.refresh(tokens["refresh_token"], scope="mcp mcp:write")


def refresh_with_a_rotated_token(scene: Scene) -> Send:
    """After the time in which two processes of one client get the same answer."""
    app, tokens = flow.connect(scene.browser)
    assert app.refresh(tokens["refresh_token"]).status_code == 200
    scene.monkeypatch.setattr(rotation, "REPEAT_SECONDS", 0.0)
    return lambda: app.refresh(tokens["refresh_token"])


def refresh_with_a_token_from_two_steps_ago(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    second = app.refresh(tokens["refresh_token"]).json()
    assert app.refresh(second["refresh_token"]).status_code == 200
    return lambda: app.refresh(tokens["refresh_token"])


def refresh_with_an_access_token(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    return lambda: app.refresh(tokens["access_token"])


def refresh_with_the_stored_token(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    return lambda: app.refresh(digest_of(tokens["refresh_token"]))


def refresh_a_revoked_connection(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    assert app.revoke(tokens["access_token"]).status_code == 200
    return lambda: app.refresh(tokens["refresh_token"])


def refresh_an_expired_connection(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    ConnectedApp.objects.update(expires=timezone.now())
    return lambda: app.refresh(tokens["refresh_token"])


def refresh_with_a_repeated_token(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    return lambda: app.refresh(["thr_other", tokens["refresh_token"]])  # type: ignore[arg-type]


def revoke_as_nobody(scene: Scene) -> Send:
    app, tokens = flow.connect(scene.browser)
    return lambda: app.revoke(tokens["refresh_token"], client_id="unknown")


def revoke_as_another_client(scene: Scene) -> Send:
    _app, tokens = flow.connect(scene.browser)
    other = flow.register()
    return lambda: other.revoke(tokens["refresh_token"])


# --- what else holds -------------------------------------------------------------------------------------------------


def the_connection_is_revoked(scene: Scene, answer: Answer) -> None:
    assert ConnectedApp.objects.get().revoked is not None
    assert not AccessToken.objects.exists()


def the_connection_goes_on(scene: Scene, answer: Answer) -> None:
    assert ConnectedApp.objects.get().revoked is None
    assert AccessToken.objects.exists()


def the_challenge_is_basic(scene: Scene, answer: Answer) -> None:
    assert answer.headers["www-authenticate"] == 'Basic realm="toolhub"'


def only_post_is_allowed(scene: Scene, answer: Answer) -> None:
    assert answer.headers["allow"] == "POST, OPTIONS"


def the_grants_are_advertised(scene: Scene, answer: Answer) -> None:
    found = Browser().get("/.well-known/oauth-authorization-server").json()["grant_types_supported"]
    assert not {"password", "client_credentials", "implicit"} & set(found)


# --- the table -------------------------------------------------------------------------------------------------------

OAUTH21 = (
    "Authorization servers MUST implement OAuth 2.1 with appropriate security measures for both confidential and "
    "public clients."
)
PASSWORD = "The resource owner password credentials grant [RFC6749] MUST NOT be used."
ENDED = (
    "refresh token is invalid, expired, revoked, does not match the redirection URI used in the authorization request, "
    "or was issued to another client"
)
CODE_OF_CLIENT = 'if the client is public, ensure that the code was issued to "client_id" in the request'
UNEQUAL = (
    'If the values are not equal, an error response indicating "invalid_grant" as described in Section 5.2 of '
    "[RFC6749] MUST be returned."
)
MUST_AUTHENTICATE = "clients issued client credentials MUST authenticate with the authorization server"
SAME_SCHEME = (
    'MUST respond with an HTTP 401 (Unauthorized) status code and include the "WWW-Authenticate" response header '
    "field matching the authentication scheme used by the client"
)
ROTATE = "For public clients, authorization servers MUST rotate refresh tokens"
STORAGE = "Clients and servers MUST implement secure token storage"


def answered(
    name: str, where: str, sentence: str, prepare: Any, error: str, status: int = 400, also: Any = None
) -> Row:
    return Row(name, where, sentence, prepare, JSON, status, error, also)


ROWS = (
    # --- codes
    answered("invented-code", "RFC 6749, section 5.2", ENDED, exchange(code="thc_invented"), "invalid_grant"),
    answered(
        "invented-code-in-a-web-page",
        "gap 6",
        "A client that runs in a web page reads every answer, and no cookie goes with its requests.",
        exchange_in_a_web_page,
        "invalid_grant",
    ),
    answered(
        "missing-code",
        "RFC 6749, section 5.2",
        "invalid_request: The request is missing a required parameter",
        exchange(code=None),
        "invalid_request",
    ),
    answered(
        "expired-code",
        "RFC 6749, section 4.1.2",
        "The authorization code MUST expire shortly after it is issued to mitigate the risk of leaks.",
        exchange_an_expired_code,
        "invalid_grant",
    ),
    answered(
        "replayed-code",
        "gap 8; RFC 6749, section 4.1.2",
        "If an authorization code is used more than once, the authorization server MUST deny the request and SHOULD "
        "revoke (when possible) all tokens previously issued based on that authorization code.",
        exchange_twice,
        "invalid_grant",
        also=the_connection_is_revoked,
    ),
    answered(
        "code-of-another-client",
        "RFC 6749, section 4.1.3",
        CODE_OF_CLIENT,
        exchange_as_another_client,
        "invalid_grant",
    ),
    answered("repeated-code", "RFC 6749, section 3.2", ONCE, exchange_with_a_repeated_code, "invalid_request"),
    answered(
        "code-of-somebody-who-left",
        "RFC 6749, section 5.2",
        ENDED,
        exchange_for_somebody_who_left,
        "invalid_grant",
    ),
    answered(
        "missing-verifier",
        f"{SECURITY}, Authorization Code Protection",
        "ensuring that only the original requestor can exchange an authorization code for tokens",
        exchange(code_verifier=None),
        "invalid_request",
    ),
    answered("wrong-verifier", "RFC 7636, section 4.6", UNEQUAL, exchange(code_verifier="x" * 43), "invalid_grant"),
    answered("empty-verifier", "RFC 7636, section 4.6", UNEQUAL, exchange(code_verifier=""), "invalid_grant"),
    answered(
        "short-verifier",
        "RFC 7636, section 4.1",
        "with a minimum length of 43 characters and a maximum length of 128 characters",
        exchange_with_a_short_verifier,
        "invalid_grant",
    ),
    answered(
        "another-redirect",
        "RFC 6749, section 5.2",
        ENDED,
        exchange(redirect_uri="http://127.0.0.1:5/callback"),
        "invalid_grant",
    ),
    answered(
        "foreign-resource-at-the-exchange",
        f"{INDEX}, Resource Parameter Implementation",
        OURS,
        exchange(resource="https://other.example/mcp"),
        "invalid_target",
    ),
    # --- grants that are not offered
    answered(
        "password-grant",
        "RFC 9700, section 2.4",
        PASSWORD,
        exchange(grant_type="password", username="alice", password="correct horse battery"),
        "unsupported_grant_type",
        also=the_grants_are_advertised,
    ),
    answered(
        "client-credentials-grant",
        "gap 4",
        "Every token is somebody's: no client gets one for itself.",
        exchange(grant_type="client_credentials"),
        "unsupported_grant_type",
        also=the_grants_are_advertised,
    ),
    answered(
        "implicit-grant-at-the-exchange",
        f"{INDEX}, Overview",
        OAUTH21,
        exchange(grant_type="implicit"),
        "unsupported_grant_type",
    ),
    answered("missing-grant-type", f"{INDEX}, Overview", OAUTH21, exchange(grant_type=None), "unsupported_grant_type"),
    answered(
        "device-grant-of-a-client-with-a-browser",
        "RFC 6749, section 5.2",
        "unauthorized_client: The authenticated client is not authorized to use this authorization grant type.",
        exchange(grant_type=DEVICE_CODE, device_code="thc_x"),
        "unauthorized_client",
    ),
    # --- who the client is
    answered(
        "unknown-client-at-the-exchange",
        "gap 9",
        "An unknown client gets 401 invalid_client, by which clients know to register again.",
        exchange(client_id="unknown"),
        "invalid_client",
        401,
    ),
    answered(
        "missing-client-at-the-exchange",
        "RFC 6749, section 3.2.1",
        MUST_AUTHENTICATE,
        exchange(client_id=None),
        "invalid_client",
        401,
    ),
    answered(
        "blocked-client-at-the-exchange",
        "RFC 6749, section 5.2",
        "invalid_client: Client authentication failed",
        exchange_as_a_blocked_client,
        "invalid_client",
        401,
    ),
    answered(
        "unknown-client-with-basic",
        "RFC 6749, section 5.2",
        SAME_SCHEME,
        exchange_with_basic("unknown", "ths_x"),
        "invalid_client",
        401,
        the_challenge_is_basic,
    ),
    answered(
        "wrong-secret-with-basic",
        "RFC 6749, section 5.2",
        SAME_SCHEME,
        exchange_with_basic("", "ths_wrong"),
        "invalid_client",
        401,
        the_challenge_is_basic,
    ),
    answered(
        "wrong-secret-with-basic-in-lower-case",
        "RFC 6749, section 5.2",
        SAME_SCHEME,
        exchange_with_basic("", "ths_wrong", "basic"),
        "invalid_client",
        401,
        the_challenge_is_basic,
    ),
    answered(
        "wrong-basic-beside-the-right-secret",
        "RFC 6749, section 2.3",
        "The client MUST NOT use more than one authentication method in each request.",
        exchange_with_basic("", "ths_wrong", client_id="", client_secret=""),
        "invalid_client",
        401,
        the_challenge_is_basic,
    ),
    answered(
        "basic-of-a-client-that-the-body-does-not-name",
        "RFC 6749, section 2.3",
        "The client MUST NOT use more than one authentication method in each request.",
        exchange_with_basic("", "", client_id="another"),
        "invalid_client",
        401,
        the_challenge_is_basic,
    ),
    answered(
        "wrong-secret",
        "RFC 6749, section 3.2.1",
        MUST_AUTHENTICATE,
        exchange_with_secret("ths_wrong"),
        "invalid_client",
        401,
    ),
    answered(
        "missing-secret",
        "RFC 6749, section 3.2.1",
        MUST_AUTHENTICATE,
        exchange_with_secret(None),
        "invalid_client",
        401,
    ),
    answered(
        "stored-secret",
        f"{SECURITY}, Token Theft",
        STORAGE,
        exchange_with_the_stored_secret,
        "invalid_client",
        401,
    ),
    answered(
        "secret-in-the-address",
        "RFC 6749, section 2.3.1",
        "The parameters can only be transmitted in the request-body and MUST NOT be included in the request URI.",
        exchange_in_the_address,
        "invalid_request",
    ),
    answered(
        "exchange-in-json",
        "RFC 6749, section 4.1.3",
        'using the "application/x-www-form-urlencoded" format',
        exchange_in_json,
        "invalid_request",
    ),
    answered(
        "exchange-with-get",
        "RFC 6749, section 3.2",
        'The client MUST use the HTTP "POST" method when making access token requests.',
        exchange_with_get,
        "invalid_request",
        405,
        only_post_is_allowed,
    ),
    # --- refresh tokens
    answered("invented-refresh-token", "RFC 6749, section 5.2", ENDED, refresh(token="thr_invented"), "invalid_grant"),
    answered(
        "refresh-by-another-client",
        "RFC 6749, section 10.4",
        "The authorization server MUST maintain the binding between a refresh token and the client to whom it was "
        "issued.",
        refresh_as_another_client,
        "invalid_grant",
        also=the_connection_goes_on,
    ),
    answered(
        "refresh-with-more-scopes",
        "RFC 6749, section 6",
        "The requested scope MUST NOT include any scope not originally granted by the resource owner",
        refresh_with_more_scopes,
        "invalid_scope",
        also=the_connection_goes_on,
    ),
    answered(
        "rotated-refresh-token",
        f"gap 7; {SECURITY}, Token Theft",
        ROTATE,
        refresh_with_a_rotated_token,
        "invalid_grant",
        also=the_connection_is_revoked,
    ),
    answered(
        "refresh-token-from-two-steps-ago",
        f"gap 7; {SECURITY}, Token Theft",
        ROTATE,
        refresh_with_a_token_from_two_steps_ago,
        "invalid_grant",
        also=the_connection_is_revoked,
    ),
    answered(
        "access-token-as-refresh-token", "RFC 6749, section 5.2", ENDED, refresh_with_an_access_token, "invalid_grant"
    ),
    answered(
        "stored-refresh-token", f"{SECURITY}, Token Theft", STORAGE, refresh_with_the_stored_token, "invalid_grant"
    ),
    answered(
        "refresh-of-a-revoked-connection",
        "RFC 6749, section 5.2",
        ENDED,
        refresh_a_revoked_connection,
        "invalid_grant",
    ),
    answered(
        "refresh-of-an-expired-connection",
        "RFC 6749, section 5.2",
        ENDED,
        refresh_an_expired_connection,
        "invalid_grant",
    ),
    answered("repeated-refresh-token", "RFC 6749, section 3.2", ONCE, refresh_with_a_repeated_token, "invalid_request"),
    answered(
        "foreign-resource-at-the-refresh",
        f"{INDEX}, Resource Parameter Implementation",
        OURS,
        refresh(resource="https://other.example/mcp"),
        "invalid_target",
        also=the_connection_goes_on,
    ),
    # --- revoking
    answered(
        "revoked-by-nobody",
        "RFC 7009, section 2.1",
        "The authorization server first validates the client credentials",
        revoke_as_nobody,
        "invalid_client",
        401,
        the_connection_goes_on,
    ),
    answered(
        "revoked-by-another-client",
        "RFC 7009, section 2.1",
        "then verifies whether the token was issued to the client making the revocation request",
        revoke_as_another_client,
        "",
        200,
        the_connection_goes_on,
    ),
)
