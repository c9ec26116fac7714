"""alice, signed in to her browser, and what only clients of this folder need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.fresh_rates import fresh_rates as fresh_rates
from tests.oauth import people
from tests.oauth.people import Callback
from tests.secure_hub import SecureHub

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SET_UPS = {"sqlite": {}, "two workers": {"workers": 2, "postgres": True, "redis": True}}


@pytest.fixture
def alices(alice: User) -> Client:
    """The browser in which alice is signed in."""
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture(scope="module", params=SET_UPS, ids=list(SET_UPS))
def site(request: pytest.FixtureRequest) -> Iterator[SecureHub]:
    options: dict[str, Any] = dict(SET_UPS[request.param])
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions", "TOOLHUB_WRITE_SCOPE": "1"}
    with SecureHub(seed=people.seed_read_only, env=env, **options) as running:
        yield running


@pytest.fixture
def callback() -> Iterator[Callback]:
    with people.callback() as waiting:
        yield waiting
