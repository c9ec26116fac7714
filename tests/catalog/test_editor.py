"""The tool editor's server side: what it says while somebody types, duplicates, versions side by side."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from audit import text_diff
from audit.models import Action
from catalog.admin.editor import views
from catalog.models import Grant, Limit, Secret, Tool, Upstream
from catalog.policy import loader
from tests import factories
from tests.catalog.test_admin import tool_form
from toolhub.wire.shapes import shape

pytestmark = pytest.mark.django_db
NEW = "admin:catalog_tool_look_new"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def sign_in_with(user: User, *permissions: str) -> Client:
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def request_preview(browser: Client, tool: Tool | None = None, **changes: Any) -> dict[str, Any]:
    address = reverse("admin:catalog_tool_look", args=[tool.pk]) if tool else reverse(NEW)
    answer = browser.post(address, tool_form(**changes))
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def list_places(found: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [(problem["field"], problem["place"]) for problem in found["problems"]]


def read_preview(found: dict[str, Any]) -> list[Any]:
    """What the preview shows as JSON, the newest revision first."""
    return [json.loads(html.unescape(text)) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", found["html"], re.DOTALL)]


# --- looking -------------------------------------------------------------------------------------------------------


def test_a_preview_is_denied_to_users_who_may_not_edit(alice: User) -> None:
    tool = factories.make_tool()
    edit, new = reverse("admin:catalog_tool_look", args=[tool.pk]), reverse(NEW)
    assert Client().post(new, tool_form()).status_code == 302
    assert sign_in_with(alice, "view_tool").post(edit, tool_form()).status_code == 403
    changer = sign_in_with(alice, "view_tool", "change_tool")
    assert changer.post(edit, tool_form()).status_code == 200
    assert changer.post(new, tool_form()).status_code == 403
    adder = sign_in_with(alice, "view_tool", "add_tool")
    assert adder.post(new, tool_form()).status_code == 200
    assert adder.post(edit, tool_form()).status_code == 403


def test_a_preview_needs_a_post_with_the_pages_own_token(root: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(root)
    assert browser.get(reverse(NEW)).status_code == 405
    assert browser.post(reverse(NEW), tool_form()).status_code == 403


def test_a_preview_changes_nothing(browser: Client) -> None:
    tool = factories.make_tool(title="Before")
    actions = Action.objects.count()
    found = request_preview(browser, tool, title="After")
    assert found["problems"] == []
    assert "After" in found["html"]
    request_preview(browser, name="another")
    assert [row.title for row in Tool.objects.all()] == ["Before"]
    assert (tool.history.count(), Action.objects.count()) == (1, actions)


@pytest.mark.parametrize(
    ("schema", "place", "words"),
    [
        pytest.param('{"type": "object",\n oops}', [], "line 2", id="no JSON"),
        pytest.param(
            '{"type": "object", "properties": {"a": {"type": "numbr"}}}',
            ["properties", "a", "type"],
            "numbr",
            id="unknown type",
        ),
        pytest.param(
            '{"type": "object", "properties": {"a/b~c": {"pattern": "(?=x)"}}}',
            ["properties", "a/b~c", "pattern"],
            "Look-around and back-references are not supported",
            id="pattern of a name to be escaped",
        ),
        pytest.param(
            '{"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}',
            ["properties", "a", "$ref"],
            "must start with #",
            id="remote reference",
        ),
    ],
)
@pytest.mark.parametrize("field", ["input_schema", "output_schema"])
def test_schema_errors_name_their_place(browser: Client, field: str, schema: str, place: list[str], words: str) -> None:
    found = request_preview(browser, None, **{field: schema})
    assert list_places(found) == [(field, place)]
    assert words in found["problems"][0]["text"]


def test_arguments_are_an_object_and_a_result_is_any_value(browser: Client) -> None:
    found = request_preview(browser, None, input_schema='{"type": "array"}')
    assert list_places(found) == [("input_schema", [])]
    assert '"type": "object"' in found["problems"][0]["text"]
    assert list_places(request_preview(browser, None, output_schema='{"type": "array"}')) == []


def test_settings_errors_are_described_at_each_field(browser: Client) -> None:
    wrong = {
        "url": "https://api.example.com/",
        "static_headers": {"Authorization": {"secret": "Not A Name"}, "X-Number": 3},
        "retries": "many",
        "files": {"upload": {}},
        "wait": 3,
    }
    found = request_preview(browser, runner="http_api", settings=json.dumps(wrong))
    said = {tuple(problem["place"]): problem["text"] for problem in found["problems"]}
    assert said.keys() == {
        ("static_headers", "Authorization", "secret"),
        ("static_headers", "X-Number"),
        ("retries",),
        ("files", "upload", "argument"),
        ("wait",),
    }
    assert said["files", "upload", "argument"] == "This setting is required."
    assert said["retries",] == "This must be a whole number."
    assert said["wait",] == "This setting does not exist. Remove it."
    assert said["static_headers", "Authorization", "secret"] == "Choose a secret."
    option = {"program": "wc", "arguments": [{"option": "not an option", "value": "path"}]}
    odd = request_preview(browser, runner="command", settings=json.dumps(option))
    assert [problem["place"] for problem in odd["problems"]] == [["arguments", 0, "option"]]
    assert "match pattern" in odd["problems"][0]["text"] and "secret" not in odd["problems"][0]["text"]
    fits = request_preview(
        browser, runner="http_api", settings='{"url": "https://api.example.com/", "method": "GET", "body": "*"}'
    )
    assert [(one["place"], one["text"]) for one in fits["problems"]] == [([], "GET requests cannot have a body.")]


def test_the_other_fields_are_checked_by_the_form_that_saves(browser: Client) -> None:
    factories.make_tool("taken")
    assert list_places(request_preview(browser, name="taken")) == [("name", [])]
    assert {field for field, _ in list_places(request_preview(browser, name="", description="", timeout="0"))} == {
        "name",
        "description",
        "timeout",
    }


def test_the_preview_is_what_each_revision_is_served(browser: Client) -> None:
    tool = factories.make_tool(title="Sum", read_only=True, output_schema={"type": "object"})
    row: dict[str, Any] = dict(Tool.objects.values().get())
    entry = loader.build_tool(row, frozenset()).wire
    form = tool_form(
        title="Sum",
        description=tool.description,
        output_schema='{"type": "object"}',
        settings=json.dumps(tool.settings),
    )
    found = request_preview(browser, tool, **form)
    served = [
        shape("tools/list", revision, {"tools": [entry]})["tools"][0]
        for revision in ("2025-11-25", "2025-03-26", "2024-11-05")
    ]
    assert read_preview(found) == served
    assert "2026-07-28, 2025-11-25, 2025-06-18" in found["html"]
    assert "about 9" in found["html"]
    assert "tokens" in found["html"]


def test_a_wrong_field_keeps_its_former_value_in_the_preview(browser: Client) -> None:
    tool = factories.make_tool()
    found = request_preview(browser, tool, title="New", input_schema="{")
    assert read_preview(found)[0]["inputSchema"] == factories.TWO_NUMBERS
    assert read_preview(found)[0]["title"] == "New"


def test_suggestions_appear_while_typing_and_name_a_twin(browser: Client) -> None:
    factories.make_tool("calculate_sums")
    found = request_preview(browser, description="Sum.")
    assert "The description is very short" in found["html"]
    assert "The name is almost the same as calculate_sums." in found["html"]


def test_either_of_create_and_update_names_the_other_where_one_tool_could_do_both(browser: Client) -> None:
    def schema(*names: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": [names[0]]}

    factories.make_tool("create_page", input_schema=schema("title", "body"))
    factories.make_tool("add_ticket", input_schema=schema("summary", "team"))
    for_pages = json.dumps(schema("title", "body"))
    updating = request_preview(browser, name="update_page", input_schema=for_pages)
    assert "create_page takes the same arguments. One tool that creates or updates" in updating["html"]
    creating = request_preview(browser, name="add_page", input_schema=for_pages)
    assert "takes the same arguments" not in creating["html"]  # both of them create
    factories.make_tool("set_page", input_schema=schema("title", "body"))
    creating = request_preview(browser, name="add_page", input_schema=for_pages)
    assert "set_page takes the same arguments." in creating["html"]
    # The server gives the number of a ticket, so that creating one cannot name it.
    numbered = request_preview(browser, name="edit_ticket", input_schema=json.dumps(schema("id", "summary", "team")))
    assert "takes the same arguments" not in numbered["html"]


def test_hostile_texts_stay_text(browser: Client) -> None:
    schema = {"type": "object", "properties": {HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE]}}}
    found = request_preview(browser, title=HOSTILE, description=HOSTILE, input_schema=json.dumps(schema), name=HOSTILE)
    tool = factories.make_tool(title=HOSTILE, description=HOSTILE, input_schema=schema)
    tool.description = HOSTILE * 2
    tool.save()
    pages = [found["html"], browser.get(reverse("admin:catalog_tool_change", args=[tool.pk])).content.decode()]
    pages += [
        browser.get(reverse(f"admin:catalog_tool_{name}", args=[tool.pk])).content.decode()
        for name in ("compare", "history", "duplicate")
    ]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
    assert read_preview(found)[0]["inputSchema"] == schema


def test_characters_that_hide_are_shown(browser: Client) -> None:
    found = request_preview(browser, description="Adds two numbers.\u202e Ignore that.")
    assert "invisible characters" in found["html"]
    assert "RIGHT-TO-LEFT OVERRIDE" in found["html"]


def test_a_programs_settings_are_denied_without_the_permission(alice: User) -> None:
    found = request_preview(
        sign_in_with(alice, "view_tool", "add_tool"), runner="command", settings='{"program": "ls"}'
    )
    assert ("runner", []) in list_places(found)


# --- the page --------------------------------------------------------------------------------------------------------


def read_editor_data(page: Any) -> dict[str, Any]:
    found = re.search(r'data-editor="([^"]*)"', page.content.decode())
    assert found is not None
    data: dict[str, Any] = json.loads(html.unescape(found[1]))
    return data


def test_the_page_of_a_new_tool_knows_every_runner_and_what_there_is_to_choose(browser: Client) -> None:
    page = browser.get(reverse("admin:catalog_tool_add"))
    data = read_editor_data(page)
    assert set(data["kinds"]) == {"python_function", "http_api", "command", "sql_query", "upstream_mcp"}
    assert "calculate_sum" in data["kinds"]["python_function"]["names"]["function"]
    assert "connection" not in [field["name"] for field in data["kinds"]["upstream_mcp"]["fields"]]
    assert len(page.content) < 300_000
    assert 'name="grants-0-group"' in page.content.decode()


def test_users_who_may_only_view_get_no_editor(alice: User) -> None:
    tool = factories.make_tool()
    page = sign_in_with(alice, "view_tool").get(reverse("admin:catalog_tool_change", args=[tool.pk]))
    assert page.status_code == 200
    assert "data-editor=" not in page.content.decode()
    assert "tool_editor.js" not in page.content.decode()


def test_the_page_asks_a_bounded_number_of_queries(browser: Client, django_assert_max_num_queries: Any) -> None:
    tool = factories.make_tool(toolset="Numbers")
    for number in range(30):
        factories.grant(factories.make_group(f"group{number}"), tool)
    address = reverse("admin:catalog_tool_change", args=[tool.pk])
    browser.get(address)
    with django_assert_max_num_queries(100):
        browser.get(address)
    for number in range(30):
        factories.make_tool(f"other{number}", description=f"Does the thing number {number} and nothing else.")
    with django_assert_max_num_queries(13):
        request_preview(browser, tool)


def test_a_functions_definition_is_shown_to_editors_only(browser: Client, alice: User) -> None:
    address = reverse("admin:catalog_tool_function")
    row = browser.get(address, {"runner": "python_function", "name": "calculate_sum"}).json()
    assert row["settings"] == {"function": "calculate_sum"}
    assert row["input_schema"]["properties"].keys() == {"a", "b"}
    assert browser.get(address, {"runner": "python_function", "name": "no_such"}).status_code == 404
    assert browser.get(address, {"runner": "http_api", "name": "calculate_sum"}).status_code == 404
    assert browser.get(address, {"name": "calculate_sum"}).status_code == 404
    assert browser.post(address).status_code == 405
    assert sign_in_with(alice, "view_tool").get(address, {"name": "calculate_sum"}).status_code == 403


# --- duplicates ------------------------------------------------------------------------------------------------------


def test_a_duplicate_starts_switched_off_without_grants_limits_and_toolsets(browser: Client, alice: User) -> None:
    tool = factories.make_tool(toolset="Numbers", title="Sum", timeout=7, read_only=True)
    factories.grant(alice, tool)
    factories.limit("3/m", tool)
    address = reverse("admin:catalog_tool_duplicate", args=[tool.pk])
    assert browser.get(address).status_code == 200
    assert Tool.objects.count() == 1
    answer: Any = browser.post(address, {"name": "calculate_total"})
    copy = Tool.objects.get(name="calculate_total")
    assert answer.url == reverse("admin:catalog_tool_change", args=[copy.pk])
    assert (copy.title, copy.timeout, copy.read_only, copy.input_schema) == ("Sum", 7, True, tool.input_schema)
    assert not copy.enabled
    assert not copy.toolsets.exists()
    assert (Grant.objects.get().tool, Limit.objects.get().tool) == (tool, tool)
    assert Action.objects.filter(verb="created", kind="tool", target__startswith="calculate_total").exists()
    browser.post(address, {"name": "calculate_more", "toolsets": "on"})
    assert [row.name for row in Tool.objects.get(name="calculate_more").toolsets.all()] == ["Numbers"]


@pytest.mark.parametrize("name", ["", "calculate_sum", "not a name"])
def test_a_duplicate_needs_a_name_of_its_own(browser: Client, name: str) -> None:
    tool = factories.make_tool()
    answer = browser.post(reverse("admin:catalog_tool_duplicate", args=[tool.pk]), {"name": name})
    assert answer.status_code == 200
    assert answer.context["form"].errors["name"]
    assert Tool.objects.count() == 1


def test_imported_tools_cannot_be_duplicated(browser: Client) -> None:
    tool = factories.make_tool()
    upstream = Upstream.objects.create(name="other", url="https://other.example/mcp")
    Tool.objects.filter(pk=tool.pk).update(origin=upstream.origin)
    answer = browser.post(reverse("admin:catalog_tool_duplicate", args=[tool.pk]), {"name": "copy_of_it"})
    assert answer.status_code == 200
    assert "was imported from the upstream server other." in answer.content.decode()
    assert Tool.objects.count() == 1


def test_duplicating_needs_the_permissions_of_saving(alice: User) -> None:
    tool = factories.make_tool(runner="command", settings={"program": "ls"}, enabled=False)
    address = reverse("admin:catalog_tool_duplicate", args=[tool.pk])
    assert sign_in_with(alice, "view_tool", "change_tool").post(address, {"name": "another"}).status_code == 403
    assert sign_in_with(alice, "view_tool", "add_tool").post(address, {"name": "another"}).status_code == 403
    assert sign_in_with(alice, "add_tool").get(address).status_code == 403
    assert Tool.objects.count() == 1
    assert set(vars(views.duplicate(tool, "another"))) >= {"settings"}


# --- versions --------------------------------------------------------------------------------------------------------


def test_two_versions_are_compared_field_by_field_and_schemas_line_by_line(browser: Client) -> None:
    tool = factories.make_tool(title="Before", toolset="Numbers")
    schema = json.loads(json.dumps(factories.TWO_NUMBERS))
    schema["properties"]["a"]["maximum"] = 10
    tool.title, tool.input_schema, tool.read_only = "After", schema, True
    tool.save()
    page = browser.get(reverse("admin:catalog_tool_compare", args=[tool.pk]))
    changes = {change.label: change for change in page.context["changes"]}
    assert changes.keys() == {"Title", "Input schema", "Read only"}
    assert (changes["Title"].before, changes["Title"].after) == ("Before", "After")
    assert (changes["Read only"].before, changes["Read only"].after) == ("not declared", "yes")
    marked = [(line.kind, line.text.strip()) for line in changes["Input schema"].lines if line.kind != text_diff.SAME]
    assert (text_diff.NEW, '"maximum": 10') in marked
    assert not any('"b"' in text for _, text in marked)


def test_any_two_versions_can_be_chosen_and_toolsets_are_compared(browser: Client) -> None:
    tool = factories.make_tool()
    tool.toolsets.add(factories.make_toolset("Numbers"))
    tool.title = "Later"
    tool.runner, tool.settings = "http_api", {"url": "https://api.example.com/"}
    tool.save()
    first, last = tool.history.last(), tool.history.first()
    address = reverse("admin:catalog_tool_compare", args=[tool.pk])
    page = browser.get(address, {"older": last.pk, "newer": first.pk})  # the other way round is put right
    assert (page.context["older"], page.context["newer"]) == (first, last)
    changes = [change for change in page.context["changes"] if change.label != "Settings"]
    assert [(change.label, change.before, change.after) for change in changes] == [
        ("Title", "", "Later"),
        ("Tool type", "Python function", "HTTP API"),
        ("Toolsets", "", "Numbers"),
    ]
    assert reverse("admin:catalog_tool_simple_history", args=[tool.pk, first.pk]) in page.content.decode()


def test_versions_of_another_tool_or_none_are_not_there(browser: Client, alice: User) -> None:
    tool, other = factories.make_tool(), factories.make_tool("other_tool")
    address = reverse("admin:catalog_tool_compare", args=[tool.pk])
    for number in (other.history.get().pk, 999_999, "x", "9" * 40):
        assert browser.get(address, {"older": number}).status_code == 404
    assert "only one version" in browser.get(address).content.decode()
    assert browser.get(reverse("admin:catalog_tool_compare", args=[999_999])).status_code == 404
    assert sign_in_with(alice, "add_tool").get(address).status_code == 403


def test_the_list_of_versions_lets_two_be_chosen(browser: Client) -> None:
    tool = factories.make_tool()
    tool.input_schema = {"type": "object"}
    tool.save()
    page = browser.get(reverse("admin:catalog_tool_history", args=[tool.pk])).content.decode()
    assert page.count('name="older"') == page.count('name="newer"') == 2
    assert "Input schema" in page
    assert "chars]" not in page


# --- language ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runner", "settings", "chinese"),
    [
        ("python_function", '{"function": 5}', "必须是文本"),
        ("http_api", '{"url": "http://u@h/", "timeout": 0}', "URL 中不能包含用户名或密码"),
        ("command", '{"program": "nothing"}', "命令已停用"),
        ("command", '{"program": "wc", "arguments": ["a{b}"]}', "占位符必须独占一个参数"),
        ("sql_query", '{"database": "a", "statement": "DROP TABLE a"}', "不允许 DROP"),
        ("upstream_mcp", '{"upstream": "", "tool": "a", "more": 1}', "没有这项设置"),
    ],
)
def test_a_chinese_browser_reads_no_english_about_settings_that_are_wrong(
    browser: Client, runner: str, settings: str, chinese: str
) -> None:
    browser.cookies["django_language"] = "zh-hans"
    form = tool_form(runner=runner, settings=settings)
    looked = [problem["text"] for problem in request_preview(browser, runner=runner, settings=settings)["problems"]]
    saved = browser.post(reverse("admin:catalog_tool_add"), form).context["adminform"].form.errors
    refused = [sentence for sentences in saved.values() for sentence in sentences]
    assert looked and chinese in " ".join(refused)
    assert [said for said in [*looked, *refused] if re.search("[A-Za-z]{2,} [a-z]{2,}", said)] == []
    assert not Tool.objects.exists()


# --- secrets and the installation ------------------------------------------------------------------------------------


def test_only_users_who_may_add_secrets_get_the_address_of_the_page_that_adds_one(browser: Client, alice: User) -> None:
    def read(client: Client) -> str:
        return str(read_editor_data(client.get(reverse("admin:catalog_tool_add")))["newSecret"])

    assert read(browser) == f"{reverse('admin:catalog_secret_add')}?_popup=1"
    assert read(sign_in_with(alice, "add_tool", "view_secret", "change_secret", "use_secret")) == ""
    assert Client().get(f"{reverse('admin:catalog_secret_add')}?_popup=1").status_code == 302
    assert sign_in_with(alice, "add_tool").get(f"{reverse('admin:catalog_secret_add')}?_popup=1").status_code == 403


def list_obstacles(found: dict[str, Any]) -> list[str]:
    listed = re.search(r'<ul class="tool-problems" id="tool-obstacles">(.*?)</ul>', found["html"], re.DOTALL)
    return [html.unescape(text) for text in re.findall("<li>(.*?)</li>", listed[1])] if listed else []


def http_obstacles(browser: Client, url: str, **settings: Any) -> list[str]:
    found = request_preview(browser, name="ask", runner="http_api", settings=json.dumps({"url": url, **settings}))
    assert found["problems"] == []
    return list_obstacles(found)


@pytest.mark.parametrize(
    ("url", "address", "example"),
    [
        ("http://127.0.0.1:8510/things/{id}", "127.0.0.1", "127.0.0.1/32:8510"),
        ("https://10.1.2.3/", "10.1.2.3", "10.1.2.3/32:443"),
        ("http://localhost:3000/", "localhost", "127.0.0.1/32:3000"),
        ("http://api.LOCALHOST./", "api.localhost", "127.0.0.1/32:80"),
        ("http://[::1]:8080/", "::1", "[::1/128]:8080"),
        ("http://169.254.169.254/latest", "169.254.169.254", "169.254.169.254/32:80"),
    ],
)
def test_a_private_address_is_named_in_the_editor_with_the_setting_that_allows_it(
    browser: Client, settings: Any, url: str, address: str, example: str
) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    blocked = (
        f"Blocked: {address} is a private address. Add it to TOOLHUB_ALLOW_PRIVATE_NETWORKS (for example {example}) "
        "and restart."
    )
    assert http_obstacles(browser, url) == [blocked]
    settings.ALLOW_PRIVATE_NETWORKS = [example]
    assert http_obstacles(browser, url) == []


def test_names_are_not_looked_up_while_somebody_types(browser: Client, settings: Any, monkeypatch: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    asked: list[Any] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **options: asked.append(args))
    assert http_obstacles(browser, "https://intranet.example/") == [] and asked == []
    assert "Ready to save" in request_preview(browser)["html"]


def test_a_blocked_tool_can_be_saved_and_the_summary_says_that_calls_would_fail(browser: Client, settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    given: dict[str, Any] = {
        "name": "ask",
        "runner": "http_api",
        "settings": json.dumps({"url": "http://127.0.0.1:9/"}),
    }
    assert "Ready to save, but calls would fail" in request_preview(browser, **given)["html"]
    assert browser.post(reverse("admin:catalog_tool_add"), tool_form(**given)).status_code == 302


def test_secrets_that_are_missing_or_empty_are_named(browser: Client) -> None:
    Secret.objects.create(name="empty_key")
    Secret.objects.create(name="own_key", kind=Secret.Kind.PERSONAL)
    headers = {name: {"secret": f"{name}_key"} for name in ("empty", "own", "absent")}
    assert http_obstacles(browser, "https://api.example.com/", static_headers=headers) == [
        "There is no secret with the name absent_key. Add it, or choose another one.",
        "The secret empty_key has no value yet. Enter it on the page of the secret.",
    ]


@pytest.mark.parametrize(
    ("runner", "given", "says"),
    [
        ("command", {}, "Commands are turned off. Add the program to TOOLHUB_COMMANDS and restart."),
        ("sql_query", {}, "SQL queries are turned off. Add a database to TOOLHUB_SQL_DATABASES and restart."),
        ("python_function", {"function": "no_such"}, "No function is registered as no_such. Add the module that"),
        ("python_function", {"function": HOSTILE}, "No function is registered as "),
    ],
)
def test_a_tool_type_that_is_off_says_which_setting_turns_it_on_before_its_settings_are_complete(
    browser: Client, settings: Any, runner: str, given: dict[str, Any], says: str
) -> None:
    settings.COMMANDS, settings.SQL_DATABASES = [], {}
    found = request_preview(browser, name="new_tool", runner=runner, settings=json.dumps(given))
    (sentence,) = list_obstacles(found)
    assert sentence.startswith(says) and "<script" not in found["html"]


def test_a_reason_that_is_a_problem_already_is_not_repeated(browser: Client, settings: Any) -> None:
    settings.COMMANDS = []
    given: dict[str, Any] = {"name": "run_it", "runner": "command", "settings": json.dumps({"program": "tool"})}
    found = request_preview(browser, **given)
    assert list_obstacles(found) == [] and "Commands are turned off" in found["problems"][0]["text"]
    off = request_preview(browser, **given, enabled="")
    assert list_obstacles(off) == ["Commands are turned off. Add the program to TOOLHUB_COMMANDS and restart."]
