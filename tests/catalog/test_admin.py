"""The catalogue in the admin: forms that explain what is wrong, who sees what, history, permissions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models.signals import pre_save
from django.test import Client
from django.urls import reverse

from audit.models import Action
from catalog.models import Grant, Limit, Prompt, Resource, StoredResult, Task, Tool, Toolset, Upstream
from catalog.policy import messages, revision
from tests import factories

pytestmark = pytest.mark.django_db

INLINES = ("grants", "limits")
NO_ROWS = {
    f"{prefix}-{name}": value
    for prefix in INLINES
    for name, value in (("TOTAL_FORMS", "0"), ("INITIAL_FORMS", "0"), ("MIN_NUM_FORMS", "0"), ("MAX_NUM_FORMS", "1000"))
}


def tool_form(**changes: Any) -> dict[str, Any]:
    return {
        "name": "calculate_sum",
        "title": "Sum",
        "description": "Adds two numbers and changes nothing.",
        "input_schema": json.dumps(factories.TWO_NUMBERS),
        "output_schema": "",
        "icons": "[]",
        "position": "100",
        "enabled": "on",
        "runner": "python_function",
        "settings": '{"function": "calculate_sum"}',
        "timeout": "30",
        "max_argument_bytes": "1000",
        "max_result_bytes": "1000",
        "cost": "1",
        "cost_per_kilobyte": "0",
        "record_bodies": "redacted",
        "task_support": "forbidden",
        "requires_capabilities": "[]",
        "read_only": "true",
        "destructive": "unknown",
        "idempotent": "unknown",
        "open_world": "unknown",
        **NO_ROWS,
        **changes,
    }


def errors(response: Any) -> dict[str, Any]:
    assert response.status_code == 200, response.status_code
    found: dict[str, Any] = response.context["adminform"].form.errors
    return found


def test_a_tool_that_is_wrong_is_refused_with_the_field_named(browser: Client) -> None:
    refusals = {
        "name": ("spaces in it", "letters A-Z"),
        "description": ("   ", "required"),
        "input_schema": ('{"type": "array"}', '"type": "object"'),
        "output_schema": ('{"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}', "$ref"),
        "settings": ("[1]", "must be an object"),
        "icons": ('[{"src": "javascript:alert(1)"}]', "https://"),
        "timeout": ("0", "0.1"),
        "requires_capabilities": ('{"sampling": 1}', "list"),
        "destructive": ("true", "cannot be destructive"),
    }
    for field, (value, expected) in refusals.items():
        response = browser.post(reverse("admin:catalog_tool_add"), tool_form(**{field: value}))
        assert expected in " ".join(errors(response).get(field, [])), field
    response = browser.post(reverse("admin:catalog_tool_add"), tool_form(input_schema='{"type": "object",\n oops}'))
    assert "line 2" in str(errors(response)["input_schema"])
    assert not Tool.objects.exists()


def test_saving_a_tool_keeps_its_schema_as_written_and_raises_the_revision(browser: Client) -> None:
    schema = (
        '{"type":"object","$defs":{"z":{}},"properties":{"b":{"type":"number","maximum":1.0},"a":{"$ref":"#/$defs/z"}}}'
    )
    before = revision.current()
    response = browser.post(reverse("admin:catalog_tool_add"), tool_form(input_schema=schema))
    assert response.status_code == 302, errors(response)
    tool = Tool.objects.get()
    assert json.dumps(tool.input_schema, separators=(",", ":")) == schema
    assert (tool.read_only, tool.destructive) == (True, None)
    assert revision.current() > before
    assert tool.history.get().history_user.username == "root"


def test_the_tool_page_lists_its_users_and_their_rules(browser: Client, alice: User, charlie: User) -> None:
    tool = factories.make_tool(toolset="Numbers")
    rule = factories.grant(alice, factories.make_toolset())
    limit = factories.limit("3/m", tool)
    page = browser.get(reverse("admin:catalog_tool_change", args=[tool.pk]))
    assert page.status_code == 200
    text = page.content.decode()
    assert f"Grant {rule.pk}: allow toolset Numbers to user alice" in text
    assert "1 user in environment" in text
    assert f"Limit {limit.pk}: 3/m on tool calculate_sum for each user" in text
    factories.deny(None, tool)
    assert (
        "No one has access now." in browser.get(reverse("admin:catalog_tool_change", args=[tool.pk])).content.decode()
    )


def test_a_definition_shows_as_text_whatever_it_says(browser: Client) -> None:
    nasty = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
    tool = factories.make_tool(description=nasty, title=nasty)
    prompt = factories.make_prompt(description=nasty, title=nasty)
    for address in (
        reverse("admin:catalog_tool_change", args=[tool.pk]),
        reverse("admin:catalog_tool_changelist"),
        reverse("admin:catalog_tool_history", args=[tool.pk]),
        reverse("admin:catalog_prompt_change", args=[prompt.pk]),
    ):
        page = browser.get(address)
        assert page.status_code == 200
        assert "<script>alert(1)" not in page.content.decode()
        assert "<img src=x" not in page.content.decode()


def test_every_page_of_the_catalogue_opens_and_searches(browser: Client, alice: User) -> None:
    tool = factories.make_tool(toolset="Numbers")
    toolset = factories.make_toolset()
    rows: list[Any] = [tool, toolset, factories.make_resource(), factories.make_prompt()]
    rows += [factories.grant(alice, toolset), factories.limit("3/m", tool)]
    for model in (Tool, Toolset, Resource, Prompt, Grant, Limit, Task, StoredResult):
        name = f"admin:catalog_{model._meta.model_name}"
        assert browser.get(reverse(f"{name}_changelist")).status_code == 200
        assert browser.get(reverse(f"{name}_changelist"), {"q": "numbers"}).status_code == 200
    for row in rows:
        name = f"admin:catalog_{row._meta.model_name}"
        assert browser.get(reverse(f"{name}_add")).status_code == 200
        assert browser.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
        assert browser.get(reverse(f"{name}_history", args=[row.pk])).status_code == 200
    for field in ("tool", "toolset", "resource", "prompt"):
        options = {"app_label": "catalog", "model_name": "grant", "field_name": field, "term": ""}
        found = browser.get(reverse("admin:autocomplete"), options).json()
        assert len(found["results"]) == 1, field


def test_the_list_of_tools_asks_the_same_number_of_queries_for_many_as_for_few(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        factories.make_tool(f"tool{number}", toolset="Numbers")
    browser.get(reverse("admin:catalog_tool_changelist"))
    with django_assert_max_num_queries(15):
        assert "tool19" in browser.get(reverse("admin:catalog_tool_changelist")).content.decode()


def test_the_list_of_tools_and_its_filter_call_runners_as_the_editor_does(browser: Client) -> None:
    factories.make_tool("of_python")
    factories.make_tool("of_an_api", runner="http_api", settings={"url": "https://api.example.com/"})
    page = browser.get(reverse("admin:catalog_tool_changelist")).content.decode()
    assert "Python function" in page and "HTTP API" in page and ">python_function<" not in page
    assert "SQL query" not in page  # no tool has it
    page = browser.get(reverse("admin:catalog_tool_changelist"), {"runner": "http_api"}).content.decode()
    assert "of_an_api" in page and "of_python" not in page
    chinese = browser.get(reverse("admin:catalog_tool_changelist"), headers={"accept-language": "zh-hans"})
    assert "Python 函数" in chinese.content.decode()


def test_the_head_of_a_page_calls_a_tool_exactly_as_it_is_called(browser: Client, alice: User) -> None:
    tool = factories.make_tool(toolset="numbers")
    for row in (tool, factories.make_toolset("numbers")):
        for page in ("change", "history", "delete"):
            address = reverse(f"admin:catalog_{row._meta.model_name}_{page}", args=[row.pk])
            head = browser.get(address).content.decode().partition("<h1")[2].partition("</h1>")[0]
            assert f">{row.name}<" in re.sub(r"\s*([<>])\s*", r"\1", head), (address, head)
    tools = browser.get(reverse("admin:catalog_tool_changelist")).content.decode()
    assert "Tools" in tools.partition("<h1")[2].partition("</h1>")[0]  # what is no name begins as it should


def test_a_page_beside_a_tool_or_an_upstream_says_in_its_head_which_it_is(browser: Client) -> None:
    tool = factories.make_tool("calculate_sum")
    upstream = Upstream.objects.create(name="everything", transport="streamable_http", url="https://example.com/mcp")
    heads = {
        reverse("admin:catalog_tool_compare", args=[tool.pk]): "Versions of calculate_sum",
        reverse("admin:catalog_tool_review", args=[tool.pk]): "Review calculate_sum",
        reverse("admin:catalog_upstream_tools", args=[upstream.pk]): "Tools, resources and prompts of everything",
    }
    for address, head in heads.items():
        (found,) = re.findall(r"<h1.*?</h1>", browser.get(address).content.decode(), re.DOTALL)
        assert head in found
        assert "Calculate_sum" not in browser.get(address, HTTP_ACCEPT_LANGUAGE="zh-hans").content.decode()


def test_the_head_of_the_page_of_a_grant_or_a_limit_is_in_the_language_of_the_page(
    browser: Client, alice: User
) -> None:
    tool = factories.make_tool("calculate_sum")
    for rule in (factories.grant(alice, tool), factories.limit("3/m", tool)):
        address = reverse(f"admin:catalog_{rule._meta.model_name}_change", args=[rule.pk])
        page = browser.get(address, HTTP_ACCEPT_LANGUAGE="zh-hans").content.decode()
        (head,) = re.findall(r"<h1.*?</h1>", page, re.DOTALL)
        assert "calculate_sum" in head
        assert str(rule) not in head
        assert str(rule) in browser.get(address).content.decode()


def test_a_saved_upstream_shows_its_health(browser: Client) -> None:
    upstream = Upstream.objects.create(name="everything", transport="streamable_http", url="https://example.com/mcp")
    page = browser.get(reverse("admin:catalog_upstream_change", args=[upstream.pk])).content.decode()
    assert "not connected yet" in page
    assert "unseen" not in page
    assert "Last seen" not in browser.get(reverse("admin:catalog_upstream_add")).content.decode()


def test_the_history_of_a_toolset_says_who_changed_what_and_leads_to_each_version(browser: Client) -> None:
    toolset = factories.make_toolset("Numbers")
    toolset.description = "For sums."
    toolset.save()
    page = browser.get(reverse("admin:catalog_toolset_history", args=[toolset.pk])).content.decode()
    table = page[page.index("change-history") : page.index("</table>", page.index("change-history"))]
    assert "For sums." in table
    assert "None" not in table
    for version in toolset.history.all():
        assert reverse("admin:catalog_toolset_simple_history", args=[toolset.pk, version.pk]) in table


@pytest.mark.parametrize("page", ["tool", "user"])
def test_grants_and_limits_among_others_have_their_names_in_the_language_of_the_page(
    browser: Client, alice: User, page: str
) -> None:
    tool = factories.make_tool("calculate_sum")
    grant = Grant.objects.create(tool=tool, user=alice, effect="deny")
    limit = Limit.objects.create(tool=tool, user=alice, scope="user", rate="5/m")
    address = {"tool": ("admin:catalog_tool_change", tool.pk), "user": ("admin:auth_user_change", alice.pk)}[page]
    answer = browser.get(reverse(address[0], args=[address[1]]), headers={"accept-language": "zh-hans"})
    content = answer.content.decode()
    assert f"授权 {grant.pk}：拒绝用户 alice 使用工具 calculate_sum" in content
    assert f"限制 {limit.pk}：" in content
    assert f"Grant {grant.pk}:" not in content and f"Limit {limit.pk}:" not in content


def test_grants_and_limits_that_make_no_sense_are_refused_with_the_field_named(browser: Client, alice: User) -> None:
    tool, toolset = factories.make_tool(), factories.make_toolset()
    good = {"effect": "allow", "tool": tool.pk, "user": alice.pk, "environments": "[]"}
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"tool": ""}, "tool"),
        ({"toolset": toolset.pk}, "toolset"),
        ({"user": ""}, "user"),
        ({"everyone": "on"}, "everyone"),
        ({"environments": '"production"'}, "environments"),
        (
            {"starts_0": "2026-02-01", "starts_1": "10:00", "ends_0": "2026-02-01", "ends_1": "10:00"},
            "ends",
        ),
    ]
    for change, field in refusals:
        assert field in errors(browser.post(reverse("admin:catalog_grant_add"), good | change)), change
    assert browser.post(reverse("admin:catalog_grant_add"), good).status_code == 302
    limit = {"measure": "calls", "rate": "3/m", "scope": "each_user", "tool": tool.pk}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"rate": "often"}, "rate"),
        ({"rate": "3/0m"}, "rate"),
        ({"tool": ""}, "tool"),
        ({"all_tools": "on"}, "all_tools"),
        ({"method": "tools/list"}, "method"),
        ({"tool": "", "method": "tools/call"}, "method"),
        ({"tool": "", "all_tools": "on", "method": "tools/list"}, "method"),
        ({"scope": "user"}, "user"),
        ({"scope": "each_member"}, "group"),
        ({"user": alice.pk}, "user"),
    ]
    for change, field in wrong:
        assert field in errors(browser.post(reverse("admin:catalog_limit_add"), limit | change)), change
    assert browser.post(reverse("admin:catalog_limit_add"), limit).status_code == 302
    of_method = limit | {"tool": "", "method": "resources/read"}
    assert browser.post(reverse("admin:catalog_limit_add"), of_method).status_code == 302
    assert "method resources/read" in browser.get(reverse("admin:catalog_limit_changelist")).content.decode()


def test_a_grant_can_be_added_on_the_page_of_its_tool(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    row = {
        "grants-TOTAL_FORMS": "1",
        "grants-0-effect": "allow",
        "grants-0-environments": "[]",
        "grants-0-user": alice.pk,
        "grants-0-tool": tool.pk,
    }
    response = browser.post(reverse("admin:catalog_tool_change", args=[tool.pk]), tool_form(**row))
    assert response.status_code == 302, [form.errors for form in response.context["inline_admin_formsets"][0].formset]
    assert Grant.objects.get().tool == tool
    neither = {**row, "grants-0-user": "", "grants-0-note": "For whom?"}
    response = browser.post(reverse("admin:catalog_tool_change", args=[tool.pk]), tool_form(**neither))
    assert response.status_code == 200
    assert "Choose exactly one of user, group and everyone." in response.content.decode()
    assert Grant.objects.count() == 1


def test_the_pages_of_a_user_and_of_a_group_show_their_grants_and_limits(browser: Client, alice: User) -> None:
    group = factories.make_group("analysts", [alice])
    rows: list[Any] = [factories.grant(alice, factories.make_tool()), factories.grant(group, factories.make_toolset())]
    rows += [factories.limit("3/m", user=alice), factories.limit("5/m", group=group)]
    for name, pk, shown in (("user", alice.pk, (rows[0], rows[2])), ("group", group.pk, (rows[1], rows[3]))):
        page = browser.get(reverse(f"admin:auth_{name}_change", args=[pk]))
        assert page.status_code == 200
        assert all(messages.name_row(row) in page.content.decode() for row in shown), name


def test_a_new_tool_can_be_saved_together_with_its_grants_and_limits(browser: Client, alice: User) -> None:
    rows: dict[str, Any] = {"grants-TOTAL_FORMS": "1", "grants-0-effect": "allow", "grants-0-environments": "[]"}
    rows |= {"grants-0-user": alice.pk, "limits-TOTAL_FORMS": "1", "limits-0-rate": "3/m"}
    rows |= {"limits-0-measure": "calls", "limits-0-scope": "each_user"}
    response = browser.post(reverse("admin:catalog_tool_add"), tool_form(**rows))
    assert response.status_code == 302
    tool = Tool.objects.get()
    assert (Grant.objects.get().tool, Limit.objects.get().tool) == (tool, tool)


def test_a_limit_on_the_page_of_a_group_is_for_each_member(browser: Client) -> None:
    group = factories.make_group("analysts")
    counts = {"TOTAL_FORMS": "0", "INITIAL_FORMS": "0"}
    form = {f"catalog_{name}-{key}": value for name in ("grants", "limits") for key, value in counts.items()}
    form |= {"name": "analysts", "catalog_limits-TOTAL_FORMS": "1"}
    form |= {"catalog_limits-0-measure": "calls", "catalog_limits-0-rate": "3/m", "catalog_limits-0-all_tools": "on"}
    form |= {"catalog_limits-0-scope": "each_member"}
    response = browser.post(reverse("admin:auth_group_change", args=[group.pk]), form)
    assert response.status_code == 302, response.context["errors"]
    assert str(Limit.objects.get()).endswith("3/m on all tools for each member of analysts")


def test_switching_many_tools_off_leaves_a_history_for_each(browser: Client) -> None:
    tools = [factories.make_tool(f"tool{number}") for number in range(2)]
    chosen = {"action": "switch_off", "_selected_action": [tool.pk for tool in tools]}
    assert browser.post(reverse("admin:catalog_tool_changelist"), chosen).status_code == 302
    assert not Tool.objects.filter(enabled=True).exists()
    assert all(tool.history.count() == 2 for tool in tools)


@pytest.mark.django_db(transaction=True)
def test_tools_that_cannot_all_be_switched_off_all_stay_on(browser: Client) -> None:
    tools = [factories.make_tool(f"tool{number}") for number in range(2)]

    def meet(instance: Tool, **_: Any) -> None:
        """Meet another change at the second tool, as its row then says."""
        if instance.name == "tool1":
            Tool.objects.filter(name="tool1").update(name="tool0")

    browser.raise_request_exception = False
    pre_save.connect(meet, sender=Tool, weak=False, dispatch_uid="test.met")
    try:
        chosen = {"action": "switch_off", "_selected_action": [tool.pk for tool in tools]}
        answer = browser.post(reverse("admin:catalog_tool_changelist"), chosen)
    finally:
        pre_save.disconnect(sender=Tool, dispatch_uid="test.met")
    assert answer.status_code == 409 and "Nothing of your change was saved." in answer.content.decode()
    assert Tool.objects.filter(enabled=True).count() == 2


def test_users_without_the_permission_may_view_but_not_change(alice: User) -> None:
    tool = factories.make_tool()
    alice.is_staff = True
    alice.save()
    client = Client()
    client.force_login(alice)
    address = reverse("admin:catalog_tool_change", args=[tool.pk])
    assert client.get(address).status_code == 403
    assert client.get(reverse("admin:catalog_tool_history", args=[tool.pk])).status_code == 403
    alice.user_permissions.add(Permission.objects.get(codename="view_tool"))
    assert client.get(address).status_code == 200
    assert client.post(address, tool_form(title="Mine now")).status_code == 403
    first = tool.history.get()
    tool.title = "Newer"
    tool.save()
    past = reverse("admin:catalog_tool_simple_history", args=[tool.pk, first.pk])
    assert client.post(past, tool_form(title="Mine now")).status_code == 403
    assert Tool.objects.get().title == "Newer"
    chosen = {"action": "switch_off", "_selected_action": [tool.pk]}
    client.post(reverse("admin:catalog_tool_changelist"), chosen)
    assert Tool.objects.get().enabled


def test_the_contents_of_tasks_and_stored_results_are_not_shown(browser: Client, alice: User) -> None:
    task = Task.objects.create(user=alice, credential="token:1", tool="slow", result={"text": "TOPSECRET"})
    page = browser.get(reverse("admin:catalog_task_change", args=[task.pk]))
    assert page.status_code == 200
    assert "TOPSECRET" not in page.content.decode()


@pytest.mark.parametrize("model", ["tool", "toolset", "resource", "prompt"])
def test_deleting_an_item_deletes_its_grants_and_logs_both(browser: Client, alice: User, model: str) -> None:
    target: Any = getattr(factories, f"make_{model}")()
    named = str(factories.grant(alice, target))
    response = browser.post(reverse(f"admin:catalog_{model}_delete", args=(target.pk,)), {"post": "yes"})
    assert response.status_code == 302, response.context
    assert not type(target).objects.exists()
    assert not Grant.objects.exists()
    deleted = dict(Action.objects.filter(verb="deleted").values_list("kind", "target"))
    assert deleted["grant"].startswith(named)
    assert model in deleted


def test_the_delete_confirmation_names_rules_in_the_language_of_the_page(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    grant, limit = factories.grant(alice, tool), factories.limit("3/m", tool)
    grants = reverse("admin:catalog_grant_delete", args=[grant.pk])
    whole = reverse("admin:catalog_tool_delete", args=[tool.pk])
    assert f"delete the grant &quot;{grant}&quot;" in browser.get(grants).content.decode().replace('"', "&quot;")
    for address, english in ((grants, "Grant "), (whole, "Limit ")):
        page = browser.get(address, headers={"accept-language": "zh-hans"}).content.decode()
        assert f"授权 {grant.pk}" in page and english not in page
    assert f"限制 {limit.pk}" in page


def test_environments_are_written_as_names_or_as_a_list(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    for number, (written, kept) in enumerate(
        [
            ("production, staging", ["production", "staging"]),
            (" production staging ", ["production", "staging"]),
            ('["production"]', ["production"]),
            ("", []),
        ]
    ):
        form = {"effect": "allow", "tool": tool.pk, "user": alice.pk, "environments": written, "note": str(number)}
        assert browser.post(reverse("admin:catalog_grant_add"), form).status_code == 302, written
        assert Grant.objects.get(note=str(number)).environments == kept
    page = browser.get(reverse("admin:catalog_grant_change", args=[Grant.objects.get(note="0").pk]))
    assert 'value="production, staging"' in page.content.decode()
    wrong = {"effect": "allow", "tool": tool.pk, "user": alice.pk, "environments": "pro/duction"}
    assert "environments" in errors(browser.post(reverse("admin:catalog_grant_add"), wrong))


def test_a_list_without_rows_says_whether_there_are_none_or_none_that_match(browser: Client) -> None:
    address = reverse("admin:catalog_toolset_changelist")
    empty = browser.get(address).content.decode()
    assert "No entries yet." in empty and "Add toolset" in empty and "Reset filters" not in empty
    factories.make_toolset("Numbers")
    unmatched = browser.get(address, {"q": "letters"}).content.decode()
    assert "Nothing matches" in unmatched and "Reset filters" in unmatched and "No entries yet." not in unmatched
