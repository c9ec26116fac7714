"""A company with an OpenID Connect provider, and people who come from there with their browsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.test import Client as Browser

from tests.identity import idp
from tests.module_server import ModuleServer
from toolhub.identity.models import Provider


class Company(ModuleServer):
    def __init__(self, folder: Path) -> None:
        super().__init__("tests.identity.idp", str(folder))
        self.numbers = 0

    def control(self, **wanted: Any) -> str:
        """Change the provider or a person there; return the subject of that person."""
        return str(self.post_control(wanted)["sub"])

    def employ(self, name: str, *groups: str, **wanted: Any) -> str:
        return self.control(user=name, groups=list(groups), active=True, **wanted)

    def dismiss(self, name: str) -> None:
        self.control(user=name, active=False)

    def configure(self, **changes: Any) -> Provider:
        """Return the row of this provider, as an administrator saves it."""
        row = Provider(
            **{
                "slug": "company",
                "name": "The company",
                "kind": Provider.Kind.OPENID,
                "enabled": True,
                "issuer": self.url,
                "client_id": idp.CLIENT_ID,
                "scopes": "openid profile email",
                **changes,
            }
        )
        row.set_secret(idp.CLIENT_SECRET)
        row.save()
        return row

    def answer(self, address: str, name: str, hub: str = settings.PUBLIC_URL) -> str:
        """Sign in there as this person, and return the address to which the provider sends the browser back."""
        with httpx2.Client(cookies={"idp_user": name}, trust_env=False) as browser:
            for _hop in range(5):
                reply = browser.get(address)
                assert reply.status_code in {302, 303}, reply.text
                address = str(reply.url.join(reply.headers["location"]))
                if address.startswith(hub):
                    parts = urlsplit(address)
                    return f"{parts.path}?{parts.query}"
        raise AssertionError(f"the provider did not send the browser back: {address}")


def come(browser: Browser, company: Company, name: str, *, target: str = "", slug: str = "company") -> Any:
    """Sign in here as this person of the company; return the last answer."""
    query = {"next": target} if target else {}
    leaving = browser.get(f"/sign-in/with/{slug}/", query)
    assert leaving.status_code == 302, leaving.content.decode()
    return browser.get(company.answer(leaving.headers["location"], name))
