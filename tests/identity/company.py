"""A company with an OpenID Connect provider, and people who come from there with their browsers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.test import Client as Browser

from tests.identity import idp
from tests.real_servers import ROOT
from toolhub.identity.models import Provider


class Company:
    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.identity.idp", str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.url = ""
        self.numbers = 0

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the provider did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def control(self, **wanted: Any) -> str:
        """Change the provider or a person there; return the subject of that person."""
        reply = httpx2.post(f"{self.url}/control", json=wanted, trust_env=False)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["sub"])

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
