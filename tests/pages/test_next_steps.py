"""The next steps on Overview: who sees which, and what makes each of them done."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone

from catalog.examples import catalogue
from catalog.models import Grant, Tool, Toolset
from tests import factories
from tests.database_work import count_instructions
from toolhub.access.models import AccessToken, Preference
from toolhub.identity.models import Provider
from toolhub.oauth.models import Client as OAuthClient
from toolhub.oauth.models import ConnectedApp
from toolhub.pages import next_steps
from toolhub.pages.models import BackupConfirmation
from toolhub.people import invitations

pytestmark = pytest.mark.django_db
HIDE, SHOW = "/admin/checklist/hide/", "/admin/checklist/show/"
BARE = ["Add a tool", "Give access", "Invite people", "Connect a client", "Set an external checkpoint", "Back up"]
"""The steps of root in an empty database."""


def list_steps(client: Client) -> dict[str, bool]:
    """The steps that the page shows, in order: whether each is done."""
    html = client.get("/admin/").content.decode()
    part = html.partition('id="next-steps"')[2].partition("</ol>")[0]
    items = part.split("<li")[1:]
    return {re.findall(r"<a [^>]*>(.*?)</a>", item)[0]: "Done" in item for item in items}


def find_link(client: Client, title: str) -> str:
    found = re.search(rf'href="([^"]*)">{title}</a>', client.get("/admin/").content.decode())
    assert found is not None
    return unescape(found[1])


def staff(*permissions: str) -> Client:
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def load_examples(settings: Any, folder: Path) -> User:
    """What quickstart brings: the demo user with a token, who was granted the examples."""
    settings.WORKSPACE_DIR = folder / "workspace"
    demo = User.objects.create_user("demo")
    AccessToken.objects.issue(demo, next_steps.QUICKSTART_TOKEN)
    catalogue.load("demo")
    return demo


@pytest.mark.parametrize(
    ("permissions", "steps"),
    [
        ((), []),
        (("view_call", "view_verification", "view_tool", "view_grant"), []),
        (("add_tool",), ["Add a tool", "Connect a client"]),
        (("add_grant",), ["Give access", "Connect a client"]),
        (("add_user",), ["Invite people"]),
        (("manage_backups",), ["Set an external checkpoint", "Back up"]),
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_staff_see_the_steps_that_they_may_take(permissions: tuple[str, ...], steps: list[str]) -> None:
    assert list(list_steps(staff(*permissions))) == steps


def test_an_administrator_of_an_empty_hub_sees_every_step_open_and_each_link_works(browser: Client) -> None:
    assert list_steps(browser) == dict.fromkeys(BARE, False)
    for title in BARE:
        address = find_link(browser, title)
        page = browser.get(address)
        assert page.status_code == 200, address
        if fragment := urlsplit(address).fragment:
            assert f'id="{fragment}"' in page.content.decode()


def test_what_quickstart_brings_makes_no_step_done_and_the_examples_come_first(
    browser: Client, root: User, settings: Any, tmp_path: Path
) -> None:
    load_examples(settings, tmp_path)
    AccessToken.objects.update(last_used=timezone.now())
    assert list_steps(browser) == {
        "Give access": False,
        "Connect a client": False,
        "Add a tool of your own": False,
        "Invite people": False,
        "Set an external checkpoint": False,
        "Back up": False,
    }
    query = parse_qs(urlsplit(find_link(browser, "Give access")).query)
    assert query == {"toolset": [str(Toolset.objects.get(name="Examples").pk)], "user": [str(root.pk)]}
    form = browser.get(find_link(browser, "Give access")).content.decode()
    assert re.search(rf'<option value="{root.pk}" selected>root</option>', form)
    assert re.search(r'<option value="\d+" selected>Examples</option>', form)


def test_a_tool_of_ones_own_or_a_changed_example_counts(browser: Client, settings: Any, tmp_path: Path) -> None:
    load_examples(settings, tmp_path)
    Tool.objects.filter(name="calculate_sum").update(title="Sums", enabled=False, position=7)
    assert list_steps(browser)["Add a tool of your own"] is False, "only how it is shown was changed"
    Tool.objects.filter(name="calculate_sum").update(destructive=True)
    assert list_steps(browser)["Add a tool of your own"] is True
    Tool.objects.all().delete()
    assert list_steps(browser)["Add a tool"] is False
    factories.make_tool("mine")
    assert list_steps(browser)["Add a tool"] is True


def test_giving_access_starts_with_the_newest_tool_of_ones_own_that_nobody_has(
    browser: Client, alice: User, settings: Any, tmp_path: Path
) -> None:
    load_examples(settings, tmp_path)
    first, second = factories.make_tool("mine"), factories.make_tool("mine_too", toolset="Mine")

    def choice() -> dict[str, list[str]]:
        address = urlsplit(find_link(browser, "Give access"))
        assert address.path == "/admin/access/give/"
        return parse_qs(address.query)

    assert choice() == {"what": [f"tool:{second.pk}"], "place": ["overview"]}
    factories.grant(factories.make_group("empty"), second.toolsets.get())
    assert choice() == {"what": [f"tool:{first.pk}"], "place": ["overview"]}
    factories.deny(alice, first)
    assert choice() == {"place": ["overview"]}


def test_without_the_permissions_of_the_form_giving_access_leads_to_the_page_of_a_grant() -> None:
    factories.make_tool("mine")
    giver = staff("add_grant")
    assert urlsplit(find_link(giver, "Give access")).path == "/admin/catalog/grant/add/"


def test_a_grant_counts_when_it_reaches_somebody_beside_demo(browser: Client, root: User, alice: User) -> None:
    demo, tool = User.objects.create_user("demo"), factories.make_tool()
    team = Group.objects.create(name="team")
    factories.grant(demo, tool)
    factories.deny(alice, tool)
    mine = Grant.objects.create(tool=tool, group=team)
    demo.groups.add(team)

    def given() -> bool:
        return list_steps(browser)["Give access"]

    assert not given()
    alice.groups.add(team)
    assert given()
    alice.is_active = False
    alice.save()
    assert not given(), "nobody can use it"
    root.groups.add(team)
    assert given()
    for change, counts in (
        ({"ends": timezone.now() - timedelta(hours=1), "starts": None}, False),
        ({"ends": None, "starts": timezone.now() + timedelta(hours=1)}, True),
        ({"starts": None, "environments": ["elsewhere"]}, False),
        ({"environments": ["elsewhere", "development"]}, True),
        ({"environments": [], "group": None, "everyone": True}, True),
    ):
        Grant.objects.filter(pk=mine.pk).update(**change)
        assert given() is counts, change


def invite(root: User) -> None:
    invitations.invite(root, invitations.Person(email="ada@example.com", groups=()))


def make_provider(slug: str = "sso", *, enabled: bool = True) -> Provider:
    return Provider.objects.create(slug=slug, name=slug, issuer=f"https://{slug}.example", enabled=enabled)


@pytest.mark.parametrize(
    "act",
    [lambda root: User.objects.create_user("alice"), invite, lambda root: make_provider()],
    ids=["a person", "an invitation", "an identity provider"],
)
def test_people_are_invited_when_there_is_another_person_or_a_way_in(
    browser: Client, root: User, act: Callable[[User], object]
) -> None:
    User.objects.create_user("demo")
    User.objects.create_user("left", is_active=False)
    make_provider("off", enabled=False)
    assert list_steps(browser)["Invite people"] is False
    act(root)
    assert list_steps(browser)["Invite people"] is True


def test_without_local_passwords_the_step_leads_to_identity_providers(browser: Client, settings: Any) -> None:
    settings.LOCAL_PASSWORDS = False
    assert find_link(browser, "Invite people") == "/admin/identity/provider/"
    assert list_steps(staff("add_user")) == {}, "who may not add a provider can do nothing there"


def test_a_client_is_connected_when_it_used_a_token_or_signed_in(browser: Client, alice: User) -> None:
    token, _ = AccessToken.objects.issue(alice, next_steps.QUICKSTART_TOKEN)
    assert list_steps(browser)["Connect a client"] is False, "a token that was never used proves nothing"
    AccessToken.objects.filter(pk=token.pk).update(last_used=timezone.now())
    assert list_steps(browser)["Connect a client"] is True, "only the demo user has the token of quickstart"
    token.delete()
    expires = timezone.now() + timedelta(days=1)
    app = ConnectedApp.objects.create(user=alice, client=OAuthClient.objects.create(name="Laptop"), expires=expires)
    assert list_steps(browser)["Connect a client"] is False, "its client never fetched the tokens"
    app.activated = timezone.now()
    app.save()
    assert list_steps(browser)["Connect a client"] is True


def test_the_last_two_steps_follow_the_setting_and_the_confirmation(browser: Client, settings: Any) -> None:
    settings.CHECKPOINT_FILE = "/mnt/elsewhere/checkpoints.jsonl"
    assert list_steps(browser)["Set an external checkpoint"] is True
    BackupConfirmation.objects.create(pk=BackupConfirmation.ONLY, confirmed_by="root")
    assert list_steps(browser)["Back up"] is True


def finish(settings: Any, alice: User) -> None:
    """Take every step."""
    settings.CHECKPOINT_FILE = "/mnt/elsewhere/checkpoints.jsonl"
    BackupConfirmation.objects.create(pk=BackupConfirmation.ONLY, confirmed_by="root")
    factories.grant(alice, factories.make_tool("mine"))
    AccessToken.objects.issue(alice, "laptop")
    AccessToken.objects.update(last_used=timezone.now())


def test_the_card_disappears_when_everything_is_done(browser: Client, alice: User, settings: Any) -> None:
    finish(settings, alice)
    assert "next-steps" not in browser.get("/admin/").content.decode()
    Preference.objects.create(user=User.objects.get(username="root"), checklist_hidden=True)
    assert "next-steps" not in browser.get("/admin/").content.decode(), "there is nothing left to show again"


def test_everybody_hides_the_steps_for_themselves_and_shows_them_again(browser: Client) -> None:
    other = staff("add_tool")
    page = browser.post(HIDE, follow=True).content.decode()
    assert "Show next steps" in page and "1 of 6 done" in page and list_steps(browser) == {}
    assert list_steps(other) == {"Add a tool": False, "Connect a client": False}
    browser.post("/account/", {"first_name": "Root", "last_name": "", "language": "", "time_zone": ""})
    assert list_steps(browser) == {}, "saving the account leaves the choice as it is"
    browser.post(SHOW)
    assert list(list_steps(browser)) == BARE


@pytest.mark.parametrize("address", [HIDE, SHOW])
def test_hiding_takes_a_post_by_staff(browser: Client, alice: User, address: str) -> None:
    assert browser.get(address).status_code == 405
    assert Client(enforce_csrf_checks=True).post(address).status_code in {302, 403}
    client = Client()
    client.force_login(alice)
    assert client.post(address).status_code != 200
    assert not Preference.objects.exists()


def test_the_steps_cost_two_queries(browser: Client, root: User, settings: Any, tmp_path: Path) -> None:
    from django.db import connection
    from django.test import RequestFactory
    from django.test.utils import CaptureQueriesContext

    load_examples(settings, tmp_path)
    request = RequestFactory().get("/admin/")
    request.user = root
    with CaptureQueriesContext(connection) as captured:
        assert next_steps.find(request) is not None
    assert len(captured) == 2


def test_the_steps_compare_no_tool_with_the_grants_of_the_others(browser: Client, root: User) -> None:
    from django.test import RequestFactory

    request = RequestFactory().get("/admin/")
    request.user = root

    def add_granted(numbers: range) -> None:
        tools = Tool.objects.bulk_create([Tool(name=f"granted_{number}", description="Granted.") for number in numbers])
        Grant.objects.bulk_create([Grant(tool=tool, everyone=True) for tool in tools])

    add_granted(range(100))
    few = count_instructions(lambda: next_steps.find(request))
    add_granted(range(100, 800))
    many = count_instructions(lambda: next_steps.find(request))
    assert many < 16 * few
