"""OpenAPI documents between preview and import: kept after an import, gone after a preview that nobody continued."""

from __future__ import annotations

import importlib
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from audit.models import Action
from catalog.exchange import importer
from catalog.exchange.exporter import export_catalogue
from catalog.models import ImportedDocument, Tool
from catalog.openapi import document_import
from tests import factories

pytestmark = pytest.mark.django_db
ADD = "admin:catalog_importeddocument_add"
FORM = {"server": "https://shop.example", "outputs": "on", "do": "import"}


def document(*names: str, title: str = "Shop") -> bytes:
    paths = {f"/{name}": {"get": {"operationId": name, "summary": f"Get {name}."}} for name in names}
    return json.dumps({"openapi": "3.1.0", "info": {"title": title, "version": "7"}, "paths": paths}).encode()


def upload(browser: Client, data: bytes, name: str = "shop.json", address: str = "") -> Any:
    return browser.post(address or reverse(ADD), {"file": SimpleUploadedFile(name, data), "url": ""})


def page(row: ImportedDocument, name: str) -> str:
    return reverse(f"admin:catalog_importeddocument_{name}", args=[row.pk])


def imported(browser: Client) -> ImportedDocument:
    """A document of two operations, one of which is imported."""
    upload(browser, document("pets", "orders"))
    row = ImportedDocument.objects.get()
    assert browser.post(page(row, "preview"), {**FORM, "operation": ["GET /pets"]}).status_code == 302
    row.refresh_from_db()
    return row


def activity() -> list[tuple[str, str]]:
    return list(Action.objects.filter(kind="OpenAPI document").order_by("id").values_list("verb", "target"))


def test_two_uploads_of_one_file_name_are_two_documents_unless_they_have_the_same_title(browser: Client) -> None:
    row = imported(browser)
    upload(browser, document("rooms", title="Hotel"))
    hotel = ImportedDocument.objects.exclude(pk=row.pk).get()
    assert hotel.draft and hotel.name == "Hotel"
    shown = browser.get(page(hotel, "preview")).content.decode()
    assert "GET /rooms" in shown and "GET /pets" not in shown, "the tools of the other document are not gone"
    upload(browser, document("pets", "users"))
    assert ImportedDocument.objects.count() == 2
    row.refresh_from_db()
    assert "/users" in row.pending and row.imported_at is not None


def test_a_preview_is_no_admin_activity_and_no_part_of_the_catalogue(browser: Client) -> None:
    upload(browser, document("pets"))
    row = ImportedDocument.objects.get()
    browser.get(page(row, "preview"))
    browser.post(page(row, "preview"), {**FORM, "do": "look"})
    assert activity() == [] and row.draft and "openapi_documents" not in export_catalogue()
    listed = browser.get(reverse("admin:catalog_importeddocument_changelist")).content.decode()
    assert "draft, not imported" in listed.lower()
    shown = browser.get(page(row, "change")).content.decode()
    assert page(row, "preview") in shown and "Change choices" not in shown
    assert browser.post(page(row, "preview"), {**FORM, "operation": ["GET /pets"]}).status_code == 302
    name = f"Shop (id {row.pk})"
    assert activity() == [("created", name), ("imported", name)]
    assert [entry["name"] for entry in export_catalogue()["openapi_documents"]] == ["Shop"]


def test_a_cancelled_preview_of_a_new_document_leaves_nothing_behind(browser: Client) -> None:
    upload(browser, document("pets"))
    row = ImportedDocument.objects.get()
    gone = browser.post(page(row, "preview"), {"do": "cancel", "server": "", "secret_0": ""}, follow=True)
    assert "The preview was discarded. Nothing was imported." in gone.content.decode()
    assert gone.redirect_chain[-1][0] == reverse("admin:catalog_importeddocument_changelist")
    assert not ImportedDocument.objects.exists() and activity() == []
    assert browser.post(page(row, "preview"), FORM).status_code == 404


def test_a_draft_can_be_deleted_like_any_document(browser: Client) -> None:
    upload(browser, document("pets"))
    row = ImportedDocument.objects.get()
    assert browser.post(page(row, "delete"), {"post": "yes"}).status_code == 302
    assert not ImportedDocument.objects.exists() and activity() == []


def test_an_imported_document_is_kept_and_its_choices_can_be_changed_without_it(browser: Client) -> None:
    row = imported(browser)
    assert row.pending == "" and row.kept_text.encode() == document("pets", "orders") and not row.draft
    assert "Change choices" in browser.get(page(row, "change")).content.decode()
    kept = browser.post(page(row, "again"), {"use": "kept"})
    assert kept["Location"] == page(row, "preview")
    shown = browser.get(page(row, "preview")).content.decode()
    assert "This is the document as it was imported on" in shown and 'value="https://shop.example"' in shown
    changed = {**FORM, "server": "https://new.example", "operation": ["GET /orders"]}
    browser.post(page(row, "preview"), changed)
    assert {tool.name: tool.settings["url"] for tool in Tool.objects.all()} == {
        "pets": "https://new.example/pets",
        "orders": "https://new.example/orders",
    }
    row.refresh_from_db()
    assert row.kept_text.encode() == document("pets", "orders") and row.source == "shop.json"


