"""Private networks of upstream servers: opened with a permission, and never beyond the operator's list."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management import CommandError, call_command
from django.db import connection as database
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import reverse

from audit.actions import actor
from catalog.models import Upstream
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import discovery
from tests.runners.upstream import Upstream as Server
from toolhub import egress

OPERATORS = ["10.0.0.0/8", "192.168.1.0/24:8080", "127.0.0.0/8", "fd00::/8"]
NEEDS = "You need the permission &quot;Can open private networks to upstream servers&quot;"
BEYOND = "TOOLHUB_ALLOW_PRIVATE_NETWORKS does not include"


@pytest.fixture(autouse=True)
def operators_list(settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = OPERATORS


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server().running() as started:
        yield started


def staff(name: str, *permissions: str) -> User:
    user = User.objects.create_user(name, password="correct horse battery", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.fixture
def editor(db: None) -> User:
    """She may save upstream servers, and may not open private networks."""
    return staff("ed", "view_upstream", "add_upstream", "change_upstream")


@pytest.fixture
def opener(db: None) -> User:
    """He may open them as well."""
    return staff("kim", "view_upstream", "add_upstream", "change_upstream", "open_private_networks")


def make_upstream(**fields: Any) -> Upstream:
    made = Upstream(**{"name": "forge", "url": "https://mcp.example.com/mcp", "timeout": 120.0, **fields})
    made.full_clean()
    made.save()
    return made


def save(user: User, row: Upstream | None = None, **changes: Any) -> str:
    """What the form of the admin answers; empty when it was saved."""
    form = {"name": "forge", "transport": "streamable_http", "url": "https://mcp.example.com/mcp", "separator": "_"}
    form |= {"timeout": "30", "args": "[]", "env": "{}", "headers": "{}", "allowed_networks": "[]"}
    form |= {"refresh_seconds": "300", "enabled": "on"}
    form |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in changes.items()}
    client = Client()
    client.force_login(user)
    address = reverse("admin:catalog_upstream_change", args=[row.pk]) if row else reverse("admin:catalog_upstream_add")
    answer = client.post(address, form)
    return "" if answer.status_code == 302 else str(answer.context["adminform"].form.errors)


# --- who -------------------------------------------------------------------------------------------------------------


def test_an_editor_cannot_open_a_private_network_for_herself(editor: User, opener: User) -> None:
    """What was measured: an editor listed 127.0.0.0/8, and the hub's own machine answered."""
    refused = save(editor, allowed_networks=["10.1.2.0/24"])
    assert NEEDS in refused and "10.1.2.0/24" in refused and not Upstream.objects.exists()
    assert save(editor) == ""
    row = Upstream.objects.get()
    assert NEEDS in save(editor, row, allowed_networks=["10.1.2.0/24"])
    assert save(opener, row, allowed_networks=["10.1.2.0/24"]) == ""
    row.refresh_from_db()
    assert row.allowed_networks == ["10.1.2.0/24"]


@pytest.mark.parametrize(
    ("networks", "allowed"),
    [
        (["10.1.2.0/24:8080", "10.1.3.0/24"], True),
        (["10.1.3.0/24", "10.1.2.0/24:8080"], True),
        (["10.1.3.0/25:443"], True),
        ([], True),
        (["10.1.2.0/24"], False),
        (["10.1.2.0/24:8081"], False),
        (["10.1.2.0/23:8080"], False),
        (["10.1.3.0/24", "fd00::/64"], False),
    ],
)
def test_an_editor_can_keep_and_narrow_what_another_opened_and_not_widen_it(
    editor: User, networks: list[str], allowed: bool
) -> None:
    row = make_upstream(allowed_networks=["10.1.2.0/24:8080", "10.1.3.0/24"])
    assert (save(editor, row, allowed_networks=networks, timeout="31") == "") is allowed
    row.refresh_from_db()
    assert (row.timeout == 31.0) is allowed


