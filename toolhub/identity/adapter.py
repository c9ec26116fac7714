"""The library's hooks: its providers are the rows of ours, and accounts are ours to find and to make."""

from __future__ import annotations

from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.http import HttpRequest

from catalog.encryption import DecryptionError, KeysError
from toolhub.identity import providers, sign_in
from toolhub.identity.models import Provider
from toolhub.identity.requests_session import Session


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Where the library asks about providers and hands over who signed in."""

    def list_apps(self, request: HttpRequest | None, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        row = providers.find(str(provider or client_id or ""))
        return [_app_of(row)] if row is not None else []

    def get_requests_session(self) -> Session:
        return Session()

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Finish a sign-in in our own way. Raises ImmediateHttpResponse, always."""
        raise ImmediateHttpResponse(sign_in.finish(request, sociallogin))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        """Answer with our own page. Raises ImmediateHttpResponse, always."""
        raise ImmediateHttpResponse(sign_in.fail(request, provider.app.provider_id, error, exception, extra_context))


def _app_of(row: Provider) -> SocialApp:
    """Return the row in the library's shape. Raises OAuth2Error."""
    try:
        secret = row.read_secret()
    except (DecryptionError, KeysError) as error:
        raise OAuth2Error(f"client secret: {error}") from error
    return SocialApp(
        provider=row.kind,
        provider_id=row.slug,
        name=row.name,
        client_id=row.client_id,
        secret=secret,
        settings={
            "server_url": row.issuer,
            "scope": row.scopes.split(),
            "metadata": row.metadata,
            "subject_claim": row.subject_claim,
        },
    )
