"""An OpenID Connect provider in a process of its own: django-allauth's, with people whose groups a test decides.

    python -m tests.identity.idp FOLDER

prints its address. A browser signs in as the user that its cookie `idp_user` names, or with the form at /login.
`POST /control` changes people: {"user": "alice", "groups": [...], "active": true, "claims": {...}}, and the provider
itself: {"redirects": [...]}, {"broken": "token" or ""}, {"tokens": "1" or ""} (whether it gives refresh tokens).
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

CLIENT_ID, CLIENT_SECRET = "toolhub", "s3cret-of-the-client"


def configure(folder: Path) -> None:
    import django
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from django.conf import settings

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    settings.configure(
        SECRET_KEY=secrets.token_hex(32),
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": folder / "idp.sqlite3",
                "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
            }
        },
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "allauth",
            "allauth.account",
            "allauth.idp.oidc",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            f"{__name__}.sign_in",
            "allauth.account.middleware.AccountMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
            }
        ],
        LOGIN_URL="/login",
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        IDP_OIDC_PRIVATE_KEY=pem,
        IDP_OIDC_ADAPTER=f"{__name__}.Claims",
        LOGGING_CONFIG=None,
    )
    django.setup()


STATE: dict[str, Any] = {"people": {}, "broken": "", "tokens": "1", "scopes": set()}


def sign_in(get_response: Any) -> Any:
    """Sign in as the person whom the cookie names, as if they had typed a password here."""
    from django.contrib.auth import get_user_model, login
    from django.http import JsonResponse

    def middleware(request: Any) -> Any:
        if STATE["broken"] and STATE["broken"] in request.path:
            return JsonResponse({"error": "temporarily_unavailable"}, status=503)
        name = request.COOKIES.get("idp_user")
        if name and request.path.endswith("/authorize"):
            user = get_user_model().objects.filter(username=name, is_active=True).first()
            if user is not None and request.user != user:
                login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        response = get_response(request)
        if not STATE["tokens"] and request.path.endswith("/token") and response.status_code == 200:
            body = json.loads(response.content)
            body.pop("refresh_token", None)
            response = JsonResponse(body)
        return response

    return middleware


def make_adapter() -> type:
    from allauth.idp.oidc.adapter import DefaultOIDCAdapter

    class Adapter(DefaultOIDCAdapter):  # type: ignore[misc]
        def get_claims(self, purpose: str, user: Any, client: Any, scopes: Any, **options: Any) -> dict[str, Any]:
            claims = dict(super().get_claims(purpose, user, client, scopes, **options))
            return claims | STATE["people"].get(user.username, {})

    return Adapter


class Claims:
    """The adapter; made late, because allauth is imported only after the settings are there."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return make_adapter()(*args, **options)


def login_page(request: Any) -> Any:
    from django.http import HttpResponse, HttpResponseRedirect

    if name := request.GET.get("name"):
        response = HttpResponseRedirect(request.GET.get("next") or "/")
        response.set_cookie("idp_user", name)
        return response
    target = request.GET.get("next", "/").replace("&", "&amp;").replace('"', "&quot;")
    return HttpResponse(
        '<!doctype html><title>The company</title><form><label>Name <input name="name"></label>'
        f'<input type="hidden" name="next" value="{target}"><button>Sign in at the company</button></form>'
    )


def control(request: Any) -> Any:
    from allauth.idp.oidc.models import Client
    from django.contrib.auth import get_user_model
    from django.http import JsonResponse

    wanted = json.loads(request.body)
    for name in ("broken", "tokens"):
        if name in wanted:
            STATE[name] = wanted[name]
    if "redirects" in wanted:
        client = Client.objects.get(pk=CLIENT_ID)
        client.set_redirect_uris(wanted["redirects"])
        client.save()
    sub = ""
    if name := wanted.get("user"):
        user, _new = get_user_model().objects.get_or_create(username=name)
        user.is_active = wanted.get("active", True)
        user.save()
        known = STATE["people"].setdefault(name, {})
        known |= {"groups": wanted["groups"]} if "groups" in wanted else {}
        known |= wanted.get("claims", {})
        sub = str(user.pk)
    return JsonResponse({"sub": sub})


def seed() -> None:
    from allauth.idp.oidc.models import Client
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    client = Client(id=CLIENT_ID, name="toolhub", skip_consent=True)
    client.set_secret(CLIENT_SECRET)
    client.set_scopes(["openid", "profile", "email"])
    client.set_grant_types(["authorization_code", "refresh_token"])
    client.set_response_types(["code"])
    client.save()


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def __getattr__(name: str) -> Any:
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.urls import include, path

    return [
        path("control", control),
        path("login", login_page, name="account_login"),
        path("", include("allauth.idp.urls")),
    ]


def main() -> None:
    from django.core.wsgi import get_wsgi_application

    sys.modules["tests.identity.idp"] = sys.modules[__name__]
    configure(Path(sys.argv[1]))
    seed()
    server = Server(("127.0.0.1", 0), Quiet)
    server.set_app(get_wsgi_application())
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
