"""What the server of the browser tests holds: run inside it by `Hub.call`."""

from __future__ import annotations

import time
import uuid
from typing import Any

PASSWORD = "correct horse battery"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
LONG_NAME = "a_name_without_an_end_" * 5


def seed_users() -> dict[str, Any]:
    """alice with tools, tokens and calls of every kind, texts that are hostile or long among them; root; charlie."""
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from audit import outcomes
    from audit.models import Call
    from catalog.models import Secret
    from tests import factories
    from toolhub.access.models import AccessToken

    alice = User.objects.create_user("alice", password=PASSWORD)
    User.objects.create_user("charlie", password=PASSWORD)
    root = User.objects.create_superuser("root", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    toolset = factories.make_toolset("Files")
    factories.make_tool("calculate_sum", toolset=toolset, title="Calculate a sum", read_only=True, open_world=False)
    token = {"static_headers": {"Authorization": {"secret": "weather_token", "prefix": "Bearer "}}}
    weather = factories.make_tool(
        "get_weather",
        toolset=toolset,
        description="Current weather at a place.",
        runner="http_api",
        settings={"url": "https://weather.example.com/now", **token},
    )
    Secret.objects.create(name="weather_token", kind=Secret.Kind.PERSONAL, description=HOSTILE + LONG_NAME)
    factories.make_tool(LONG_NAME[:100], toolset=toolset, title=HOSTILE, description=HOSTILE + LONG_NAME)
    factories.grant(alice, toolset, factories.make_resource(title=HOSTILE), factories.make_prompt())
    factories.limit("6/m", weather)
    AccessToken.objects.issue(alice, HOSTILE + LONG_NAME[:30])
    ended, _ = AccessToken.objects.issue(alice, "ended")
    ended.revoke()
    now, key = int(time.time() * 1000), uuid.UUID(int=0)
    for number, outcome in enumerate([value for value, _label in outcomes.CHOICES] * 5):
        key = uuid.UUID(int=((now - number * 60_000) << 80) | (7 << 76) | (2 << 62) | number)
        Call.objects.create(
            id=key,
            user=alice,
            username="alice",
            credential_id="token:1",
            credential=HOSTILE[:100],
            client_name=HOSTILE,
            client_version="1",
            transport="http",
            revision="2026-07-28",
            address="192.0.2.1",
            method="tools/call",
            name=LONG_NAME if number % 7 == 3 else "calculate_sum",
            definition="",
            rule="",
            request_id=str(number),
            arguments='{"text": "<script>alert(1)</script>' + LONG_NAME * 3 + '"}',
            outcome=outcome,
            error_class="",
            detail=HOSTILE,
            result='{"content": [{"type": "text", "text": "<img src=x onerror=alert(1)>"}]}',
            result_bytes=10,
            result_sha256="",
            started_at=timezone.now(),
            duration_us=1234,
            writer=1,
            link=number,
            body_state="",
        )
    return {"call": str(key), "alice": alice.pk, "root": root.pk, "ended": ended.pk}


def token(username: str) -> str:
    from django.contrib.auth.models import User

    from toolhub.access.models import AccessToken

    return AccessToken.objects.issue(User.objects.get(username=username), "test")[1]


def digests(username: str) -> list[str]:
    """Of the person's tokens that work, the newest first."""
    from toolhub.access.models import AccessToken

    return list(AccessToken.objects.usable().filter(user__username=username).values_list("digest", flat=True))


def seed_callers() -> dict[str, Any]:
    """alice with a quick tool and one that takes its time and tells how far it is; bob with nothing."""
    from django.contrib.auth.models import User

    from catalog.functions.registry import lookup
    from tests import factories

    alice = User.objects.create_user("alice", password=PASSWORD)
    User.objects.create_user("bob", password=PASSWORD)
    factories.grant(alice, factories.make_tool("calculate_sum", read_only=True, open_world=False))
    slow = lookup("tool", "long_task")
    factories.grant(
        alice, factories.make_tool("long_task", function="long_task", input_schema=slow.input_schema, timeout=600)
    )
    return {"alice": alice.pk}


def seed_live_log() -> dict[str, Any]:
    """The callers, bob with the quick tool too, and an auditor who watches them."""
    from django.contrib.auth.models import Group, User

    from catalog.models import Tool
    from tests import factories

    seed_callers()
    factories.grant(User.objects.get(username="bob"), Tool.objects.get(name="calculate_sum"))
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    return {"alice": token("alice"), "bob": token("bob")}


def end_sessions(username: str) -> None:
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session

    key = str(User.objects.get(username=username).pk)
    for session in Session.objects.all():
        if session.get_decoded().get("_auth_user_id") == key:
            session.delete()


def set_auditor(username: str, is_member: bool) -> None:
    from django.contrib.auth.models import Group, User

    groups = User.objects.get(username=username).groups
    group = Group.objects.get(name="auditor")
    if is_member:
        groups.add(group)
    else:
        groups.remove(group)


def outcome(call_id: str) -> tuple[str, str]:
    from audit.models import Call

    call = Call.objects.get(pk=call_id)
    return call.outcome, call.detail
