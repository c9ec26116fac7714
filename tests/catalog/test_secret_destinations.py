"""No configuration moves a secret: who decides where it goes, the hosts it is bound to, and the word of its owner."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection as database
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel

from audit import outcomes
from audit.actions import actor
from audit.types import Caller
from catalog import checks, encryption, host_patterns, quarantine
from catalog.advice.tools import check_tool
from catalog.calls import call_tool
from catalog.models import ImportedDocument, PersonalSecret, Secret, Tool, Upstream
from catalog.runners import registry, secret_refs
from catalog.runners.base import Runner
from catalog.runners.command.settings import Settings as CommandSettings
from catalog.runners.destinations import MAX_LABEL_CHARACTERS, origin
from catalog.runners.settings_errors import SettingsProblem
from catalog.runners.upstream_mcp import connection
from catalog.upstreams import schedule
from tests import factories
from tests.catalog.local_api import Api
from tests.catalog.local_api import api as api
from tests.catalog.pipeline import HANDSHAKE, RecordingChannel, call, only_logged_call, run_in_database, text
from tests.catalog.test_admin import errors, tool_form
from tests.catalog.test_secrets import make_personal, make_shared
from tests.client import HttpClient
from tests.polling import wait_until_async
from tests.real_servers import Hub
from tests.runners.harness import make_script
from tests.runners.upstream import Upstream as Server
from toolhub.access import bearer
from toolhub.access.models import AccessToken
from toolhub.pages.try_it.run import TryRequest

GITHUB = "https://api.github.com"
EVIL = "https://evil.example"
NEEDS = "You need the permission"
TOKEN = {"secret": "api_key", "prefix": "Bearer "}
BEARER = {"Authorization": TOKEN}
HTTP: dict[str, Any] = {"url": f"{GITHUB}/user", "static_headers": BEARER}
WITHOUT_SECRET = {"url": f"{GITHUB}/user"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def staff(name: str, *permissions: str) -> User:
    user = User.objects.create_user(name, password="correct horse battery", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def make_tool(name: str = "ask_github", user: Any = None, **settings: Any) -> Tool:
    tool = factories.make_tool(
        name, title=name, runner="http_api", settings={**HTTP, **settings}, input_schema=OBJECT, clean=True
    )
    if user is not None:
        factories.grant(user, tool)
    return tool


def http_form(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    sent = {"name": "ask_github", "runner": "http_api", "input_schema": json.dumps(OBJECT), **changes}
    return tool_form(settings=json.dumps(settings), **sent)


def upstream_form(**changes: Any) -> dict[str, Any]:
    form = {"name": "forge", "transport": "streamable_http", "url": f"{GITHUB}/mcp", "separator": "_", "timeout": "30"}
    form |= {"args": "[]", "env": "{}", "headers": "{}", "allowed_networks": "[]", "refresh_seconds": "300"}
    form |= {"enabled": "on"}
    return form | {name: value if isinstance(value, str) else json.dumps(value) for name, value in changes.items()}


def make_upstream(**fields: Any) -> Upstream:
    made = Upstream(**{"name": "forge", "url": f"{GITHUB}/mcp", "headers": BEARER, **fields})
    made.full_clean()
    made.save()
    return made


@pytest.fixture
def editor(db: None) -> User:
    """She may save tools and upstream servers, and may not decide where secrets go."""
    return staff("ed", "view_tool", "add_tool", "change_tool", "view_upstream", "add_upstream", "change_upstream")


@pytest.fixture
def keeper(db: None) -> User:
    """He may decide it as well."""
    named = ["view_tool", "add_tool", "change_tool", "view_upstream", "add_upstream", "change_upstream", "use_secret"]
    return staff("kim", *named, "view_secret", "change_secret")


# --- destinations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.GitHub.com/a/b", "https://api.github.com"),
        ("https://api.github.com:443", "https://api.github.com"),
        ("http://api.github.com:80/x", "http://api.github.com"),
        ("https://api.github.com:8443/", "https://api.github.com:8443"),
        ("http://10.0.0.5:8080/mcp", "http://10.0.0.5:8080"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("https://[::1]:444/", "https://[::1]:444"),
    ],
)
def test_a_destination_is_the_origin_in_the_spelling_of_requests(url: str, expected: str) -> None:
    assert origin(url) == origin(expected) and origin(url).label == expected


@pytest.mark.parametrize("url", ["https://api.example.com@evil.example/", "https://api.example.com\\@evil.example/"])
def test_an_address_that_reads_like_another_host_is_no_destination(url: str) -> None:
    with pytest.raises(ValueError, match=r"user name|backslash"):
        registry.parse_settings("http_api", {"url": url, "static_headers": BEARER})


def test_a_program_is_another_destination_after_any_change_of_what_it_does_with_its_environment() -> None:
    secret = {"secret": "api_key"}
    base: dict[str, Any] = {"program": "git", "arguments": ["clone", "--", "{url}"], "environment": {"TOKEN": secret}}
    same = {**base, "cpu_seconds": 5, "max_output_bytes": 10, "environment": {**base["environment"]}}
    others = [
        {**base, "program": "curl"},
        {**base, "arguments": ["push", "--", "{url}"]},
        {**base, "separator": False},
        {**base, "allow_dash": ["url"]},
        {**base, "stdin": "text"},
        {**base, "stdin_file": "text"},
        {**base, "folder_argument": "where"},
        {**base, "folder": "workspace"},
        {**base, "environment": {"TOKEN": secret, "HTTPS_PROXY": "http://evil.example"}},
        {**base, "environment": {"TOKEN": {**secret, "prefix": "x"}}},
    ]
    (flow,) = registry.flows("command", base)
    assert registry.flows("command", same) == {flow}
    assert flow.destination.label == "program git clone -- {url}" and flow.place == ("environment", "TOKEN")
    keys = {one.destination.key for other in others for one in registry.flows("command", other)}
    assert len(keys) == len(others) and flow.destination.key not in keys


def test_one_of_several_programs_is_a_destination_of_its_own() -> None:
    commands = {"a": {"program": "git", "arguments": ["fetch"]}, "b": {"program": "curl"}}
    settings = {"commands": commands, "choose": "what", "environment": {"TOKEN": {"secret": "api_key"}}}
    assert {flow.destination.label for flow in registry.flows("command", settings)} == {
        "program git fetch",
        "program curl",
    }


class ForeignSettings(BaseModel):
    token: secret_refs.Text = ""
    server: str = ""


def test_a_foreign_runner_that_does_not_say_where_is_named_and_any_change_is_another_destination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foreign = Runner(name="pager", title="Pager", about="Pages.", settings=ForeignSettings, prepare="x.y")
    monkeypatch.setattr(registry, "runners", lambda: {"pager": foreign})
    (one,) = registry.flows("pager", {"token": {"secret": "api_key"}, "server": "a"})
    (other,) = registry.flows("pager", {"token": {"secret": "api_key"}, "server": "b"})
    assert one.destination.label == "tool type Pager" and one.destination.key != other.destination.key
    assert not host_patterns.allow(["a.example.com"], one.destination)


def test_a_label_is_bounded_and_writes_invisible_characters_out() -> None:
    settings = CommandSettings(program="git", arguments=["a\u202eb", "x" * 4000])
    label = next(iter(registry.runner("command").secret_destinations(settings))).label  # type: ignore[misc]
    assert "⟨U+202E" in label and "\u202e" not in label and len(label) <= MAX_LABEL_CHARACTERS + len("program ")


def test_every_place_in_the_settings_is_a_flow_of_its_own() -> None:
    reference = {"secret": "api_key"}
    everywhere = {
        "url": f"{GITHUB}/x",
        "method": "POST",
        "static_query": {"a": reference},
        "static_headers": {"a": reference},
        "static_cookies": {"a": reference},
        "static_body": {"a": [{"b": reference}]},
    }
    assert {flow.place for flow in registry.flows("http_api", everywhere)} == {
        ("static_query", "a"),
        ("static_headers", "a"),
        ("static_cookies", "a"),
        ("static_body", "a", "0", "b"),
    }


# --- patterns of hosts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "*", "*.", "*.com", "*.10.0.0.1", "a.*.com", "a*.example.com", "*.*.example.com", "https://*"),
        *("a..b", ".a.b", "a.b.", "a.b/", "a.b/path", "a.b?x", "a.b#x", "user:word@a.b", "a.b:0", "a.b:70000"),
        *("ftp://a.b", "a b", "a,b", "0x7f.1", "http://", "program:", "program:*", "program: git", "program:a\u202eb"),
        *("a" * 600, "a.b\\@c.d"),
    ],
)
def test_a_pattern_that_is_not_one_plain_host_or_program_is_refused(pattern: str) -> None:
    with pytest.raises(SettingsProblem) as refused:
        host_patterns.parse(pattern)
    assert "\u202e" not in str(refused.value)
    with pytest.raises(ValidationError):
        Secret(name="api_key", hosts=[pattern]).full_clean(validate_unique=False)


@pytest.mark.parametrize(
    ("pattern", "allowed", "denied"),
    [
        ("API.github.com", [GITHUB], ["http://api.github.com", f"{GITHUB}:8443", "https://x.api.github.com", EVIL]),
        ("*.github.com", [GITHUB, "https://a.b.github.com"], ["https://github.com", "https://evilgithub.com"]),
        ("api.github.com:8443", [f"{GITHUB}:8443"], [GITHUB, "http://api.github.com:8443"]),
        ("http://10.0.0.5:8080", ["http://10.0.0.5:8080"], ["https://10.0.0.5:8080", "http://10.0.0.5"]),
        ("bücher.example", ["https://xn--bcher-kva.example"], ["https://bucher.example"]),
        ("https://[::1]:444", ["https://[::1]:444"], ["https://[::1]"]),
        (f"{GITHUB}:443", [GITHUB], ["https://api.github.com./"]),
    ],
)
def test_a_pattern_allows_exactly_its_hosts(pattern: str, allowed: list[str], denied: list[str]) -> None:
    (stored,) = host_patterns.normalise([pattern])
    assert host_patterns.normalise([stored]) == [stored]
    for patterns in ([pattern], [stored]):
        assert all(host_patterns.allow(patterns, origin(url)) for url in allowed)
        assert not any(host_patterns.allow(patterns, origin(url)) for url in denied)


def test_a_program_is_bound_by_its_name_alone_and_never_by_a_host() -> None:
    (git,) = registry.runner("command").secret_destinations(CommandSettings(program="git"))  # type: ignore[misc]
    assert host_patterns.allow(["program:git"], git)
    assert not host_patterns.allow(["program:gi", "git", "*.git.example"], git)
    assert not host_patterns.allow(["program:https://api.github.com"], origin(GITHUB))
    spoilt: Any
    for spoilt in (["no host/"], [{}], [1], None, GITHUB, {GITHUB: 1}):
        assert not host_patterns.allow(spoilt, origin(GITHUB)), "what nobody can read allows nothing"


@pytest.mark.parametrize(
    ("before", "after", "widened"),
    [
        ([], ["a.example.com"], False),
        (["a.example.com"], [], True),
        (["a.example.com"], ["a.example.com", "b.example.com"], True),
        (["a.example.com", "b.example.com"], ["b.example.com"], False),
        (["*.example.com"], ["a.example.com", "*.b.example.com"], False),
        (["*.example.com"], ["example.com"], True),
        (["*.example.com"], ["http://a.example.com"], True),
        (["*.a.example.com"], ["*.example.com"], True),
        (["a.example.com"], ["*.a.example.com"], True),
        (["program:git"], ["program:git", "program:curl"], True),
    ],
)
def test_a_list_is_widened_when_anything_new_is_allowed(before: list[str], after: list[str], *, widened: bool) -> None:
    assert host_patterns.is_widened(before, after) is widened


# --- who may decide it -----------------------------------------------------------------------------------------------

MOVES: dict[str, dict[str, Any]] = {
    "another path on the same host": {**HTTP, "url": f"{GITHUB}/user/keys"},
    "another method": {**HTTP, "method": "DELETE"},
    "an argument in the query": {**HTTP, "query": {"q": "q"}},
    "another host": {**HTTP, "url": f"{EVIL}/user"},
    "plain http": {**HTTP, "url": "http://api.github.com/user"},
    "another port": {**HTTP, "url": f"{GITHUB}:8443/user"},
    "from the header into the body": {
        **WITHOUT_SECRET,
        "method": "POST",
        "static_body": {"text": BEARER["Authorization"]},
    },
    "from the header into the query": {**WITHOUT_SECRET, "static_query": {"q": TOKEN}},
    "another header": {**WITHOUT_SECRET, "static_headers": {"X-Forward": TOKEN}},
    "another secret": {**WITHOUT_SECRET, "static_headers": {"Authorization": {"secret": "other", "prefix": "Bearer "}}},
    "a second one": {**HTTP, "static_query": {"key": {"secret": "other"}}},
    "another prefix": {**WITHOUT_SECRET, "static_headers": {"Authorization": {"secret": "api_key", "prefix": "to=x&"}}},
}


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["shared", "personal"])
@pytest.mark.parametrize("move", MOVES)
def test_moving_a_secret_needs_the_permission_and_the_form_names_it(
    editor: User, keeper: User, move: str, kind: str
) -> None:
    for name in ("api_key", "other"):
        Secret.objects.create(name=name, kind=kind)
    tool = make_tool()
    address = reverse("admin:catalog_tool_change", args=[tool.pk])
    form = http_form(MOVES[move])
    refused = " ".join(errors(sign_in(editor).post(address, form))["settings"])
    assert NEEDS in refused and "Can use secrets in tools and upstream servers" in refused
    assert "Ask your administrator" in refused
    tool.refresh_from_db()
    assert tool.settings == HTTP
    assert sign_in(keeper).post(address, form).status_code == 302
    tool.refresh_from_db()
    assert tool.settings == MOVES[move]


@pytest.mark.django_db
def test_a_new_tool_with_a_secret_needs_the_permission(editor: User, keeper: User) -> None:
    make_shared()
    address = reverse("admin:catalog_tool_add")
    refused = errors(sign_in(editor).post(address, http_form(HTTP)))["settings"]
    assert "send the secret api_key to https://api.github.com" in " ".join(refused)
    assert not Tool.objects.exists()
    assert sign_in(keeper).post(address, http_form(HTTP)).status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize(
    "settings",
    [
        {**HTTP, "timeout": 3, "retries": 0, "response": "auto", "select": "$.name", "max_concurrent": 2},
        WITHOUT_SECRET,
        {"url": f"{EVIL}/user"},
    ],
)
def test_edits_that_move_no_secret_do_not_need_it(editor: User, settings: dict[str, Any]) -> None:
    make_shared()
    tool = make_tool()
    form = http_form(settings, description="Asks who one is, and changes nothing.", timeout="7")
    answer = sign_in(editor).post(reverse("admin:catalog_tool_change", args=[tool.pk]), form)
    assert answer.status_code == 302, errors(answer)
    tool.refresh_from_db()
    assert (tool.settings, tool.timeout) == (settings, 7.0)


@pytest.mark.django_db
def test_the_list_switches_tools_on_and_off_without_it(editor: User) -> None:
    make_shared()
    tool = make_tool()
    client = sign_in(editor)
    for action, expected in (("switch_off", False), ("switch_on", True)):
        client.post(reverse("admin:catalog_tool_changelist"), {"action": action, "_selected_action": [tool.pk]})
        tool.refresh_from_db()
        assert tool.enabled is expected


@pytest.mark.django_db
def test_a_copy_and_an_older_version_need_it_too(editor: User, keeper: User) -> None:
    make_shared()
    tool = make_tool(url=f"{EVIL}/user")
    past = tool.history.first()
    tool.settings = HTTP
    tool.save()
    duplicate = reverse("admin:catalog_tool_duplicate", args=[tool.pk])
    revert = reverse("admin:catalog_tool_simple_history", args=[tool.pk, past.pk])
    old = http_form({**HTTP, "url": f"{EVIL}/user"})
    client = sign_in(editor)
    answer = client.post(duplicate, {"name": "copy"})
    assert answer.status_code == 200 and NEEDS in str(answer.context["form"].errors)
    assert "send the secret api_key to https://evil.example" in " ".join(errors(client.post(revert, old))["settings"])
    tool.refresh_from_db()
    assert tool.settings == HTTP and Tool.objects.count() == 1
    assert sign_in(keeper).post(duplicate, {"name": "copy"}).status_code == 302
    assert sign_in(keeper).post(revert, old).status_code == 302
    assert Tool.objects.get(name="ask_github").settings["url"] == f"{EVIL}/user"


@pytest.mark.django_db
def test_approving_a_changed_definition_needs_it_where_the_change_moves_a_secret() -> None:
    make_shared()
    tool = Tool(name="shop_get", runner="http_api", origin="openapi:1")
    definition = {"name": "GET /user", "description": "Gets the user.", "inputSchema": OBJECT, "settings": HTTP}
    quarantine.adopt(tool, definition)
    tool.save()
    quarantine.propose(tool, {**definition, "settings": {**HTTP, "url": f"{EVIL}/user"}})
    address = reverse("admin:catalog_tool_review", args=[tool.pk])
    client = sign_in(staff("rita", "review_tool"))
    shown = client.get(address)
    assert "api_key is sent to https://evil.example." in shown.content.decode()
    decision = {"decision": "approve", "seen": shown.context["seen"], "read": "yes"}
    answer = client.post(address, decision, follow=True).content.decode()
    assert "Cannot approve this" in answer and NEEDS in answer
    tool.refresh_from_db()
    assert tool.settings == HTTP and tool.quarantined_since is not None
    sign_in(staff("rob", "review_tool", "use_secret")).post(address, decision)
    tool.refresh_from_db()
    assert tool.settings["url"] == f"{EVIL}/user" and tool.quarantined_since is None


def openapi(server: str = GITHUB) -> bytes:
    operation = {"operationId": "me", "summary": "Get the user.", "security": [{"key": []}]}
    schemes = {"key": {"type": "http", "scheme": "bearer"}}
    content = {"openapi": "3.1.0", "info": {"title": "Forge", "version": "1"}, "servers": [{"url": server}]}
    content |= {"paths": {"/user": {"get": operation}}, "components": {"securitySchemes": schemes}}
    return json.dumps(content).encode()


@pytest.mark.django_db
def test_an_import_says_where_its_secrets_go_and_needs_it_before_anything_is_created(
    editor: User, keeper: User
) -> None:
    make_shared()
    client = sign_in(editor)
    client.post(
        reverse("admin:catalog_importeddocument_add"), {"file": SimpleUploadedFile("forge.json", openapi(EVIL))}
    )
    address = reverse("admin:catalog_importeddocument_preview", args=[ImportedDocument.objects.get().pk])
    form = {"server": EVIL, "secret_0": "api_key", "operation": ["GET /user"], "outputs": "on"}
    page = client.post(address, {**form, "do": "look"}).content.decode()
    assert "api_key is sent to https://evil.example." in page and NEEDS in page
    answer = client.post(address, {**form, "do": "import"})
    assert answer.status_code == 200 and NEEDS in str(answer.context["form"].errors)
    assert not Tool.objects.exists()
    assert client.post(address, {**form, "secret_0": "", "do": "import"}).status_code == 302
    Tool.objects.all().delete()
    client = sign_in(keeper)
    again = reverse("admin:catalog_importeddocument_again", args=[ImportedDocument.objects.get().pk])
    client.post(again, {"file": SimpleUploadedFile("forge.json", openapi(EVIL))})
    assert client.post(address, {**form, "do": "import"}).status_code == 302
    assert Tool.objects.get().settings["static_headers"] == BEARER


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("headers", {"headers": BEARER}),
        ("url", {"headers": {"X-Key": {"secret": "api_key"}}, "url": f"{EVIL}/mcp"}),
        ("url", {"headers": {"X-Key": {"secret": "api_key"}}, "url": f"{GITHUB}/of-another-tenant"}),
        ("headers", {"headers": {"X-Other": {"secret": "api_key"}}}),
        ("env", {"transport": "stdio", "url": "", "command": "PROGRAM", "env": {"TOKEN": {"secret": "api_key"}}}),
    ],
)
def test_moving_a_secret_of_an_upstream_server_needs_the_permission(
    editor: User, keeper: User, settings: Any, tmp_path: Path, field: str, changes: dict[str, Any]
) -> None:
    settings.COMMANDS = [make_script(tmp_path, "server", "pass")]
    for user in (editor, keeper):
        user.user_permissions.add(Permission.objects.get(codename="use_command_runner"))
    make_shared()
    made = make_upstream(headers={} if changes.get("headers") == BEARER else {"X-Key": {"secret": "api_key"}})
    before = made.connection_settings()
    sent = {name: settings.COMMANDS[0] if value == "PROGRAM" else value for name, value in changes.items()}
    address = reverse("admin:catalog_upstream_change", args=[made.pk])
    refused = errors(sign_in(editor).post(address, upstream_form(**sent)))
    assert NEEDS in " ".join(refused[field]) and list(refused) == [field]
    made.refresh_from_db()
    assert made.connection_settings() == before
    assert sign_in(keeper).post(address, upstream_form(**sent)).status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize("changes", [{"args": ["--verbose"]}, {"env": {"HTTPS_PROXY": "http://evil.example"}}])
def test_what_a_program_does_with_its_secret_is_part_of_where_it_goes(
    editor: User, settings: Any, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings.COMMANDS = [make_script(tmp_path, "server", "pass")]
    editor.user_permissions.add(Permission.objects.get(codename="use_command_runner"))
    make_shared()
    env = {"TOKEN": {"secret": "api_key"}}
    made = make_upstream(transport="stdio", url="", headers={}, command=settings.COMMANDS[0], env=env)
    form = {"transport": "stdio", "url": "", "command": settings.COMMANDS[0], "env": env}
    address = reverse("admin:catalog_upstream_change", args=[made.pk])
    changed = {**form, **changes, "env": {**env, **changes.get("env", {})}}
    assert NEEDS in " ".join(errors(sign_in(editor).post(address, upstream_form(**changed)))["command"])
    assert sign_in(editor).post(address, upstream_form(**form, timeout="9", prefix="p")).status_code == 302
    made.refresh_from_db()
    assert (made.timeout, made.args) == (9.0, [])


@pytest.mark.django_db
def test_a_save_that_no_form_checked_is_refused_and_a_command_is_not(editor: User, rf: Any) -> None:
    make_shared()
    tool, upstream = make_tool(), make_upstream()

    def work(request: Any) -> Any:
        tool.settings = {**HTTP, "url": EVIL}
        upstream.url = f"{EVIL}/mcp"
        for row in (tool, upstream, Tool(name="new", description="x", runner="http_api", settings=HTTP)):
            with pytest.raises(PermissionDenied, match="Can use secrets"):
                row.save()

    request = rf.get("/")
    request.user = editor
    actor.ActorMiddleware(work)(request)
    assert Tool.objects.get().settings == HTTP and Upstream.objects.get().url == f"{GITHUB}/mcp"
    tool.save()
    upstream.save()
    assert Tool.objects.get().settings["url"] == EVIL, "a command may"


@pytest.mark.django_db
def test_the_editor_says_where_a_secret_goes_while_somebody_types(editor: User, keeper: User) -> None:
    make_shared()
    tool = make_tool()
    make_upstream()
    look = reverse("admin:catalog_tool_look", args=[tool.pk])
    moved = http_form({**HTTP, "url": f"{EVIL}/user"})
    assert "api_key is sent to https://evil.example." in sign_in(keeper).post(look, moved).json()["html"]
    found = sign_in(editor).post(look, moved).json()
    assert found["problems"][0]["field"] == "settings" and NEEDS in found["problems"][0]["text"]
    through = tool_form(
        name="via_forge", runner="upstream_mcp", settings='{"upstream": "forge", "tool": "x"}', input_schema="{}"
    )
    said = sign_in(keeper).post(reverse("admin:catalog_tool_look_new"), through).json()["html"]
    assert "api_key is sent to https://api.github.com." in said


@pytest.mark.django_db
def test_pages_say_where_secrets_go_without_running_what_a_program_is_called(
    browser: Client, settings: Any, tmp_path: Path
) -> None:
    make_shared()
    settings.COMMANDS = ["git"]
    nasty = "<script>alert(1)</script>\u202e"
    factories.make_tool(
        "clone",
        runner="command",
        settings={"program": "git", "arguments": [nasty], "environment": {"TOKEN": {"secret": "api_key"}}},
    )
    made = make_upstream()
    pages = {
        reverse("admin:catalog_secret_change", args=[Secret.objects.get().pk]): "tool clone, to program git &lt;script",
        reverse("admin:catalog_upstream_change", args=[made.pk]): "api_key is sent to https://api.github.com.",
        reverse("admin:catalog_upstream_tools", args=[made.pk]): "api_key is sent to https://api.github.com.",
    }
    for address, says in pages.items():
        shown = browser.get(address).content.decode()
        assert says in shown and "<script>alert" not in shown and "\u202e" not in shown, address


# --- bound to hosts --------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_bound_secret_cannot_be_saved_for_another_host_and_the_error_says_what_to_do(keeper: User) -> None:
    make_shared(hosts=["*.github.com"])
    tool, upstream = make_tool(), make_upstream()
    client = sign_in(keeper)
    tool_address = reverse("admin:catalog_tool_change", args=[tool.pk])
    upstream_address = reverse("admin:catalog_upstream_change", args=[upstream.pk])
    moved = {**HTTP, "url": f"{EVIL}/user"}
    sentences = [
        *errors(client.post(tool_address, http_form(moved)))["settings"],
        *errors(client.post(upstream_address, upstream_form(headers=BEARER, url=f"{EVIL}/mcp")))["url"],
    ]
    for sentence in sentences:
        assert "The secret api_key is bound to hosts, and https://evil.example is not among them." in sentence
        assert "ask an administrator to add this destination on the page of the secret" in sentence
    inside = {**HTTP, "url": "https://deep.down.github.com/user"}
    assert client.post(tool_address, http_form(inside)).status_code == 302


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["shared", "personal"])
async def test_a_binding_that_changes_after_the_save_takes_effect_on_the_next_call(
    alice: User, api: Api, kind: str
) -> None:
    def prepare() -> None:
        if kind == "shared":
            make_shared()
        else:
            make_personal("api_key", alice="the key of alice")
        make_tool(user=alice, url=f"{api.url}/user")
        factories.allow_destinations()

    await run_in_database(prepare)
    assert not (await call(alice, "ask_github")).is_error and len(api.seen) == 1

    def bind(*hosts: str) -> None:
        """As another process does it: no signal reaches this one."""
        Secret._base_manager.update(hosts=list(hosts))

    await run_in_database(bind, "api.github.com")
    refused = await call(alice, "ask_github")
    assert refused.is_error and "the secret is bound to other hosts. Ask your administrator" in text(refused)
    assert len(api.seen) == 1
    await run_in_database(bind, api.url)
    assert not (await call(alice, "ask_github")).is_error and len(api.seen) == 2


@pytest.mark.django_db(transaction=True)
async def test_a_call_that_a_binding_blocks_is_logged_with_the_destination_and_without_the_value(
    alice: User, api: Api
) -> None:
    def prepare() -> None:
        make_tool(user=alice, url=f"{api.url}/user")
        make_shared(hosts=["api.github.com"])

    await run_in_database(prepare)
    refused = await call(alice, "ask_github")
    row = await only_logged_call()
    assert (row.outcome, row.error_class) == (outcomes.TOOL_ERROR, "SecretNotAllowed")
    assert api.url in row.detail and api.url not in text(refused)
    assert api.seen == []


@pytest.fixture(scope="module")
def started() -> Any:
    with Server().running() as server:
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)


@pytest.fixture(autouse=True)
def local_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream servers of these tests are on this machine."""
    monkeypatch.setattr("django.conf.settings.ALLOW_PRIVATE_NETWORKS", ["127.0.0.0/8"])


