"""Two identity providers that provision, and know nothing of each other."""

from __future__ import annotations

import pytest

from tests.fresh_rates import fresh_rates as fresh_rates
from tests.scim.idp import Idp, make_provider


@pytest.fixture
def idp(db: None) -> Idp:
    return Idp.connect(make_provider())


@pytest.fixture
def other(db: None) -> Idp:
    return Idp.connect(make_provider("rival"))
