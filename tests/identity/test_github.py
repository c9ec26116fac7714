"""Signing in with GitHub: organizations and teams as groups, the number of an account as its identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import caches
from django.test import Client as Browser

from tests.identity.github_stand_in import API, CLIENT_ID, CLIENT_SECRET, GitHub, Member
from tests.identity.stand_in import Answer
from toolhub.identity import github
from toolhub.identity.models import GroupMapping, Identity, Provider
from toolhub.identity.openid import NotConfirmed, Refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(settings: Any) -> Iterator[GitHub]:
    settings.SIGN_IN_NETWORKS = ["127.0.0.1/32"]
    caches["limits"].clear()
    with GitHub() as running:
        yield running


@pytest.fixture
def row(db: None, server: GitHub) -> Provider:
    made = Provider(
        slug="github",
        name="GitHub",
        kind=Provider.Kind.GITHUB,
        issuer=server.url,
        client_id=CLIENT_ID,
        enabled=True,
        scopes=" ".join(github.SCOPES),
    )
    made.set_secret(CLIENT_SECRET)
    made.save()
    return made


@pytest.fixture
def platform(row: Provider) -> Group:
    group = Group.objects.create(name="Platform")
    GroupMapping.objects.create(provider=row, value="acme/platform", group=group)
    return group


def come(browser: Browser, server: GitHub, member: Member) -> Any:
    leaving = browser.get("/sign-in/with/github/")
    assert leaving.status_code == 302, leaving.content.decode()
    return browser.get(server.answer(leaving["Location"], member))


def make_dora(**changes: Any) -> Member:
    return Member(**{"number": 4711, "login": "dora", "organizations": ["acme"], "teams": ["acme/platform"], **changes})


class TestSigningIn:
    def test_organizations_and_teams_are_groups_and_the_number_is_the_subject(
        self, server: GitHub, platform: Group
    ) -> None:
        browser = Browser()
        assert come(browser, server, make_dora()).status_code == 302
        identity = Identity.objects.get()
        assert (identity.issuer, identity.subject, identity.claimed_groups) == (
            server.url,
            "4711",
            ["acme", "acme/platform"],
        )
        assert (identity.user.username, list(identity.user.groups.all())) == ("dora", [platform])
        assert browser.session["_auth_user_id"] == str(identity.user_id)

    def test_the_request_says_which_scopes_and_where_to_come_back(self, server: GitHub, row: Provider) -> None:
        query = parse_qs(urlsplit(Browser().get("/sign-in/with/github/")["Location"]).query)
        assert set(query["scope"][0].split()) == {"read:user", "read:org"}
        assert query["redirect_uri"][0].endswith("/sign-in/with/github/callback/")
        assert len(query["code_challenge"][0]) >= 43

    def test_a_renamed_person_keeps_the_account(self, server: GitHub, platform: Group) -> None:
        come(Browser(), server, make_dora())
        come(Browser(), server, make_dora(login="theodora"))
        identity = Identity.objects.get()
        assert (identity.label, identity.user.username) == ("theodora", "dora")

    def test_who_takes_over_a_name_is_somebody_else(self, server: GitHub, platform: Group) -> None:
        come(Browser(), server, make_dora())
        come(Browser(), server, make_dora(number=4712))
        assert set(User.objects.values_list("username", flat=True)) == {"dora", "dora-2"}

    def test_groups_on_a_later_page_count(self, server: GitHub, platform: Group) -> None:
        teams = [f"acme/team-{number:03d}" for number in range(250)]
        come(Browser(), server, make_dora(teams=[*teams, "acme/platform"]))
        assert len(Identity.objects.get().claimed_groups) == 252
        assert Group.objects.get(name="Platform").user_set.count() == 1

    def test_a_person_in_no_mapped_team_gets_no_account(self, server: GitHub, platform: Group) -> None:
        answer = come(Browser(), server, make_dora(teams=["acme/other", "evil/platform"]))
        assert (answer.status_code, "is in no group that has access here" in answer.content.decode()) == (403, True)
        assert not User.objects.exists()

    def test_the_token_is_stored_encrypted(self, server: GitHub, platform: Group) -> None:
        come(Browser(), server, make_dora())
        identity = Identity.objects.get()
        (token,) = server.tokens
        assert identity.read_refresh_token() == token
        assert token not in identity.refresh_token


class TestRefusals:
    def test_an_answer_of_another_browser_signs_nobody_in(self, server: GitHub, platform: Group) -> None:
        back = server.answer(Browser().get("/sign-in/with/github/")["Location"], make_dora())
        thief = Browser()
        assert thief.get(back).status_code == 403
        assert "_auth_user_id" not in thief.session
        assert server.tokens == {}

    def test_a_code_of_another_sign_in_is_worth_nothing(self, server: GitHub, platform: Group) -> None:
        stolen = server.answer(Browser().get("/sign-in/with/github/")["Location"], make_dora())
        browser = Browser()
        mine = server.answer(browser.get("/sign-in/with/github/")["Location"], make_dora(number=1, login="thief"))
        code, own = (parse_qs(urlsplit(address).query) for address in (stolen, mine))
        answer = browser.get("/sign-in/with/github/callback/", {"code": code["code"][0], "state": own["state"][0]})
        assert answer.status_code == 502
        assert not Identity.objects.exists()

    @pytest.mark.parametrize(
        ("path", "answer"),
        [
            (API, Answer({"message": "no"}, 503)),
            (API, Answer(["a list"])),
            (API, Answer(b"<html>")),
            (API, Answer({}, 302, {"Location": "https://evil.example/"})),
            (f"{API}/orgs", Answer({"login": "acme"})),
            (f"{API}/orgs", Answer([{"login": None}])),
            (f"{API}/orgs", Answer(["acme"])),
            (f"{API}/orgs", Answer({"message": "Forbidden"}, 403)),
            (f"{API}/teams", Answer([{"slug": "platform"}])),
            (f"{API}/teams", Answer([{"slug": "platform", "organization": "acme"}])),
            (f"{API}/teams", Answer(b"[" * 100_000)),
            (f"{API}/teams", Answer([{"slug": "t", "organization": {"login": "acme"}}] * 100)),
            ("/login/oauth/access_token", Answer({"error": "incorrect_client_credentials"})),
            ("/login/oauth/access_token", Answer({}, 500)),
            ("/login/oauth/access_token", Answer(b"access_token")),
        ],
        ids=lambda value: value if isinstance(value, str) else str(value.body)[:30],
    )
    def test_an_answer_that_makes_no_sense_signs_nobody_in(
        self, server: GitHub, platform: Group, path: str, answer: Answer
    ) -> None:
        server.answers[path] = answer
        browser = Browser()
        found = come(browser, server, make_dora())
        assert (found.status_code, "did not answer as expected" in found.content.decode()) == (502, True)
        assert not Identity.objects.exists()

    @pytest.mark.parametrize("number", [None, "4711", True, 4.5], ids=str)
    def test_an_account_without_a_number_is_nobody(self, server: GitHub, platform: Group, number: Any) -> None:
        server.answers[API] = Answer({"id": number, "login": "dora"})
        answer = come(Browser(), server, make_dora())
        assert (answer.status_code, "did not say who you are" in answer.content.decode()) == (403, True)

    def test_an_end_of_the_token_that_makes_no_sense_is_ignored(self, server: GitHub, platform: Group) -> None:
        give = server.answers["/login/oauth/access_token"]
        assert not isinstance(give, Answer)
        server.answers["/login/oauth/access_token"] = lambda asked: Answer({**give(asked).body, "expires_in": "soon"})
        assert come(Browser(), server, make_dora()).status_code == 302


class TestChecking:
    @pytest.fixture
    def token(self, server: GitHub) -> str:
        server.tokens["gho_1"] = make_dora()
        return "gho_1"

    def test_it_finds_the_groups_of_now(self, server: GitHub, row: Provider, token: str) -> None:
        server.tokens[token].teams = ["acme/sales"]
        person, same = github.check(row, token, "4711")
        assert (person.groups, same) == (("acme", "acme/sales"), token)

    def test_a_token_that_was_revoked_refuses_the_person(self, server: GitHub, row: Provider, token: str) -> None:
        server.tokens.clear()
        with pytest.raises(Refused):
            github.check(row, token, "4711")

    @pytest.mark.parametrize("status", [403, 404, 429, 500, 302])
    def test_any_other_answer_confirms_nothing_and_refuses_nobody(
        self, server: GitHub, row: Provider, token: str, status: int
    ) -> None:
        server.answers[API] = Answer({}, status)
        with pytest.raises(NotConfirmed):
            github.check(row, token, "4711")

    def test_the_token_of_somebody_else_confirms_nothing(self, server: GitHub, row: Provider, token: str) -> None:
        with pytest.raises(NotConfirmed, match="other_subject"):
            github.check(row, token, "1")

    def test_a_server_that_is_gone_confirms_nothing(self, row: Provider) -> None:
        row.issuer = "http://127.0.0.1:9"
        with pytest.raises(NotConfirmed):
            github.check(row, "gho_1", "4711")

    def test_the_token_is_not_sent_to_a_network_that_nobody_allowed(
        self, server: GitHub, row: Provider, token: str, settings: Any
    ) -> None:
        settings.SIGN_IN_NETWORKS = []
        with pytest.raises(NotConfirmed):
            github.check(row, token, "4711")
        assert server.asked == []
