"""alice, signed in to her browser, and what only clients of this folder need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.core.cache import caches
from django.test import Client

from toolhub.access.bearer import Authenticator
from toolhub.parts import parts

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@pytest.fixture
def alices(alice: User) -> Client:
    """The browser in which alice is signed in."""
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture(autouse=True)
def _fresh_rates() -> Iterator[None]:
    """No test has used up the rate of another one."""
    caches["limits"].clear()
    yield
    caches["limits"].clear()


@pytest.fixture
def authenticator() -> Iterator[Authenticator]:
    """Knows nothing yet, and hears of what is revoked; its threads let go of the test's database at the end."""
    made = Authenticator()
    parts.put(made)
    yield made
    made.settle()
    parts.remove(Authenticator)
