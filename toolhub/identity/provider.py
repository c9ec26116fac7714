"""The types of identity providers, under the name by which the library finds them."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.http import HttpRequest

from toolhub.identity import github, openid, saml


class _OurAccounts:
    """A mixin: what the provider said is handed over as it is; accounts are found and made by `sign_in`."""

    sub_id: str

    def sociallogin_from_response(self, request: HttpRequest, response: dict[str, Any]) -> Any:
        account = SocialAccount(uid="", provider=self.sub_id, extra_data=response)
        return SocialLogin(provider=self, account=account)


class OpenIDProvider(_OurAccounts, openid.OpenID):
    pass


class GitHub(_OurAccounts, github.GitHub):
    pass


class SAML(_OurAccounts, saml.SAML):
    pass


provider_classes = [OpenIDProvider, GitHub, SAML]
