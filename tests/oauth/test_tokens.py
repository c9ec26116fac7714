"""Codes and tokens: what the token endpoint refuses, and that a copied one does not live on beside the original."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import AccessToken, Grant, RefreshToken

from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.oauth import cleanup, rotation
from toolhub.oauth.models import Client, ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db


def refused(answer: Any, code: str, status: int = 400) -> None:
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer["Content-Type"] == "application/json"
    assert "no-store" in answer["Cache-Control"]
    assert "access_token" not in answer.json()


# --- exchanging a code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"code": "thc_invented"}, "invalid_grant", 400),
        ({"code": None}, "invalid_request", 400),
        ({"code": "\x00"}, "invalid_grant", 400),
        ({"code_verifier": None}, "invalid_request", 400),
        ({"code_verifier": "x" * 43}, "invalid_grant", 400),
        ({"code_verifier": ""}, "invalid_grant", 400),
        ({"redirect_uri": "http://127.0.0.1:5/callback"}, "invalid_grant", 400),
        ({"redirect_uri": "https://evil.example/"}, "invalid_grant", 400),
        ({"client_id": "unknown"}, "invalid_client", 401),
        ({"client_id": None}, "invalid_client", 401),
        ({"client_id": "x\x00y"}, "invalid_client", 401),
        ({"client_id": "https://localhost/client.json"}, "invalid_client", 401),
        ({"client_secret": "ths_invented"}, "invalid_client", 401),
        ({"resource": "https://other.example/mcp"}, "invalid_target", 400),
        ({"resource": [flow.RESOURCE, "https://other.example/mcp"]}, "invalid_target", 400),
        (
            {"grant_type": "password", "username": "alice", "password": "correct horse battery"},
            "unsupported_grant_type",
            400,
        ),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type", 400),
        ({"grant_type": "implicit"}, "unsupported_grant_type", 400),
        ({"grant_type": None}, "unsupported_grant_type", 400),
        (
            {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "x"},
            "unauthorized_client",
            400,
        ),
    ],
)
def test_an_exchange_that_is_not_right_gets_nothing_and_the_right_one_still_works(
    changes: dict[str, Any], code: str, status: int, alices: Browser
) -> None:
    app = flow.register()
    text = flow.get_code(alices, app)
    refused(app.exchange(**{"code": text, **changes}), code, status)
    assert not AccessToken.objects.exists()
    assert app.exchange(text).status_code == 200


def test_a_code_is_no_use_to_another_client(alices: Browser) -> None:
    app, thief = flow.register(), flow.register()
    text = flow.get_code(alices, app)
    thief.verifier = app.verifier
    refused(thief.exchange(text), "invalid_grant")
    assert app.exchange(text).status_code == 200


@pytest.mark.parametrize("what", ["inactive", "revoked", "blocked"])
def test_a_code_ends_with_the_person_the_decision_and_the_client(what: str, alices: Browser, alice: User) -> None:
    app = flow.register()
    text = flow.get_code(alices, app)
    if what == "inactive":
        alice.is_active = False
        alice.save()
    elif what == "revoked":
        ConnectedApp.objects.get().revoke()
    else:
        Client.objects.update(blocked=True)
    refused(
        app.exchange(text),
        "invalid_client" if what == "blocked" else "invalid_grant",
        401 if what == "blocked" else 400,
    )
    assert not AccessToken.objects.exists()


def test_a_code_that_comes_twice_revokes_what_it_gave(alices: Browser) -> None:
    app = flow.register()
    text = flow.get_code(alices, app)
    tokens = app.exchange(text).json()
    refused(app.exchange(text), "invalid_grant")
    assert ConnectedApp.objects.get().revoked is not None
    assert not AccessToken.objects.exists()
    refused(app.refresh(tokens["refresh_token"]), "invalid_grant")


def test_an_exchange_answers_with_everything_a_client_needs_and_stores_digests_only(alices: Browser) -> None:
    app = flow.register()
    code = flow.get_code(alices, app)
    found = app.exchange(code).json()
    assert found["access_token"].startswith("tho_")
    assert found["refresh_token"].startswith("thr_")
    assert (found["token_type"], found["scope"], found["expires_in"]) == ("Bearer", "mcp", 3600)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            stored = repr(cursor.fetchall())
            for text in (code, found["access_token"], found["refresh_token"], app.verifier):
                assert text not in stored, table


def test_a_token_never_outlasts_its_connection(alices: Browser) -> None:
    app = flow.register()
    code = flow.get_code(alices, app)
    ConnectedApp.objects.update(expires=timezone.now() + timedelta(seconds=100))
    found = app.exchange(code).json()
    assert 90 <= found["expires_in"] <= 100
    ConnectedApp.objects.update(expires=timezone.now())
    refused(app.refresh(found["refresh_token"]), "invalid_grant")


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_confidential_client_proves_who_it_is(method: str, alices: Browser) -> None:
    app = flow.register(token_endpoint_auth_method=method)
    code = flow.get_code(alices, app)
    for wrong in (None, "", "ths_wrong", digest_of(app.secret)):
        refused(app.exchange(code, client_secret=wrong), "invalid_client", 401)
    if method == "client_secret_post":
        assert app.exchange(code).status_code == 200
        return
    basic = base64.b64encode(f"{app.client_id}:{app.secret}".encode()).decode()
    body = f"grant_type=authorization_code&code={code}&redirect_uri={app.redirect_uri}&code_verifier={app.verifier}"
    answer = app.http.post(
        "/oauth/token", body, content_type="application/x-www-form-urlencoded", HTTP_AUTHORIZATION=f"Basic {basic}"
    )
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"grant_type": "refresh_token"}', "application/json"),
        (b"grant_type=refresh_token", "text/plain"),
        (b"", "application/x-www-form-urlencoded"),
        (b"grant_type=%ff%00&refresh_token=%ff", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % number for number in range(2000)), "application/x-www-form-urlencoded"),
        (b"refresh_token=" + b"x" * 3_000_000, "application/x-www-form-urlencoded"),
    ],
)
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_a_body_that_is_no_form_is_a_400_in_json(path: str, body: bytes, kind: str) -> None:
    answer = Browser().post(path, body, content_type=kind)
    assert answer.status_code in {400, 401}
    assert answer["Content-Type"] == "application/json"
    assert answer.json()["error"]


def test_parameters_in_the_address_are_refused(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    answer = app.post(f"/oauth/token?refresh_token={tokens['refresh_token']}", {"grant_type": "refresh_token"})
    refused(answer, "invalid_request")


# --- refreshing ------------------------------------------------------------------------------------------------------


def test_a_refresh_gives_a_new_pair_for_the_same_connection(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    answer = app.refresh(tokens["refresh_token"])
    found = answer.json()
    assert answer.status_code == 200
    assert found["access_token"] != tokens["access_token"]
    assert found["refresh_token"] != tokens["refresh_token"]
    assert ConnectedApp.objects.count() == 1
    assert RefreshToken.objects.filter(revoked=None).count() == 1


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"refresh_token": "thr_invented"}, "invalid_grant", 400),
        ({"refresh_token": None}, "invalid_request", 400),
        ({"refresh_token": "\x00"}, "invalid_grant", 400),
        ({"client_id": "unknown"}, "invalid_client", 401),
        ({"client_id": None}, "invalid_client", 401),
        ({"resource": "https://other.example/mcp"}, "invalid_target", 400),
    ],
)
def test_a_refresh_that_is_not_right_gets_nothing_and_the_right_one_still_works(
    changes: dict[str, Any], code: str, status: int, alices: Browser
) -> None:
    app, tokens = flow.connect(alices)
    refused(app.refresh(**{"token": tokens["refresh_token"], **changes}), code, status)
    assert app.refresh(tokens["refresh_token"]).status_code == 200


def test_an_access_token_is_no_refresh_token_and_another_client_cannot_refresh(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    refused(app.refresh(tokens["access_token"]), "invalid_grant")
    refused(flow.register().refresh(tokens["refresh_token"]), "invalid_grant")
    assert app.refresh(tokens["refresh_token"]).status_code == 200


def test_a_refresh_with_scopes_of_other_servers_works_and_gives_no_more(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    found = app.refresh(tokens["refresh_token"], scope="mcp openid offline_access").json()
    assert found["scope"] == "mcp"


@pytest.mark.parametrize("what", ["inactive", "revoked", "blocked"])
def test_a_refresh_ends_with_the_person_the_decision_and_the_client(what: str, alices: Browser, alice: User) -> None:
    app, tokens = flow.connect(alices)
    if what == "inactive":
        alice.is_active = False
        alice.save()
    elif what == "revoked":
        ConnectedApp.objects.get().revoke()
    else:
        Client.objects.update(blocked=True)
    blocked = what == "blocked"
    refused(
        app.refresh(tokens["refresh_token"]), "invalid_client" if blocked else "invalid_grant", 401 if blocked else 400
    )


def test_the_same_refresh_again_gets_the_same_answer_for_a_while(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    first = app.refresh(tokens["refresh_token"]).json()
    assert app.refresh(tokens["refresh_token"]).json() == first
    assert ConnectedApp.objects.get().revoked is None
    assert app.refresh(first["refresh_token"]).status_code == 200


def test_the_database_alone_cannot_repeat_a_refresh(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    first = app.refresh(tokens["refresh_token"]).json()
    sealed = ConnectedApp.objects.get().successor
    assert first["access_token"] not in sealed
    assert first["refresh_token"] not in sealed


def test_an_old_refresh_token_revokes_the_connection_with_everything(
    alices: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, tokens = flow.connect(alices)
    first = app.refresh(tokens["refresh_token"]).json()
    monkeypatch.setattr(rotation, "REPEAT_SECONDS", 0.0)
    refused(app.refresh(tokens["refresh_token"]), "invalid_grant")
    assert ConnectedApp.objects.get().revoked is not None
    assert not AccessToken.objects.exists()
    refused(app.refresh(first["refresh_token"]), "invalid_grant")


def test_a_token_from_two_steps_ago_revokes_the_connection_at_once(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    first = app.refresh(tokens["refresh_token"]).json()
    app.refresh(first["refresh_token"])
    refused(app.refresh(tokens["refresh_token"]), "invalid_grant")
    assert ConnectedApp.objects.get().revoked is not None


def test_the_access_token_before_stays_valid_and_the_one_before_that_does_not(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    first = app.refresh(tokens["refresh_token"]).json()
    second = app.refresh(first["refresh_token"]).json()
    stored = set(AccessToken.objects.values_list("token_checksum", flat=True))
    assert stored == {digest_of(first["access_token"]), digest_of(second["access_token"])}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", ["code", "refresh"])
def test_four_at_the_same_time_leave_one_pair(step: str, alices: Browser) -> None:
    app = flow.register()
    code = flow.get_code(alices, app)
    token = app.exchange(code).json()["refresh_token"] if step == "refresh" else ""
    barrier = threading.Barrier(4)

    def send(_number: int) -> Any:
        barrier.wait(60)
        try:
            return app.refresh(token) if step == "refresh" else app.exchange(code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(send, range(4)))
    good = [answer.json() for answer in answers if answer.status_code == 200]
    if step == "refresh":
        assert len(good) == 4
        assert all(found == good[0] for found in good)
        assert ConnectedApp.objects.get().revoked is None
        assert app.refresh(good[0]["refresh_token"]).status_code == 200
    else:
        assert len(good) == 1
    assert RefreshToken.objects.filter(revoked=None).count() <= 1
    assert ConnectedApp.objects.count() == 1


# --- revoking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", [None, "access_token", "refresh_token", "nonsense"])
def test_revoking_either_token_ends_the_connection(kind: str, hint: str | None, alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    assert app.revoke(tokens[kind], token_type_hint=hint).status_code == 200
    assert ConnectedApp.objects.get().revoked is not None
    refused(app.refresh(tokens["refresh_token"]), "invalid_grant")


def test_revoking_what_is_not_there_or_not_ones_own_reads_the_same_and_changes_nothing(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    answers = [flow.register().revoke(tokens["access_token"]), app.revoke("tho_invented"), app.revoke("\x00")]
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b"{}")}
    assert ConnectedApp.objects.get().revoked is None


@pytest.mark.parametrize("changes", [{"client_id": "unknown"}, {"client_id": None}])
def test_nobody_revokes_without_being_a_client(changes: dict[str, Any], alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    refused(app.revoke(tokens["access_token"], **changes), "invalid_client", 401)
    assert ConnectedApp.objects.get().revoked is None


# --- what remains ----------------------------------------------------------------------------------------------------


def test_what_nobody_can_use_any_more_is_removed(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    pending = flow.register()
    flow.get_code(alices, pending)
    gone, _tokens = flow.connect(alices)
    ConnectedApp.objects.filter(client__client_id=gone.client_id).get().revoke()
    ConnectedApp.objects.filter(client__client_id=pending.client_id).update(created=timezone.now() - timedelta(hours=1))
    Grant.objects.update(expires=timezone.now() - timedelta(seconds=1))
    cleanup.clean_up()
    assert not Grant.objects.exists()
    assert RefreshToken.objects.count() == 1
    assert {one.client.client_id for one in ConnectedApp.objects.all()} == {app.client_id, gone.client_id}
    assert app.refresh(tokens["refresh_token"]).status_code == 200


def test_a_client_that_refreshes_all_the_time_keeps_a_bounded_number_of_rows(
    alices: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "MAX_OLD_TOKENS", 3)
    app, tokens = flow.connect(alices)
    for _ in range(6):
        tokens = app.refresh(tokens["refresh_token"]).json()
    cleanup.clean_up()
    assert RefreshToken.objects.count() == 3
    assert AccessToken.objects.count() == 2
    assert app.refresh(tokens["refresh_token"]).status_code == 200


# --- connecting again ------------------------------------------------------------------------------------------------


def test_an_installation_that_asks_again_stays_the_same_connection_with_the_new_decision(
    alices: Browser, alice: User
) -> None:
    from tests.factories import grant, load, make_tool, make_toolset

    numbers = make_toolset("Numbers")
    grant(alice, make_tool(toolset=numbers))
    load()
    app, before = flow.connect(alices, days=7)
    first = ConnectedApp.objects.get()
    _app, after = flow.connect(alices, app, access="some", toolsets=[numbers.pk], days=30)
    second = ConnectedApp.objects.get()
    assert second.credential_id == first.credential_id
    assert list(second.toolsets.all()) == [numbers] and second.restricted
    assert second.expires > first.expires
    refused(app.refresh(before["refresh_token"]), "invalid_grant")
    assert second.revoked is None, "the tokens from before are gone, and no sign of a thief"
    assert app.refresh(after["refresh_token"]).status_code == 200
    assert not AccessToken.objects.filter(token_checksum=digest_of(before["access_token"])).exists()


def test_what_nobody_fetched_replaces_nothing(alices: Browser) -> None:
    app, tokens = flow.connect(alices)
    flow.get_code(alices, app)
    assert app.refresh(tokens["refresh_token"]).status_code == 200
    flow.decide(alices, app, flow.ask(alices, app), decision="deny")
    assert ConnectedApp.objects.usable().count() == 1


@pytest.mark.parametrize("what", ["revoked", "expired", "of somebody else"])
def test_a_connection_that_is_no_longer_usable_is_not_taken_up_again(what: str, alices: Browser, bob: User) -> None:
    app, _tokens = flow.connect(alices)
    first = ConnectedApp.objects.get()
    browser = alices
    if what == "revoked":
        first.revoke()
    elif what == "expired":
        ConnectedApp.objects.update(expires=timezone.now())
    else:
        browser = Browser()
        browser.force_login(bob)
    flow.connect(browser, app)
    assert ConnectedApp.objects.count() == 2
    assert ConnectedApp.objects.latest("pk").is_usable


def test_the_code_of_the_second_decision_is_watched_as_well(alices: Browser) -> None:
    app, _tokens = flow.connect(alices)
    code = flow.get_code(alices, app)
    assert app.exchange(code).status_code == 200
    refused(app.exchange(code), "invalid_grant")
    assert ConnectedApp.objects.get().revoked is not None
