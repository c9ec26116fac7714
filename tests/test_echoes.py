"""No page says back as markup what its own address holds, and no page of the admin fails on it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client

from tests import census, factories

ATTACK = '"><script>p()</script>\' x-init="p()" {{1333*1333}}'
NAMES = ("q", "user", "tool", "client", "outcome", "since", "until", "next", "e", "before", "query", "name", "back")


@pytest.fixture
def address_values(alice: User) -> dict[str, Any]:
    found = census.create_address_values(alice)
    factories.load()
    return found


@pytest.mark.django_db
def test_an_attack_in_the_address_is_text_on_the_page(address_values: dict[str, Any], alice: User, root: User) -> None:
    clients = {False: Client(raise_request_exception=False), True: Client(raise_request_exception=False)}
    clients[False].force_login(alice)
    clients[True].force_login(root)
    paths = [
        (rule.who.is_staff, rule.path(address_values))
        for rule in census.every_rule()
        if "GET" in rule.methods and not rule.route.endswith(("sign-out/", "logout/"))
    ]
    paths += [(False, f"/{quote(ATTACK)}/"), (False, f"/connect/{quote(ATTACK)}/"), (True, f"/admin/{quote(ATTACK)}/")]
    paths += [(True, f"/admin/{model}/{quote(ATTACK, safe='')}/change/") for model in ("audit/call", "catalog/tool")]
    wrong = []
    for staff, path in paths:
        mark = "&" if "?" in path else "?"
        for chosen in (NAMES, ("q",)):
            query = "&".join(f"{name}={quote(ATTACK)}" for name in chosen)
            response = clients[staff].get(f"{path}{mark}{query}", follow=len(chosen) == 1)
            said = b"".join(response) if response.streaming else response.content
            text = said.decode("utf-8", "replace")
            if "html" in response.get("Content-Type", "") and ("<script>p()" in text or 'x-init="p()' in text):
                wrong.append(f"{path}?{query}")
            if "1776889" in text or (chosen == ("q",) and response.status_code >= 500):
                wrong.append(f"{path}?{query}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


HOSTILE = ("x", "9" * 30, "a\x00b")


@pytest.mark.django_db
def test_an_add_page_ignores_impossible_values_in_its_address(address_values: dict[str, Any], root: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(root)
    wrong = []
    for model in admin.site._registry:
        fields = [field.name for field in model._meta.get_fields()] + ["days", "_popup"]
        for value in (*HOSTILE, ATTACK):
            response = client.get(f"{place(model)}add/", dict.fromkeys(fields, value))
            if response.status_code not in (200, 403):
                wrong.append(f"{place(model)}add/ with {value!r}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_a_list_answers_filters_that_cannot_be(address_values: dict[str, Any], root: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(root)
    wrong = []
    for model, model_admin in admin.site._registry.items():
        names = ["q", "p", "o", "before"]
        filters: Any = model_admin.list_filter
        for one in filters:
            if isinstance(one, str):
                names += [f"{one}{lookup}" for lookup in ("__exact", "__gte")]
            else:
                names.append(one.parameter_name)
        for name in names:
            for value in HOSTILE:
                response = client.get(place(model), {name: value})
                if response.status_code >= 500:
                    wrong.append(f"{place(model)}?{name}={value!r}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def place(model: type[Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