def test_an_editor_cannot_move_an_upstream_server_within_a_network_that_another_opened(
    editor: User, opener: User
) -> None:
    networks = ["10.1.2.0/24"]
    row = make_upstream(url="http://10.1.2.3:8080/mcp", allowed_networks=networks)
    moved = {"url": "http://10.1.2.4:8080/mcp", "allowed_networks": networks}
    assert save(editor, row, url="http://10.1.2.3:8080/other", allowed_networks=networks) == ""
    assert NEEDS in save(editor, row, **moved)
    assert NEEDS in save(editor, row, **moved, transport="sse")
    assert save(editor, row, url="https://mcp.example.com/mcp", allowed_networks=[]) == ""
    assert NEEDS in save(editor, row, url="http://10.1.2.3:8080/mcp", allowed_networks=networks)
    assert save(opener, row, **moved) == ""


def test_the_model_refuses_a_user_whom_the_form_let_through(editor: User, opener: User, rf: Any) -> None:
    row = make_upstream()
    for user, refused in ((editor, True), (opener, False)):
        request = rf.post("/")
        request.user = user

        def widen(_: HttpRequest) -> HttpResponse:
            row.allowed_networks = ["10.1.2.0/24"]
            row.save()
            return HttpResponse()

        if refused:
            with pytest.raises(PermissionDenied, match="Can open private networks"):
                actor.ActorMiddleware(widen)(request)
        else:
            actor.ActorMiddleware(widen)(request)
    row.refresh_from_db()
    assert row.allowed_networks == ["10.1.2.0/24"]


# --- how far ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "network",
    [
        *("0.0.0.0/0", "10.0.0.0/7", "172.16.0.0/12", "192.168.1.0/24", "192.168.1.0/24:8081", "192.168.0.0/16:8080"),
        *("::/0", "fc00::/7", "::1/128", "169.254.169.254/32", "[fe80::/10]:443"),
    ],
)
def test_nobody_opens_more_than_the_operator_allows(network: str, opener: User, root: User) -> None:
    for user in (opener, root):
        refused = save(user, allowed_networks=["10.1.0.0/16", network])
        assert BEYOND in refused and network in refused and "10.1.0.0/16" not in refused
    with pytest.raises(ValidationError, match=BEYOND):  # a command, too
        make_upstream(allowed_networks=[network])


@pytest.mark.parametrize(
    "network",
    ["10.0.0.0/8", "10.1.2.3/32:8080", "192.168.1.0/24:8080", "192.168.1.7:8080", "fd00::5/128", "[fd00::/9]:1"],
)
def test_whatever_lies_within_the_operators_list_can_be_opened(network: str, opener: User) -> None:
    assert save(opener, allowed_networks=[network]) == ""


@pytest.mark.parametrize(
    ("entered", "stored"),
    [
        ("127.0.0.0/8", ["127.0.0.0/8"]),
        ("127.0.0.0/8:8510, 10.1.2.3/32", ["127.0.0.0/8:8510", "10.1.2.3/32"]),
        ("[fd00::/9]:443, fd00::5/128", ["[fd00::/9]:443", "fd00::5/128"]),
        ('["10.0.0.0/8"]', ["10.0.0.0/8"]),
        ("", []),
    ],
)
def test_networks_are_entered_with_commas_or_as_json(entered: str, stored: list[str], opener: User) -> None:
    assert save(opener, allowed_networks=entered) == ""
    row = Upstream.objects.get()
    assert row.allowed_networks == stored
    client = Client()
    client.force_login(opener)
    page = client.get(reverse("admin:catalog_upstream_change", args=[row.pk])).content.decode()
    assert f'name="allowed_networks" value="{", ".join(stored)}"' in page or not stored
    assert save(opener, row, allowed_networks=", ".join(stored)) == ""


@pytest.mark.parametrize("entered", ["[1]", "localhost", "10.0.0.0/8:x", "[fd00::/8", "10.1.2.3/8", '{"a": 1}'])
def test_what_is_no_network_is_refused_on_the_page(entered: str, opener: User) -> None:
    assert save(opener, allowed_networks=entered) != "" and not Upstream.objects.exists()


def test_the_allowed_part_of_a_network_is_named_to_who_may_open_it(editor: User, opener: User) -> None:
    part = "It includes this part, which you can enter: 192.168.1.0/24:8080."
    assert part in save(opener, allowed_networks="192.168.1.0/24")
    refused = save(editor, allowed_networks="0.0.0.0/0")
    assert BEYOND in refused and "192.168.1.0" not in refused


