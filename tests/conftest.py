"""The cast (alice, bob, charlie, root, the auditor) and what every test needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import translation

from tests import scheduling

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

    from toolhub.access.bearer import Authenticator

REQUIRED = frozenset(filter(None, os.environ.get("TOOLHUB_TEST_REQUIRE", "").split(",")))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return scheduling.processes()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        scheduling.set_time_limit(item)
    if hasattr(config, "workerinput"):
        items[:] = scheduling.sort_slowest_first(items)


def missing(service: str, why: str) -> None:
    """Skip because `service` is not here; fail where TOOLHUB_TEST_REQUIRE names it."""
    if service in REQUIRED:
        pytest.fail(f"{service} is required by TOOLHUB_TEST_REQUIRE: {why}", pytrace=False)
    pytest.skip(f"{service}: {why}")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A database that each transactional test leaves as it was after the migrations."""
    from tests.database_cleaner import cleaning

    with django_db_blocker.unblock(), cleaning("default"), django_db_blocker.block():
        yield


@pytest.fixture(autouse=True)
def _reset_language() -> Iterator[None]:
    """A request leaves its language active in its thread; the next test reads English again."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def _stop_audit_log(request: pytest.FixtureRequest, _django_db_marker: None) -> Iterator[None]:
    """Set up after the fixture that empties the tables, so that it is taken down before it."""
    from tests.audit_log import stop_audit_log

    if "_django_db_helper" in request.fixturenames:
        request.getfixturevalue("_django_db_helper")
    yield
    stop_audit_log()


def _user(name: str, **fields: object) -> User:
    from django.contrib.auth.models import User

    return User.objects.create_user(name, password="correct horse battery", **fields)  # type: ignore[arg-type]


@pytest.fixture
def alice(db: None) -> User:
    """She is granted tools."""
    return _user("alice")


@pytest.fixture
def bob(db: None) -> User:
    """He is granted other tools, and limited."""
    return _user("bob")


@pytest.fixture
def charlie(db: None) -> User:
    """He is granted nothing and must never see anything."""
    return _user("charlie")


@pytest.fixture
def root(db: None) -> User:
    """Staff and superuser: manages everything, may call nothing."""
    return _user("root", is_staff=True, is_superuser=True)


@pytest.fixture
def browser(root: User) -> Client:
    """root, signed in."""
    from django.test import Client

    client = Client()
    client.force_login(root)
    return client


@pytest.fixture
def authenticator() -> Iterator[Authenticator]:
    """Knows nothing yet, and hears of what is revoked; its threads let go of the test's database at the end."""
    from toolhub.access.bearer import Authenticator
    from toolhub.parts import parts

    made = Authenticator()
    parts.put(made)
    yield made
    made.settle()
    parts.remove(Authenticator)