def test_a_newer_version_that_is_cancelled_leaves_the_document_as_it_was_imported(browser: Client) -> None:
    row = imported(browser)
    before = ImportedDocument.objects.values().get()
    upload(browser, document("pets", "users"), address=page(row, "again"))
    assert "GET /users" in browser.get(page(row, "preview")).content.decode()
    assert (
        "newer version not imported"
        in browser.get(reverse("admin:catalog_importeddocument_changelist")).content.decode().lower()
    )
    assert browser.post(page(row, "preview"), {"do": "cancel"})["Location"] == page(row, "change")
    assert ImportedDocument.objects.values().get() == before
    upload(browser, document("pets", "users"), address=page(row, "again"))
    assert "is discarded" in browser.get(page(row, "again")).content.decode()
    browser.post(page(row, "again"), {"use": "kept"})
    assert ImportedDocument.objects.values().get() == before
    assert [verb for verb, _ in activity()] == ["created", "imported"]


def test_the_page_to_import_again_offers_the_stored_document_and_its_address(browser: Client) -> None:
    row = imported(browser)
    shown = browser.get(page(row, "again")).content.decode()
    assert "Use the stored document" in shown and "Fetch the document again" not in shown
    ImportedDocument.objects.update(source="http://169.254.169.254/openapi.json", kept=b"")
    shown = browser.get(page(row, "again")).content.decode()
    assert "Use the stored document" not in shown and "Fetch the document again" in shown
    assert "cannot be fetched" in browser.post(page(row, "again"), {"use": "address"}).content.decode()
    assert browser.post(page(row, "again"), {"use": "kept"}).status_code == 200
    assert browser.get(page(row, "preview"))["Location"] == page(row, "again")


def test_previews_of_yesterday_are_discarded_and_documents_with_tools_stay(browser: Client) -> None:
    row = imported(browser)
    upload(browser, document("pets", "users"), address=page(row, "again"))
    upload(browser, document("cats", title="Cats"), name="cats.json")
    upload(browser, document("dogs", title="Dogs"), name="dogs.json")
    old = timezone.now() - timedelta(seconds=document_import.PREVIEW_SECONDS + 60)
    ImportedDocument.objects.exclude(name="Dogs").update(pending_at=old)
    document_import.discard_expired()
    assert {one.name: bool(one.pending) for one in ImportedDocument.objects.all()} == {"Shop": False, "Dogs": True}
    row.refresh_from_db()
    assert row.pending == "" and row.kept_text and Tool.objects.get().origin == row.origin
    ImportedDocument.objects.filter(name="Dogs").update(pending_at=old)
    upload(browser, document("cats", title="Cats"), name="cats.json")
    assert set(ImportedDocument.objects.values_list("name", flat=True)) == {"Shop", "Cats"}


def test_a_form_of_another_document_than_the_stored_one_imports_nothing(browser: Client) -> None:
    upload(browser, document("pets"))
    row = ImportedDocument.objects.get()
    seen = document_import.digest(row.pending)
    assert f'name="document" value="{seen}"' in browser.get(page(row, "preview")).content.decode()
    upload(browser, document("pets", "users"))
    sent = {**FORM, "document": seen, "operation": ["GET /pets"]}
    answer = browser.post(page(row, "preview"), sent, follow=True).content.decode()
    assert "Somebody else uploaded another version" in answer and not Tool.objects.exists()


def test_a_file_of_a_catalogue_takes_the_place_of_a_preview_with_the_same_name(browser: Client) -> None:
    upload(browser, document("pets"))
    importer.run({"toolhub": 1, "openapi_documents": [{"name": "Shop", "title": "Shop", "source": "shop.json"}]})
    row = ImportedDocument.objects.get()
    assert not row.draft and row.pending == "" and ("created", f"Shop (id {row.pk})") in activity()
    factories.make_tool("pets", origin=row.origin)
    upload(browser, document("pets"))
    row.refresh_from_db()
    assert row.pending and not row.draft
    browser.post(page(row, "preview"), {"do": "cancel"})
    assert ImportedDocument.objects.get().pending == ""


def test_an_upgrade_marks_previews_as_drafts_and_gives_them_a_day(browser: Client) -> None:
    row = imported(browser)
    upload(browser, document("pets", "users"), address=page(row, "again"))
    upload(browser, document("cats", title="Cats"), name="cats.json")
    from_file = ImportedDocument.objects.create(name="File", title="File", source="file.json", pending="{}")
    factories.make_tool("of_file", origin=from_file.origin)
    ImportedDocument.objects.update(draft=False, pending_at=None, kept=b"")
    migration = importlib.import_module("catalog.migrations.0016_kept_openapi_documents")
    migration.mark_previews(apps, SimpleNamespace(connection=connection))
    found = {one.name: (one.draft, one.pending_at is not None) for one in ImportedDocument.objects.all()}
    assert found == {"Shop": (False, True), "Cats": (True, True), "File": (False, True)}