def reach(server: Server, **fields: Any) -> Upstream:
    """An upstream that is in fact `server`, whatever it is bound to: the rules of a form did not see it."""
    local = {"url": server.url, "allowed_networks": ["127.0.0.0/8"], "timeout": 120.0}
    return Upstream.objects.create(
        **{"name": "forge", "headers": {"X-Key-Id": {"secret": "api_key"}}, **local, **fields}
    )


def sent_keys(server: Server) -> list[str]:
    return [request["headers"]["x-key-id"] for request in server.ledger if "x-key-id" in request["headers"]]


@pytest.mark.django_db
@pytest.mark.parametrize("action", ["test", "discover", "import", "refresh"])
def test_neither_a_test_nor_a_comparison_sends_a_bound_secret_elsewhere(
    started: Server, root: User, action: str
) -> None:
    make_shared(hosts=["api.github.com"])
    made = reach(started)
    before = len(started.ledger)
    address = reverse("admin:catalog_upstream_tools", args=[made.pk])
    answer = sign_in(root).post(address, {"action": action}, follow=True).content.decode()
    assert "The secret api_key is bound to hosts, and http://127.0.0.1" in answer
    schedule.run_due()
    made.refresh_from_db()
    assert "is not among them" in made.last_error and len(started.ledger) == before


