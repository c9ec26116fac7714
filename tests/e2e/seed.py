"""What the servers of the end-to-end tests hold: run inside them by `Hub.call`."""

from __future__ import annotations

from typing import Any


def create_cast(days: int = 1) -> dict[str, str]:
    """alice, bob and charlie; a token for each."""
    from django.contrib.auth.models import User

    from toolhub.access.models import AccessToken

    tokens = {}
    for name in ("alice", "bob", "charlie"):
        user, _ = User.objects.get_or_create(username=name)
        tokens[name] = AccessToken.objects.issue(user, "test", days=days)[1]
    return tokens


def grant_tool(name: str, users: list[str], function: str = "", **fields: Any) -> int:
    """A tool with the schema of its function, granted to these users."""
    from django.contrib.auth.models import User

    from catalog.functions.registry import lookup
    from tests.factories import grant, make_tool

    found = lookup("tool", function or name)
    fields.setdefault("input_schema", found.input_schema)
    fields.setdefault("output_schema", found.output_schema)
    row = make_tool(name, function=function or name, **fields)
    for user in users:
        grant(User.objects.get(username=user), row)
    pk: int = row.pk
    return pk


def request_tool(name: str, function: str, user: str) -> int:
    """Return an open request of this user for a new toolset with this tool."""
    from django.contrib.auth.models import User

    from catalog.models import AccessRequest, Tool
    from tests.factories import make_toolset

    toolset = make_toolset("Requestable", requestable=True)
    Tool.objects.get(pk=grant_tool(name, [], function)).toolsets.add(toolset)
    made = AccessRequest.objects.create(
        person=User.objects.get(username=user), kind="toolset", toolset=toolset, name=toolset.name, reason="Because."
    )
    key: int = made.pk
    return key


def approve_request(key: int) -> None:
    from catalog.access_requests import decisions

    decisions.approve(key, "root")


def seed_examples() -> dict[str, str]:
    """The cast with every function of `tests.e2e.functions` for alice and `echo` for bob; their tokens."""
    from catalog.functions.registry import list_functions

    tokens = create_cast()
    for name in list_functions("tool"):
        grant_tool(name, ["alice", "bob"] if name == "echo" else ["alice"])
    return tokens


def change_title(name: str, title: str) -> None:
    """A change that shows in the list."""
    from catalog.models import Tool

    row = Tool.objects.get(name=name)
    row.title = title
    row.save()


def grant_resource(uri: str, users: list[str]) -> None:
    """A resource with a text, for these people."""
    from django.contrib.auth.models import User

    from tests.factories import grant, make_resource

    made = make_resource(uri)
    for user in users:
        grant(User.objects.get(username=user), made)


def count_calls(name: str, outcome: str) -> int:
    """How many calls of this tool have ended like this."""
    from audit.models import Call

    return Call.objects.filter(name=name, outcome=outcome).count()


def end_grants(name: str, seconds: float) -> float:
    """Those of this tool end so long from now; the moment."""
    from datetime import timedelta

    from django.utils import timezone

    from catalog.models import Grant

    ends = timezone.now() + timedelta(seconds=seconds)
    for grant in Grant.objects.filter(tool__name=name):
        grant.ends = ends
        grant.save()
    return ends.timestamp()


def seed_attacked() -> dict[str, str]:
    """The cast; bob, who attacks, may use tools with large answers, and alice the one that she calls meanwhile."""
    tokens = create_cast()
    grant_tool("echo", ["alice", "bob"])
    grant_tool("dawdle", ["bob"], "wait")
    grant_tool("chatter", ["bob"])
    grant_tool("block", ["bob"])
    grant_tool("large", ["bob"], max_result_bytes=2 * 16_000_000)
    return tokens
