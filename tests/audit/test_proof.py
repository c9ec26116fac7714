"""What the page of a call says about the chain is computed from it, then and there."""

from __future__ import annotations

import asyncio
from typing import Any

from django.utils import timezone

from audit import recorder, retention
from audit.integrity import proof, verification
from audit.models import Call, Link
from tests.audit.attempts import call, intent
from tests.audit.forger import Forger
from tests.audit.stores import AuditStore


def log_calls() -> None:
    async def calls() -> None:
        for number in range(3):
            await call(f"tool_{number}")
        await recorder.deny(intent("nowhere"), recorder.Ending("unknown_tool"))
        await recorder.stop(60)

    asyncio.run(calls())


def test_an_unchanged_call_is_covered_by_a_checkpoint(audit_store: AuditStore) -> None:
    log_calls()
    verification.run()
    for row in Call.objects.all():
        found = proof.compute(row)
        assert (found.tone, found.text) == ("success", "Unchanged since it was logged. A signed checkpoint covers it.")
        assert found.checkpoint is not None and found.verification is not None
        assert len(found.links) == (1 if row.outcome == "unknown_tool" else 2)
        assert all(place.hash and not place.problem for place in found.links)


def test_a_call_that_was_edited_is_named_before_any_check_ran(audit_store: AuditStore) -> None:
    log_calls()
    row = Call.objects.order_by("pk")[1]
    audit_store.sql("UPDATE audit_call SET arguments = '{}', detail = 'nothing' WHERE name = 'tool_1'")
    found = proof.compute(Call.objects.get(pk=row.pk))
    assert found.tone == "danger"
    assert [place.problem for place in found.links] == [
        "its start was edited after it was logged",
        "its end was edited after it was logged",
    ]
    assert proof.compute(Call.objects.order_by("pk")[0]).tone == "success"


def test_a_link_that_was_edited_moved_or_deleted_shows(audit_store: AuditStore) -> None:
    log_calls()
    rows = list(Call.objects.order_by("pk")[:3])
    audit_store.sql(f"UPDATE audit_link SET hash = 'x' WHERE id = {rows[0].link}")
    audit_store.sql(f"DELETE FROM audit_link WHERE id = {rows[1].end_link}")
    audit_store.sql(f"UPDATE audit_link SET subject = '{rows[0].pk.hex}' WHERE id = {rows[2].link}")
    assert "does not match the previous one" in proof.compute(rows[0]).links[0].problem
    assert proof.compute(rows[1]).links[1].problem == "the hash chain entry is missing"
    assert proof.compute(rows[2]).links[0].problem == "the hash chain entry belongs to another call or change"


def test_a_call_without_a_checkpoint_is_reported_as_unsigned(audit_store: AuditStore) -> None:
    log_calls()
    audit_store.sql("DELETE FROM audit_checkpoint")
    found = proof.compute(Call.objects.order_by("pk")[0])
    assert found.tone == "warning" and found.checkpoint is None and found.verification is None


def test_a_call_whose_hash_chain_was_made_to_fit_is_not_called_unchanged(audit_store: AuditStore) -> None:
    log_calls()
    row = Call.objects.order_by("pk")[1]
    forger = Forger(101, 101)
    forger.sql("UPDATE audit_call SET arguments = '{}' WHERE link = %s", (row.link,))
    forger.rehash_call(row)
    found = proof.compute(Call.objects.get(pk=row.pk))
    assert all(not place.problem for place in found.links), "each link fits its call and the link before"
    assert (found.tone, found.label) == ("warning", "verify to be sure")
    audit_store.sql("DELETE FROM audit_checkpoint")
    assert proof.compute(Call.objects.get(pk=row.pk)).label == "not authentic"


def test_a_call_whose_next_link_does_not_fit_was_changed(audit_store: AuditStore) -> None:
    """The last link of its transaction has the keyed digest, and the hash before it is another one now."""
    log_calls()
    row = Call.objects.order_by("pk")[1]
    forger = Forger(101, 101)
    forger.sql("UPDATE audit_call SET arguments = '{}' WHERE link = %s", (row.link,))
    before = {link.pk: link.hash for link in Link.objects.all()}
    forger.rehash_call(row)
    forger.sql("UPDATE audit_link SET mac = '' WHERE id = %s", (row.link,))
    for pk, digest in before.items():
        if pk != row.link:
            forger.sql("UPDATE audit_link SET hash = %s WHERE id = %s", (digest, pk))
    found = proof.compute(Call.objects.get(pk=row.pk))
    assert (found.tone, found.label) == ("danger", "changed")


def test_bodies_that_were_removed_long_ago_are_explained_by_the_checkpoint_of_that_time(
    audit_store: AuditStore, settings: Any
) -> None:
    """Entries of releases before keyed digests have none: the checkpoint after the removal vouches for it."""
    log_calls()
    row = Call.objects.order_by("pk")[0]
    retention.prune(timezone.now(), retention.BODIES)
    audit_store.sql("UPDATE audit_link SET mac = ''")
    for number in range(proof.MAX_CHECKPOINTS + 2):
        asyncio.run(call(f"later_{number}"))
        recorder.stop_now(60)
    found = proof.compute(Call.objects.get(pk=row.pk))
    assert (found.tone, found.label) == ("warning", "verify to be sure")


def test_a_call_in_a_forged_hash_chain_is_not_authentic(audit_store: AuditStore) -> None:
    log_calls()
    forger = Forger(101, 101)
    forger.add_writer(555)
    found = proof.compute(forger.add_call(555))
    assert (found.tone, found.label) == ("danger", "not authentic")