@pytest.mark.django_db
def test_a_stored_value_goes_to_further_hosts_only_when_it_is_entered_again(keeper: User, tmp_path: Path) -> None:
    make_shared(hosts=["a.example.com"])
    address = reverse("admin:catalog_secret_change", args=[Secret.objects.get().pk])
    client = sign_in(keeper)
    value = Secret.objects.get().value
    for hosts in ("", "a.example.com, b.example.com", "*.example.com", "http://a.example.com"):
        refused = errors(client.post(address, {"description": "", "hosts": hosts, "new_value": ""}))["hosts"]
        assert "enter the value again" in " ".join(refused)
        secret = Secret.objects.get()
        secret.hosts = [host for host in hosts.split(", ") if host]
        with pytest.raises(PermissionDenied, match="enter the value again"):
            secret.save()
    file = tmp_path / "catalogue.json"
    for entry in ({"name": "api_key"}, {"name": "api_key", "hosts": ["b.example.com"]}):
        file.write_text(json.dumps({"toolhub": 1, "secrets": [entry]}))
        with pytest.raises(CommandError, match=r"secrets\[0\] \(api_key\).hosts.*enter the value again"):
            call_command("importtools", str(file))
    assert (Secret.objects.get().hosts, Secret.objects.get().value) == (["a.example.com"], value)
    wider = {"description": "", "hosts": "a.example.com b.example.com", "new_value": "another value"}
    assert client.post(address, wider).status_code == 302
    assert Secret.objects.get().hosts == ["a.example.com", "b.example.com"]
    narrower = {"description": "Less.", "hosts": "B.example.com:443", "new_value": ""}
    assert client.post(address, narrower).status_code == 302
    secret = Secret.objects.get()
    assert secret.hosts == ["b.example.com"]
    assert encryption.decrypt(secret.value, secret.owner) == "another value"


