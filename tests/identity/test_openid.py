"""What an OpenID Connect provider sends is verified: keys, algorithms, claims, the nonce, and every address."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jwt
import pytest
import requests
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.contrib.auth.models import User
from django.core.cache import caches
from django.test import Client as Browser

from tests.identity.openid_stand_in import CLIENT_ID, DISCOVERY, KEYS, OpenID, make_key, public
from tests.identity.stand_in import Answer
from toolhub.identity import openid
from toolhub.identity.models import Identity, Provider


@pytest.fixture
def server(settings: Any) -> Iterator[OpenID]:
    settings.SIGN_IN_NETWORKS = ["127.0.0.1/32"]
    caches["local"].clear()
    with OpenID() as running:
        yield running
    caches["local"].clear()


def verify(server: OpenID, token: str) -> dict[str, Any]:
    return openid.verify_id_token(token, openid.fetch_configuration(server.url), CLIENT_ID)


def encode(part: dict[str, Any] | bytes) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class TestTheToken:
    def test_a_right_one_is_accepted(self, server: OpenID) -> None:
        assert verify(server, server.sign(groups=["a"]))["groups"] == ["a"]

    def test_elliptic_curves_are_accepted(self, server: OpenID) -> None:
        server.publish(public(server.curve, kid="one"))
        assert verify(server, server.sign(key=server.curve, algorithm="ES256"))["sub"] == "1"

    @pytest.mark.parametrize("algorithm", ["none", "None", "nOnE"])
    def test_one_without_a_signature_is_refused(self, server: OpenID, algorithm: str) -> None:
        token = f"{encode({'alg': algorithm, 'kid': 'one'})}.{encode(server.claims())}."
        with pytest.raises(OAuth2Error, match="id_token_algorithm"):
            verify(server, token)

    @pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
    def test_the_public_key_is_no_shared_secret(self, server: OpenID, form: PublicFormat) -> None:
        import hashlib
        import hmac

        secret = server.key.public_key().public_bytes(Encoding.PEM, form)
        signed = f"{encode({'alg': 'HS256', 'kid': 'one'})}.{encode(server.claims())}"
        digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        with pytest.raises(OAuth2Error, match="id_token_algorithm"):
            verify(server, f"{signed}.{encode(digest)}")

    def test_a_symmetric_key_that_is_published_signs_nothing(self, server: OpenID) -> None:
        server.publish({"kty": "oct", "k": encode(b"k" * 32), "kid": "one"})
        token = jwt.encode(server.claims(), b"k" * 32, algorithm="HS256", headers={"kid": "one"})
        with pytest.raises(OAuth2Error, match="id_token_algorithm"):
            verify(server, token)

    def test_a_key_of_the_token_itself_is_not_believed(self, server: OpenID) -> None:
        own = make_key()
        token = jwt.encode(
            server.claims(),
            own,
            algorithm="RS256",
            headers={"kid": "one", "jwk": public(own), "jku": "https://evil.example/keys"},
        )
        with pytest.raises(OAuth2Error, match="id_token_invalid"):
            verify(server, token)

    @pytest.mark.parametrize(
        "claims",
        [
            {"aud": "other"},
            {"aud": ["other"]},
            {"aud": [CLIENT_ID, "other"]},
            {"aud": [CLIENT_ID, "other"], "azp": "other"},
            {"aud": None},
            {"iss": "https://evil.example"},
            {"iss": None},
            {"sub": None},
            {"exp": None},
            {"iat": None},
            {"exp": 1},
            {"exp": timedelta(seconds=-61)},
            {"iat": timedelta(hours=1)},
            {"nbf": timedelta(hours=1)},
            {"exp": "never"},
            {"exp": float("inf")},
        ],
        ids=str,
    )
    def test_claims_for_somebody_else_or_another_time_are_refused(self, server: OpenID, claims: dict[str, Any]) -> None:
        with pytest.raises(OAuth2Error, match=r"id_token_(invalid|audience)"):
            verify(server, server.sign(**claims))

    @pytest.mark.parametrize(
        "claims",
        [{"aud": [CLIENT_ID]}, {"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID}, {"exp": timedelta(seconds=-5)}],
        ids=str,
    )
    def test_one_of_several_audiences_and_clocks_that_differ_are_accepted(
        self, server: OpenID, claims: dict[str, Any]
    ) -> None:
        assert verify(server, server.sign(**claims))["sub"] == "1"

    @pytest.mark.parametrize("token", ["", "a.b.c", "é", f"{encode(b'[]')}.{encode(b'{}')}.", "x" * 10_000])
    def test_garbage_is_refused(self, server: OpenID, token: str) -> None:
        with pytest.raises(OAuth2Error):
            verify(server, token)


class TestKeys:
    def test_another_key_with_the_same_name_is_refused(self, server: OpenID) -> None:
        with pytest.raises(OAuth2Error, match="id_token_invalid"):
            verify(server, server.sign(key=make_key()))

    def test_a_token_that_names_no_key_fits_the_only_one(self, server: OpenID) -> None:
        assert verify(server, server.sign(kid=None))["sub"] == "1"

    def test_a_token_that_names_no_key_fits_none_of_several(self, server: OpenID) -> None:
        server.publish(public(server.key, kid="one"), public(make_key(), kid="two"))
        with pytest.raises(OAuth2Error, match="id_token_key"):
            verify(server, server.sign(kid=None))

    def test_a_key_for_encryption_signs_nothing(self, server: OpenID) -> None:
        server.publish(public(server.key, kid="one", use="enc"))
        with pytest.raises(OAuth2Error, match="id_token_key"):
            verify(server, server.sign())

    def test_they_are_read_once_while_they_fit(self, server: OpenID) -> None:
        for _time in range(3):
            verify(server, server.sign())
        assert (server.count(KEYS), server.count(DISCOVERY)) == (1, 1)

    def test_new_ones_are_read_when_a_token_names_one(self, server: OpenID) -> None:
        verify(server, server.sign())
        fresh = make_key()
        server.publish(public(server.key, kid="one"), public(fresh, kid="two"))
        assert verify(server, server.sign(key=fresh, kid="two"))["sub"] == "1"
        assert server.count(KEYS) == 2

    def test_an_unknown_one_is_looked_for_once(self, server: OpenID) -> None:
        verify(server, server.sign())
        with pytest.raises(OAuth2Error, match="id_token_key"):
            verify(server, server.sign(kid="unknown"))
        assert server.count(KEYS) == 2

    def test_keys_that_nobody_can_use_beside_a_good_one_do_not_matter(self, server: OpenID) -> None:
        good = public(server.key, kid="one")
        server.answers[KEYS] = Answer({"keys": [{"kty": "strange"}, "text", {}, {"kty": "RSA", "n": "!"}, good]})
        assert verify(server, server.sign())["sub"] == "1"

    @pytest.mark.parametrize(
        "answer",
        [
            Answer(b"<html>no</html>"),
            Answer([]),
            Answer({}),
            Answer({"keys": "text"}),
            Answer({"keys": 5}),
            Answer({"keys": [{"kty": ["RSA"]}]}),
            Answer({"keys": [{"kty": "RSA", "n": 5, "e": None}]}),
            Answer({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}),
            Answer(b"{" + b" " * 1_100_000 + b"}"),
            Answer({}, 500),
            Answer({}, 302, {"Location": "/elsewhere"}),
        ],
        ids=lambda answer: str(answer.body)[:30],
    )
    def test_an_answer_that_has_no_keys_is_an_error(self, server: OpenID, answer: Answer) -> None:
        server.answers[KEYS] = answer
        server.answers["/elsewhere"] = Answer({"keys": [public(server.key, kid="one")]})
        with pytest.raises((OAuth2Error, requests.RequestException)):
            verify(server, server.sign())
        with pytest.raises((OAuth2Error, requests.RequestException)):
            openid.fetch_keys(openid.fetch_configuration(server.url))
        assert server.count("/elsewhere") == 0


class TestTheConfiguration:
    def test_another_issuer_is_refused(self, server: OpenID) -> None:
        server.describe(issuer="https://evil.example")
        with pytest.raises(OAuth2Error, match="other_issuer"):
            openid.fetch_configuration(server.url)

    def test_a_slash_at_the_end_of_the_issuer_is_the_providers_own(self, server: OpenID) -> None:
        server.describe(issuer=f"{server.url}/")
        assert verify(server, server.sign(iss=f"{server.url}/"))["sub"] == "1"
        with pytest.raises(OAuth2Error, match="id_token_invalid"):
            verify(server, server.sign())

    @pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
    @pytest.mark.parametrize("value", [None, 5, "javascript:alert(1)", "file:///etc/passwd", ""], ids=str)
    def test_an_address_that_is_none_is_refused(self, server: OpenID, name: str, value: Any) -> None:
        server.describe(**{name: value})
        with pytest.raises(OAuth2Error, match=f"(no|insecure)_{name}"):
            openid.fetch_configuration(server.url)

    @pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
    def test_a_provider_with_tls_sends_nobody_to_an_address_without(self, name: str) -> None:
        issuer = "https://login.example"
        document = {
            one: f"{issuer}/{one}"
            for one in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
        }
        address = f"{issuer}/.well-known/openid-configuration"
        caches["local"].set(f"identity:{address}", {"issuer": issuer, **document})
        assert openid.fetch_configuration(issuer)["issuer"] == issuer
        caches["local"].set(f"identity:{address}", {"issuer": issuer, **document, name: "http://login.example/x"})
        with pytest.raises(OAuth2Error, match=f"insecure_{name}"):
            openid.fetch_configuration(issuer)

    @pytest.mark.parametrize("value", [5, "text", {"a": 1}, True], ids=str)
    def test_lists_that_are_none_are_refused(self, server: OpenID, value: Any) -> None:
        server.describe(token_endpoint_auth_methods_supported=value)
        with pytest.raises(OAuth2Error, match="no_list"):
            openid.fetch_configuration(server.url)


@pytest.mark.django_db
class TestTheFlow:
    @pytest.fixture(autouse=True)
    def row(self, server: OpenID, db: None) -> Provider:
        caches["limits"].clear()
        made = Provider(
            slug="acme",
            name="Acme",
            issuer=server.url,
            client_id=CLIENT_ID,
            enabled=True,
            scopes="openid",
            new_people=Provider.NewPeople.EVERYONE,
        )
        made.set_secret("secret")
        made.save()
        return made

    def come(self, server: OpenID, **wanted: Any) -> tuple[int, str]:
        browser = Browser()
        leaving = browser.get("/sign-in/with/acme/")
        assert leaving.status_code == 302, leaving.content.decode()
        answer = browser.get(server.answer(leaving["Location"], **wanted))
        return answer.status_code, answer.content.decode()

    def test_a_right_answer_makes_an_account(self, server: OpenID) -> None:
        assert self.come(server, preferred_username="dora")[0] == 302
        assert Identity.objects.get().user.username == "dora"

    @pytest.mark.parametrize("nonce", ["invented", "", None, 5], ids=str)
    def test_a_token_for_another_sign_in_is_refused(self, server: OpenID, nonce: Any) -> None:
        status, page = self.come(server, nonce=nonce)
        assert (status, "was not meant for this sign-in" in page) == (403, True)
        assert not Identity.objects.exists()

    def test_user_info_cannot_stand_in_for_the_nonce(self, server: OpenID) -> None:
        assert self.come(server, nonce=None, info={"nonce": "x"})[0] == 403

    def test_user_info_about_somebody_else_is_refused(self, server: OpenID) -> None:
        assert self.come(server, sub="1", info={"sub": "2"})[0] == 502
        assert not Identity.objects.exists()

    def test_user_info_does_not_override_the_token(self, server: OpenID) -> None:
        self.come(server, preferred_username="dora", groups=["a"], info={"groups": ["b"], "preferred_username": "root"})
        identity = Identity.objects.get()
        assert (identity.user.username, identity.claimed_groups) == ("dora", ["a"])

    def test_without_an_id_token_nobody_signs_in(self, server: OpenID) -> None:
        browser = Browser()
        back = server.answer(browser.get("/sign-in/with/acme/")["Location"])
        for answer in ({"access_token": "a"}, {"access_token": "a", "id_token": ["x"]}):
            server.answers["/token"] = Answer(answer)
            assert browser.get(back).status_code in {403, 502}
        assert not Identity.objects.exists()

    def test_what_nobody_needs_may_be_nonsense(self, server: OpenID) -> None:
        browser = Browser()
        back = server.answer(browser.get("/sign-in/with/acme/")["Location"])
        token = server.answers["/token"]
        assert isinstance(token, Answer)
        token.body |= {"expires_in": "soon", "refresh_token": {"a": 1}}
        assert browser.get(back).status_code == 302
        assert Identity.objects.get().refresh_token == ""

    @pytest.mark.parametrize("subject", ["x" * 256, "", 5.5, True, None, ["1"]], ids=lambda value: str(value)[:5])
    def test_a_subject_of_another_claim_must_be_a_text(self, server: OpenID, subject: Any) -> None:
        Provider.objects.update(subject_claim="oid")
        status, page = self.come(server, oid=subject)
        assert (status, "did not say who you are" in page) == (403, True)

    def test_names_that_look_like_others_are_spelled_plainly(self, server: OpenID) -> None:
        User.objects.create_user("root")
        self.come(server, preferred_username="\uff52\uff4f\uff4f\uff54\u202e")  # full-width, and turned around
        assert Identity.objects.get().user.username.startswith("root-")

    @pytest.mark.parametrize("what", ["secret", "keys"])
    def test_a_secret_that_cannot_be_read_is_the_administrators_problem(
        self, server: OpenID, row: Provider, settings: Any, what: str
    ) -> None:
        browser = Browser()
        back = server.answer(browser.get("/sign-in/with/acme/")["Location"])
        if what == "keys":
            settings.ENCRYPTION_KEYS = []
        else:
            Provider.objects.update(client_secret="moved from another row")
        assert browser.get(back).status_code == 502
        assert browser.get("/sign-in/with/acme/").status_code == 502
        assert not Identity.objects.exists()

    def test_without_a_key_for_its_token_nobody_is_half_signed_in(
        self, server: OpenID, row: Provider, settings: Any
    ) -> None:
        Provider.objects.update(client_secret="")
        settings.ENCRYPTION_KEYS = []
        browser = Browser()
        back = server.answer(browser.get("/sign-in/with/acme/")["Location"])
        token = server.answers["/token"]
        assert isinstance(token, Answer)
        token.body |= {"refresh_token": "refresh"}
        assert browser.get(back).status_code == 502
        assert "_auth_user_id" not in browser.session

    @pytest.mark.parametrize("error", [["invalid_grant"], {"a": 1}, 5, None], ids=str)
    def test_an_error_in_another_shape_confirms_nothing_and_refuses_nobody(
        self, server: OpenID, row: Provider, error: Any
    ) -> None:
        server.answers["/token"] = Answer({"error": error}, 400)
        with pytest.raises(openid.NotConfirmed):
            openid.check(row, "refresh", "1")

    @pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]], ids=str)
    def test_the_secret_is_sent_as_the_provider_wants_it(
        self, server: OpenID, row: Provider, methods: list[str] | None
    ) -> None:
        server.describe(token_endpoint_auth_methods_supported=methods)
        server.answers["/token"] = Answer({"access_token": "a", "id_token": server.sign()})
        server.answers["/userinfo"] = Answer({"sub": "1"})
        person, token = openid.check(row, "refresh", "1")
        assert (person.subject, token) == ("1", "refresh")
        (asked,) = (one for one in server.asked if one.path == "/token")
        basic = asked.headers.get("authorization", "").startswith("Basic ")
        assert (basic, asked.form.get("client_secret")) == (
            (True, None) if methods == ["client_secret_basic"] else (False, "secret")
        )
