"""Requests at the same time, on PostgreSQL with two workers: one account, one user, and no deadlock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.real_servers import Hub
from tests.scim.idp import PATCH, user

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
THREADS = 8


def seed() -> str:
    """A provider with a token, and a mapped group."""
    from tests import factories
    from tests.scim.idp import Idp, make_provider
    from toolhub.identity.models import GroupMapping

    idp = Idp.connect(make_provider())
    GroupMapping.objects.create(provider=idp.provider, value="Analysts", group=factories.make_group("analysts"))
    return idp.token


def count_rows() -> dict[str, int]:
    from django.contrib.auth.models import User

    from toolhub.identity.models import Identity
    from toolhub.scim.models import ScimUser

    return {model.__name__: model._default_manager.count() for model in (User, Identity, ScimUser)}


def read_state() -> list[Any]:
    """Of each person: whether they are active, whether in the mapped group, and their groups at the provider."""
    from toolhub.identity.models import Identity

    rows = Identity.objects.order_by("subject").select_related("user")
    return [
        [row.subject, row.user.is_active, row.user.groups.filter(name="analysts").exists(), row.provisioned_groups]
        for row in rows
    ]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(workers=2, postgres=True, redis=True, seed=seed) as running:
        yield running


def send(hub: Hub, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {hub.seeded}", "Content-Type": "application/scim+json"}
    content = None if body is None else json.dumps(body)
    with httpx2.Client(trust_env=False, timeout=60) as client:
        return client.request(method, f"{hub.url}/scim/v2/{path}", headers=headers, content=content)


def send_together(hub: Hub, requests: list[tuple[Any, ...]]) -> list[httpx2.Response]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda request: send(hub, *request), requests))


def test_the_same_person_at_the_same_time_is_made_once(hub: Hub) -> None:
    before = hub.call(count_rows)
    for name in ("ada", "grace", "joan"):
        answers = send_together(hub, [("POST", "Users", user(name))] * THREADS)
        assert sorted(answer.status_code for answer in answers) == [201, *[409] * (THREADS - 1)]
        assert {answer.json().get("scimType") for answer in answers if answer.status_code == 409} == {"uniqueness"}
    assert hub.call(count_rows) == {name: number + 3 for name, number in before.items()}


def test_people_deleted_and_brought_back_at_the_same_time_have_one_account(hub: Hub) -> None:
    made = send(hub, "POST", "Users", user("mary")).json()
    before = hub.call(count_rows)
    assert send(hub, "DELETE", f"Users/{made['id']}").status_code == 204
    answers = send_together(hub, [("POST", "Users", user("mary"))] * THREADS)
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * (THREADS - 1)]
    assert hub.call(count_rows) == before


def test_changes_of_people_and_of_their_groups_cross_without_a_deadlock(hub: Hub) -> None:
    people = [send(hub, "POST", "Users", user(f"person{number}")).json()["id"] for number in range(6)]
    groups = [
        send(hub, "POST", "Groups", {"displayName": name}).json()["id"] for name in ("Analysts", "Writers", "Readers")
    ]

    def patch(path: str, *operations: dict[str, Any]) -> tuple[str, str, Any]:
        return "PATCH", path, {"schemas": [PATCH], "Operations": list(operations)}

    requests: list[tuple[Any, ...]] = []
    for turn in range(8):
        order = people if turn % 2 else people[::-1]
        members = [{"value": one} for one in order]
        for group in groups:
            requests += [patch(f"Groups/{group}", {"op": "replace", "path": "members", "value": members[turn % 3 :]})]
        requests += [
            patch(f"Users/{one}", {"op": "replace", "path": "active", "value": bool(turn % 2)}) for one in order[:3]
        ]
    answers = send_together(hub, requests)
    assert {answer.status_code for answer in answers} == {200, 204}
    everybody = [{"value": one} for one in people]
    last = [patch(f"Groups/{group}", {"op": "replace", "path": "members", "value": everybody}) for group in groups]
    last += [patch(f"Users/{one}", {"op": "replace", "path": "active", "value": True}) for one in people]
    assert {answer.status_code for answer in send_together(hub, last)} == {200, 204}
    state = [row for row in hub.call(read_state) if row[0].startswith("sub-person")]
    assert state == [
        [f"sub-person{number}", True, True, ["Analysts", "Readers", "Writers"]] for number in range(len(people))
    ]
