from __future__ import annotations

import fcntl
import os
import resource
import time
from pathlib import Path

import pytest

from audit.format import uuid7
from audit.types import Ending
from audit.writing import spool
from audit.writing.entries import FINISH, Entry


def entry(detail: str = "") -> Entry:
    made = Entry(FINISH, uuid7.new_id(), None, Ending("ok", detail=detail), 1_700_000_000_123, time.monotonic())
    made.duration = 5
    return made


def test_a_spool_that_is_full_takes_nothing_more(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_SPOOL_BYTES", 1000)
    mine = spool.Spool(101)
    mine.append([entry()])
    with pytest.raises(spool.SpoolFailed, match="full"):
        mine.append([entry("x" * 1000)])
    assert len(mine.read()[0]) == 1


def test_a_folder_that_cannot_be_written_is_a_failure_and_no_loss(data_folder: Path) -> None:
    (data_folder / "spool").write_text("a file where the folder should be")
    with pytest.raises(spool.SpoolFailed, match="cannot be written"):
        spool.Spool(101).append([entry()])


def test_an_entry_is_on_the_disk_when_it_counts_as_spooled(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut keeps what was synced: the line, and the name of a new file in its folder."""
    synced: list[tuple[str, int]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, path.stat().st_size if path.is_file() else 0))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    mine = spool.Spool(101)
    mine.append([entry()])
    assert synced == [("spool", 0), ("101.jsonl", mine.size)] and mine.size > 0
    mine.append([entry()])
    assert synced[2:] == [("101.jsonl", mine.size)]
    mine.discard(mine.size)
    assert synced[3:] == [("101.jsonl", 0)]


def test_half_a_line_on_a_full_disk_spoils_no_later_one(data_folder: Path) -> None:
    mine = spool.Spool(101)
    first, lost, last = entry("first"), entry("lost"), entry("last")
    mine.append([first])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (mine.size + 20, limits[1]))
    try:
        with pytest.raises(spool.SpoolFailed, match="cannot be written"):
            mine.append([lost])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    mine.append([last])
    assert [one.id for one in mine.read()[0]] == [first.id, last.id]


def test_a_spool_that_another_process_replays_meanwhile_is_not_replayed_again(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = spool.Spool(101)
    mine.append([entry()])
    os.close(mine._descriptor or 0)  # its process is dead
    lock = fcntl.flock

    def lock_late(descriptor: int, how: int) -> None:
        mine.path.unlink()  # the other one is done between the opening and the locking
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with spool.lock_abandoned(mine.path) as free:
        assert not free


def test_lines_that_were_changed_or_torn_are_reported_and_not_replayed(
    data_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = spool.Spool(101)
    entries = [entry("first"), entry("second"), entry("third")]
    mine.append(entries)
    lines = mine.path.read_text().splitlines(keepends=True)
    mine.path.write_text(lines[0] + lines[1].replace("second", "edited") + lines[2][:-10])
    assert [one.id for one in spool.read(mine.path)] == [entries[0].id]
    assert "line 2 of" in caplog.text
    assert "line 3 of" in caplog.text


def test_spooled_entries_come_back_in_order_and_complete(data_folder: Path) -> None:
    mine = spool.Spool(101)
    entries = [entry(f"ü {number} \n") for number in range(20)]
    mine.append(entries[:10])
    mine.append(entries[10:])
    back, size = mine.read()
    assert [(one.id, one.ms, one.duration, one.ending) for one in back] == [
        (one.id, one.ms, one.duration, one.ending) for one in entries
    ]
    assert size == mine.path.stat().st_size


def test_entries_added_after_the_reading_stay(data_folder: Path) -> None:
    mine = spool.Spool(101)
    mine.append([entry()])
    _, size = mine.read()
    later = entry("later")
    mine.append([later])
    mine.discard(size)
    assert [one.id for one in mine.read()[0]] == [later.id]
    mine.discard(mine.read()[1])
    assert not mine.size
    mine.close()
    assert not mine.path.exists()


def test_a_file_of_a_process_that_lives_is_not_taken(data_folder: Path) -> None:
    mine = spool.Spool(101)
    mine.append([entry()])
    with spool.lock_abandoned(mine.path) as free:
        assert not free
    mine.close()
    with spool.lock_abandoned(mine.path) as free:
        assert free
    with spool.lock_abandoned(spool.path_of(999)) as free:
        assert not free


def test_only_its_owner_may_read_a_spool(data_folder: Path) -> None:
    mine = spool.Spool(101)
    mine.append([entry()])
    assert mine.path.stat().st_mode & 0o077 == 0
    assert mine.path.parent.stat().st_mode & 0o077 == 0
