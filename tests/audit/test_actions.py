"""What is administered is logged: who, what, before and after, without secrets, in the transaction of the change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import IntegrityError, connection, models, transaction
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import reverse

from audit import recorder
from audit.actions import actor, ledger, log, model_signals
from audit.actions.model_signals import WatchedQuerySet, watch
from audit.integrity import verification
from audit.models import Action
from audit.redaction.redactor import CHANGED, HIDDEN

pytestmark = pytest.mark.django_db


def get_newest_action() -> Action:
    row = Action.objects.first()
    assert row is not None
    return row


def get_last_actions(count: int = 1, **wanted: str) -> list[tuple[str, str, str, Any, Any]]:
    rows = Action.objects.filter(**wanted)[:count]
    return [
        (row.verb, row.kind, row.target, json.loads(row.before or "null"), json.loads(row.after or "null"))
        for row in reversed(rows)
    ]


def test_a_change_that_is_rolled_back_leaves_no_action_and_an_action_that_fails_no_change(alice, monkeypatch):
    before = Action.objects.count()

    @transaction.atomic
    def change(then: str) -> None:
        alice.email = "new@example.com"
        alice.save()
        User.objects.create(username=then)

    with pytest.raises(IntegrityError):
        change("alice")
    assert Action.objects.count() == before
    alice.refresh_from_db()
    assert alice.email == ""

    def away(*_: object) -> None:
        raise recorder.AuditLogUnavailable("the disk is full")

    monkeypatch.setattr(ledger, "write", away)
    with pytest.raises(recorder.AuditLogUnavailable):
        change("dora")
    alice.refresh_from_db()
    assert alice.email == "" and not User.objects.filter(username="dora").exists()


def test_creating_changing_and_deleting_are_logged_with_before_and_after():
    user = User.objects.create_user("dora", email="d@example.com", password="a very long password")
    assert get_last_actions()[0][:3] == ("created", "user", f"dora (id {user.pk})")
    user.email, user.is_staff = "e@example.com", True
    user.save()
    assert get_last_actions() == [
        (
            "changed", "user", f"dora (id {user.pk})",
            {"email": "d@example.com", "is_staff": False}, {"email": "e@example.com", "is_staff": True},
        )
    ]  # fmt: skip
    key = user.pk
    user.delete()
    verb, _, target, before, after = get_last_actions(verb="deleted")[0]
    assert (verb, target, after) == ("deleted", f"dora (id {key})", None) and before["email"] == "e@example.com"


def test_a_password_is_never_logged_only_that_it_changed(alice):
    alice.set_password("another very long password")
    alice.save()
    assert get_last_actions()[0][3:] == ({"password": HIDDEN}, {"password": CHANGED})
    assert not Action.objects.filter(after__contains=alice.password).exists()
    assert not Action.objects.filter(after__contains="pbkdf2").exists()


def test_a_save_that_changes_nothing_watched_is_no_action(alice):
    before = Action.objects.count()
    alice.save()
    alice.last_login = "2026-01-01T00:00:00Z"
    alice.save(update_fields=["last_login"])
    alice.email = "not@saved.example"
    alice.save(update_fields=["last_login"])
    assert Action.objects.count() == before


def test_a_save_without_the_old_instance_still_knows_what_was_before(alice):
    User(id=alice.pk, username="alice2", password=alice.password, date_joined=alice.date_joined).save()
    assert get_last_actions()[0][3:] == ({"username": "alice"}, {"username": "alice2"})


def test_memberships_and_permissions_are_logged_from_both_sides(alice, bob):
    team = Group.objects.create(name="team")
    alice.groups.add(team)
    alice.groups.add(team)  # changes nothing
    team.user_set.add(alice, bob)
    alice.groups.remove(team)
    team.user_set.clear()
    permission = Permission.objects.get(codename="view_user")
    team.permissions.set([permission])
    assert get_last_actions(5) == [
        ("added to", "user", f"alice (id {alice.pk})", {"groups": []}, {"groups": ["team"]}),
        ("added to", "group", f"team (id {team.pk})", {"users": []}, {"users": ["bob"]}),
        ("removed from", "user", f"alice (id {alice.pk})", {"groups": ["team"]}, {"groups": []}),
        ("removed from", "group", f"team (id {team.pk})", {"users": ["bob"]}, {"users": []}),
        ("added to", "group", f"team (id {team.pk})", {"permissions": []}, {"permissions": [str(permission)]}),
    ]


def test_an_update_of_many_rows_at_once_is_one_action_that_lists_them(alice, bob, charlie):
    User.objects.filter(username__in=["alice", "bob"]).update(is_active=False)
    verb, kind, target, before, after = get_last_actions()[0]
    assert (verb, kind, target) == ("changed", "user", "2 at once")
    assert before == {"count": 2, str(alice.pk): {"is_active": True}, str(bob.pk): {"is_active": True}}
    assert after == {"count": 2, str(alice.pk): {"is_active": False}, str(bob.pk): {"is_active": False}}
    count = Action.objects.count()
    User.objects.filter(username="alice").update(is_active=False)
    User.objects.filter(username="alice").update(last_login=None)
    assert Action.objects.count() == count


def test_a_computed_update_is_logged_with_its_result(alice):
    User.objects.filter(pk=alice.pk).update(email=Concat("username", models.Value("@example.com")))
    assert get_last_actions()[0][4][str(alice.pk)] == {"email": "alice@example.com"}


def test_bulk_creation_and_deletion_are_logged():
    User.objects.bulk_create([User(username=f"u{number}") for number in range(3)])
    assert get_last_actions()[0][:3] == ("created", "user", "3 at once")
    made = list(User.objects.filter(username__startswith="u"))
    for user in made:
        user.first_name = "x"
    User.objects.bulk_update(made, ["first_name"])
    assert get_last_actions()[0][:3] == ("changed", "user", "3 at once")
    User.objects.filter(username__startswith="u").delete()
    assert [row[0] for row in get_last_actions(3)] == ["deleted"] * 3


def test_more_rows_than_are_listed_are_counted(monkeypatch):
    monkeypatch.setattr(model_signals, "MAX_LISTED_ROWS", 2)
    User.objects.bulk_create([User(username=f"u{number}") for number in range(5)])
    User.objects.filter(username__startswith="u").update(is_active=False)
    assert len(get_last_actions()[0][4]) == 3 and get_last_actions()[0][4]["count"] == 5


def test_every_table_of_the_catalogue_and_the_tokens_are_watched():
    from catalog import models as catalogue
    from toolhub.access.models import AccessToken

    names = ("Tool", "Toolset", "Prompt", "Resource", "Grant", "Limit")
    wanted = {getattr(catalogue, name) for name in names} | {AccessToken, User, Group}
    assert wanted <= set(model_signals.watched_models())


def test_a_secret_in_a_watched_field_is_hidden_by_its_name():
    log.record("changed", "tool", "x", {"settings": {"headers": {"Authorization": "Bearer abc-def"}}}, None)
    assert "abc-def" not in get_newest_action().before


def test_every_queryset_of_a_watched_model_logs_changes(alice):
    assert isinstance(User.objects.all(), WatchedQuerySet)
    watch(User, kind="user", ignore=("last_login",), secrets=("password",))  # again: once all the same
    before = Action.objects.count()
    alice.email = "x@example.com"
    alice.save()
    assert Action.objects.count() == before + 1


# --- who ---------------------------------------------------------------------------------------------------------


def test_the_signed_in_user_is_the_actor_of_admin_changes(client, root, alice):
    client.force_login(root)
    team = Group.objects.create(name="team")
    assert client.post(reverse("admin:auth_group_delete", args=(team.pk,)), {"post": "yes"}).status_code == 302
    assert Action.objects.get(kind="group", verb="deleted").actor == "root"


def test_a_request_leaves_no_actor_behind(client, root):
    client.force_login(root)
    client.get("/admin/")
    assert actor.current().name == "toolhub" and actor.client_address() == ""


def test_a_command_is_an_actor_by_its_name(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/srv/toolhub/manage.py", "createsuperuser"])
    User.objects.create(username="made")
    assert get_newest_action().actor == "command createsuperuser"
    with actor.override("retention"):
        User.objects.create(username="made2")
    assert get_newest_action().actor == "retention"


def test_an_anonymous_actor_has_no_name(rf: RequestFactory):
    seen: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        seen.append(actor.current().name)
        return HttpResponse()

    actor.ActorMiddleware(answer)(rf.get("/"))
    assert seen == ["nobody signed in"]


def test_a_page_that_changes_nothing_asks_for_no_user(rf: RequestFactory, django_assert_num_queries):
    with django_assert_num_queries(0):
        actor.ActorMiddleware(lambda request: HttpResponse())(rf.get("/"))


# --- signing in --------------------------------------------------------------------------------------------------


def test_signing_in_and_out_is_logged_with_the_address(client, root):
    assert client.login(username="root", password="correct horse battery")
    client.logout()
    assert [row[:3] for row in get_last_actions(2, kind="session")] == [
        ("signed in", "session", "root"), ("signed out", "session", "root"),
    ]  # fmt: skip
    assert Action.objects.filter(kind="session", actor="root").count() == 2


def test_a_failed_sign_in_is_logged_without_the_typed_values(client, root):
    client.post("/sign-in/", {"username": "root", "password": "wrong-password-1"})
    assert get_last_actions(kind="session")[0][:3] == ("failed to sign in", "session", "root")
    assert get_last_actions(kind="session")[0][4] == {"address": "127.0.0.1"}
    client.post("/sign-in/", {"username": "my-password-in-the-wrong-field", "password": "x"})
    assert get_last_actions(kind="session")[0][2].startswith("[redacted hmac-sha256:")
    for column in ("actor", "target", "before", "after"):
        assert not Action.objects.filter(**{f"{column}__contains": "wrong-password-1"}).exists()
        assert not Action.objects.filter(**{f"{column}__contains": "my-password-in"}).exists()


@pytest.mark.django_db(transaction=True)
def test_actions_are_in_the_hash_chain_and_an_edit_of_one_shows(root):
    root.email = "x@example.com"
    root.save()
    assert verification.run().ok
    with connection.cursor() as cursor:
        cursor.execute("UPDATE audit_action SET actor = 'somebody else'")
    assert not verification.run().ok


def test_creating_an_account_by_command_is_logged(monkeypatch):
    monkeypatch.setattr("sys.argv", ["manage.py", "createsuperuser"])
    call_command("createsuperuser", "--noinput", username="boss", email="b@example.com")
    assert get_last_actions(actor="command createsuperuser")[0][:2] == ("created", "user")


def test_adding_to_a_toolset_from_its_own_side_is_logged():
    """Tools, prompts, resources and tokens all name their relation `toolsets`; the way back is not the same."""
    from tests.factories import make_prompt, make_tool, make_toolset

    numbers, tool, prompt = make_toolset("Numbers"), make_tool(), make_prompt()
    numbers.tools.add(tool)
    assert get_last_actions()[0] == (
        "added to", "toolset", f"Numbers (id {numbers.pk})", {"tools": []}, {"tools": ["calculate_sum"]}
    )  # fmt: skip
    numbers.prompts.add(prompt)
    assert get_last_actions()[0][3:] == ({"prompts": []}, {"prompts": ["greeting"]})
    numbers.tools.remove(tool)
    assert get_last_actions()[0][3:] == ({"tools": ["calculate_sum"]}, {"tools": []})
    assert list(numbers.prompts.all()) == [prompt]
