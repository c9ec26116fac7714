"""Selected tools join a toolset or leave it, after the page has said who gets access or loses it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog.models import Tool, Toolset
from tests import factories

pytestmark = pytest.mark.django_db
ADD, REMOVE = "add_to_toolset", "remove_from_toolset"


@pytest.fixture
def tools() -> list[Tool]:
    return [factories.make_tool("calculate_sum"), factories.make_tool("delete_file", function="calculate_sum")]


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def send(client: Client, tools: list[Tool], action: str, **values: Any) -> str:
    form = {"action": action, "_selected_action": [tool.pk for tool in tools], "select_across": "0", **values}
    answer = client.post(reverse("admin:catalog_tool_changelist"), form, follow=True)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text


def test_the_page_says_who_gets_access_before_anything_changes(root: User, alice: User, tools: list[Tool]) -> None:
    pets = Toolset.objects.create(name="Pets")
    factories.grant(alice, pets)
    Tool.objects.filter(pk=tools[0].pk).update(destructive=False)  # the other one does not say
    factories.load()
    client = sign_in(root)
    text = send(client, tools, ADD, toolset=pets.pk, name="")
    assert "1 user with access to it" in text and "1 of them is destructive." in text
    assert not pets.tools.exists()
    text = send(client, tools, ADD, toolset=pets.pk, name="", confirmed=pets.pk)
    assert "2 items added to Pets." in text
    assert set(pets.tools.all()) == set(tools)
    assert Action.objects.filter(verb="added to", actor="root").count() == 2
    assert tools[0].history.count() > 1, "the version history has it, too"


def test_a_confirmation_is_for_the_toolset_that_was_shown(root: User, tools: list[Tool]) -> None:
    pets, other = Toolset.objects.create(name="Pets"), Toolset.objects.create(name="Other")
    text = send(sign_in(root), tools, ADD, toolset=other.pk, name="", confirmed=pets.pk)
    assert "They will be in the toolset Other." in text
    assert not pets.tools.exists() and not other.tools.exists()


def test_a_new_toolset_is_made_with_the_change_and_only_by_those_who_may(root: User, tools: list[Tool]) -> None:
    send(sign_in(root), tools, ADD, toolset="", name="New")
    assert not Toolset.objects.exists(), "nothing is left behind by the first page"
    send(sign_in(root), tools, ADD, toolset="", name="New", confirmed="new:New")
    assert set(Toolset.objects.get(name="New").tools.all()) == set(tools)
    editor = User.objects.create_user("ed", is_staff=True)
    editor.user_permissions.add(*Permission.objects.filter(codename__in=["change_tool", "view_tool"]))
    send(sign_in(editor), tools, ADD, toolset="", name="Second", confirmed="new:Second")
    assert not Toolset.objects.filter(name="Second").exists()


def test_tools_leave_a_toolset(root: User, tools: list[Tool]) -> None:
    pets = Toolset.objects.create(name="Pets")
    pets.tools.set(tools[:1])
    text = send(sign_in(root), tools, REMOVE, toolset=pets.pk, confirmed=pets.pk)
    assert "1 item taken out of Pets." in text and not pets.tools.exists()


@pytest.mark.parametrize("values", [{"toolset": "", "name": ""}, {"toolset": "999999", "name": ""}, {"toolset": "x"}])
def test_a_choice_that_is_none_changes_nothing(root: User, tools: list[Tool], values: dict[str, str]) -> None:
    text = send(sign_in(root), tools, ADD, **values)
    assert 'id="toolset-members"' in text and 'role="alert"' in text
    assert not Toolset.objects.exists()


def test_a_name_that_another_toolset_has_is_refused(root: User, tools: list[Tool]) -> None:
    Toolset.objects.create(name="Pets")
    text = send(sign_in(root), tools, ADD, toolset="", name="Pets", confirmed="new:Pets")
    assert 'role="alert"' in text and not Tool.objects.filter(toolsets__name="Pets").exists()


def test_without_the_permission_to_change_tools_the_action_is_not_there(tools: list[Tool]) -> None:
    viewer = User.objects.create_user("vera", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_tool"))
    pets = Toolset.objects.create(name="Pets")
    text = send(sign_in(viewer), tools, ADD, toolset=pets.pk, confirmed=pets.pk)
    assert 'id="toolset-members"' not in text and not pets.tools.exists()
