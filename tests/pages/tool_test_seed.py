"""What the server of the tests of test cases holds: run inside it by `Hub.call`."""

from __future__ import annotations

from typing import Any

from tests.pages import try_seed


def seed() -> dict[str, int]:
    """The cast of Try it; `helper` and `deputy` may view and add test cases; a read-only tool with three tests."""
    from django.contrib.auth.models import Permission, User

    from catalog.models import Tool, ToolTest
    from tests import factories

    seeded = try_seed.seed()
    more = Permission.objects.filter(codename__in=["view_tooltest", "add_tooltest", "change_tooltest"])
    for name in ("helper", "deputy"):
        User.objects.get(username=name).user_permissions.add(*more)
    factories.grant(User.objects.get(username="root"), Tool.objects.get(name="try_add"))
    alice, add = User.objects.get(username="alice"), Tool.objects.get(name="try_add")
    Tool.objects.filter(pk=add.pk).update(read_only=True)
    rows: dict[str, dict[str, Any]] = {
        "passes": {"arguments": {"a": 1}, "user": alice, "match": "text", "expected": "3"},
        "fails": {"arguments": {"a": 1}, "user": alice, "match": "text", "expected": "four"},
        "own": {"arguments": {"a": "x"}, "status": "invalid_arguments"},
    }
    root = User.objects.get(username="root")
    made = {name: ToolTest.objects.create(tool=add, name=name, editor=root, **row).pk for name, row in rows.items()}
    nobodys = ToolTest.objects.create(
        tool=Tool.objects.get(name="try_limited"), name="changing", arguments={"a": 1}, editor=root
    )
    return {**seeded, **made, "changing": nobodys.pk}


def results() -> dict[str, Any]:
    """Result and problem of each test case, by name."""
    from catalog.models import ToolTest

    return {row.name: [row.result, row.problem, str(row.last_call or "")] for row in ToolTest.objects.all()}


def forget_editors() -> None:
    """As when the accounts that saved them were deleted."""
    from catalog.models import ToolTest

    ToolTest.objects.update(editor=None)


def give_to(name: str, test: str) -> None:
    """As when this person had saved the test, before losing the permission to try tools as others."""
    from django.contrib.auth.models import User

    from catalog.models import ToolTest

    ToolTest.objects.filter(name=test).update(editor=User.objects.get(username=name))


def add_endless_tests() -> int:
    """Two test cases of a tool that waits for a file which never comes."""
    from django.contrib.auth.models import User

    from catalog.models import Tool, ToolTest

    tool, alice = Tool.objects.get(name="try_steps"), User.objects.get(username="alice")
    for name in ("first", "second"):
        ToolTest.objects.create(tool=tool, name=name, user=alice, arguments={"go_on": "/nonexistent/file"})
    return int(tool.pk)
