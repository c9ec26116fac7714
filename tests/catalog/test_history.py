"""Every definition keeps its past: who, when, what differs, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from catalog.models import Tool
from catalog.policy import revision
from tests import factories
from tests.catalog.test_admin import tool_form

pytestmark = pytest.mark.django_db


def test_every_kind_of_definition_keeps_its_history(alice: User) -> None:
    rows: list[Any] = [factories.make_tool(), factories.make_toolset(), factories.make_resource()]
    rows += [factories.make_prompt(), factories.grant(alice, rows[0]), factories.limit("3/m", rows[0])]
    for row in reversed(rows):
        row.save()
        assert row.history.count() == 2, row
        pk = row.pk
        row.delete()
        assert type(row).history.filter(id=pk).first().history_type == "-", row


def test_the_difference_names_the_fields_and_keeps_schemas_exact(alice: User) -> None:
    tool = factories.make_tool()
    tool.description = "Adds two numbers, with care."
    tool.input_schema = {"type": "object", "properties": {"z": {"maximum": 1.0}, "a": {}}}
    tool.save()
    new, old = tool.history.all()
    assert set(new.diff_against(old).changed_fields) == {"description", "input_schema"}
    assert repr(new.input_schema) == repr(tool.input_schema)


def test_the_history_page_shows_who_changed_what(browser: Client) -> None:
    tool = factories.make_tool()
    address = reverse("admin:catalog_tool_change", args=[tool.pk])
    assert browser.post(address, tool_form(title="Careful sum")).status_code == 302
    page = browser.get(reverse("admin:catalog_tool_history", args=[tool.pk])).content.decode()
    assert "root" in page
    assert "Careful sum" in page


def test_a_revert_brings_back_the_fields_and_the_toolsets_and_raises_the_revision(browser: Client) -> None:
    tool = factories.make_tool(title="Before", toolset="Numbers")
    past = tool.history.first()
    tool.title = "After"
    tool.save()
    tool.toolsets.clear()
    address = reverse("admin:catalog_tool_simple_history", args=[tool.pk, past.pk])
    shown = browser.get(address)
    form = shown.context["adminform"].form
    assert form.initial["title"] == "Before"
    assert form.initial["toolsets"] == [factories.make_toolset().pk]
    before = revision.current()
    answer = browser.post(address, tool_form(title="Before", toolsets=form.initial["toolsets"]))
    assert answer.status_code == 302
    tool = Tool.objects.get()
    assert tool.title == "Before"
    assert [toolset.name for toolset in tool.toolsets.all()] == ["Numbers"]
    assert revision.current() > before
    assert tool.history.first().history_user.username == "root"


def test_changes_of_many_rows_and_of_one_are_administrative_actions(alice: User) -> None:
    from audit.models import Action

    tool = factories.make_tool()
    before = Action.objects.count()
    tool.title = "Other"
    tool.save()
    Tool.objects.update(position=3)
    tool.toolsets.add(factories.make_toolset())
    tool.delete()
    assert Action.objects.count() >= before + 4
