"""The audit log shows what a tool was when it was called, out of the tool's history."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.calls import history
from catalog.models import Tool
from catalog.policy import snapshot
from tests import factories
from tests.audit import rows

pytestmark = pytest.mark.django_db


def hash_of(kind: str, row: Any) -> str:
    factories.load()
    return snapshot.latest().items[kind, row.pk].hash


def test_the_version_with_the_logged_hash_is_found_behind_later_ones(root: User) -> None:
    tool = factories.make_tool(description="The first wording.")
    digest = hash_of("tool", tool)
    tool.description = "The second wording."
    tool._history_user = root  # type: ignore[attr-defined]
    tool.save()
    second = hash_of("tool", tool)
    now = timezone.now()
    first = history.definition_at("tools/call", tool.pk, digest, now)
    assert first is not None and first.exact and json.loads(first.text)["description"] == "The first wording."
    found = history.definition_at("tools/call", tool.pk, second, now)
    assert found is not None and found.exact and found.saved_by == "root" and "The second wording." in found.text


def test_only_parts_that_clients_saw_are_shown() -> None:
    tool = factories.make_tool(runner="http_api", settings={"url": "https://internal.example.com/"})
    found = history.definition_at("tools/call", tool.pk, hash_of("tool", tool), timezone.now())
    assert found is not None and found.exact and "internal.example.com" not in found.text


def test_a_hash_that_history_does_not_know_gives_the_newest_version_and_says_so() -> None:
    tool = factories.make_tool()
    found = history.definition_at("tools/call", tool.pk, "0" * 64, timezone.now())
    assert found is not None and not found.exact


def test_prompts_resources_and_deleted_items_have_a_history_too() -> None:
    tool, resource, prompt = factories.make_tool(), factories.make_resource(), factories.make_prompt()
    wanted = (("tools/call", "tool", tool), ("resources/read", "resource", resource), ("prompts/get", "prompt", prompt))
    known = [(method, row.pk, hash_of(kind, row)) for method, kind, row in wanted]
    Tool.objects.all().delete()
    for method, pk, digest in known:
        found = history.definition_at(method, pk, digest, timezone.now())
        assert found is not None and found.exact, method


@pytest.mark.parametrize("method", ["tools/call", "tasks/get", ""])
def test_earlier_times_and_unknown_items_have_no_history(method: str) -> None:
    tool = factories.make_tool()
    assert history.definition_at(method, tool.pk, "0" * 64, timezone.now() - timedelta(days=1)) is None
    assert history.definition_at(method, tool.pk + 999, "0" * 64, timezone.now()) is None


def test_the_auditor_reads_it_beside_the_call_and_compares_two(alice: User) -> None:
    auditor = User.objects.create_user("audrey", is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    tool = factories.make_tool(description="The first wording.")
    old = hash_of("tool", tool)
    tool.description = "The second wording."
    tool.save()
    now = timezone.now() + timedelta(seconds=1)
    known: dict[str, Any] = {"user": alice, "target_id": tool.pk, "started_at": now}
    first, second = rows.save(
        rows.build_call(1, definition=old, **known), rows.build_call(2, definition=hash_of("tool", tool), **known)
    )
    reader = Client()
    reader.force_login(auditor)
    page = reader.get(reverse("admin:audit_call_change", args=(first.pk,))).content.decode()
    assert "The first wording." in page and "Matches the logged hash" in page
    pair = {"call": [str(first.pk), str(second.pk)]}
    page = reader.get(reverse("admin:audit_call_compare"), pair).content.decode()
    assert "The first wording." in page and "The second wording." in page
