"""What attackers and odd clients tried: each answer is a refusal in the right form, and nobody else pays for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django.db import connections
from django.test import Client as Browser
from django.utils import timezone

from audit.models import Action
from tests.oauth import flow
from toolhub.oauth import client_documents, device, registration
from toolhub.oauth.models import Client, ConnectedApp, DeviceRequest

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
FORM = "application/x-www-form-urlencoded"
MACHINES = ("/oauth/token", "/oauth/revoke", "/oauth/device")


# --- odd input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MACHINES)
@pytest.mark.parametrize(
    "given",
    [
        {"data": "client_id=a%00b&token=x&grant_type=refresh_token&refresh_token=x"},
        {"data": "client_id=%D0%B0&token=x&grant_type=refresh_token&refresh_token=x"},
        {"data": f"client_id={'a' * 300}&token=x&grant_type=refresh_token&refresh_token=x"},
        {"data": "client_id=https://[evil/x&token=x&grant_type=refresh_token&refresh_token=x"},
        {"data": "token=x&grant_type=refresh_token&refresh_token=x", "HTTP_AUTHORIZATION": "Basic \u00e9\u00e9"},
        {"data": "token=x&grant_type=refresh_token&refresh_token=x", "HTTP_AUTHORIZATION": "Basic YQBiOng="},
        {"data": "token=x&grant_type=refresh_token&refresh_token=x", "HTTP_AUTHORIZATION": "Basic ===="},
        {"data": "token=x&grant_type=openid&code=x"},
        {"data": "token=x", "content_type": f"{FORM}; charset=latin-1"},
        {"data": "token=x", "content_type": f"{FORM}; charset=utf-16"},
    ],
)
def test_odd_input_of_a_machine_is_refused_in_json_that_web_pages_may_read(path: str, given: dict[str, Any]) -> None:
    app = flow.register()
    body = given["data"] if "client_id" in given["data"] else f"{given['data']}&client_id={app.client_id}"
    more = {name: value for name, value in given.items() if name not in {"data", "content_type"}}
    answer = Browser().post(path, body, content_type=given.get("content_type", FORM), **more)
    # What is revoked may be unknown, and a client that registered for a browser gets no device code.
    assert answer.status_code in {400, 401} or (path == "/oauth/revoke" and answer.status_code == 200)
    assert answer["Content-Type"] == "application/json"
    assert answer["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize(
    "client_id",
    [
        "a\x00b",
        "\u0430pple",
        "a" * 300,
        "https://[evil/x",
        "https://a.example:99999/x",
        "https://a.example:x/y",
        " ",
        "\n",
    ],
)
@pytest.mark.parametrize("signed_in", [True, False])
def test_an_odd_id_is_an_unknown_client_to_a_person(client_id: str, signed_in: bool, alices: Browser) -> None:
    answer = (alices if signed_in else Browser()).get(flow.App(client_id).url())
    if answer.status_code == 302:
        assert not signed_in and answer["Location"].startswith("/sign-in/")
    else:
        assert answer.status_code == 400
    assert not Client.objects.exists()


@pytest.mark.parametrize("value", ["\u0434" * 4000, "x" * 16_000, "\x00", "\ud800", "%", "&state=y"])
def test_an_odd_state_is_carried_or_refused(value: str, alices: Browser) -> None:
    app = flow.register()
    address = app.url(state=None) + "&state=" + quote(value.encode("utf-8", "surrogatepass"))
    for browser in (alices, Browser()):
        assert browser.get(address).status_code in {200, 302, 400}


def test_a_host_that_no_column_holds_does_not_register() -> None:
    given = {"redirect_uris": [f"https://{'a' * 300}.example/cb"]}
    answer = Browser().post("/oauth/register", given, content_type="application/json")
    assert answer.status_code == 400


def test_our_own_fault_is_an_error_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(registration, "read", fail)
    answer = Browser().post("/oauth/register", {}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]) == (500, "server_error")
    assert "broken" not in answer.content.decode()


def test_a_flood_of_ids_writes_no_flood_of_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    assert logging.getLogger("oauth2_provider").getEffectiveLevel() >= logging.WARNING
    with caplog.at_level(logging.INFO):
        for number in range(20):
            body = f"grant_type=refresh_token&refresh_token=x&client_id=https://a.example/{number}{'x' * 100_000}"
            Browser().post("/oauth/token", body, content_type=FORM)
    assert max(len(record.getMessage()) for record in caplog.records) < 500


# --- who a client is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client_id",
    [
        "https://\u0430pple.example/client.json",
        "https://claude.ai\u3002evil.example/client.json",
        "https://CLAUDE.example/client.json",
        "https://claude.example:443x/client.json",
        "https://[2001:db8::1]/client.json",
        "https://a_b.example/client.json",
    ],
)
def test_a_host_that_looks_like_another_one_is_never_shown_as_proof(
    client_id: str, alices: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_documents, "async_to_sync", lambda _: pytest.fail("it was asked for"))
    page = flow.ask(alices, flow.App(client_id))
    assert page.status_code == 400
    assert not Client.objects.exists()


def test_an_answer_to_the_own_computer_comes_with_a_warning_whatever_else_is_registered(alices: Browser) -> None:
    Client.objects.create(
        client_id="https://claude.example/client.json",
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="https://claude.example/cb http://localhost/cb",
        registration_source="cimd",
        cimd_expires_at=timezone.now() + timedelta(days=1),
    )
    app = flow.App("https://claude.example/client.json", redirect_uri="http://localhost:666/cb")
    assert "Any program on this computer can claim" in flow.ask(alices, app).content.decode()
    web = flow.App("https://claude.example/client.json", redirect_uri="https://claude.example/cb")
    assert "Any program on this computer can claim" not in flow.ask(alices, web).content.decode()


# --- where an error goes ---------------------------------------------------------------------------------------------


def test_a_link_of_this_server_leads_nobody_to_a_site_that_anybody_registered(alices: Browser) -> None:
    evil = flow.register(redirect_uris=["https://evil.example/phish"])
    for browser in (Browser(), alices):
        answer = browser.get(evil.url(response_type="x"))
        assert answer.status_code == 400
        assert "Location" not in answer
        text = answer.content.decode()
        assert "Tell the client at evil.example" in text
        assert f"iss={quote(flow.ISSUER, safe='')}" in text
    Client.objects.update(trusted=True)
    assert Browser().get(evil.url(response_type="x"))["Location"].startswith("https://evil.example/phish?error=")


def test_an_error_right_after_the_sign_in_is_a_page_because_a_browser_follows_no_redirect_of_that_form(
    alices: Browser,
) -> None:
    app = flow.register()
    url = app.url(response_type="x")
    assert alices.get(url).status_code == 302
    after = alices.get(url, HTTP_REFERER="http://testserver/sign-in/?next=/oauth/authorize")
    assert after.status_code == 400
    assert "Tell the client at 127.0.0.1" in after.content.decode()


# --- one decision ----------------------------------------------------------------------------------------------------


def at_once(work: Callable[[int], Any], number: int = 4) -> list[Any]:
    barrier = threading.Barrier(number)

    def run(index: int) -> Any:
        barrier.wait(60)
        try:
            return work(index)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(run, range(number)))


@pytest.mark.django_db(transaction=True)
def test_one_page_that_is_answered_four_times_at_once_is_one_decision(alice: User) -> None:
    browser = Browser()
    browser.force_login(alice)
    app = flow.register()
    page = flow.ask(browser, app)

    def send(_index: int) -> Any:
        mine = Browser()
        mine.cookies = browser.cookies
        return flow.decide(mine, app, page)

    answers = at_once(send)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 302]
    assert ConnectedApp.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_code_that_comes_four_times_at_once_while_an_earlier_connection_is_taken_over(alice: User) -> None:
    browser = Browser()
    browser.force_login(alice)
    app, _tokens = flow.connect(browser)
    code = flow.get_code(browser, app)
    answers = at_once(lambda _index: app.exchange(code))
    assert {answer.status_code for answer in answers} <= {200, 400}
    assert sum(answer.status_code == 200 for answer in answers) == 1
    assert ConnectedApp.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_refresh_beside_a_new_decision_is_answered_and_nothing_waits_for_ever(alice: User) -> None:
    browser = Browser()
    browser.force_login(alice)
    app, tokens = flow.connect(browser)
    code = flow.get_code(browser, app)

    def send(index: int) -> Any:
        return app.exchange(code) if index == 0 else app.refresh(tokens["refresh_token"])

    answers = at_once(send)
    assert answers[0].status_code == 200
    assert {answer.status_code for answer in answers[1:]} <= {200, 400}
    assert app.refresh(answers[0].json()["refresh_token"]).status_code == 200
    assert ConnectedApp.objects.usable().count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_codes_of_one_installation_become_one_connection(alice: User) -> None:
    browser = Browser()
    browser.force_login(alice)
    app = flow.register()
    codes = [flow.get_code(browser, app), flow.get_code(browser, app)]
    answers = at_once(lambda index: app.exchange(codes[index]), 2)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert ConnectedApp.objects.usable().count() == 1


def test_a_decision_about_a_device_replaces_no_connection(alices: Browser) -> None:
    """Somebody else may have started it: the person's own program goes on, and they see both."""
    app, tokens = flow.connect(alices, flow.register(grant_types=["authorization_code", DEVICE_CODE]))
    found = app.post("/oauth/device", {"client_id": app.client_id}).json()
    page = alices.get("/device/", {"code": found["user_code"]})
    given = {"nonce": page.context["nonce"], "decision": "allow", "access": "everything", "days": 365}
    alices.post(page.context["action"], given)
    DeviceRequest.objects.update(polled=None)
    grant = {"grant_type": DEVICE_CODE, "device_code": found["device_code"]}
    assert app.post("/oauth/token", {**grant, "client_id": app.client_id}).status_code == 200
    assert ConnectedApp.objects.usable().count() == 2
    assert app.refresh(tokens["refresh_token"]).status_code == 200


