"""Browsers, a mail server that is set up, and the mails that it got."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.test import Client

from tests.fresh_rates import fresh_rates as fresh_rates
from toolhub.people import outbox

Send = Callable[[], list[Any]]
LINK = re.compile(r"http://localhost:8000(/\S+)")


def make_staff(name: str, *permissions: str) -> User:
    user = User.objects.create_user(name, password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.fixture
def open_browser(db: None) -> Callable[..., Client]:
    def opened(user: User | None = None, **options: Any) -> Client:
        client = Client(**options)
        if user is not None:
            client.force_login(user)
        return client

    return opened


@pytest.fixture
def send(settings: Any) -> Send:
    """Runs the background job and returns the mails of this run."""
    settings.EMAIL_HOST = "mail.example.com"

    def sent() -> list[Any]:
        before = len(mail.outbox)
        outbox.send_due()
        return mail.outbox[before:]

    return sent


def find_link(body: str) -> str:
    """The path of the one link in a mail to a page that takes a token."""
    found = [path for path in LINK.findall(body) if path.startswith(("/invitation/", "/password/new/"))]
    assert len(found) == 1, body
    return found[0]