@pytest.mark.django_db
def test_the_hosts_of_a_personal_secret_can_be_changed_because_each_owner_decides(keeper: User) -> None:
    secret = Secret.objects.create(name="mine", kind="personal", hosts=["a.example.com"])
    address = reverse("admin:catalog_secret_change", args=[secret.pk])
    assert sign_in(keeper).post(address, {"description": "", "hosts": ""}).status_code == 302
    assert Secret.objects.get().hosts == []


@pytest.mark.django_db
def test_the_hosts_are_exported_and_imported_and_checked_like_in_the_form(tmp_path: Path) -> None:
    make_shared(hosts=["a.example.com", "program:git"])
    file = tmp_path / "catalogue.json"
    call_command("exporttools", str(file))
    content = json.loads(file.read_text())
    assert content["secrets"] == [{"name": "api_key", "hosts": ["a.example.com", "program:git"]}]
    Secret.objects.all().delete()
    call_command("importtools", str(file))
    assert Secret.objects.get().hosts == ["a.example.com", "program:git"]
    for wrong in (["*"], "a.example.com", [1], ["https://a.example.com/path"]):
        file.write_text(json.dumps({"toolhub": 1, "secrets": [{"name": "other", "hosts": wrong}]}))
        with pytest.raises(CommandError, match=r"secrets\[0\]"):
            call_command("importtools", str(file))


