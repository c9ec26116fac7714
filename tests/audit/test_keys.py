"""The keys of the audit log: rotation, earlier keys, and public keys that are kept outside the installation."""

from __future__ import annotations

import asyncio
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit import recorder
from audit.actions import ledger
from audit.format import chain, keys, timestamps
from audit.format.checkpoint import SignedCheckpoint
from audit.format.keys import TrustedKeys
from audit.integrity import checkpoints, proof, verification
from audit.models import Action, Call, Checkpoint
from audit.writing.stores.shared import SharedStore
from tests.audit.attempts import call
from tests.audit.stores import AuditStore

pytestmark = pytest.mark.usefixtures("late_heartbeat")

OLD, NEW, NEWEST = ("an earlier key " * 4, "the next key of it " * 4, "the newest key of all " * 4)


async def log_calls(count: int = 2) -> None:
    for _ in range(count):
        await call()
    await recorder.stop(60)


@pytest.fixture
def old_store(audit_store: AuditStore, settings: Any) -> AuditStore:
    """A log of the earlier key: calls and a change that a checkpoint covers, and a change that none covers."""
    settings.RECORD_KEY, settings.CHECKPOINT_SECONDS = OLD, 10**6
    settings.CHECKPOINT_FILE = str(audit_store.folder / "heads.jsonl")
    ledger.write("root", "changed", "tool", "1", None, None)
    asyncio.run(log_calls())
    return audit_store


def rotate(settings: Any, key: str, *old: str) -> None:
    settings.RECORD_KEY, settings.RECORD_OLD_KEYS = key, list(old)


def first_problem() -> str:
    return verification.run(store=False).first


def test_a_rotated_key_continues_every_hash_chain_and_old_entries_still_verify(
    old_store: AuditStore, settings: Any
) -> None:
    ledger.write("root", "changed", "tool", "not covered yet", None, None)
    rotate(settings, NEW, OLD)
    ledger.write("root", "changed", "tool", "2", None, None)
    asyncio.run(log_calls())
    rotate(settings, NEWEST, NEW, OLD)
    ledger.write("root", "changed", "tool", "3", None, None)
    asyncio.run(log_calls())
    assert {chain.split_link_id(link)[0] for link in Action.objects.values_list("link", flat=True)} == {1}
    assert [row.key for row in Checkpoint.objects.order_by("number")] == [
        keys.key_name(keys.parse_public_key(text)) for text in map(public_text, (OLD, NEW, NEWEST))
    ]
    report = verification.run(checkpoints.read_file(old_store.folder / "heads.jsonl"), store=False)
    assert report.ok and report.uncovered == 0
    assert {proof.compute(row).tone for row in Call.objects.all()} == {"success"}


def public_text(secret: str) -> str:
    from django.test import override_settings

    with override_settings(RECORD_KEY=secret, RECORD_OLD_KEYS=[]):
        return keys.public_key()


def test_an_earlier_key_may_be_listed_by_its_public_key_alone(old_store: AuditStore, settings: Any) -> None:
    """For a key that leaked: what it signed is still verified, and what is added with it is not believed."""
    rotate(settings, NEW, public_text(OLD))
    ledger.write("root", "changed", "tool", "2", None, None)
    asyncio.run(log_calls())
    assert {chain.split_link_id(link)[0] for link in Action.objects.values_list("link", flat=True)} == {1}
    assert first_problem() == ""
    assert {proof.compute(row).label for row in Call.objects.order_by("id")[:2]} == {"verify to be sure"}
    assert {proof.compute(row).tone for row in Call.objects.order_by("id")[2:]} == {"success"}
    rotate(settings, OLD)
    ledger.write("mallory", "changed", "tool", "4", None, None)
    rotate(settings, NEW, public_text(OLD))
    assert "added outside the log: it has no valid keyed digest" in first_problem()


def test_a_key_that_is_not_listed_any_more_is_named_first(old_store: AuditStore, settings: Any) -> None:
    rotate(settings, NEW)
    trusted = TrustedKeys.from_settings()
    assert first_problem() == (
        f"checkpoint 1: is signed with key {keys.key_name(keys.parse_public_key(public_text(OLD)))}, "
        f"which is not among the trusted keys: {trusted.names[0]}"
    )


def test_an_earlier_key_signs_nothing_more_once_a_newer_one_is_in_use(old_store: AuditStore, settings: Any) -> None:
    """Processes of both may overlap for an hour while they are replaced one by one."""
    rotate(settings, NEW, OLD)
    asyncio.run(log_calls())
    rotate(settings, OLD)
    asyncio.run(log_calls())
    rotate(settings, NEW, OLD)
    assert first_problem() == ""
    newest = Checkpoint.objects.latest("number")
    rotate(settings, OLD)
    late = SignedCheckpoint.sign(
        newest.number, timestamps.now_ms() + verification.KEY_OVERLAP_MS + 60_000, newest.heads, newest.previous
    )
    columns = {"at": timestamps.from_ms(late.at), "hash": late.hash, "signature": late.signature}
    Checkpoint.objects.filter(number=newest.number).update(**columns)
    rotate(settings, NEW, OLD)
    codes = [one.finding.code for one in verification.run(store=False).problems]
    assert "checkpoint_old_key" in codes


