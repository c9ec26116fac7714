"""Several tokens, apps or invitations are revoked together: all of them, or none when one meets an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.db.models.signals import post_save
from django.test import Client

from tests import factories
from tests.scim.idp import make_provider
from toolhub.access.models import AccessToken
from toolhub.scim.models import ScimToken

pytestmark = pytest.mark.django_db
NUMBER = 3


class Trouble(Exception):
    """What the change of one row met."""


@contextmanager
def trouble_at_the_last(model: type[Model]) -> Iterator[None]:
    """Let the change of the last of the rows fail after it was written."""
    saved: set[Any] = set()

    def fail(instance: Any, **_: Any) -> None:
        saved.add(instance.pk)
        if len(saved) == NUMBER:
            raise Trouble

    post_save.connect(fail, sender=model, dispatch_uid="test.trouble")
    try:
        yield
    finally:
        post_save.disconnect(sender=model, dispatch_uid="test.trouble")


def make_token(root: User, number: int) -> Any:
    return AccessToken.objects.issue(root, f"laptop {number}")[0]


def make_app(root: User, number: int) -> Any:
    return factories.connect_app(root, name=f"App {number}")[0]


def make_scim_token(root: User, number: int) -> Any:
    return ScimToken.objects.issue(make_provider(f"provider-{number}"))[0]


def make_invitation(root: User, number: int) -> Any:
    return factories.invite(root, f"newcomer{number}@example.com")


@pytest.mark.parametrize("make", [make_token, make_app, make_scim_token, make_invitation], ids=lambda one: one.__name__)
def test_when_one_meets_an_error_none_of_them_is_revoked(
    browser: Client, root: User, make: Callable[[User, int], Any]
) -> None:
    made = [make(root, number) for number in range(NUMBER)]
    model = type(made[0])
    address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    chosen = {"action": "revoke_chosen", "_selected_action": [row.pk for row in made]}
    with trouble_at_the_last(model), pytest.raises(Trouble):
        browser.post(address, chosen)
    rows = model._default_manager.filter(pk__in=[row.pk for row in made])
    assert rows.filter(revoked=None).count() == NUMBER
    browser.post(address, chosen)
    assert rows.exclude(revoked=None).count() == NUMBER
