"""Programs without a browser: what they do not get, and what nobody decides for a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.test import Client as Browser
from django.utils import timezone

from tests.oauth import flow
from tests.oauth.refusals.authorization import INDEX, OURS, PRACTICES, nobody_is_connected, shown, the_page_asks_again
from tests.oauth.refusals.rows import Answer, Scene, Send
from tests.oauth.refusals.tokens import DEVICE_CODE, answered
from toolhub.oauth.models import DeviceRequest


def register() -> flow.App:
    return flow.register(grant_types=["authorization_code", DEVICE_CODE])


def start(program: flow.App, **changes: Any) -> Any:
    return program.post("/oauth/device", {"client_id": program.client_id, "resource": flow.RESOURCE, **changes})


def poll(program: flow.App, found: dict[str, Any]) -> Any:
    given = {"grant_type": DEVICE_CODE, "device_code": found["device_code"], "client_id": program.client_id}
    return program.post("/oauth/token", given)


def decide(browser: Any, page: Any, decision: str = "allow") -> Any:
    given = {"nonce": page.context["nonce"], "decision": decision, "access": "everything", "days": 90}
    return browser.post(page.context["action"], given)


def ask(browser: Any, found: dict[str, Any]) -> Any:
    return browser.get("/device/", {"code": found["user_code"]})


def begin(**changes: Any) -> Any:
    def prepare(scene: Scene) -> Send:
        program = register()
        return lambda: start(program, **changes)

    return prepare


def begin_as_a_client_with_a_browser(scene: Scene) -> Send:
    app = flow.register()
    return lambda: start(app)


def poll_before_the_decision(scene: Scene) -> Send:
    program = register()
    found = start(program).json()
    return lambda: poll(program, found)


def poll_at_once(scene: Scene) -> Send:
    program = register()
    found = start(program).json()
    poll(program, found)
    return lambda: poll(program, found)


def poll_too_late(scene: Scene) -> Send:
    program = register()
    found = start(program).json()
    decide(scene.browser, ask(scene.browser, found))
    DeviceRequest.objects.update(expires=timezone.now() - timedelta(seconds=1))
    return lambda: poll(program, found)


def poll_as_another_client(scene: Scene) -> Send:
    program, thief = register(), register()
    found = start(program).json()
    decide(scene.browser, ask(scene.browser, found))
    return lambda: poll(thief, found)


def poll_what_was_denied(scene: Scene) -> Send:
    program = register()
    found = start(program).json()
    decide(scene.browser, ask(scene.browser, found), "deny")
    return lambda: poll(program, found)


def poll_after_the_tokens(scene: Scene) -> Send:
    program = register()
    found = start(program).json()
    decide(scene.browser, ask(scene.browser, found))
    assert poll(program, found).status_code == 200
    return lambda: poll(program, found)


def enter_an_invented_code(scene: Scene) -> Send:
    start(register())
    return lambda: scene.browser.get("/device/", {"code": "BBBB-BBBB"})


def enter_without_a_sign_in(scene: Scene) -> Send:
    found = start(register()).json()
    return lambda: flow.App("").http.get("/device/", {"code": found["user_code"]})


def decide_without_the_token_of_this_site(scene: Scene) -> Send:
    strict = scene.signed_in(scene.alice, enforce_csrf_checks=True)
    page = ask(strict, start(register()).json())
    return lambda: decide(strict, page)


def decide_for_somebody_else(scene: Scene) -> Send:
    page = ask(scene.browser, start(register()).json())
    return lambda: decide(scene.signed_in(scene.bob), page)


def no_code_is_shown(scene: Scene, answer: Answer) -> None:
    assert not DeviceRequest.objects.exists()


def the_endpoint_is_advertised(scene: Scene, answer: Answer) -> None:
    found = Browser().get("/.well-known/oauth-authorization-server").json()
    assert found["device_authorization_endpoint"] == f"{flow.ISSUER}/oauth/device"
    no_code_is_shown(scene, answer)


def it_waits_longer(scene: Scene, answer: Answer) -> None:
    assert DeviceRequest.objects.get().interval == 10


BOUND = "The authorization code is bound to the client identifier and redirection URI."

ROWS = (
    answered(
        "device-request-of-an-unknown-client",
        "gap 13; RFC 8628, section 3.1",
        "The client authentication requirements of Section 3.2.1 of [RFC6749] apply to requests on this endpoint",
        begin(client_id="unknown"),
        "invalid_client",
        401,
        the_endpoint_is_advertised,
    ),
    answered(
        "device-request-of-a-client-with-a-browser",
        "RFC 6749, section 5.2",
        "unauthorized_client: The authenticated client is not authorized to use this authorization grant type.",
        begin_as_a_client_with_a_browser,
        "unauthorized_client",
        also=no_code_is_shown,
    ),
    answered(
        "foreign-resource-of-a-device",
        f"{INDEX}, Resource Parameter Implementation",
        OURS,
        begin(resource="https://other.example/mcp"),
        "invalid_target",
        also=no_code_is_shown,
    ),
    answered(
        "device-code-before-the-decision",
        "RFC 8628, section 3.5",
        "authorization_pending: The authorization request is still pending",
        poll_before_the_decision,
        "authorization_pending",
    ),
    answered(
        "device-code-too-often",
        "RFC 8628, section 3.5",
        "the interval MUST be increased by 5 seconds for this and all subsequent requests",
        poll_at_once,
        "slow_down",
        also=it_waits_longer,
    ),
    answered(
        "expired-device-code",
        "RFC 8628, section 3.5",
        'expired_token: The "device_code" has expired, and the device authorization session has concluded.',
        poll_too_late,
        "expired_token",
    ),
    answered(
        "device-code-of-another-client", "RFC 6749, section 4.1.2", BOUND, poll_as_another_client, "invalid_grant"
    ),
    answered(
        "denied-device-code",
        "RFC 8628, section 3.5",
        "access_denied: The authorization request was denied.",
        poll_what_was_denied,
        "access_denied",
        also=nobody_is_connected,
    ),
    answered(
        "replayed-device-code",
        "RFC 6749, section 10.5",
        "Authorization codes MUST be short lived and single-use.",
        poll_after_the_tokens,
        "invalid_grant",
    ),
    shown(
        "invented-user-code",
        "RFC 8628, section 5.1",
        "when combined with rate-limiting and other mitigations, a brute-force attack becomes infeasible",
        enter_an_invented_code,
    ),
    shown(
        "user-code-without-a-sign-in",
        "RFC 8628, section 1",
        "The authorization server authenticates the end user (via the user agent)",
        enter_without_a_sign_in,
        302,
        nobody_is_connected,
    ),
    shown(
        "device-consent-by-a-form-of-another-site",
        f"{PRACTICES}, Consent UI Requirements",
        "Implement CSRF protection (e.g., state parameter, CSRF tokens)",
        decide_without_the_token_of_this_site,
        403,
        nobody_is_connected,
    ),
    shown(
        "device-consent-of-another-person",
        f"{PRACTICES}, Consent UI Requirements",
        "Implement CSRF protection (e.g., state parameter, CSRF tokens)",
        decide_for_somebody_else,
        200,
        the_page_asks_again,
    ),
)
