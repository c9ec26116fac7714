"""Imports: each is a batch with next steps, a filter of lists, and an undo that keeps whatever somebody used."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog import import_batches
from catalog.models import Grant, ImportBatch, ImportedItem, Prompt, Tool, Toolset, ToolTest
from tests import factories
from tests.audit import rows
from tests.pages.test_access_lists import make_staff
from toolhub.pages.access import imports

pytestmark = pytest.mark.django_db


def make_batch(*names: str, source: str = "petstore.yaml") -> ImportBatch:
    tools = [factories.make_tool(name) for name in names]
    batch = import_batches.record(ImportBatch.Source.OPENAPI, source, tools)
    assert batch is not None
    return age(batch)


def age(batch: ImportBatch) -> ImportBatch:
    """The same import before all calls of `tests.audit.rows`, whose times are fixed."""
    batch.made_at = datetime(2000, 1, 1, tzinfo=UTC)
    batch.save()
    return batch


def undo(client: Client, batch: ImportBatch) -> str:
    text: str = client.post(f"/admin/imports/{batch.pk}/undo/", follow=True).content.decode()
    return text


def preview(client: Client, batch: ImportBatch) -> str:
    return " ".join(client.get(f"/admin/imports/{batch.pk}/undo/").content.decode().split())


def read_states(batch: ImportBatch) -> dict[str, tuple[str, ...]]:
    return {str(state.item): state.reasons for state in import_batches.find_states(batch)}


def test_undoing_removes_exactly_what_nobody_used_or_changed(browser: Client, alice: User) -> None:
    batch = make_batch("idle", "renamed", "off", "granted", "denied", "limited", "tested", "called", "tooled")
    other = factories.make_tool("other")
    tools = {tool.name: tool for tool in Tool.objects.all()}
    tools["renamed"].description = "Something else."
    tools["renamed"].save()
    Tool.objects.filter(name="off").update(enabled=False)
    factories.grant(alice, tools["granted"])
    factories.deny(alice, tools["denied"], trial=True)
    factories.limit("3/m", tools["limited"])
    ToolTest.objects.create(tool=tools["tested"], name="one")
    rows.save(rows.build_call(user=alice, name="called", target_id=tools["called"].pk, method="tools/call"))
    tools["tooled"].toolsets.add(factories.make_toolset("Pets"))
    assert read_states(batch) == {
        "idle": (),
        "tooled": (),
        "renamed": ("changed",),
        "off": ("changed",),
        "granted": ("granted",),
        "denied": ("granted",),
        "limited": ("limited",),
        "tested": ("tested",),
        "called": ("called",),
    }
    page = browser.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert "changed since the import" in page and "was called" in page and "1 to 9 of 9" in page
    before = preview(browser, batch)
    assert "It removes 2 items that no one has used or changed. 7 items stay" in before
    stays, removed = before.partition("Is removed")[::2]
    assert stays.count("<li>") - removed.count("<li>") >= 5 and removed.count("<li>") == 2
    assert "was called" in stays and "tooled" in removed and Tool.objects.count() == 10
    text = undo(browser, batch)
    assert "2 items removed. 7 items stay." in text
    assert set(Tool.objects.values_list("name", flat=True)) == {*tools, other.name} - {"idle", "tooled"}
    assert Toolset.objects.filter(name="Pets").exists()
    logged = Action.objects.get(kind="import", verb="undone")
    assert logged.actor == "root" and json.loads(logged.after)["removed"] == ["idle", "tooled"]
    assert Action.objects.filter(kind="tool", verb="deleted", actor="root").count() == 2
    assert "This import was undone before." in undo(browser, batch)
    again = browser.get(f"/admin/imports/{batch.pk}/undo/", follow=True).content.decode()
    assert "This import was undone before." in again and "Undo import" not in again
    assert "Undo import" not in browser.get(f"/admin/imports/{batch.pk}/").content.decode()


def test_a_call_of_another_tool_of_that_name_is_no_use_of_this_one(alice: User) -> None:
    batch = make_batch("idle")
    rows.save(rows.build_call(user=alice, name="idle", target_id=Tool.objects.get().pk + 1, method="tools/call"))
    assert read_states(batch) == {"idle": ()}


def test_a_change_that_the_source_made_does_not_keep_an_item(browser: Client) -> None:
    batch = make_batch("idle")
    Tool.objects.update(quarantined_since=timezone.now(), proposed="{}")
    assert read_states(batch) == {"idle": ()}
    Tool.objects.update(rejected="x" * 64)
    assert read_states(batch) == {"idle": ("changed",)}, "a reviewer decided about it"


def test_a_template_that_was_read_at_any_address_is_used(alice: User) -> None:
    template = factories.make_resource(uri_template="pets://{id}", function="pet", text=None)
    batch = import_batches.record(ImportBatch.Source.UPSTREAM, "pets", [template])
    assert batch is not None and read_states(age(batch)) == {"pets://{id}": ()}
    rows.save(rows.build_call(user=alice, name="pets://7", target_id=template.pk, method="resources/read"))
    assert read_states(batch) == {"pets://{id}": ("called",)}


def test_undoing_needs_the_permission_to_delete_every_kind_of_item(root: User) -> None:
    batch = make_batch("idle")
    prompt = factories.make_prompt("hello")
    ImportedItem.objects.create(batch=batch, prompt=prompt, digest=import_batches.digest(prompt))
    for number, names in enumerate((["view_tool"], ["view_tool", "delete_tool"], ["delete_tool", "delete_prompt"])):
        client = make_staff(f"staff{number}", *names)
        assert client.post(f"/admin/imports/{batch.pk}/undo/").status_code == 403
        assert client.get(f"/admin/imports/{batch.pk}/undo/").status_code == 403
    viewer = make_staff("viewer", "view_tool").get(f"/admin/imports/{batch.pk}/").content.decode()
    assert "hello" not in viewer and "Undo import" not in viewer and "idle" in viewer
    assert Tool.objects.exists() and Prompt.objects.exists()
    undo(make_staff("deleter", "view_tool", "delete_tool", "delete_prompt"), batch)
    assert not Tool.objects.exists() and not Prompt.objects.exists()


def test_undoing_needs_a_post_with_its_csrf_token(root: User) -> None:
    batch = make_batch("idle")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    assert strict.get(f"/admin/imports/{batch.pk}/undo/").status_code == 200
    assert Tool.objects.exists()
    assert strict.post(f"/admin/imports/{batch.pk}/undo/").status_code == 403
    assert Tool.objects.exists()


def test_the_batch_is_a_filter_of_the_list_of_tools(browser: Client) -> None:
    first, second = make_batch("one", "two"), make_batch("three", source="<b>x</b>\u202e")
    factories.make_tool("four")

    def find(value: Any) -> list[str]:
        answer = browser.get("/admin/catalog/tool/", {"batch": value})
        return sorted(tool.name for tool in answer.context["cl"].result_list)

    assert find(first.pk) == ["one", "two"] and find(second.pk) == ["three"]
    assert find(999) == find("x") == find("9" * 40) == []
    page = browser.get("/admin/catalog/tool/").content.decode()
    assert ", petstore.yaml" in page and "<b>x</b>" not in page and "\u202e" not in page
    assert ", petstore.yaml" not in browser.get("/admin/catalog/prompt/").content.decode(), "it made no prompts"


def test_what_was_imported_is_put_into_a_toolset_that_is_new_or_there(browser: Client) -> None:
    batch = make_batch("one", "two")
    factories.make_tool("other")
    address = f"/admin/catalog/tool/?batch={batch.pk}"
    key = Tool.objects.get(name="one").pk
    page = browser.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert f'action="{address}"' in page
    data = {"action": "add_to_toolset", "select_across": "1", "_selected_action": key, "back": f"import:{batch.pk}"}
    assert "2 items selected" in browser.post(address, data).content.decode()
    confirmed = {**data, "toolset": "", "name": "Pets", "confirmed": "new:Pets"}
    assert browser.post(address, confirmed)["Location"] == f"/admin/imports/{batch.pk}/"
    pets = Toolset.objects.get(name="Pets")
    assert sorted(pets.tools.values_list("name", flat=True)) == ["one", "two"]
    page = browser.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert f"/admin/access/give/?what=toolset:{pets.pk}&amp;place=toolset:{pets.pk}" in page
    assert not Grant.objects.exists()


def test_the_import_of_a_file_is_a_batch_and_one_that_makes_nothing_is_none(browser: Client, tmp_path: Path) -> None:
    tool = {"name": "feed", "description": "Feeds.", "settings": {"function": "calculate_sum"}}
    path = tmp_path / "pets.json"
    path.write_text(json.dumps({"toolhub": 1, "tools": [tool]}), encoding="utf-8")
    call_command("importtools", str(path), "--plan")
    assert not ImportBatch.objects.exists()
    call_command("importtools", str(path))
    call_command("importtools", str(path))
    batch = ImportBatch.objects.get()
    assert (batch.kind, batch.source, batch.number) == ("file", "pets.json", 1)
    assert read_states(batch) == {"feed": ()}, "what was saved is what the digest is of"
    listed = browser.get("/admin/imports/").content.decode()
    assert "pets.json" in listed and "catalogue file" in listed


@pytest.mark.django_db(transaction=True)
def test_undoing_beside_running_calls_knows_what_was_called(root: User, alice: User) -> None:
    """On SQLite, the undo is prepared in a copy that has no calls."""
    batch = make_batch("idle", "called")
    called = Tool.objects.get(name="called")
    rows.save(rows.build_call(user=alice, name="called", target_id=called.pk, method="tools/call"))
    undone = import_batches.undo(batch)
    assert (undone.removed, undone.kept) == (["idle"], ["called"])
    assert list(Tool.objects.all()) == [called]
    with pytest.raises(import_batches.AlreadyUndone):
        import_batches.undo(batch)


def test_a_deleted_item_leaves_its_import(browser: Client) -> None:
    batch = make_batch("idle")
    Tool.objects.get().delete()
    assert "Nothing of this import exists any more." in browser.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert browser.get("/admin/imports/999/").status_code == 404


def test_staff_who_may_not_read_the_audit_log_learn_of_no_call(alice: User) -> None:
    batch = make_batch("idle", "called")
    called = Tool.objects.get(name="called")
    viewer = make_staff("viewer", "view_tool", "delete_tool")
    before = preview(viewer, batch)
    rows.save(rows.build_call(user=alice, name="called", target_id=called.pk, method="tools/call"))
    after = preview(viewer, batch)
    assert "was called" not in viewer.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert "was called" not in after and "It removes 2 items" in before and "It removes 2 items" in after
    assert "Items that were called since stay, too." in after
    reader = make_staff("reader", "view_tool", "delete_tool", "view_call")
    assert "was called" in reader.get(f"/admin/imports/{batch.pk}/").content.decode()
    text = preview(reader, batch)
    assert "was called" in text and "It removes 1 item" in text
    assert "Only calls that are still in the audit log count." in text
    assert "1 item removed. 1 item stays." in undo(viewer, batch), "what was called stays for everyone"


def test_a_large_import_is_read_page_by_page_in_the_order_of_the_import(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "ITEMS_PER_PAGE", 3)
    made = [factories.make_tool(name) for name in ("c", "a", "d", "b")] + [factories.make_prompt("hello")]
    batch = import_batches.record(ImportBatch.Source.UPSTREAM, "pets", made)
    assert batch is not None

    def read(number: int | str) -> list[str]:
        page = browser.get(f"/admin/imports/{batch.pk}/", {"p": number}).content.decode()
        return re.findall(r"<td[^>]*><div><a[^>]*><bdi>([^<]*)", page)

    assert read(1) == read("x") == ["c", "a", "d"]
    assert read(2) == read(99) == ["b", "hello"], "the kinds follow each other, also within a page"
    page = browser.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert "1 to 3 of 5" in page and 'href="?p=2"' in page and "Add to a toolset: 4 tools" in page
    assert "Show in the list: 1 prompt<" in page
    toolless = make_staff("toolless", "view_tool")
    assert "of 4" in toolless.get(f"/admin/imports/{batch.pk}/").content.decode(), "prompts are not theirs to see"


def test_a_template_stays_when_there_are_too_many_calls_to_look_through(
    browser: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = factories.make_resource(uri_template="pets://{id}", function="pet", text=None)
    batch = import_batches.record(ImportBatch.Source.UPSTREAM, "pets", [template])
    assert batch is not None
    age(batch)
    monkeypatch.setattr(import_batches, "MAX_SCANNED_CALLS", 2)
    rows.save(*(rows.build_call(number, user=alice, name="other", method="tools/call") for number in range(2)))
    assert read_states(batch) == {"pets://{id}": ()}
    rows.save(rows.build_call(2, user=alice, name="other", method="tools/call"))
    assert read_states(batch) == {"pets://{id}": ("maybe_called",)}
    assert "there are too many calls since to tell" in browser.get(f"/admin/imports/{batch.pk}/").content.decode()


def test_undoing_is_offered_only_to_those_who_may_delete_every_kind_also_one_they_do_not_see(alice: User) -> None:
    rows_made = [factories.make_tool("feed"), factories.make_resource("docs://pets")]
    batch = import_batches.record(ImportBatch.Source.UPSTREAM, "pets", rows_made)
    assert batch is not None
    keeper = make_staff("keeper", "view_tool", "delete_tool")
    assert "Undo import" not in keeper.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert keeper.post(f"/admin/imports/{batch.pk}/undo/").status_code == 403
    owner = make_staff("owner", "view_tool", "delete_tool", "view_resource", "delete_resource")
    assert "Undo import" in owner.get(f"/admin/imports/{batch.pk}/").content.decode()
    assert "2 items removed." in undo(owner, batch)
