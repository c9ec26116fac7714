"""The company where people have their accounts, and what they need to come from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import caches

from tests.identity.company import Company
from toolhub.identity.models import GroupMapping, Provider


@pytest.fixture(scope="session")
def _company_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with Company(tmp_path_factory.mktemp("company")) as company:
        yield company


@pytest.fixture
def company(_company_process: Company, settings: Any) -> Iterator[Company]:
    """An OpenID Connect provider on this machine, which an operator has allowed."""
    settings.SIGN_IN_NETWORKS = ["127.0.0.1/32"]
    caches["local"].clear()
    caches["limits"].clear()
    _company_process.control(broken="", tokens="1", redirects=[f"{settings.PUBLIC_URL}/sign-in/with/company/callback/"])
    yield _company_process
    caches["local"].clear()


@pytest.fixture
def provider(db: None, company: Company) -> Provider:
    """The company as an administrator has configured it here."""
    return company.configure()


@pytest.fixture
def sales(provider: Provider) -> Group:
    """A group here whose members the company decides."""
    group = Group.objects.create(name="Sales")
    GroupMapping.objects.create(provider=provider, value="hub-sales", group=group)
    return group
