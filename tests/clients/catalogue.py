"""What the hub that the clients meet holds: the example catalogue as it is shipped. Run inside it by `Hub.call`."""

from __future__ import annotations

from dataclasses import dataclass

MAX_USERS = 60
"""Every use of the hub is somebody else's: limits and records are then one client's."""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    token: str


def load() -> list[list[str]]:
    """The examples, and people who are granted them: their names and tokens."""
    from django.contrib.auth.models import User
    from django.db import transaction

    from catalog.examples import catalogue
    from catalog.models import Toolset
    from tests.factories import grant, make_group
    from toolhub.access.models import AccessToken

    catalogue.load()
    with transaction.atomic():
        people = [User.objects.create(username=f"person-{number}") for number in range(MAX_USERS)]
        grant(make_group("people", people), Toolset.objects.get(name="Examples"))
        return [[user.username, AccessToken.objects.issue(user, "test", days=1)[1]] for user in people]


def list_calls(user: str) -> list[dict[str, str]]:
    """This user's calls, oldest first."""
    from audit.models import Call

    columns = ("client_name", "client_version", "transport", "revision", "name", "arguments", "outcome")
    return list(Call.objects.filter(username=user).order_by("id").values(*columns))
