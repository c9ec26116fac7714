"""The remaining examples are granted to the demo user with one click, except what could do harm."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from catalog.examples import catalogue
from catalog.models import Grant, Tool
from catalog.policy import visibility
from tests import factories

pytestmark = pytest.mark.django_db
GRANT = "/admin/examples/grant/"
WEB = {"github_create_issue", "list_repos", "search_github", "web_search"}


@pytest.fixture(autouse=True)
def examples(settings: Any, tmp_path: Path) -> None:
    settings.WORKSPACE_DIR = tmp_path / "workspace"
    settings.COMMANDS = ["date", "uname", "wc", "ls"]
    settings.EMAIL_HOST = "mail.example.com"
    User.objects.create_user("demo")
    catalogue.load("demo")


def seen() -> set[str]:
    factories.load()
    demo = User.objects.get(username="demo")
    return set(visibility.for_credential(visibility.page_credential(demo.pk)).tools)


def test_staff_without_the_permission_for_grants_neither_see_nor_do_it(client: Client) -> None:
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_tool"))
    client.force_login(user)
    assert "Grant them to demo" not in client.get("/admin/").content.decode()
    assert client.post(GRANT).status_code == 403 and not seen() & WEB


def test_one_click_grants_the_rest_and_nothing_that_could_do_harm(client: Client, root: User) -> None:
    client.force_login(root)
    page = client.get("/admin/").content.decode()
    assert "4 harmless examples are not granted to demo" in page and "Grant them to demo" in page
    before = seen()
    assert "Granted to demo: " in client.post(GRANT, follow=True).content.decode()
    assert seen() - before == WEB
    assert not seen() & {"delete_file", "write_file", "upsert_record", "send_email", "execute_command"}
    assert "Grant them to demo" not in client.get("/admin/").content.decode()
    count = Grant.objects.count()
    assert "no example left" in client.post(GRANT, follow=True).content.decode() and Grant.objects.count() == count


def test_what_somebody_decided_or_changed_is_left_alone(client: Client, root: User) -> None:
    factories.deny(User.objects.get(username="demo"), Tool.objects.get(name="web_search"))
    changed = Tool.objects.get(name="search_github")
    changed.settings = {**changed.settings, "url": "https://evil.example/"}
    changed.save()
    Tool.objects.filter(name="list_repos").update(enabled=False)
    Tool.objects.filter(name="github_create_issue").update(destructive=True)
    client.force_login(root)
    client.post(GRANT)
    assert not seen() & WEB


def test_a_grant_that_does_not_apply_now_is_a_decision_too(client: Client, root: User) -> None:
    demo, now = User.objects.get(username="demo"), timezone.now()
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in=WEB)}
    day = (now + timedelta(days=3)).strftime("%a").lower()
    factories.grant(demo, tools["web_search"], flags=["beta"])
    factories.grant(demo, tools["search_github"], ends=now)
    factories.grant(demo, tools["list_repos"], windows=[{"days": [day], "from": "00:00", "to": "24:00", "zone": "UTC"}])
    factories.grant(None, tools["github_create_issue"], starts=now + timedelta(days=1))
    client.force_login(root)
    client.post(GRANT)
    assert not seen() & WEB


def test_without_a_demo_user_there_is_nothing_to_grant(client: Client, root: User) -> None:
    User.objects.filter(username="demo").delete()
    client.force_login(root)
    assert "Grant them to" not in client.get("/admin/").content.decode()
    assert "no example left" in client.post(GRANT, follow=True).content.decode()
