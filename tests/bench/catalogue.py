"""Fill a hub's database for the benchmark: `python -m tests.bench.catalogue [--tools N]`.

Prints the token of the caller, with --listeners one line more for each of so many people who only listen, and with
--app one more of the caller: of an app that is connected.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

LIMITS = {
    "rate": {"rate": "900000000/d"},
    "quota": {"rate": "900000000/month"},
    "running": {"rate": "9000", "measure": "running"},
    "repeats": {"rate": "900000000/d", "measure": "repeats"},
}
"""Limits that no measurement reaches, by the beginning of the name of their tool."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=10, help="how many tools there are; the caller sees at most 100")
    parser.add_argument("--visible", type=int, default=100)
    parser.add_argument("--api", default="", help="address of a local HTTP API that the tool `remote_add` calls")
    parser.add_argument("--listeners", type=int, default=0)
    parser.add_argument("--app", action="store_true", help="print a token of a connected app of the caller, too")
    parser.add_argument("--conditions", action="store_true", help="add `bounded_add`, with conditions for the caller")
    parser.add_argument("--limits", action="store_true", help="add a tool under each of LIMITS, such as `rate_add`")
    options = parser.parse_args()
    django.setup()

    from django.contrib.auth.models import User
    from django.db import transaction

    from catalog.models import Grant, Limit, Tool, Toolset
    from toolhub.access.models import AccessToken

    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    with transaction.atomic():
        user, _ = User.objects.get_or_create(username="bench")
        toolset, _ = Toolset.objects.get_or_create(name="bench")
        Grant.objects.get_or_create(toolset=toolset, user=user)

        def fields(description: str, runner: str, settings: dict[str, Any]) -> dict[str, Any]:
            return {"description": description, "input_schema": schema, "runner": runner, "settings": settings}

        function = {"function": "bench_add"}
        add, made = Tool.objects.get_or_create(
            name="add", defaults=fields("Add two numbers.", "python_function", function)
        )
        if made:
            add.toolsets.add(toolset)
        if options.api:
            request = {"method": "GET", "url": options.api, "query": {"a": "a", "b": "b"}}
            remote, made = Tool.objects.get_or_create(
                name="remote_add", defaults=fields("Add two numbers elsewhere.", "http_api", request)
            )
            if made:
                remote.toolsets.add(toolset)
        if options.conditions:
            bounded, made = Tool.objects.get_or_create(
                name="bounded_add", defaults=fields("Add two small numbers.", "python_function", function)
            )
            if made:
                bounds = {"op": "range", "minimum": 0, "maximum": 100}
                conditions = [{"path": "/a", **bounds}, {"path": "/b", **bounds}]
                conditions.append({"path": "/b", "op": "not_one_of", "values": [7, 13, 42]})
                Grant.objects.create(tool=bounded, user=user, conditions=conditions)
        for kind, rule in LIMITS.items() if options.limits else ():
            limited, made = Tool.objects.get_or_create(
                name=f"{kind}_add", defaults=fields("Add two numbers.", "python_function", function)
            )
            if made:
                limited.toolsets.add(toolset)
                Limit.objects.create(tool=limited, **rule)
        missing = options.tools - Tool.objects.count()
        tools = Tool.objects.bulk_create(
            Tool(
                name=f"filler_{number:05d}",
                **fields(f"Filler number {number}, to make the catalogue large.", "python_function", function),
            )
            for number in range(max(0, missing))
        )
        through = Tool.toolsets.through
        seen = max(0, options.visible - toolset.tools.count())
        through.objects.bulk_create(through(tool_id=tool.pk, toolset_id=toolset.pk) for tool in tools[:seen])
        # The bulk paths above send no signals: one ordinary save makes every worker load the result.
        toolset.description = f"{options.tools} tools"
        toolset.save()
    _, token = AccessToken.objects.issue(user, name="bench")
    sys.stdout.write(token + "\n")
    for number in range(options.listeners):
        listener, _ = User.objects.get_or_create(username=f"listener-{number}")
        Grant.objects.get_or_create(toolset=toolset, user=listener)
        sys.stdout.write(AccessToken.objects.issue(listener, name="bench")[1] + "\n")
    if options.app:
        from tests.factories import connect_app

        sys.stdout.write(connect_app(user)[1]["access_token"] + "\n")


if __name__ == "__main__":
    main()
