from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.catalog.accounts.service import Service
from tests.catalog.accounts.stand_in import StandIn
from tests.fresh_rates import fresh_rates as fresh_rates


@pytest.fixture(scope="session")
def running() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def service(running: Service, settings: Any) -> Service:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    running.control(expires_in=3600, refuse_refresh="")
    return running


@pytest.fixture
def stand_in(settings: Any) -> Iterator[StandIn]:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    with StandIn() as running:
        yield running
