"""What the server of the tests of Try it holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

PASSWORD = "correct horse battery"
FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "The first number."},
        "b": {"type": "number", "default": 2},
        "note": {"type": "string", "maxLength": 20},
        "mode": {"enum": ["fast", "slow"], "default": "fast"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["a"],
    "additionalProperties": False,
}


DEPUTY = ["view_tool", "try_tool", "try_tool_as_other"]
"""What `deputy` may do: try tools, also as others."""


def seed() -> dict[str, int]:
    """alice may use every tool of `try_tools`; root; `helper`, who may try tools but only as themselves; `deputy`."""
    from django.contrib.auth.models import Permission, User

    from catalog.functions.registry import list_functions
    from tests import factories
    from tests.e2e.seed import grant_tool

    alice = User.objects.create_user("alice", password=PASSWORD)
    User.objects.create_user("charlie", password=PASSWORD)
    User.objects.create_superuser("root", password=PASSWORD)
    helper = User.objects.create_user("helper", password=PASSWORD, is_staff=True)
    helper.user_permissions.set(Permission.objects.filter(codename__in=["view_tool", "try_tool"]))
    deputy = User.objects.create_user("deputy", password=PASSWORD, is_staff=True)
    deputy.user_permissions.set(Permission.objects.filter(codename__in=DEPUTY))
    tools = {
        name: grant_tool(name, ["alice", "helper", "deputy"])
        for name in sorted(list_functions("tool"))
        if name.startswith("try_")
    }
    limited = factories.make_tool("try_limited", function="calculate_sum", input_schema=FIELDS)
    factories.grant(alice, limited)
    factories.limit("1/d", limited)  # whose period will not end between two calls
    add = factories.make_tool("try_add", function="calculate_sum", input_schema=FIELDS, toolset="Numbers")
    factories.grant(alice, add)
    bounded = factories.make_tool("try_bounded", function="calculate_sum")
    conditions = [{"path": "/a", "op": "one_of", "values": [1, 2]}, {"path": "/b", "op": "fixed", "value": 40}]
    factories.grant(alice, bounded, conditions=conditions)
    factories.make_tool("try_nobodys")
    nobodys = factories.make_tool("try_other")
    return {
        **tools,
        "limited": limited.pk,
        "add": add.pk,
        "nobodys": nobodys.pk,
        "bounded": bounded.pk,
        "alice": alice.pk,
    }


def list_calls() -> list[dict[str, Any]]:
    """Every call logged, the oldest first."""
    from audit.models import Call

    fields = ("username", "name", "outcome", "credential", "credential_id", "transport", "client_name", "detail")
    return [{**row, "id": str(row["id"])} for row in Call.objects.order_by("pk").values("id", *fields)]


def list_actions(kind: str, verb: str) -> list[dict[str, Any]]:
    from audit.models import Action

    rows = Action.objects.filter(kind=kind, verb=verb).order_by("pk").values("actor", "target", "before", "after")
    return [dict(row) for row in rows]


def switch_off(username: str) -> None:
    """The account, as an administrator would."""
    from django.contrib.auth.models import User

    user = User.objects.get(username=username)
    user.is_active = False
    user.save()


def switch_on(username: str) -> None:
    from django.contrib.auth.models import User

    user = User.objects.get(username=username)
    user.is_active = True
    user.save()


def take_away(username: str, what: str) -> None:
    """A permission, or being staff."""
    from django.contrib.auth.models import Permission, User

    user = User.objects.get(username=username)
    if what == "staff":
        user.is_staff = False
        user.save()
    else:
        user.user_permissions.remove(Permission.objects.get(codename=what))


def give_back(username: str) -> None:
    from django.contrib.auth.models import Permission, User

    user = User.objects.get(username=username)
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename__in=DEPUTY))
