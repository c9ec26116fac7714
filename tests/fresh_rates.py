"""For folders whose tests use up rates: `from tests.fresh_rates import fresh_rates as fresh_rates` in conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import caches


@pytest.fixture(autouse=True)
def fresh_rates() -> Iterator[None]:
    """No test has used up the rate of another one."""
    caches["limits"].clear()
    yield
    caches["limits"].clear()
