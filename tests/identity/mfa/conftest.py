"""alice with an authenticator app or a passkey, and browsers of people who are not signed in yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.fresh_rates import fresh_rates as fresh_rates
from tests.identity.mfa import device

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass
class Person:
    user: User
    client: Client
    """The browser in which they set up what follows."""
    seed: str = ""
    codes: list[str] = field(default_factory=list)
    passkey: device.Device = field(default_factory=device.Device)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def with_app(alice: User) -> Person:
    person = Person(alice, signed_in(alice))
    person.seed, person.codes = device.set_up_app(person.client)
    return person


@pytest.fixture
def with_passkey(alice: User) -> Person:
    person = Person(alice, signed_in(alice))
    person.codes = device.codes_on(device.add_passkey(person.client, person.passkey).content.decode())
    return person
