"""The longest names, without spaces, with spaces and in Chinese: no page scrolls sideways, no column is broad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
LISTS = (
    *("auth/user", "auth/group", "access/accesstoken", "catalog/tool", "catalog/toolset", "catalog/resource"),
    *("catalog/prompt", "catalog/grant", "catalog/limit", "audit/call", "audit/action", "audit/verification"),
)
COLUMNS = """() => {
  const table = document.getElementById("result_list");
  if (!table || table.scrollWidth <= table.parentElement.clientWidth) return [];
  return [...table.querySelectorAll("th, td")]
    .map((cell) => cell.getBoundingClientRect().width).filter((width) => width > 16 * 15 + 1);
}"""
TALL = """() => [...document.querySelectorAll("#result_list tbody tr")]
  .map((row) => row.getBoundingClientRect().height).filter((height) => height > 120)"""


def fill() -> dict[str, Any]:
    from django.contrib.auth.models import User

    from tests import factories
    from tests.audit import rows
    from toolhub.access.models import AccessToken

    root = User.objects.create_superuser("root", password=seed.PASSWORD)
    people = []
    for number, text in enumerate(("n" * 200, "quarterly revenue " * 11, "季度收入报告" * 33)):
        name = f"{number}{text.replace(' ', '_')}"
        person = User.objects.create_user(name[:150], first_name=text[:150], email=f"{'e' * 180}@example.com")
        toolset = factories.make_toolset(name[:100])
        tool = factories.make_tool(f"t{number}_{'n' * 120}", toolset=toolset, title=text[:200])
        factories.grant(factories.make_group(text[:150], [person, root]), toolset, note=text[:200])
        factories.grant(person, tool)
        factories.limit("6/m", tool)
        factories.make_resource(f"docs://{number}{'r' * 180}", title=text[:200])
        factories.make_prompt(f"p{number}{'n' * 100}", title=text[:200])
        AccessToken.objects.issue(person, text[:100])
        rows.save(rows.build_call(number, user=person, name=tool.name, client_name=text[:100]))
        people.append(person.pk)
    factories.load()
    return {"person": people[0], "name": User.objects.get(pk=people[0]).username}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=fill) as hub:
        yield hub


@pytest.mark.parametrize("width", [390, 1280])
def test_long_names_make_no_page_wide_and_no_column_broad(hub: Hub, window: Callable[..., Window], width: int) -> None:
    root = window(viewport={"width": width, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/")
    person = hub.seeded["person"]
    paths = [f"/admin/{name}/" for name in LISTS]
    paths += ["/admin/access/matrix/", f"/admin/view-as/?user={hub.seeded['name']}", "/admin/search/?q=n"]
    paths += [f"/admin/auth/user/{person}/change/", f"/admin/auth/user/{person}/delete/"]
    wrong = []
    for path in paths:
        page = root.open(path)
        wrong.append(root.too_wide())
        if width == 1280 and path in {f"/admin/{name}/" for name in LISTS if not name.startswith("audit/")}:
            wrong += [f"{path}: a column of {broad} px" for broad in page.evaluate(COLUMNS)]
            wrong += [f"{path}: a row of {tall} px" for tall in page.evaluate(TALL)]
    assert [problem for problem in wrong if problem] == []
    page = root.open("/admin/catalog/tool/")
    full = page.locator(".th-cut").first
    assert full.get_attribute("title") == full.text_content().strip()
