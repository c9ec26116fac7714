"""The question to the person: who cannot ask it, what goes back to the client, and that nobody else can answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client as Browser

from tests.factories import grant, load, make_tool, make_toolset
from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.oauth import consent, questions
from toolhub.oauth.models import Client, ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db


# --- requests that are not answered to the client --------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "unknown"},
        {"client_id": None},
        {"client_id": "x\x00y"},
        {"client_id": "https://localhost/client.json"},
        {"client_id": ["a", "b"]},
        {"redirect_uri": "https://evil.example/cb"},
        {"redirect_uri": "http://127.0.0.1:41234/other"},
        {"redirect_uri": "http://127.0.0.1:41234/callback?x=1"},
        {"redirect_uri": "http://127.0.0.1:41234/callback/"},
        {"redirect_uri": "http://127.0.0.1:41234/callback#x"},
        {"redirect_uri": "http://user@127.0.0.1:41234/callback"},
        {"redirect_uri": "http://localhost:41234/callback"},
        {"redirect_uri": "https://127.0.0.1:41234/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example:41234/callback"},
        {"redirect_uri": "http://127.0.0.1:99999/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": ["http://127.0.0.1:41234/callback", "https://evil.example/"]},
        {"state": ["a", "b"]},
        {"state": "x" * 8000},
        {"scope": "x" * 8000},
    ],
)
@pytest.mark.parametrize("signed_in", [True, False])
def test_a_request_of_an_unknown_client_or_to_a_strange_address_is_shown_and_never_redirected(
    changes: dict[str, Any], signed_in: bool, alices: Browser
) -> None:
    app = flow.register()
    answer = (alices if signed_in else Browser()).get(app.url(**changes))
    if changes.get("client_id") == "https://localhost/client.json" and not signed_in:
        # Its document is fetched for a person alone.
        assert answer["Location"].startswith("/sign-in/?next=/oauth/authorize")
        return
    assert answer.status_code == 400
    assert "Location" not in answer
    assert "evil.example" not in answer.content.decode()
    assert not ConnectedApp.objects.exists()


def test_a_blocked_client_asks_nobody(alices: Browser) -> None:
    app = flow.register()
    Client.objects.update(blocked=True)
    answer = flow.ask(alices, app)
    assert answer.status_code == 400
    assert "blocked" in answer.content.decode()


def test_a_registered_address_that_is_no_longer_accepted_gets_nothing(alices: Browser) -> None:
    app = flow.register()
    Client.objects.update(redirect_uris="http://evil.example/cb myapp://cb")
    for address in ("http://evil.example/cb", "myapp://cb"):
        answer = flow.ask(alices, app, redirect_uri=address)
        assert answer.status_code == 400


# --- errors that go back to the client -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "id_token"}, "unsupported_response_type"),
        ({"response_type": "none"}, "unauthorized_client"),
        ({"response_type": "code token"}, "unauthorized_client"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "x" * 129}, "invalid_request"),
        ({"code_challenge": "\x00" * 43}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "S512"}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": f"{flow.RESOURCE}/other"}, "invalid_target"),
        ({"resource": f"{flow.RESOURCE}#x"}, "invalid_target"),
        ({"resource": f"{flow.RESOURCE}?x=1"}, "invalid_target"),
        ({"resource": "mcp"}, "invalid_target"),
        ({"resource": ""}, "invalid_target"),
        ({"resource": [flow.RESOURCE, "https://other.example/mcp"]}, "invalid_target"),
    ],
)
@pytest.mark.parametrize("signed_in", [True, False])
def test_an_error_of_a_known_client_goes_back_with_its_state_and_the_issuer(
    changes: dict[str, Any], code: str, signed_in: bool, alices: Browser
) -> None:
    app = flow.register()
    answer = (alices if signed_in else Browser()).get(app.url(**changes))
    found = flow.parameters(answer)
    assert answer["Location"].startswith(f"{flow.CALLBACK}?")
    assert (found["error"], found["state"], found.get("iss")) == (code, app.state, flow.ISSUER)
    assert "code" not in found
    assert not ConnectedApp.objects.exists()


def test_who_denies_sends_the_client_access_denied_with_the_issuer(alices: Browser) -> None:
    app = flow.register()
    found = flow.parameters(flow.decide(alices, app, flow.ask(alices, app), decision="deny"))
    assert (found["error"], found["state"], found["iss"]) == ("access_denied", app.state, flow.ISSUER)
    assert "code" not in found
    assert not ConnectedApp.objects.exists()


# --- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": None},
        {"resource": f"{flow.RESOURCE}/"},
        {"resource": flow.ISSUER},
        {"resource": flow.RESOURCE.replace("localhost", "LOCALHOST")},
        {"resource": [flow.RESOURCE, flow.RESOURCE]},
        {"scope": None},
        {"scope": ""},
        {"scope": "openid offline_access"},
        {"scope": "mcp openid"},
        {"state": None},
        {"redirect_uri": "http://127.0.0.1:5/callback"},
        {"redirect_uri": None},
        {"prompt": "none", "approval_prompt": "auto", "response_mode": "fragment", "nonce": "x", "claims": "{"},
    ],
)
def test_what_honest_clients_send_is_understood_and_the_person_is_asked(
    changes: dict[str, Any], alices: Browser
) -> None:
    app = flow.register()
    page = flow.ask(alices, app, **changes)
    assert page.status_code == 200
    found = flow.parameters(flow.decide(alices, app, page))
    assert found["iss"] == flow.ISSUER
    assert found["code"].startswith("thc_")
    assert found.get("state") == (None if "state" in changes else app.state)


def test_who_is_not_signed_in_does_that_first_and_then_finds_the_question(alice: User) -> None:
    app, browser = flow.register(), Browser()
    answer = browser.get(app.url())
    assert answer["Location"].startswith("/sign-in/?next=/oauth/authorize")
    signed_in = browser.post(answer["Location"], {"username": "alice", "password": "correct horse battery"})
    page = browser.get(signed_in["Location"])
    assert page.status_code == 200
    assert page.context["client"].client_id == app.client_id


def test_a_client_was_never_asked_for_twice_without_the_person(alices: Browser) -> None:
    app, _tokens = flow.connect(alices)
    page = flow.ask(alices, app, approval_prompt="auto")
    assert page.status_code == 200
    assert page.context["replaced"]


def test_an_answer_to_an_application_is_a_page_that_hands_it_over(alices: Browser) -> None:
    app = flow.register(redirect_uris=["cursor://anysphere.cursor-retrieval/oauth/callback"])
    page = flow.ask(alices, app)
    assert "form-action 'self' cursor:" in page["Content-Security-Policy"]
    answer = flow.decide(alices, app, page)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    address = answer.context["address"]
    assert address.startswith("cursor://anysphere.cursor-retrieval/oauth/callback?code=thc_")
    assert parse_qs(urlsplit(address).query)["iss"] == [flow.ISSUER]


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_says_who_asks_where_the_answer_goes_and_that_the_name_proves_nothing(alices: Browser) -> None:
    app = flow.register(client_name="<b>Claude</b>", redirect_uris=["https://claude.example:8443/cb"])
    text = flow.ask(alices, app).content.decode()
    assert "&lt;b&gt;Claude&lt;/b&gt;" in text
    assert "claude.example:8443" in text
    assert "not verified" in text
    assert "alice" in text


def test_the_page_is_not_framed_not_kept_and_sends_its_form_nowhere_else(alices: Browser) -> None:
    page = flow.ask(alices, flow.register(redirect_uris=["https://claude.example/cb"]))
    policy = page["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' https://claude.example;" in policy
    assert page["X-Frame-Options"] == "DENY"
    assert "no-store" in page["Cache-Control"]
    assert page["Referrer-Policy"] == "same-origin"


def test_a_decision_counts_once_and_for_the_request_that_was_shown(alices: Browser) -> None:
    app = flow.register()
    page = flow.ask(alices, app)
    first = flow.decide(alices, app, page)
    assert first.status_code == 302
    again = flow.decide(alices, app, page)
    assert again.status_code == 200
    assert again.context["note"] == "expired"
    other = flow.register(client_name="Another")
    nonce = flow.ask(alices, app).context["nonce"]
    stolen = alices.post(other.url(), {"nonce": nonce, "decision": "allow", "access": "everything", "days": 90})
    assert stolen.status_code == 200, "not answered"
    assert stolen.context["note"] == "expired"
    assert ConnectedApp.objects.count() == 1


def test_a_page_on_which_a_person_denied_cannot_be_sent_again_to_allow(alices: Browser) -> None:
    app = flow.register()
    page = flow.ask(alices, app)
    assert "access_denied" in flow.decide(alices, app, page, decision="deny")["Location"]
    again = flow.decide(alices, app, page)
    assert again.status_code == 200, "not answered"
    assert again.context["note"] == "expired"
    assert not ConnectedApp.objects.exists()


def test_a_page_that_was_open_for_too_long_asks_again(alices: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    app = flow.register()
    page = flow.ask(alices, app)
    monkeypatch.setattr(questions, "SECONDS", 0)
    assert flow.decide(alices, app, page).context["note"] == "expired"


def test_many_open_pages_keep_the_session_small(alices: Browser) -> None:
    app = flow.register()
    pages = [flow.ask(alices, app) for _ in range(12)]
    assert len(alices.session["oauth_questions"]) <= 8
    assert flow.decide(alices, app, pages[0]).context["note"] == "expired"
    assert flow.decide(alices, app, pages[-1]).status_code == 302


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.fixture
def toolsets(alice: User) -> list[Any]:
    """Three, of which alice may use two."""
    numbers, texts, secret = make_toolset("Numbers"), make_toolset("Texts"), make_toolset("Payroll")
    for toolset in (numbers, texts, secret):
        make_tool(f"tool_{toolset.name.lower()}", toolset=toolset)
    grant(alice, numbers, texts)
    load()
    return [numbers, texts, secret]


def test_the_person_chooses_among_their_own_toolsets(alices: Browser, toolsets: list[Any]) -> None:
    numbers, texts, _others = toolsets
    page = flow.ask(alices, flow.register())
    assert set(page.context["form"].fields["toolsets"].queryset) == {numbers, texts}
    assert "Payroll" not in page.content.decode()


def test_a_restricted_connection_has_the_toolsets_that_were_chosen(alices: Browser, toolsets: list[Any]) -> None:
    flow.connect(alices, access="some", toolsets=[toolsets[0].pk], days=7)
    app = ConnectedApp.objects.get()
    assert app.restricted
    assert list(app.toolsets.all()) == [toolsets[0]]
    assert (app.expires - app.created).days == 7


@pytest.mark.parametrize(
    "form",
    [
        {"access": "some"},
        {"access": "some", "toolsets": ["x"]},
        {"access": "some", "toolsets": [10**30]},
        {"access": "all of it"},
        {"access": None},
        {"days": 10_000},
        {"days": "x"},
        {"days": None},
    ],
)
def test_a_choice_that_is_none_is_shown_again(form: dict[str, Any], alices: Browser, toolsets: list[Any]) -> None:
    app = flow.register()
    answer = flow.decide(alices, app, flow.ask(alices, app), **form)
    assert answer.status_code == 400
    assert answer.context["form"].errors
    assert not ConnectedApp.objects.exists()


def test_somebody_elses_toolset_cannot_be_chosen(alices: Browser, toolsets: list[Any]) -> None:
    app = flow.register()
    answer = flow.decide(alices, app, flow.ask(alices, app), access="some", toolsets=[toolsets[2].pk])
    assert answer.status_code == 400
    assert not ConnectedApp.objects.exists()


def test_one_person_has_a_bounded_number_of_apps(alices: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consent, "MAX_APPS", 2)
    for _ in range(2):
        flow.connect(alices)
    app = flow.register()
    assert flow.decide(alices, app, flow.ask(alices, app)).context["note"] == "full"
    assert ConnectedApp.objects.count() == 2


def test_an_administrator_without_tools_is_told_how_to_get_some_and_not_whom_to_ask(
    root: User, alices: Browser
) -> None:
    app, browser = flow.register(), Browser()
    browser.force_login(root)
    asked, own = (flow.ask(each, app).content.decode() for each in (alices, browser))
    assert "so a client would find none. Ask" in asked and 'href="/admin/catalog/tool/add/"' not in asked
    assert "so a client would find none." in own and "none. Ask" not in own
    assert 'href="/admin/catalog/tool/add/"' in own


def test_the_database_has_no_code_in_clear(alices: Browser) -> None:
    from django.db import connection

    app = flow.register()
    code = flow.get_code(alices, app)
    assert ConnectedApp.objects.get().code_digest == digest_of(code)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            assert code not in repr(cursor.fetchall()), table


# --- scopes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (None, "mcp"),
        ("mcp", "mcp"),
        ("mcp:write", "mcp mcp:write"),
        ("mcp mcp:write offline_access", "mcp mcp:write"),
    ],
)
def test_a_client_gets_the_write_scope_when_it_asks_and_the_person_agrees(
    wanted: str | None, granted: str, alices: Browser, settings: Any
) -> None:
    settings.WRITE_SCOPE = True
    app = flow.register()
    page = flow.ask(alices, app, scope=wanted)
    assert ("change something" in page.content.decode()) == ("write" in granted)
    code = flow.parameters(flow.decide(alices, app, page))["code"]
    assert app.exchange(code).json()["scope"] == granted


def test_without_the_setting_there_is_one_scope(alices: Browser) -> None:
    app = flow.register()
    page = flow.ask(alices, app, scope="mcp mcp:write")
    assert "It asks to" not in page.content.decode()
    code = flow.parameters(flow.decide(alices, app, page))["code"]
    assert app.exchange(code).json()["scope"] == "mcp"
