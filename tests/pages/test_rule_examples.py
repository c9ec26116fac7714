"""Rules by example: three worked examples, the same as in the README, with links for those who may follow them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.real_servers import ROOT

pytestmark = pytest.mark.django_db
PAGE = "/admin/rule-examples/"
FILES = sorted((ROOT / "templates" / "admin" / "pages" / "rule_examples").glob("*.yaml"))


def sign_in(*permissions: str) -> Client:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def read(client: Client) -> str:
    answer: Any = client.get(PAGE)
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize("permission", ["view_grant", "view_limit", "view_approvalrule"])
def test_who_may_view_one_kind_of_rule_reads_all_examples_and_follows_what_they_may_open(permission: str) -> None:
    page = read(sign_in(permission))
    assert page.count('id="example-') == 2 * len(FILES) == 6, "a section and its title each"
    assert "/admin/catalog/grant/add/" not in page and "/admin/view-as/" not in page
    assert "/admin/trials/" in page


def test_links_lead_to_the_forms(admin_client: Client) -> None:
    page = read(admin_client)
    for kind in ("grant", "approvalrule", "limit"):
        assert f'href="/admin/catalog/{kind}/add/"' in page
    assert 'href="/admin/view-as/"' in page


def test_who_views_no_rules_has_no_such_page() -> None:
    assert sign_in("view_tool").get(PAGE).status_code == 403


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_files_are_those_of_the_readme(file: Path, admin_client: Client) -> None:
    text = file.read_text(encoding="utf-8")
    assert f"```yaml\n{text}```" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert text in read(admin_client)


def test_the_lists_of_rules_lead_to_them(admin_client: Client) -> None:
    for kind in ("grant", "limit", "approvalrule"):
        assert PAGE in admin_client.get(f"/admin/catalog/{kind}/").content.decode()
