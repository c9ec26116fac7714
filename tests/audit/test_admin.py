"""The audit log in the admin: readable by those who may, changeable by nobody, text and nothing else."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.urls import reverse

from audit.auditors import make_group
from audit.models import Action, Call, Checkpoint, Verification
from tests.audit.rows import NOON, build_call, save, save_verification

pytestmark = pytest.mark.django_db

XSS = [
    '<script>alert("x")</script>',
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }}{% debug %}",
    "</pre><script>1</script>",
]
MODELS = ("call", "action", "checkpoint", "verification")


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch):
    monkeypatch.setattr("audit.queries.search.MAX_SEARCH_SECONDS", 600)


@pytest.fixture
def auditor(db):
    user = User.objects.create_user("audrey", password="correct horse battery", is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    return user


@pytest.fixture
def verification(db):
    return save_verification(1, through=build_call(1).pk.hex)


def make_row(model):
    saved = {
        "call": lambda: save(build_call(1))[0],
        "action": lambda: Action.objects.create(
            id=build_call(2).pk,
            at=NOON,
            actor="root",
            verb="changed",
            kind="tool",
            target="x",
            before="",
            after="",
            link=1 << 40,
        ),
        "checkpoint": lambda: Checkpoint.objects.create(
            number=1, at=NOON, heads="{}", previous="", hash="a" * 64, key="k", signature="s"
        ),
        "verification": lambda: save_verification(3, ok=False, problem="call 7 was edited", outside_head=True),
    }
    return saved[model]()


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_not_even_a_superuser_can_change_the_audit_log(client, root, model):
    client.force_login(root)
    row = make_row(model)
    name = f"admin:audit_{model}"
    before = type(row).objects.filter(pk=row.pk).values().get()
    assert client.get(reverse(f"{name}_add")).status_code == 403
    assert client.post(reverse(f"{name}_add"), {"name": "forged"}).status_code == 403
    assert client.get(reverse(f"{name}_delete", args=(row.pk,))).status_code == 403
    assert client.post(reverse(f"{name}_delete", args=(row.pk,)), {"post": "yes"}).status_code == 403
    client.post(reverse(f"{name}_change", args=(row.pk,)), {"name": "forged", "outcome": "ok", "actor": "x", "at": "x"})
    client.post(
        reverse(f"{name}_changelist"), {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
    )
    assert type(row).objects.filter(pk=row.pk).values().get() == before
    assert type(row).objects.filter(pk=row.pk).count() == 1


@pytest.mark.parametrize("model", MODELS)
def test_staff_without_the_permission_see_nothing_of_the_audit_log(client, model):
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    row = make_row(model)
    assert client.get(reverse(f"admin:audit_{model}_changelist")).status_code == 403
    assert client.get(reverse(f"admin:audit_{model}_change", args=(row.pk,))).status_code == 403
    assert client.get(reverse("admin:audit_call_export")).status_code == 403
    assert client.post(reverse("admin:audit_verification_now")).status_code == 403


def test_a_user_who_is_not_staff_is_sent_to_the_sign_in(client, alice):
    client.force_login(alice)
    for address in (reverse("admin:audit_call_changelist"), reverse("admin:audit_call_export")):
        response = client.get(address)
        assert response.status_code == 302 and "login" in response["Location"]


def test_who_may_read_the_audit_log_alone_sees_nothing_else(client):
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="audit", codename__startswith="view_"))
    client.force_login(user)
    for model in MODELS:
        assert client.get(reverse(f"admin:audit_{model}_changelist")).status_code == 200
    assert client.get("/admin/auth/user/").status_code == 403
    index = client.get("/admin/").content.decode()
    assert "/admin/audit/call/" in index and "/admin/auth/user/" not in index


def test_a_group_that_was_changed_by_hand_stays_as_it_is(auditor):
    from django.apps import apps

    group = Group.objects.get(name="auditor")
    group.permissions.remove(Permission.objects.get(codename="view_action"))
    make_group(app_config=apps.get_app_config("audit"), apps=apps)
    assert not group.permissions.filter(codename="view_action").exists()


@pytest.mark.parametrize(
    "query",
    ["before=x", "after='", "id__startswith=0", "user__password__startswith=a", "o=1", "nonsense=1", "p=9", "all="],
)
def test_nonsense_in_the_address_is_no_error(reader, query):
    save(build_call(1))
    assert reader.get(reverse("admin:audit_call_changelist") + f"?{query}", follow=True).status_code in {200, 400}


@pytest.mark.parametrize("key", ["nonsense", "0198c0de-0000-7000-8000-000000000000", "../1", "%00"])
def test_a_call_that_is_not_there_leads_back_with_a_message(reader, key):
    response = reader.get(f"/admin/audit/call/{key}/change/")
    assert response.status_code in {302, 404}
    assert Action.objects.filter(verb="viewed").count() == 0


# --- lists -------------------------------------------------------------------------------------------------------


def list_rows(reader, **query):
    response = reader.get(reverse("admin:audit_call_changelist"), query)
    assert response.status_code == 200
    return [row.pk for row in response.context["cl"].result_list], response


def test_filters_combine_in_the_list(reader, alice, bob):
    wanted = build_call(3, user=alice, outcome="refused", transport="websocket", client_name="Cursor")
    save(
        wanted,
        build_call(1, user=alice),
        build_call(2, user=bob, outcome="refused", transport="websocket"),
        build_call(4, user=alice, outcome="refused"),
    )
    keys, response = list_rows(
        reader, user="alice", outcome="refused", transport="websocket", client="cursor*", since="2026-03-01"
    )
    assert keys == [wanted.pk]
    page = response.content.decode()
    assert "user=alice" in page.replace("&amp;", "&")  # the links to exports keep the filters
    assert list_rows(reader, outcome="not_ok", q="calculate")[0] != []


def test_the_list_pages_without_counting(reader, alice, django_assert_num_queries):
    save(*(build_call(number, user=alice) for number in range(120)))
    keys, response = list_rows(reader)
    assert len(keys) == 50 and response.context["cl"].newer_link == ""
    page = response.content.decode()
    assert "50 on this page" in page and "50 results" not in page and "Show counts" not in page
    second = reader.get(reverse("admin:audit_call_changelist") + response.context["cl"].older_link)
    third = reader.get(reverse("admin:audit_call_changelist") + second.context["cl"].older_link)
    assert third.context["cl"].older_link == ""
    back = reader.get(reverse("admin:audit_call_changelist") + third.context["cl"].newer_link)
    assert [row.pk for row in back.context["cl"].result_list] == [row.pk for row in second.context["cl"].result_list]
    # session, user, two for the permissions of a group member, the rows, the state of the chain, the saved views
    with django_assert_num_queries(7) as captured:
        list_rows(reader)
    assert not any("COUNT(" in query["sql"].upper() for query in captured.captured_queries)
    with django_assert_num_queries(8):  # and the account that the name belongs to
        list_rows(reader, user="alice", outcome="ok")
    with django_assert_num_queries(10):  # and where the slice of the search ends, and whether texts have an index (2)
        list_rows(reader, q="nothing that is there")
    with django_assert_num_queries(7):
        list_rows(reader, q=str(keys[0]), outcome="ok")


def test_a_stopped_search_says_how_far_it_searched(reader, alice, monkeypatch):
    monkeypatch.setattr("audit.queries.walk._FIRST_SLICE_ROWS", 10)
    monkeypatch.setattr("audit.queries.search.MAX_SEARCH_SECONDS", -1)
    save(*(build_call(number, user=alice) for number in range(30)))
    keys, response = list_rows(reader, q="absent")
    page = response.content.decode()
    assert keys == [] and "Searched back to 2026-03-01 12:00:20 UTC" in page and "Search older entries" in page


def test_the_list_of_actions_filters_and_searches(reader):
    for number, (actor, verb, kind) in enumerate([("root", "changed", "tool"), ("eve", "deleted", "grant")]):
        Action.objects.create(
            id=build_call(number).pk, at=NOON, actor=actor, verb=verb, kind=kind, target=f"t{number}", before="",
            after='{"title":"Größe \\"x\\""}', link=1,
        )  # fmt: skip
    address = reverse("admin:audit_action_changelist")

    def actors(**query):
        rows = reader.get(address, query).context["cl"].result_list
        return [row.actor for row in rows if row.at == NOON]  # without those that the fixtures caused

    assert actors() == ["eve", "root"]
    assert actors(kind="tool") == ["root"] == actors(actor="roo", verb="change") == actors(q="t0")
    assert actors(q='größe "x"') in (["eve", "root"], [])  # SQLite knows no case of letters outside ASCII
    assert actors(q='Größe "x"') == ["eve", "root"]
    assert actors(until="2026-02-01") == [] == actors(since="2026-04-01")
    # A word of the audit log is that word, shown and chosen in the language of the page; any other is a part of one.
    assert actors(kind="tool", verb="changed") == ["root"] and actors(kind="too") == ["root"]
    page = reader.get(address, {"verb": "deleted"}, headers={"accept-language": "zh-hans"}).content.decode()
    assert "删除" in page and "授权" in page and 'value="deleted"' in page
    assert "nonsense" in reader.get(address, {"verb": "nonsense"}).content.decode()
    Action.objects.filter(actor="eve").update(actor="user of tools")
    assert actors(actor="user") == ["user of tools"], "a kind's word is a part of a name like any other"


# --- details -----------------------------------------------------------------------------------------------------


def test_the_detail_shows_the_decision_and_is_itself_logged(reader, alice, django_assert_num_queries):
    row = save(build_call(1, user=alice, outcome="refused", rule="deny: interns", detail="no grant"))[0]
    reader.get("/admin/audit/call/")
    page = reader.get(reverse("admin:audit_call_change", args=(row.pk,))).content.decode()
    said = ("deny: interns", "no grant", "alice", "claude-code 1.0", "12.3 ms", "http, protocol version 2025-11-25")
    for text in (str(row.pk), "d" * 64, *said):
        assert text in page, text
    action = Action.objects.get(verb="viewed")
    assert (action.actor, action.kind, action.target) == ("audrey", "call", str(row.pk))
    # session, user, the call, permissions (2), neighbours (2), equal calls (2, and 2 for where to stop looking), the
    # links, a checkpoint, the last check of the chain (2), and the action in a savepoint (5, and on PostgreSQL the
    # lock of its chain)
    with django_assert_num_queries(22 + (connection.vendor == "postgresql")):
        reader.get(reverse("admin:audit_call_change", args=(row.pk,)))


def test_the_detail_shows_nearby_calls_from_the_same_client(reader, alice, bob):
    mine = save(*(build_call(number, user=alice) for number in range(20)))
    save(
        build_call(30, user=alice, client_name="Cursor"),
        build_call(31, user=bob),
        build_call(32, user=alice, credential_id="token:9"),
    )
    response = reader.get(reverse("admin:audit_call_change", args=(mine[10].pk,)))
    assert [moment.call.pk for moment, _, _ in response.context["neighbours"]] == [row.pk for row in mine[2:19]]


@pytest.mark.parametrize("text", XSS)
def test_logged_values_are_text_on_every_page(reader, text):
    row = save(
        build_call(
            1, name=text, username=text, client_name=text, client_version=text, credential=text, rule=text, detail=text,
            error_class=text, request_id=text, arguments=json.dumps({text: text}), result=text, outcome="tool_error",
        )
    )[0]  # fmt: skip
    Action.objects.create(
        id=build_call(2).pk, at=NOON, actor=text, verb=text, kind=text, target=text,
        before=json.dumps({text: text}), after=json.dumps({text: [text]}), link=1,
    )  # fmt: skip
    Verification.objects.create(
        id=build_call(3).pk, at=NOON, ok=False, through=text, problem=text, links=1, outside_head=False
    )
    pages = [
        reverse("admin:audit_call_changelist"),
        reverse("admin:audit_call_changelist") + f"?q={quote(text)}&user={quote(text)}&tool={quote(text)}",
        reverse("admin:audit_call_change", args=(row.pk,)),
        reverse("admin:audit_action_changelist"),
        reverse("admin:audit_action_change", args=(build_call(2).pk,)),
        reverse("admin:audit_verification_changelist"),
        reverse("admin:audit_verification_change", args=(build_call(3).pk,)),
    ]
    for address in pages:
        page = reader.get(address).content.decode()
        assert "<script>alert" not in page and "<img src=x" not in page and "</pre><script>" not in page, address
        assert ">49" not in page
    detail = reader.get(pages[2])
    assert detail["Content-Security-Policy"]
    assert "&lt;" in detail.content.decode() or "{{" in text


def test_invisible_characters_are_spelled_out(reader):
    row = save(build_call(1, name="read\u202eelif", arguments='{"a":"\\u202e\\u0000x"}'))[0]
    page = reader.get(reverse("admin:audit_call_change", args=(row.pk,))).content.decode()
    assert "read⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩elif" in page and "\u202e" not in page and "\x00" not in page


def test_a_huge_result_is_cut_and_a_pruned_one_is_explained(reader):
    huge, pruned = save(
        build_call(1, result=json.dumps({"x": "y" * 300_000})),
        build_call(2, result="pruned:sha256:" + "a" * 64, body_state="pruned"),
    )
    page = reader.get(reverse("admin:audit_call_change", args=(huge.pk,))).content.decode()
    assert "This page shows the beginning. The download has the rest." in page and len(page) < 200_000
    assert "Download result (293.0\xa0KB)" in page
    page = reader.get(reverse("admin:audit_call_change", args=(pruned.pk,))).content.decode()
    assert "Removed after the retention period" in page


# --- the chain ---------------------------------------------------------------------------------------------------


def test_the_verification_of_the_log_is_on_the_list(reader, verification, settings):
    page = reader.get(reverse("admin:audit_call_changelist")).content.decode()
    assert f"Audit log verified up to call {verification.through}, checked at 2026-03-01 12:00 UTC" in page
    assert "No external checkpoint is configured" in page
    settings.CHECKPOINT_FILE = "/mnt/elsewhere/checkpoints.jsonl"
    page = reader.get(reverse("admin:audit_call_changelist")).content.decode()
    assert "No external checkpoint is configured" not in page
    assert "not compared with the external checkpoint. Choose Verify now" in page
    save_verification(9, ok=False, problem="call 7 was edited", outside_head=True)
    assert (
        "Verification failed: call 7 was edited" in reader.get(reverse("admin:audit_call_changelist")).content.decode()
    )


def test_an_audit_log_that_was_never_checked_is_not_called_verified(reader):
    page = reader.get(reverse("admin:audit_call_changelist")).content.decode()
    assert "The audit log has not been verified yet." in page and "Audit log verified" not in page


def test_the_audit_log_is_read_by_get_and_verified_by_post_only(reader):
    assert reader.get(reverse("admin:audit_verification_now")).status_code == 405


def test_the_history_page_gives_no_access_to_the_audit_log(reader):
    row = save(build_call(1))[0]
    assert reader.get(reverse("admin:audit_call_history", args=(row.pk,))).status_code == 302


def test_reading_lists_writes_nothing_to_the_audit_log(reader):
    save(build_call(1))
    before = list(Call.objects.values())
    list_rows(reader)
    assert list(Call.objects.values()) == before and not Action.objects.filter(verb="viewed").exists()