@pytest.mark.django_db
def test_users_who_may_only_view_see_the_hosts_and_cannot_change_them() -> None:
    secret = make_shared(hosts=["a.example.com"])
    address = reverse("admin:catalog_secret_change", args=[secret.pk])
    client = sign_in(staff("vera", "view_secret"))
    page = client.get(address).content.decode()
    assert "a.example.com" in page and 'name="hosts"' not in page
    assert client.post(address, {"hosts": "b.example.com"}).status_code == 403


# --- only its owner's calls and checks -------------------------------------------------------------------------------


@pytest.mark.django_db
def test_nobody_chooses_the_personal_secrets_of_somebody_else(alice: User, editor: User, root: User, rf: Any) -> None:
    made = make_upstream(headers={})
    address = reverse("admin:catalog_upstream_change", args=[made.pk])
    for user in (editor, root):
        page = sign_in(user).get(address).content.decode()
        assert f"Use my personal secrets ({user.username})" in page and "alice" not in page
        refused = errors(sign_in(user).post(address, upstream_form(secrets_of=str(alice.pk))))
        assert list(refused) == ["secrets_of"]

        def work(request: Any) -> Any:
            made.secrets_of = alice
            with pytest.raises(PermissionDenied, match="only your own"):
                made.save()
            with pytest.raises(ValidationError, match="only your own"):
                made.clean()

        request = rf.get("/")
        request.user = user
        actor.ActorMiddleware(work)(request)
        assert Upstream.objects.get().secrets_of is None
    assert sign_in(editor).post(address, upstream_form(secrets_of=str(editor.pk))).status_code == 302
    assert Upstream.objects.get().secrets_of == editor


