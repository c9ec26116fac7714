"""The page of backups: only for whom it is meant, exact for this installation, and without any secret."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, transaction
from django.test import Client

from audit.models import Action
from toolhub import env
from toolhub.pages import backups
from toolhub.pages.models import BackupConfirmation

pytestmark = pytest.mark.django_db
PAGE, CONFIRM, WITHDRAW = "/admin/backups/", "/admin/backups/confirm/", "/admin/backups/withdraw/"
SECRET = "tell-nobody-what-this-is"


def operator(name: str = "olga") -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="manage_backups"))
    client = Client()
    client.force_login(user)
    return client


def read(client: Client) -> str:
    answer = client.get(PAGE)
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_staff_without_the_permission_neither_see_nor_confirm_backups(alice: User) -> None:
    alice.is_staff = True
    alice.save()
    alice.user_permissions.set(Permission.objects.exclude(codename="manage_backups"))
    client = Client()
    client.force_login(alice)
    for address, method in ((PAGE, "get"), (CONFIRM, "post"), (WITHDRAW, "post")):
        assert getattr(client, method)(address).status_code == 403, address
    assert not BackupConfirmation.objects.exists()


@pytest.mark.parametrize("address", [CONFIRM, WITHDRAW])
def test_a_link_or_the_form_of_another_site_changes_nothing(browser: Client, root: User, address: str) -> None:
    if address == WITHDRAW:
        browser.post(CONFIRM)
    before = BackupConfirmation.objects.count()
    assert browser.get(address).status_code == 405
    foreign = Client(enforce_csrf_checks=True)
    foreign.force_login(root)
    assert foreign.post(address).status_code == 403
    assert BackupConfirmation.objects.count() == before


def test_a_confirmation_says_who_and_when_is_logged_and_can_be_withdrawn(root: User, browser: Client) -> None:
    client = operator()
    assert "toolhub cannot see your backups" in read(client)
    assert "Backups are confirmed." in client.post(CONFIRM, follow=True).content.decode()
    assert re.search(r"olga confirmed at .+ that backups are set up\.", read(browser))
    browser.post(CONFIRM)
    assert BackupConfirmation.objects.get().confirmed_by == "olga", "the first one stays"
    User.objects.filter(username="olga").delete()
    assert "olga confirmed" in read(browser), "the name outlives the account"
    page = browser.post(WITHDRAW, follow=True).content.decode()
    assert "The confirmation was withdrawn." in page and "I have set up backups" in page
    browser.post(WITHDRAW)
    logged = Action.objects.filter(kind="backup confirmation").order_by("link").values_list("actor", "verb")
    assert list(logged) == [("olga", "created"), ("root", "deleted")]
    shown = browser.get("/admin/audit/action/?kind=backup+confirmation").content.decode()
    assert "backup confirmation" in shown and "created" in shown


def test_there_is_never_a_second_confirmation() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        BackupConfirmation.objects.create(pk=2, confirmed_by="root")


def test_the_page_names_the_keys_and_where_they_are_and_never_their_values(
    browser: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    kept = tmp_path / "record.key"
    kept.write_text(SECRET)
    for name in [name for name, _file, _purpose in backups.KEYS]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    assert backups.list_keys() == []
    env.generated_secret(settings.DATA_DIR / "encryption-key", lambda: SECRET)
    monkeypatch.setenv("TOOLHUB_RECORD_KEY_FILE", str(kept))
    monkeypatch.setenv("TOOLHUB_SECRET_KEY", SECRET)
    found = {key.name: (key.place, key.path) for key in backups.list_keys()}
    assert found == {
        "TOOLHUB_ENCRYPTION_KEYS": ("generated, in the file", str(settings.DATA_DIR / "encryption-key")),
        "TOOLHUB_RECORD_KEY": ("in the file", str(kept)),
        "TOOLHUB_SECRET_KEY": ("in the environment of the server", ""),
    }
    page = read(browser)
    assert str(kept) in page and str(settings.DATA_DIR / "encryption-key") in page
    assert SECRET not in page and "TOOLHUB_RECORD_OLD_KEYS" not in page


def test_the_commands_name_this_database_and_no_password() -> None:
    server = {"HOST": "db.example.com", "PORT": "5433", "USER": "o'hara", "PASSWORD": SECRET}
    commands = backups.list_commands({"ENGINE": "django.db.backends.postgresql", "NAME": "the hub", **server})
    options = """--host=db.example.com --port=5433 --username='o'"'"'hara'"""
    assert commands.copy == [f"pg_dump {options} --format=custom --file=/path/to/backups/toolhub.dump 'the hub'"]
    assert commands.copy_with_python == [] and SECRET not in str(commands)
    commands = backups.list_commands({"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/the hub/db"})
    assert commands.copy == ["sqlite3 -readonly '/srv/the hub/db' '.backup /path/to/backups/toolhub.sqlite3'"]


def test_the_page_says_what_is_known_of_the_external_checkpoint(browser: Client, settings: Any) -> None:
    assert "TOOLHUB_CHECKPOINT_FILE=" in read(browser)
    settings.CHECKPOINT_FILE = "/mnt/elsewhere/checkpoints.jsonl"
    page = read(browser)
    assert "is appended to /mnt/elsewhere/checkpoints.jsonl" in page and "No verification has compared" in page
    assert "This file is in the data folder." not in page
    settings.CHECKPOINT_FILE = str(settings.DATA_DIR / "checkpoints.jsonl")
    assert "This file is in the data folder." in read(browser)


def test_the_sidebar_has_the_page_for_those_who_may_open_it(browser: Client, alice: User) -> None:
    assert f'href="{PAGE}"' in operator().get("/admin/").content.decode()
    alice.is_staff = True
    alice.save()
    client = Client()
    client.force_login(alice)
    assert PAGE not in client.get("/admin/").content.decode()
