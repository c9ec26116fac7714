from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.db import transaction

from audit import recorder
from audit.actions import ledger
from audit.format import keys
from audit.integrity import checkpoints
from audit.models import Checkpoint, Link, Writer
from audit.writing.stores.shared import SharedStore
from tests.audit.attempts import call
from tests.audit.stores import AuditStore
from tests.polling import wait_until

pytestmark = pytest.mark.usefixtures("late_heartbeat")


def test_a_line_that_was_changed_is_not_signed(sqlite_store: AuditStore, settings: Any) -> None:
    settings.CHECKPOINT_FILE = str(sqlite_store.folder / "heads.jsonl")
    asyncio.run(call())
    recorder.stop_now(60)
    head = checkpoints.read_file(sqlite_store.folder / "heads.jsonl")[-1]
    assert head.is_signed
    for field, value in {"number": 9, "at": 1, "previous": "0", "heads": "{}", "hash": "0", "signature": "zz"}.items():
        data = {name: getattr(head, name) for name in checkpoints.SignedCheckpoint.__slots__} | {field: value}
        assert not checkpoints.SignedCheckpoint(**data).is_signed, field


def test_half_a_line_is_left_out_and_the_next_one_begins_on_its_own(
    sqlite_store: AuditStore, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk leaves it."""
    path = sqlite_store.folder / "heads.jsonl"
    settings.CHECKPOINT_FILE = str(path)
    for _ in range(2):
        asyncio.run(call())
        recorder.stop_now(60)
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="contains no checkpoint"):
        checkpoints.read_file(path)
    asyncio.run(call())
    recorder.stop_now(60)
    assert [head.number for head in checkpoints.read_file(path)] == [3]
    assert "line 1 of " in caplog.text and "line 2 of " in caplog.text


def test_a_checkpoint_is_published_once_it_is_committed(sqlite_store: AuditStore, settings: Any) -> None:
    path = sqlite_store.folder / "heads.jsonl"
    settings.CHECKPOINT_FILE = str(path)
    with transaction.atomic():
        ledger.write("root", "added", "tool", "1", None, None)
        assert checkpoints.sign(SharedStore()) is not None
        transaction.set_rollback(True)
    assert not path.exists() and not Checkpoint.objects.exists()
    with transaction.atomic():
        ledger.write("root", "added", "tool", "1", None, None)
        assert checkpoints.sign(SharedStore()) is not None
        assert not path.exists()
    assert [head.number for head in checkpoints.read_file(path)] == [1]


def test_a_stop_signs_the_head_of_every_hash_chain(audit_store: AuditStore) -> None:
    ledger.write("root", "added", "tool", "1", None, None)
    asyncio.run(call())
    recorder.stop_now(60)
    signed: dict[int, tuple[int, str]] = {}
    for row in Checkpoint.objects.order_by("number"):
        signed.update(checkpoints.read_heads(row.heads))
    expected = {
        writer: Link.objects.filter(writer=writer).order_by("-sequence").values_list("sequence", "hash")[0]
        for writer in Writer.objects.values_list("id", flat=True)
    }
    assert signed == expected
    assert list(Writer.objects.filter(id__gt=100).values_list("sealed", flat=True)) == [True]


def test_checkpoints_are_written_while_calls_are_logged(
    sqlite_store: AuditStore, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CHECKPOINT_SECONDS = 0
    settings.CHECKPOINT_FILE = str(sqlite_store.folder / "kept" / "heads.jsonl")
    caplog.set_level("INFO", "audit")

    async def scenario() -> None:
        await call()
        writer = recorder.audit_log().writer
        assert writer is not None
        writer._next_heartbeat = 0.0
        await call()

    asyncio.run(scenario())
    wait_until(Checkpoint.objects.exists)
    recorder.stop_now(60)
    kept = checkpoints.read_file(sqlite_store.folder / "kept" / "heads.jsonl")
    assert [head.number for head in kept] == list(range(1, Checkpoint.objects.count() + 1))
    assert all(head.line() in caplog.text for head in kept)
    assert checkpoints.SignedCheckpoint.parse(json.dumps(json.loads(kept[0].line()))) == kept[0]


def test_the_key_is_not_in_the_signed_text(settings: Any) -> None:
    head = checkpoints.SignedCheckpoint.sign(1, 2, "{}", "0" * 64)
    assert settings.RECORD_KEY not in head.line()
    assert keys.key_name() == head.key
    settings.RECORD_KEY = ""
    assert checkpoints.SignedCheckpoint.sign(1, 2, "{}", "0" * 64).key != head.key