@pytest.mark.django_db
def test_the_choice_of_somebody_else_is_named_and_can_be_kept_or_cleared(alice: User, root: User) -> None:
    made = make_upstream(headers={}, secrets_of=alice)
    address = reverse("admin:catalog_upstream_change", args=[made.pk])
    client = sign_in(root)
    assert "Keep using the personal secrets of alice" in client.get(address).content.decode()
    assert client.post(address, upstream_form(secrets_of=str(alice.pk), timeout="9")).status_code == 302
    assert Upstream.objects.get().secrets_of == alice
    assert client.post(address, upstream_form(secrets_of="")).status_code == 302
    assert Upstream.objects.get().secrets_of is None


@pytest.mark.django_db
def test_a_moved_upstream_server_does_not_get_the_secret_of_the_user_who_allowed_another_address(
    started: Server, alice: User
) -> None:
    """What was measured: a change of the address, and the scheduled comparison sends a personal secret there."""
    made = make_upstream(headers={"X-Key-Id": {"secret": "api_key"}}, secrets_of=alice)
    make_personal("api_key", alice="the key of alice")
    before = sent_keys(started)
    made.url, made.allowed_networks, made.timeout = started.url, ["127.0.0.0/8"], 120.0
    made.save()
    schedule.run_due()
    made.refresh_from_db()
    assert "which you have not allowed" in made.last_error and sent_keys(started) == before
    factories.allow_destinations()
    Upstream.objects.update(next_refresh=None)
    schedule.run_due()
    made.refresh_from_db()
    assert made.last_error == "" and set(sent_keys(started)[len(before) :]) == {"the key of alice"}
    before = sent_keys(started)
    alice.is_active = False
    alice.save()
    Upstream.objects.update(next_refresh=None)
    schedule.run_due()
    made.refresh_from_db()
    assert made.last_error and sent_keys(started) == before, "the account is disabled"


@pytest.mark.django_db
def test_staff_test_a_server_with_their_own_secret_once_they_allowed_it(
    started: Server, editor: User, alice: User
) -> None:
    made = reach(started)
    make_personal("api_key", alice="the key of alice")
    address = reverse("admin:catalog_upstream_tools", args=[made.pk])
    before = sent_keys(started)
    client = sign_in(editor)
    assert "you have not entered it yet" in client.post(address, {"action": "test"}, follow=True).content.decode()
    mine = client.get("/secrets/").content.decode()
    assert "upstream server forge" in mine and started.url.removesuffix("/mcp") in mine
    assert "api_key" not in sign_in(staff("vera", "view_upstream")).get("/secrets/").content.decode()
    client.post("/secrets/api_key/", {"value": "the key of ed"})
    assert "which you have not allowed" in client.post(address, {"action": "test"}, follow=True).content.decode()
    assert sent_keys(started) == before
    client.post("/secrets/api_key/", {"value": "the key of ed", "destination": shown_keys(client)})
    assert "Connected to forge" in client.post(address, {"action": "test"}, follow=True).content.decode()
    assert set(sent_keys(started)[len(before) :]) == {"the key of ed"}


