"""A toolset that can be requested, and one that cannot; people with a browser of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.models import Toolset
from tests import factories

Open = Callable[[User], Client]


@pytest.fixture
def numbers(db: None) -> Toolset:
    toolset = factories.make_toolset("Numbers", requestable=True, request_text="For the finance team.")
    factories.make_tool("calculate_sum", toolset=toolset, title="Calculate a sum", read_only=True)
    factories.make_tool("delete_rows", toolset=toolset, destructive=True)
    return toolset


@pytest.fixture
def private(db: None) -> Toolset:
    toolset = factories.make_toolset("Private")
    factories.make_tool("secret_plan", toolset=toolset)
    return toolset


@pytest.fixture
def sign_in() -> Open:
    def open_browser(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return open_browser
