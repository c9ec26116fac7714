"""Two identity providers that provision, and know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import caches

from tests.scim.idp import Idp, make_provider


@pytest.fixture(autouse=True)
def _fresh_rates() -> Iterator[None]:
    """No test has used up the rate of another one."""
    caches["limits"].clear()
    yield
    caches["limits"].clear()


@pytest.fixture
def idp(db: None) -> Idp:
    return Idp.connect(make_provider())


@pytest.fixture
def other(db: None) -> Idp:
    return Idp.connect(make_provider("rival"))