@pytest.mark.django_db(transaction=True)
async def test_a_try_as_another_user_never_uses_their_personal_secret(alice: User, root: User, api: Api) -> None:
    def prepare() -> Tool:
        make_personal("api_key", alice="the key of alice")
        make_shared("shared_key", "the key of everybody")
        make_tool("shared", user=alice, url=api.url, static_headers={"X-Key": {"secret": "shared_key"}})
        tool = make_tool(user=alice, url=api.url)
        factories.allow_destinations()
        return tool

    tool = await run_in_database(prepare)

    async def try_as(user: User, name: str) -> Any:
        request = TryRequest(root.pk, "root", user.pk, user.username, tool.pk, name, {}, "192.0.2.1")
        return await call_tool.call_tool(request.caller(), name, {}, RecordingChannel())

    refused = await try_as(alice, "ask_github")
    assert refused.is_error and "A try as another user never uses the secrets of that user" in text(refused)
    assert "ask alice to call it" in text(refused) and api.seen == []
    assert not (await try_as(alice, "shared")).is_error and len(api.seen) == 1
    own = TryRequest(alice.pk, "alice", alice.pk, "alice", tool.pk, "ask_github", {}, "192.0.2.1")
    assert not (await call_tool.call_tool(own.caller(), "ask_github", {}, RecordingChannel())).is_error
    assert api.seen[-1]["headers"]["authorization"] == "Bearer the key of alice"


@pytest.mark.django_db(transaction=True)
async def test_a_token_that_somebody_else_created_never_uses_the_personal_secrets_of_its_owner(
    alice: User, root: User, api: Api
) -> None:
    def prepare() -> dict[bool, Any]:
        make_personal("api_key", alice="the key of alice")
        make_tool(user=alice, url=api.url)
        factories.allow_destinations()
        sent = {"user": alice.pk, "name": "robot", "days": "10"}
        page = sign_in(root).post("/admin/access/accesstoken/add/", sent).content.decode()
        _token, own = AccessToken.objects.issue(alice, "laptop")
        texts = {True: own, False: re.findall(r"thp_[A-Za-z0-9_-]{43}", page)[0]}
        authenticator = bearer.Authenticator()
        try:
            return {made: authenticator.authenticate_now(text) for made, text in texts.items()}
        finally:
            authenticator.settle()

    credentials = await run_in_database(prepare)

    async def call_with(credential: Any) -> Any:
        return await call_tool.call_tool(
            Caller(credential, "http", HANDSHAKE, "192.0.2.7", "test", "1"), "ask_github", {}, RecordingChannel()
        )

    refused = await call_with(credentials[False])
    assert refused.is_error and "Somebody else created this access token" in text(refused) and api.seen == []
    assert not (await call_with(credentials[True])).is_error
    assert api.seen[-1]["headers"]["authorization"] == "Bearer the key of alice"


# --- where its owner allowed -----------------------------------------------------------------------------------------


def shown_keys(client: Client) -> list[str]:
    """The destinations that the page of a user shows, as its forms send them."""
    return re.findall(r'type="hidden" name="destination" value="([^"]*)"', client.get("/secrets/").content.decode())


@pytest.mark.django_db(transaction=True)
async def test_a_personal_secret_goes_only_where_its_owner_allowed(alice: User, api: Api, settings: Any) -> None:
    elsewhere = api.url.replace("127.0.0.1", "localhost")
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8", "::1/128"]

    def prepare() -> tuple[Client, Tool]:
        Secret.objects.create(name="api_key", kind="personal")
        tool = make_tool(user=alice, url=f"{api.url}/user")
        return sign_in(alice), tool

    client, tool = await run_in_database(prepare)

    def enter_value() -> str:
        page = client.get("/secrets/").content.decode()
        assert "Will be sent to" in page and api.url in page and "ask_github" in page
        client.post("/secrets/api_key/", {"value": "the key of alice", "destination": shown_keys(client)})
        return str(client.get("/secrets/").content.decode())

    assert "not allowed yet" not in await run_in_database(enter_value)
    assert not (await call(alice, "ask_github")).is_error and len(api.seen) == 1

    def move(url: str) -> None:
        tool.settings = {**HTTP, "url": f"{url}/user"}
        tool.save()

    await run_in_database(move, elsewhere)
    refused = await call(alice, "ask_github")
    assert (
        refused.is_error
        and f"Your own secret api_key would be sent to {elsewhere}, which you have not allowed" in text(refused)
    )
    assert f"{settings.PUBLIC_URL}/secrets/" in text(refused) and len(api.seen) == 1

    def allow() -> str:
        page = client.get("/secrets/").content.decode()
        assert "not allowed yet" in page and f'name="allow" value="{elsewhere}"' in page
        answer = client.post("/secrets/api_key/destinations/", {"allow": elsewhere}, follow=True)
        return str(answer.content.decode())

    assert "may now be sent to" in await run_in_database(allow)
    assert not (await call(alice, "ask_github")).is_error and len(api.seen) == 2

    def withdraw() -> str:
        answer = client.post("/secrets/api_key/destinations/", {"withdraw": elsewhere}, follow=True)
        return str(answer.content.decode())

    assert "not allowed yet" in await run_in_database(withdraw)
    assert (await call(alice, "ask_github")).is_error and len(api.seen) == 2
    await run_in_database(move, api.url)
    assert not (await call(alice, "ask_github")).is_error, "the first one is still allowed"


@pytest.mark.django_db
def test_a_destination_added_between_showing_and_submitting_is_not_allowed(alice: User) -> None:
    Secret.objects.create(name="api_key", kind="personal")
    make_tool(user=alice)
    client = sign_in(alice)
    shown = shown_keys(client)
    make_tool("another", user=alice, url=f"{EVIL}/user")
    page = client.post("/secrets/api_key/", {"value": "the key of alice", "destination": shown}, follow=True)
    assert PersonalSecret.objects.get().destinations == {GITHUB: GITHUB}
    assert "destinations that you have not allowed yet" in page.content.decode()
    forged = [*shown, EVIL, "https://nowhere.example"]
    client.post("/secrets/api_key/", {"value": "the key of alice", "destination": forged})
    assert set(PersonalSecret.objects.get().destinations) == {GITHUB, EVIL}, "what no tool uses is never allowed"
    Tool.objects.filter(name="another").delete()
    client.post("/secrets/api_key/", {"value": "a new key", "destination": [GITHUB]})
    assert set(PersonalSecret.objects.get().destinations) == {GITHUB}, "a new value forgets the others"


