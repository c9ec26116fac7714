"""Programs without a browser: the code that they show, the person who enters it, and who else could."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client as Browser
from django.utils import timezone

from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.oauth import cleanup, device
from toolhub.oauth.models import Client, ConnectedApp, DeviceRequest

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def program() -> flow.App:
    """A registered program without a redirect address."""
    given = {
        "client_name": "Terminal client",
        "redirect_uris": [],
        "grant_types": [DEVICE_CODE, "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
    made = Browser(REMOTE_ADDR="203.0.113.7").post("/oauth/register", given, content_type="application/json").json()
    assert (made["redirect_uris"], made["response_types"]) == ([], [])
    assert made["grant_types"] == ["refresh_token", DEVICE_CODE]
    return flow.App(made["client_id"])


def start(program: flow.App, **changes: Any) -> Any:
    return program.post("/oauth/device", {"client_id": program.client_id, "resource": flow.RESOURCE, **changes})


def poll(program: flow.App, code: str, **changes: Any) -> Any:
    """Ask, five seconds after the last time."""
    DeviceRequest.objects.update(polled=timezone.now() - timedelta(seconds=60))
    given = {"grant_type": DEVICE_CODE, "device_code": code, "client_id": program.client_id, **changes}
    return program.post("/oauth/token", given)


def decide(browser: Browser, page: Any, decision: str = "allow", **form: Any) -> Any:
    given = {"nonce": page.context["nonce"], "decision": decision, "access": "everything", "days": 90, **form}
    return browser.post(page.context["action"], given)


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"client_id": "unknown"}, "invalid_client", 401),
        ({"client_id": None}, "invalid_client", 401),
        ({"client_id": "x\x00y"}, "invalid_client", 401),
        ({"client_secret": "ths_x"}, "invalid_client", 401),
        ({"resource": "https://other.example/mcp"}, "invalid_target", 400),
    ],
)
def test_a_request_that_is_not_right_gets_no_code(
    changes: dict[str, Any], code: str, status: int, program: flow.App
) -> None:
    answer = start(program, **changes)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert not DeviceRequest.objects.exists()


def test_a_client_for_devices_gets_no_code_by_a_redirect(program: flow.App, alices: Browser) -> None:
    assert flow.ask(alices, program).status_code == 400
    assert flow.ask(alices, program, redirect_uri=None).status_code == 400


def test_the_codes_are_stored_as_little_as_possible_and_say_how_to_go_on(program: flow.App) -> None:
    found = start(program).json()
    assert found["verification_uri"] == f"{flow.ISSUER}/device/"
    assert found["verification_uri_complete"] == f"{flow.ISSUER}/device/?code={found['user_code']}"
    assert (found["expires_in"], found["interval"]) == (600, 5)
    stored = DeviceRequest.objects.get()
    assert stored.device_digest == digest_of(found["device_code"])
    assert found["user_code"] == f"{stored.user_code[:4]}-{stored.user_code[4:]}"


def test_one_address_does_not_get_code_after_code(program: flow.App, settings: Any) -> None:
    settings.REGISTRATIONS_RATE = "2/10h"
    answers = [start(program) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0


@pytest.mark.parametrize("entered", ["{0}", " {0} ", "{1}"])
def test_a_person_enters_the_code_and_the_program_gets_its_tokens(
    entered: str, program: flow.App, alices: Browser
) -> None:
    found = start(program).json()
    assert poll(program, found["device_code"]).json()["error"] == "authorization_pending"
    code = entered.format(found["user_code"].lower(), found["user_code"].replace("-", ""))
    page = alices.get("/device/", {"code": code})
    assert page.status_code == 200
    text = page.content.decode()
    assert found["user_code"] in text
    assert "203.0.113.7" in text
    assert "another network" in text
    done = decide(alices, page)
    assert "is connected" in done.content.decode()
    tokens = poll(program, found["device_code"]).json()
    assert tokens["access_token"].startswith("tho_")
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    app = ConnectedApp.objects.get()
    assert (app.is_usable, app.destination) == (True, "203.0.113.7")
    again = poll(program, found["device_code"])
    assert again.json()["error"] == "invalid_grant"
    assert not DeviceRequest.objects.exists()


def test_who_is_not_signed_in_does_that_first(program: flow.App) -> None:
    found = start(program).json()
    answer = Browser().get("/device/", {"code": found["user_code"]})
    assert answer["Location"] == f"/sign-in/?next=/device/%3Fcode%3D{found['user_code']}"


def test_who_denies_ends_it(program: flow.App, alices: Browser) -> None:
    found = start(program).json()
    page = alices.get("/device/", {"code": found["user_code"]})
    assert "was denied" in decide(alices, page, "deny").content.decode()
    assert poll(program, found["device_code"]).json()["error"] == "access_denied"
    assert alices.get("/device/", {"code": found["user_code"]}).status_code == 400
    assert not ConnectedApp.objects.exists()


def test_the_person_chooses_for_how_long_as_for_any_client(program: flow.App, alices: Browser) -> None:
    found = start(program).json()
    page = alices.get("/device/", {"code": found["user_code"]})
    assert decide(alices, page, days=10_000).status_code == 400
    page = alices.get("/device/", {"code": found["user_code"]})
    decide(alices, page, days=1)
    app = ConnectedApp.objects.get()
    assert (app.expires - app.created).days == 1


def test_a_program_that_asks_too_often_is_told_to_slow_down(program: flow.App) -> None:
    found = start(program).json()
    given = {"grant_type": DEVICE_CODE, "device_code": found["device_code"], "client_id": program.client_id}
    errors = [program.post("/oauth/token", given).json()["error"] for _ in range(3)]
    assert errors == ["authorization_pending", "slow_down", "slow_down"]
    assert DeviceRequest.objects.get().interval == 15


@pytest.mark.parametrize("what", ["expired", "another client", "invented", "missing", "revoked", "inactive", "blocked"])
def test_a_code_that_is_no_use_gets_nothing(what: str, program: flow.App, alices: Browser, alice: User) -> None:
    found = start(program).json()
    decide(alices, alices.get("/device/", {"code": found["user_code"]}))
    code, asking, status, expected = found["device_code"], program, 400, "invalid_grant"
    match what:
        case "expired":
            DeviceRequest.objects.update(expires=timezone.now())
            expected = "expired_token"
        case "another client":
            asking = flow.register(grant_types=["authorization_code", DEVICE_CODE])
        case "invented":
            code = "thc_invented"
        case "missing":
            code, expected = "", "invalid_request"
        case "revoked":
            ConnectedApp.objects.get().revoke()
            expected = "access_denied"
        case "inactive":
            type(alice).objects.update(is_active=False)
            expected = "access_denied"
        case "blocked":
            Client.objects.update(blocked=True)
            status, expected = 401, "invalid_client"
    answer = poll(asking, code)
    assert answer.json()["error"] == expected
    assert answer.status_code == status or expected in {"access_denied", "expired_token"}
    assert "access_token" not in answer.json()


def test_an_expired_or_invented_code_is_refused_to_the_person_and_guesses_are_counted(
    program: flow.App, alices: Browser, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "WRONG_CODES_RATE", "3/10h")
    found = start(program).json()
    for code in ("BBBB-BBBB", "x", "B" * 300):
        answer = alices.get("/device/", {"code": code})
        assert answer.status_code == 400
    assert alices.get("/device/", {"code": found["user_code"]}).status_code == 429
    bobs = Browser()
    bobs.force_login(bob)
    assert bobs.get("/device/", {"code": found["user_code"]}).status_code == 200
    DeviceRequest.objects.update(expires=timezone.now())
    assert bobs.get("/device/", {"code": found["user_code"]}).status_code == 400


def test_two_people_do_not_both_decide(program: flow.App, alices: Browser, bob: User) -> None:
    found = start(program).json()
    bobs = Browser()
    bobs.force_login(bob)
    pages = [browser.get("/device/", {"code": found["user_code"]}) for browser in (alices, bobs)]
    decide(alices, pages[0])
    assert decide(bobs, pages[1]).status_code == 400
    assert ConnectedApp.objects.get().user.username == "alice"


def test_a_decision_needs_the_page_of_this_browser_and_the_token_of_this_site(
    program: flow.App, alices: Browser, alice: User, bob: User
) -> None:
    found = start(program).json()
    page = alices.get("/device/", {"code": found["user_code"]})
    bobs = Browser()
    bobs.force_login(bob)
    assert decide(bobs, page).context["note"] == "expired"
    strict = Browser(enforce_csrf_checks=True)
    strict.force_login(alice)
    assert decide(strict, strict.get("/device/", {"code": found["user_code"]})).status_code == 403
    assert not ConnectedApp.objects.exists()
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]


def test_requests_that_nobody_answered_are_removed(program: flow.App) -> None:
    start(program)
    DeviceRequest.objects.update(expires=timezone.now() - timedelta(seconds=1))
    cleanup.clean_up()
    assert not DeviceRequest.objects.exists()


def test_the_page_without_a_code_asks_for_one(alices: Browser) -> None:
    page = alices.get("/device/")
    assert page.status_code == 200
    assert 'name="code"' in page.content.decode()
