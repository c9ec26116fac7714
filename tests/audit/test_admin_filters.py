"""Filters by a related row: few are links, many are one list to choose from."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit import admin_filters
from catalog.models import Toolset
from tests import factories

pytestmark = pytest.mark.django_db
TOOLS = "/admin/catalog/tool/"


def list_names(html: str) -> list[str]:
    """The tools in the list, in order."""
    rows = html.partition('id="result_list"')[2]
    return re.findall(r'/admin/catalog/tool/\d+/change/[^"]*"[^>]*>\s*([a-z_]+)\s*<', rows)


def make_many_toolsets() -> None:
    Toolset.objects.bulk_create([Toolset(name=f"Set {number}") for number in range(admin_filters.MAX_LINKS + 200)])


def test_a_few_toolsets_are_links(browser: Client) -> None:
    toolset = factories.make_toolset("Numbers")
    page = browser.get(TOOLS).content.decode()
    assert f'href="?toolsets__id__exact={toolset.pk}"' in page
    assert "<option" not in page.partition('id="changelist-filter"')[2]


def test_many_toolsets_are_one_list_that_keeps_the_other_filters(browser: Client) -> None:
    toolset = factories.make_toolset("Numbers & more")
    before = len(browser.get(TOOLS).content)
    make_many_toolsets()
    answer = browser.get(TOOLS, {"enabled__exact": "1", "q": "a<b", "toolsets__id__exact": str(toolset.pk)})
    page = answer.content.decode()
    part = page.partition('id="changelist-filter"')[2]
    assert f'href="?toolsets__id__exact={toolset.pk}"' not in page
    assert f'<option value="{toolset.pk}" selected>Numbers &amp; more</option>' in part
    assert part.count("<option") == admin_filters.MAX_LINKS + 203, "all, none, and each toolset"
    kept = dict(re.findall(r'<input name="(\w+)" type="hidden" value="([^"]*)">', part))
    assert {name: unescape(value) for name, value in kept.items()} == {"enabled__exact": "1", "q": "a<b"}
    assert len(answer.content) - before < 100 * (admin_filters.MAX_LINKS + 200), "bytes for each toolset"


@pytest.mark.parametrize("many", [False, True])
def test_a_toolset_or_none_chooses_its_tools_once_each(browser: Client, many: bool) -> None:
    if many:
        make_many_toolsets()
    toolset = factories.make_toolset("Numbers")
    for name in ("first", "second"):
        factories.make_tool(name, toolset=toolset).toolsets.add(factories.make_toolset(f"Other {name}"))
    factories.make_tool("outside")
    found = {
        chosen: list_names(browser.get(TOOLS, {"toolsets__id__exact": chosen}).content.decode())
        for chosen in ("", str(toolset.pk), "none", "0", "abc", "9" * 17, "9" * 5000)
    }
    assert found == {
        "": ["first", "outside", "second"],
        str(toolset.pk): ["first", "second"],
        "none": ["outside"],
        "0": [],
        "abc": [],
        "9" * 17: [],
        "9" * 5000: [],
    }


def test_no_row_is_compared_with_the_others_to_find_it_once(browser: Client, alice: User) -> None:
    group = Group.objects.create(name="Team")
    alice.groups.add(group)
    factories.make_tool("first", toolset=factories.make_toolset("Numbers"))
    for address in (f"{TOOLS}?toolsets__id__exact=1", f"/admin/auth/user/?groups__id__exact={group.pk}"):
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(address).status_code == 200
        distinct = [row["sql"] for row in captured if "DISTINCT" in row["sql"]]
        assert [sql for sql in distinct if "catalog_tool_toolsets" in sql or "auth_user_groups" in sql] == [], address


def test_choices_have_their_numbers_on_request(browser: Client) -> None:
    toolset = factories.make_toolset("Numbers")
    other = factories.make_toolset("Empty")
    for name in ("first", "second"):
        factories.make_tool(name, toolset=toolset)
    factories.make_tool("outside")
    make_many_toolsets()
    page = browser.get(TOOLS, {"_facets": "True", "toolsets__id__exact": str(other.pk)}).content.decode()
    assert "Numbers (2)</option>" in page
    assert "Empty (0)</option>" in page
    assert "none (1)</option>" in page