@pytest.mark.django_db
def test_an_owner_alone_allows_and_only_what_their_tools_use_now(alice: User, bob: User) -> None:
    secret = make_personal("api_key", bob="the key of bob")
    make_tool(user=[alice, bob][1])
    address = "/secrets/api_key/destinations/"
    assert Client().post(address, {"allow": GITHUB})["Location"].startswith("/sign-in/?next=")
    assert sign_in(alice).post(address, {"allow": GITHUB}).status_code == 404
    his = sign_in(bob)
    assert his.get(address, {"allow": GITHUB}).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address, {"allow": GITHUB}).status_code == 403
    for key in (EVIL, "", "program:x"):
        page = his.post(address, {"allow": key}, follow=True).content.decode()
        assert PersonalSecret.objects.get().destinations == {}, page
    Secret.objects.update(hosts=["other.example"])
    his.post(address, {"allow": GITHUB})
    assert PersonalSecret.objects.get().destinations == {}
    page = his.get("/secrets/").content.decode()
    assert "An administrator bound this secret to other hosts." in page and 'name="allow"' not in page
    Secret.objects.update(hosts=[])
    his.post(address, {"allow": GITHUB})
    assert PersonalSecret.objects.get(secret=secret).destinations == {GITHUB: GITHUB}


@pytest.mark.django_db
def test_a_program_is_shown_with_its_arguments_and_nothing_of_it_runs_in_the_page(alice: User, settings: Any) -> None:
    settings.COMMANDS = ["git"]
    Secret.objects.create(name="api_key", kind="personal")
    tool = factories.make_tool(
        "clone",
        title="Clone\u202e<b>",
        runner="command",
        settings={"program": "git", "arguments": ["<i>\u202e"], "environment": {"T": {"secret": "api_key"}}},
    )
    factories.grant(alice, tool)
    page = sign_in(alice).get("/secrets/").content.decode()
    assert "program git &lt;i&gt;⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩" in page
    assert "<i>" not in page and "<b>" not in page.split("<h1>")[1] and "\u202e" not in page
    chinese = sign_in(alice).get("/secrets/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "程序 git" in chinese


@pytest.mark.django_db
def test_an_upgrade_keeps_entered_secrets_usable_where_tools_and_servers_send_them_today(
    alice: User, bob: User
) -> None:
    used, other = (Secret.objects.create(name=name, kind="personal") for name in ("api_key", "lonely"))
    for secret, user in ((used, alice), (used, bob), (other, alice)):
        row = PersonalSecret(secret=secret, user=user)
        row.enter("the key of somebody")
        row.save()
    make_tool()
    factories.make_tool("off", runner="http_api", settings={**HTTP, "url": EVIL}, enabled=False)
    factories.make_tool("broken", runner="http_api", settings={**HTTP, "url": "ftp://x"})
    factories.make_tool("strange", runner="not_installed", settings=HTTP)
    make_upstream(url="https://mcp.example.com/mcp")
    Upstream.objects.create(name="broken", url="ftp://x", headers=BEARER)
    migration = importlib.import_module("catalog.migrations.0002_secret_destinations")
    migration.allow_current_destinations(apps, SimpleNamespace(connection=database))
    expected = {GITHUB: GITHUB, "https://mcp.example.com": "https://mcp.example.com"}
    assert [row.destinations for row in PersonalSecret.objects.order_by("secret__name", "user__username")] == [
        expected,
        expected,
        {},
    ]


# --- the same look at the neighbours ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("sqlite:////srv/hub.db", {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/../srv/hub.db"}),
        (
            "postgresql://reader:word@db.example/hub",
            {"ENGINE": "django.db.backends.postgresql", "NAME": "hub", "HOST": "db.example", "PORT": ""},
        ),
    ],
)
def test_sql_tools_on_the_database_of_the_hub_are_warned_about(
    address: str, own: dict[str, str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "connections", {"default": SimpleNamespace(settings_dict=own)})
    settings.SQL_DATABASES = {"shop": f"{address}_of_the_shop", "hub": address}
    (warning,) = checks.check_sql_databases(None)
    assert "lists hub, which is the database of toolhub itself" in warning.msg and warning.hint


@pytest.mark.parametrize(
    ("runner", "settings"),
    [
        ("http_api", {"url": GITHUB, "static_headers": {"Authorization": "Bearer abc"}}),
        ("http_api", {"url": GITHUB, "static_query": {"api_key": "abc"}}),
        ("command", {"program": "git", "environment": {"GITHUB_TOKEN": "abc"}}),
    ],
)
def test_a_credential_in_clear_is_a_suggestion_to_store_a_secret(runner: str, settings: dict[str, Any]) -> None:
    row = Tool(name="x", description="Asks who one is.", runner=runner, settings=settings, input_schema=OBJECT)
    assert any("Store it as a secret" in str(suggestion) for suggestion in check_tool(row))
    hidden = json.loads(
        json.dumps(settings).replace('"Bearer abc"', '{"secret": "x"}').replace('"abc"', '{"secret": "x"}')
    )
    row.settings = hidden
    assert not any("Store it as a secret" in str(suggestion) for suggestion in check_tool(row))


def test_a_connection_counts_its_secret_among_what_nobody_shares() -> None:
    reached = connection.parse({"upstream": 1, "url": f"{GITHUB}/mcp", "headers": BEARER})
    keys = {connection.key_of(reached, {"api_key": value}, user) for value in ("a", "b") for user in (1, 2)}
    assert len(keys) == 4


# --- a real server ---------------------------------------------------------------------------------------------------


def seed_hub(url: str) -> dict[str, str]:
    from toolhub.access.models import AccessToken

    alice = User.objects.create_user("alice", password="correct horse battery")
    make_shared(hosts=[url])
    make_tool(user=alice, url=f"{url}/user")
    return {"token": AccessToken.objects.issue(alice, "laptop")[1]}


def bind_hub(hosts: list[str]) -> None:
    secret = Secret.objects.get()
    secret.hosts = hosts
    secret.enter("the key of everybody")
    secret.full_clean()
    secret.save()


async def test_a_changed_binding_takes_effect_on_a_running_server(api: Api) -> None:
    with Hub(env={"TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8"}) as hub:
        token = (await sync_to_async(hub.call, thread_sensitive=False)(seed_hub, url=api.url))["token"]
        async with HttpClient(hub.mcp_url, token, "2026-07-28") as client:

            async def is_listed() -> bool:
                return "ask_github" in await client.tools()

            await wait_until_async(is_listed, 10, "the tool")
            await client.text("ask_github", {})
            assert len(api.seen) == 1
            await sync_to_async(hub.call, thread_sensitive=False)(bind_hub, hosts=["api.github.com"])

            async def is_refused() -> bool:
                return "bound to other hosts" in await client.text("ask_github", {})

            await wait_until_async(is_refused, 10, "the new binding")
            sent = len(api.seen)
            assert await is_refused() and len(api.seen) == sent
