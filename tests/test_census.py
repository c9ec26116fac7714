"""Every address has a declared rule, and does what the rule says to those who may not and to those who may."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client

from audit.integrity import verifier
from tests import census, factories
from tests.census import ABSENT, ANYONE, MACHINE, OWNER, SUPERUSER, Rule
from tests.transports.wire import Wire
from toolhub.hub import Hub

TOKENS = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')
DJANGOS = frozenset(
    {"admin/", "admin/search/", "admin/^(?P<app_label>...)/$", "admin/(?P<url>.*)$"}
    | {"admin/r/<path:content_type_id>/<path:object_id>/"}
)
"""Pages of the admin itself that read a POST as a GET."""


@pytest.fixture
def address_values(alice: User, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    # A check of the chain would outlast its test, and find the database locked by it.
    monkeypatch.setattr(verifier, "start", lambda: True)
    found = census.create_address_values(alice)
    factories.load()
    return found


def browser(user: User | None = None, **options: Any) -> Client:
    client = Client(raise_request_exception=False, **options)
    if user is not None:
        client.force_login(user)
    return client


def permission(name: str) -> Permission:
    app, _, codename = name.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


def staff(name: str, permissions: list[Permission]) -> User:
    user = User.objects.create_user(name, password="correct horse battery", is_staff=True)
    user.user_permissions.set(permissions)
    return user


def reach(client: Client, rule: Rule, address_values: dict[str, Any], method: str) -> HttpResponse:
    """The answer to this method; a form that is sent is empty."""
    send: Callable[..., Any] = client.get if method == "GET" else client.post
    response: HttpResponse = send(rule.path(address_values))
    return response


def is_sent_to_sign_in(response: HttpResponse) -> bool:
    return response.status_code == 302 and response["Location"].startswith(("/sign-in/?next=", "/admin/login/?next="))


def is_denied(response: HttpResponse) -> bool:
    return is_sent_to_sign_in(response) or response.status_code in {401, 403, 404}


def get_page_text(response: HttpResponse) -> bytes:
    """What the page says, without the value that is new on every page."""
    return TOKENS.sub(b"", response.content)


def is_allowed(response: HttpResponse) -> bool:
    return not is_sent_to_sign_in(response) and response.status_code in {200, 301, 302}


def read_row(model: census.Model, address_values: dict[str, Any]) -> Any:
    """The row that the address is about."""
    key = address_values[model.label.replace(".", "_")]
    return list(apps.get_model(model.label)._base_manager.filter(pk=key).values())


def test_every_address_of_django_has_a_row() -> None:
    declared = {rule.route for rule in census.RULES}
    for route in census.routes():
        assert route in declared or census.generated(route), (
            f"The address {route!r} has no row in tests/census.py. Say who may use it: add Rule({route!r}, ...) to "
            "RULES, or a Model to MODELS when the admin makes it for a model."
        )


def test_every_path_of_channels_has_a_row() -> None:
    declared = {endpoint.path for endpoint in census.ENDPOINTS}
    for path in census.channels_paths():
        assert path in declared, f"{path!r} of toolhub/routing.py has no row: add an Endpoint to tests/census.py."


def test_every_row_is_about_an_address_that_exists() -> None:
    routes = set(census.routes())
    assert {rule.route for rule in census.RULES} - routes == set()
    assert {f"admin/{model.label.replace('.', '/')}/" for model in census.MODELS} - routes == set()
    assert {endpoint.path for endpoint in census.ENDPOINTS} - census.channels_paths() == set()


def test_every_row_with_parameters_gives_values_for_them(address_values: dict[str, Any]) -> None:
    for rule in census.every_rule():
        path = rule.path(address_values)
        assert not set(path) & set("<>^$"), (
            f"{rule.route!r} has parameters: give its row at=..., see census.create_address_values."
        )
        if rule.who is OWNER:
            assert rule.path(address_values | ABSENT) != path, (
                f"{rule.route!r} is somebody's own: ABSENT needs the name too."
            )


def test_signed_out_visitors_are_sent_to_the_sign_in(address_values: dict[str, Any]) -> None:
    client, wrong = browser(), []
    for rule in census.every_rule():
        if rule.who in {ANYONE, MACHINE}:
            continue
        for method in rule.methods.split():
            response = reach(client, rule, address_values, method)
            if not (is_sent_to_sign_in(response) or response.status_code in {401, 403}):
                wrong.append(f"{method} {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_charlie_gets_no_page_of_the_staff(address_values: dict[str, Any], charlie: User) -> None:
    client, wrong = browser(charlie), []
    for rule in census.every_rule():
        if not rule.who.is_staff:
            continue
        for method in rule.methods.split():
            response = reach(client, rule, address_values, method)
            if not is_denied(response):
                wrong.append(f"{method} {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_rows_of_alice_read_like_missing_ones_to_charlie_and_to_root(
    address_values: dict[str, Any], charlie: User, root: User
) -> None:
    wrong = []
    for user in (charlie, root):
        client = browser(user)
        for rule in census.every_rule():
            if rule.who is not OWNER or (rule.also and user.has_perm(rule.also)):
                continue
            for method in rule.methods.split():
                hers = reach(client, rule, address_values, method)
                absent = reach(client, rule, address_values | ABSENT, method)
                if hers.status_code != 404 or get_page_text(hers) != get_page_text(absent):
                    wrong.append(
                        f"{method} {rule.path(address_values)} for {user}: {hers.status_code}, {absent.status_code}"
                    )
    assert not wrong, "\n".join(wrong)


def test_staff_with_every_permission_but_the_declared_one_is_refused(address_values: dict[str, Any]) -> None:
    everything = list(Permission.objects.select_related("content_type"))
    clients: dict[str, Client] = {}
    wrong = []
    for rule in census.every_rule():
        for wanted in rule.who.permissions:
            if wanted not in clients:
                missing = {permission(name).pk for name in wanted.split("|")}
                rest = [one for one in everything if one.pk not in missing]
                clients[wanted] = browser(staff(f"without-{len(clients)}", rest))
            for method in rule.methods.split():
                response = reach(clients[wanted], rule, address_values, method)
                if response.status_code != 403:
                    wrong.append(f"{method} {rule.path(address_values)} without {wanted}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_staff_with_every_permission_gets_no_page_of_superusers(address_values: dict[str, Any]) -> None:
    client, wrong = browser(staff("nearly-root", list(Permission.objects.all()))), []
    for rule in census.every_rule():
        if rule.who is SUPERUSER:
            for method in rule.methods.split():
                response = reach(client, rule, address_values, method)
                if response.status_code != 403:
                    wrong.append(f"{method} {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_staff_with_exactly_the_declared_permissions_gets_in(address_values: dict[str, Any], root: User) -> None:
    clients: dict[tuple[str, ...], Client] = {}
    wrong = []
    for rule in census.every_rule():
        offered = census.verb_of(rule.route)
        if not rule.who.is_staff or (offered and offered[1] not in offered[0].verbs.split()):
            continue
        held = tuple(sorted(names.split("|")[0] for names in rule.who.permissions))
        if rule.who is SUPERUSER:
            held = ("superuser",)
        if held not in clients:
            permissions = [permission(name) for name in held if "." in name]
            clients[held] = browser(root if rule.who is SUPERUSER else staff(f"with-{len(clients)}", permissions))
        response = reach(clients[held], rule, address_values, "GET" if "GET" in rule.methods else "POST")
        if not is_allowed(response) and not rule.empty:
            wrong.append(f"{rule.path(address_values)} with {held}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_verbs_missing_from_the_admin_are_missing_for_root_too(address_values: dict[str, Any], root: User) -> None:
    client, wrong = browser(root), []
    for rule in census.every_rule():
        offered = census.verb_of(rule.route)
        if offered is None:
            continue
        model, verb = offered
        if verb not in model.verbs.split() and reach(client, rule, address_values, "POST").status_code != 403:
            wrong.append(f"{rule.path(address_values)}: {verb} is not among the verbs of its row")
        if rule.route.endswith("/change/") and "change" not in model.verbs.split():
            before = read_row(model, address_values)
            if (
                reach(client, rule, address_values, "POST").status_code == 302
                or read_row(model, address_values) != before
            ):
                wrong.append(f"{rule.path(address_values)}: change is not among the verbs of its row")
    assert not wrong, "\n".join(wrong)


def test_addresses_that_change_something_do_not_answer_a_get(
    address_values: dict[str, Any], alice: User, root: User
) -> None:
    wrong = []
    for rule in census.every_rule():
        if "GET" not in rule.methods.split():
            client = browser(root if rule.route.startswith("admin/") else alice)
            response = reach(client, rule, address_values, "GET")
            if response.status_code != 405:
                wrong.append(f"GET {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_a_read_only_page_of_ours_takes_no_post(address_values: dict[str, Any], alice: User, root: User) -> None:
    ours, theirs, wrong = browser(alice), browser(root), []
    for rule in census.every_rule():
        if "POST" not in rule.methods.split() and rule.route not in DJANGOS and not census.generated(rule.route):
            response = reach(theirs if rule.route.startswith("admin/") else ours, rule, address_values, "POST")
            if response.status_code != 405:
                wrong.append(f"POST {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_a_form_without_its_csrf_token_is_refused_whoever_sends_it(
    address_values: dict[str, Any], alice: User, root: User
) -> None:
    ours, theirs, wrong = browser(alice, enforce_csrf_checks=True), browser(root, enforce_csrf_checks=True), []
    for rule in census.every_rule():
        response = reach(theirs if rule.who.is_staff else ours, rule, address_values, "POST")
        if rule.who is not MACHINE and "POST" in rule.methods.split() and response.status_code != 403:
            wrong.append(f"POST {rule.path(address_values)} without a CSRF token: {response.status_code}")
    assert not wrong, "\n".join(wrong)


def test_no_page_and_no_empty_form_is_an_error_of_the_server(
    address_values: dict[str, Any], alice: User, root: User
) -> None:
    clients, wrong = {True: browser(root), False: browser(alice)}, []
    for rule in census.every_rule():
        if rule.route.endswith(("sign-out/", "logout/")):
            continue  # their answer is another test's, and the session would be over
        for method in rule.methods.split():
            if rule.who.is_staff and method == "GET" and not rule.empty:
                continue  # opened by the test above
            response = reach(clients[rule.who.is_staff], rule, address_values, method)
            if response.status_code >= 500:
                wrong.append(f"{method} {rule.path(address_values)}: {response.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("endpoint", census.ENDPOINTS, ids=lambda endpoint: f"{endpoint.kind}:{endpoint.path}")
def test_channels_rejects_anonymous_clients(endpoint: census.Endpoint) -> None:
    async_to_sync(_connect_anonymously)(endpoint)


async def _connect_anonymously(endpoint: census.Endpoint) -> None:
    headers: Any
    if endpoint.kind == "http":
        headers = {"host": "localhost:8000", "content-type": "application/json"}
        method = "GET" if endpoint.who == "anyone" else "POST"
        answer = await Wire(Hub()).send(method, headers, b"{}", path=endpoint.path)
        # A server that is not ready says so to everybody.
        assert answer.status in ({200, 503} if endpoint.who == "anyone" else {401})
        return
    from channels.testing import WebsocketCommunicator

    router = Wire(Hub()).application

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await router(scope, receive, send)

    for origin in ("http://localhost:8000", "https://evil.example.com"):
        headers = [(b"host", b"localhost:8000"), (b"origin", origin.encode())]
        socket = WebsocketCommunicator(application, endpoint.path, headers=headers)
        accepted, _ = await socket.connect(timeout=30)
        assert not accepted, f"{endpoint.path} let {origin} in without a token or a session"