def test_a_client_that_many_computers_share_has_a_connection_for_each(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    Client.objects.update(registration_source="manual")
    flow.connect(alices, app)
    assert ConnectedApp.objects.usable().count() == 2
    assert app.refresh(tokens["refresh_token"]).status_code == 200


def test_what_is_taken_over_has_the_time_of_the_decision_and_is_logged_as_the_persons(alices: Browser) -> None:
    app, _tokens = flow.connect(alices)
    before = timezone.now() - timedelta(days=5)
    ConnectedApp.objects.update(created=before, activated=before)
    last = Action.objects.latest("pk").pk
    flow.connect(alices, app, days=365)
    found = ConnectedApp.objects.get()
    assert timezone.now() - found.created < timedelta(minutes=1)
    actors = set(Action.objects.filter(kind="connected app", pk__gt=last).values_list("actor", flat=True))
    assert actors == {"alice"}


def test_a_code_from_a_history_disconnects_nobody(alices: Browser) -> None:
    app = flow.register()
    code = flow.get_code(alices, app)
    tokens = app.exchange(code).json()
    ConnectedApp.objects.update(activated=timezone.now() - timedelta(minutes=11))
    assert app.exchange(code, code_verifier=None).json()["error"] == "invalid_grant"
    assert app.refresh(tokens["refresh_token"]).status_code == 200


# --- devices ---------------------------------------------------------------------------------------------------------


def test_two_programs_never_show_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    program = flow.register(grant_types=[DEVICE_CODE, "authorization_code"])
    drawn = iter(["BBBBBBBB", "BBBBBBBB", "CCCCCCCC"])
    monkeypatch.setattr(device, "draw_code", lambda: next(drawn))
    codes = [program.post("/oauth/device", {"client_id": program.client_id}).json()["user_code"] for _ in range(2)]
    assert codes == ["BBBB-BBBB", "CCCC-CCCC"]


def test_the_number_of_waiting_programs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MAX_REQUESTS", 2)
    program = flow.register(grant_types=[DEVICE_CODE, "authorization_code"])
    answers = [program.post("/oauth/device", {"client_id": program.client_id}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    DeviceRequest.objects.update(expires=timezone.now() - timedelta(seconds=1))
    assert program.post("/oauth/device", {"client_id": program.client_id}).status_code == 200
