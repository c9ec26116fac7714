"""Filters kept under a name: nobody's but their owner's to change, and everybody's to use once they are shared."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from audit.admin import saved_views
from audit.integrity import verification
from audit.models import Action, SavedView
from tests.audit.rows import build_call, save

pytestmark = pytest.mark.django_db

LIST, MANAGE, NEW = "/admin/audit/call/", "/admin/audit/call/views/", "/admin/audit/call/views/new/"


def make_auditor(name):
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    return user


@pytest.fixture
def ann(db):
    return make_auditor("ann")


@pytest.fixture
def ben(db):
    return make_auditor("ben")


def sign_in(user):
    client = Client()
    client.force_login(user)
    return client


def make_view(owner, name="Refused", shared=False, **filters):
    return SavedView.objects.create(owner=owner, name=name, shared=shared, filters=json.dumps(filters))


# --- refusals ----------------------------------------------------------------------------------------------------


def test_somebody_elses_view_is_as_absent_as_one_that_never_was(ann, ben):
    hers = make_view(ann, shared=True)
    for pk in (hers.pk, hers.pk + 1000):
        for name in ("audit_call_views_change", "audit_call_views_delete"):
            assert sign_in(ben).post(reverse(f"admin:{name}", args=(pk,)), {"name": "mine now"}).status_code == 404
    hers.refresh_from_db()
    assert hers.name == "Refused"


def test_users_who_may_not_read_the_audit_log_save_no_views(root):
    clerk = sign_in(User.objects.create_user("clerk", is_staff=True))
    assert clerk.get(MANAGE).status_code == 403
    assert clerk.post(NEW, {"name": "x"}).status_code == 403
    assert not SavedView.objects.exists()


def test_a_name_is_needed_is_the_owners_only_once_and_shows_all_its_characters(ann):
    reader = sign_in(ann)
    for name in ("", "   ", "x" * 81, "evil\u202etxt"):
        reader.post(NEW, {"name": name, "tool": "a"})
    assert not SavedView.objects.exists()
    make_view(ann, "Mine")
    page = reader.post(NEW, {"name": "Mine", "tool": "a"}, follow=True)
    assert "You already have a view with this name. Choose another name." in page.content.decode()
    assert SavedView.objects.count() == 1


def test_the_number_of_views_is_bounded(ann, monkeypatch):
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)
    for name in "abc":
        sign_in(ann).post(NEW, {"name": name})
    assert SavedView.objects.count() == 2


# --- what works --------------------------------------------------------------------------------------------------


def test_a_filter_is_saved_used_renamed_shared_and_deleted(ann, ben, alice, bob):
    wanted, _ = save(build_call(1, user=alice, outcome="refused"), build_call(2, user=bob))
    reader = sign_in(ann)
    listed = reader.get(LIST, {"user": "alice", "outcome": "refused"})
    assert "Save this filter as a view" in listed.content.decode()
    reader.post(NEW, {"name": "Alice refused", "user": "alice", "outcome": "refused", "user_id": "9", "nonsense": "1"})
    (kept,) = SavedView.objects.all()
    assert json.loads(kept.filters) == {"user": "alice", "outcome": "refused"} and not kept.shared
    (shown,) = reader.get(LIST).context["views"]
    assert [row.pk for row in reader.get(shown.url).context["cl"].result_list] == [wanted.pk]
    assert sign_in(ben).get(LIST).context["views"] == []
    reader.post(reverse("admin:audit_call_views_change", args=(kept.pk,)), {"name": "Refusals", "shared": "on"})
    (shown,) = sign_in(ben).get(LIST).context["views"]
    assert (shown.name, shown.owner, shown.is_own) == ("Refusals", "ann", False)
    assert "shared by ann" in sign_in(ben).get(MANAGE).content.decode()
    reader.post(reverse("admin:audit_call_views_delete", args=(kept.pk,)))
    assert not SavedView.objects.exists()


def test_saving_sharing_and_deleting_a_view_is_logged_with_before_and_after(ann):
    reader = sign_in(ann)
    reader.post(NEW, {"name": "Refused", "outcome": "refused"})
    kept = SavedView.objects.get()
    reader.post(reverse("admin:audit_call_views_change", args=(kept.pk,)), {"name": "Refused", "shared": "on"})
    reader.post(reverse("admin:audit_call_views_change", args=(kept.pk,)), {"name": "Refused", "shared": "on"})
    reader.post(reverse("admin:audit_call_views_delete", args=(kept.pk,)))
    own = {"id": kept.pk, "owner_id": ann.pk, "name": "Refused", "filters": '{"outcome": "refused"}'}
    acts = Action.objects.filter(kind="saved view").order_by("pk")
    assert [
        (act.actor, act.verb, json.loads(act.before or "null"), json.loads(act.after or "null")) for act in acts
    ] == [
        ("ann", "created", None, {**own, "shared": False}),
        ("ann", "changed", {"shared": False}, {"shared": True}),
        ("ann", "deleted", {**own, "shared": True}, None),
    ]
    assert all(act.link for act in acts)
    checked = verification.run(None)
    assert checked.ok, checked.first


def test_a_view_whose_filter_was_spoiled_shows_everything(ann):
    for text in ("", "[1]", '{"user_id": 3, "o": "x"}', "[" * 100_000):
        SavedView.objects.all().delete()
        SavedView.objects.create(owner=ann, name="x", filters=text)
        (shown,) = sign_in(ann).get(LIST).context["views"]
        assert shown.url == LIST


def test_views_go_with_their_owner(ann):
    make_view(ann)
    ann.delete()
    assert not SavedView.objects.exists()


def test_without_views_the_page_says_how_to_make_one(ann):
    assert "No views yet." in sign_in(ann).get(MANAGE).content.decode()
