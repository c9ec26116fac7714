"""Signed-in browsers, each with an address of its own, because failures are counted by address."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_numbers = itertools.count(1)


@pytest.fixture
def address() -> str:
    """An address that no other test has failed from."""
    number = next(_numbers)
    return f"198.18.{number // 250}.{number % 250 + 1}"


@pytest.fixture
def browser(address: str) -> Callable[[User | None], Client]:
    def make(user: User | None = None) -> Client:
        client = Client(REMOTE_ADDR=address)
        if user is not None:
            client.force_login(user)
        return client

    return make