@pytest.mark.django_db
def test_an_imported_file_opens_no_more_either(tmp_path: Any) -> None:
    file = tmp_path / "catalogue.yaml"
    entry = "{name: forge, url: 'https://mcp.example.com/mcp', allowed_networks: [%s]}"
    file.write_text("toolhub: 1\nupstreams:\n  - " + entry % "172.16.0.0/12")
    with pytest.raises(
        CommandError, match=r"allowed_networks: TOOLHUB_ALLOW_PRIVATE_NETWORKS does not include 172\.16"
    ):
        call_command("importtools", str(file))
    assert not Upstream.objects.exists()
    file.write_text("toolhub: 1\nupstreams:\n  - " + entry % "10.2.0.0/16")
    call_command("importtools", str(file))
    assert Upstream.objects.get().allowed_networks == ["10.2.0.0/16"]


@pytest.mark.django_db(transaction=True)
def test_both_lists_hold_at_every_connection(server: Server, settings: Any) -> None:
    row = make_upstream(url=server.url, allowed_networks=["127.0.0.0/8"])

    def refuse() -> str:
        with pytest.raises(UpstreamError) as refused:
            discovery.discover(row, None, "tested")
        assert str(refused.value) == f"The upstream server forge cannot be reached: {egress.DeniedAddress.SENTENCE}."
        return refused.value.localized_message

    discovery.discover(row, None, "tested")
    before = len(server.ledger)
    for operators, own in (
        ([], ["127.0.0.0/8"]),
        ([f"127.0.0.0/8:{server.port + 1}"], ["127.0.0.0/8"]),
        (["10.0.0.0/8"], ["127.0.0.0/8"]),
        (["127.0.0.0/8"], []),
        (["127.0.0.0/8"], ["127.0.0.0/8:1"]),
        (["127.0.0.0/8"], ["10.0.0.0/8"]),
    ):
        settings.ALLOW_PRIVATE_NETWORKS = operators
        Upstream.objects.update(allowed_networks=own)  # past the form, or from before the list was shortened
        row.refresh_from_db()
        said = refuse()
        assert "Add its network to TOOLHUB_ALLOW_PRIVATE_NETWORKS" in said, (operators, own)
        assert "The allowed networks of the upstream server must include it as well" in said
    assert len(server.ledger) == before
    settings.ALLOW_PRIVATE_NETWORKS = [f"127.0.0.1/32:{server.port}"]
    Upstream.objects.update(allowed_networks=["0.0.0.0/0"])
    row.refresh_from_db()
    assert discovery.discover(row, None, "tested").tools


def test_the_common_part_of_two_lists_covers_what_both_cover() -> None:
    wide = egress.parse_allowed(["10.0.0.0/8", "192.168.0.0/16:8080", "fd00::/8"])
    for own, common in (
        (["10.1.0.0/16"], ["10.1.0.0/16"]),
        (["0.0.0.0/0"], ["10.0.0.0/8", "192.168.0.0/16:8080"]),
        (["0.0.0.0/0:443"], ["10.0.0.0/8:443"]),
        (["192.168.3.0/24"], ["192.168.3.0/24:8080"]),
        (["[::/0]:1"], ["[fd00::/8]:1"]),
        (["172.16.0.0/12"], []),
        ([], []),
    ):
        found = egress.intersect(egress.parse_allowed(own), wide)
        assert [str(one) for one in found] == common
        assert set(found) == set(egress.intersect(wide, egress.parse_allowed(own)))


# --- after an upgrade ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_upgrade_keeps_upstream_servers_reachable() -> None:
    for name, fields in (
        ("open", {}),
        ("listed", {"allowed_networks": ["10.0.0.0/8", "172.16.0.0/12"]}),
        ("program", {"transport": "stdio", "url": "", "command": "x"}),
    ):
        Upstream.objects.create(**{"name": name, "url": "https://mcp.example.com/mcp", **fields})
    migration = importlib.import_module("catalog.migrations.0003_private_networks")
    migration.list_operators_networks(apps, SimpleNamespace(connection=database))
    assert {row.name: row.allowed_networks for row in Upstream.objects.all()} == {
        "open": OPERATORS,
        "listed": ["10.0.0.0/8", "172.16.0.0/12", *OPERATORS[1:]],
        "program": [],
    }