def test_a_stolen_earlier_key_cannot_sign_with_an_earlier_time(old_store: AuditStore, settings: Any) -> None:
    rotate(settings, NEW, OLD)
    asyncio.run(log_calls())
    first = Checkpoint.objects.latest("number")
    since = timestamps.to_ms(first.at)
    late = SignedCheckpoint.sign(first.number + 1, since + 2 * verification.KEY_OVERLAP_MS, "{}", first.hash)
    save_checkpoint(late)
    assert first_problem() == ""
    before_rotation = Checkpoint.objects.get(number=1).hash
    rotate(settings, OLD)
    save_checkpoint(SignedCheckpoint.sign(late.number + 1, since + 60_000, first.heads, before_rotation))
    rotate(settings, NEW, OLD)
    assert "is signed with the earlier key" in first_problem()


def save_checkpoint(signed: SignedCheckpoint) -> None:
    names = ("number", "heads", "previous", "hash", "key", "signature")
    columns = {name: getattr(signed, name) for name in names}
    Checkpoint.objects.create(at=timestamps.from_ms(signed.at), **columns)


def test_pinned_public_keys_verify_the_log_without_any_secret(
    old_store: AuditStore, settings: Any, tmp_path: Path
) -> None:
    out = StringIO()
    call_command("verifycalls", public_key=True, stdout=out)
    pinned = tmp_path / "keys"
    pinned.write_text(f"# toolhub\n{out.getvalue().strip()} of the first year\n")
    rotate(settings, "a machine that has none of the keys " * 2)
    out = StringIO()
    call_command("verifycalls", head=old_store.folder / "heads.jsonl", keys=pinned, stdout=out)
    assert out.getvalue().startswith("OK ")
    old_store.sql("UPDATE audit_call SET name = 'forged'")
    with pytest.raises(SystemExit):
        call_command("verifycalls", head=old_store.folder / "heads.jsonl", keys=pinned, stdout=StringIO())


def test_only_the_pinned_keys_are_believed(old_store: AuditStore, tmp_path: Path) -> None:
    other = tmp_path / "keys"
    other.write_text(public_text(NEW))
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("verifycalls", keys=other, stdout=out)
    assert "which is not among the trusted keys" in out.getvalue()


@pytest.mark.parametrize("text", ["", "# nothing\n", "ed25519:abc", "f" * 64, "ed25519:" + "g" * 64])
def test_a_file_without_a_valid_public_key_is_refused(old_store: AuditStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(CommandError, match="public key"):
        call_command("verifycalls", keys=tmp_path / "keys")
    with pytest.raises(CommandError, match="No such file"):
        call_command("verifycalls", keys=tmp_path / "nowhere")


def test_an_invalid_earlier_key_is_an_error_and_not_ignored(old_store: AuditStore, settings: Any) -> None:
    rotate(settings, OLD, "ed25519:abc")
    with pytest.raises(CommandError, match=r"TOOLHUB_RECORD_OLD_KEYS: .*not a public key"):
        call_command("verifycalls")


def test_a_checkpoint_covers_a_prune_before_the_first_call_is_gone(old_store: AuditStore, settings: Any) -> None:
    from datetime import timedelta

    from django.utils import timezone

    from audit import retention

    seen: list[int] = []

    def step(done: retention.PruneCounts) -> None:
        report = verification.run(store=False, trusted=TrustedKeys(TrustedKeys.from_settings().keys, False))
        assert report.ok and report.uncovered == 0
        seen.append(done.rows)

    assert retention.prune(timezone.now() + timedelta(minutes=5), retention.ROWS, step).rows == 2
    assert seen == [2]


def test_nothing_is_pruned_when_no_checkpoint_can_be_signed(old_store: AuditStore) -> None:
    if old_store.vendor == "sqlite":
        old_store.sql("CREATE TRIGGER none BEFORE INSERT ON audit_checkpoint BEGIN SELECT RAISE(ABORT, 'taken'); END")
    else:
        old_store.sql("CREATE RULE none AS ON INSERT TO audit_checkpoint DO ALSO SELECT 1 / 0")
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("prunecalls", "--older-than", "0d", "--yes")
    assert Call.objects.count() == 2


def test_the_shared_connection_signs_within_its_transaction(old_store: AuditStore) -> None:
    ledger.write("root", "changed", "tool", "2", None, None)
    signed = checkpoints.sign(SharedStore())
    assert signed is not None and signed.number == 2
    assert checkpoints.sign(SharedStore()) is None, "nothing is new"
