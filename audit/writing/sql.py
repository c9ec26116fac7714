"""SQL of the audit log, the same for both databases. Values are always parameters."""

from __future__ import annotations

from typing import Final

from audit.format.chain import BEGIN_COLUMNS, END_COLUMNS

CALL_COLUMNS: Final = (*BEGIN_COLUMNS, *END_COLUMNS, "writer", "link", "end_link", "body_state")
LINK_COLUMNS: Final = ("id", "writer", "sequence", "kind", "subject", "content", "hash", "mac")
INSERT_LINK: Final = f"INSERT INTO audit_link ({', '.join(LINK_COLUMNS)}) VALUES ({', '.join('?' * len(LINK_COLUMNS))})"  # noqa: S608
FINISH_COLUMNS: Final = (*END_COLUMNS, "end_link", "id")
"""Parameters of a finish, in order; the last one selects the row."""

HEAD: Final = "SELECT sequence, hash FROM audit_link WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1"
AUTHENTICATED: Final = (
    "SELECT sequence, hash, mac FROM audit_link WHERE id >= ? AND id < ? AND mac <> '' ORDER BY id DESC LIMIT 20"
)
"""The newest links of a chain that have a keyed digest: the first of them, unless the chain was changed outside."""
HEARTBEAT: Final = "UPDATE audit_writer SET heartbeat = ? WHERE id = ?"
REGISTER: Final = (
    "INSERT INTO audit_writer (id, host, pid, born, started, heartbeat, ended, covered, sealed, covered_mac)"
    " VALUES (?, ?, ?, ?, ?, ?, NULL, 0, ?, '')"
)
LAST_WRITER: Final = "SELECT MAX(id) FROM audit_writer"
LAST_LINK: Final = "SELECT MAX(id) FROM audit_link"
END_WRITER: Final = "UPDATE audit_writer SET ended = ? WHERE id = ? AND ended IS NULL"
OPEN_WRITERS: Final = (
    "SELECT id, host, pid, born, heartbeat FROM audit_writer WHERE ended IS NULL AND id > ? AND id <> ?"
)
RUNNING_WRITERS: Final = "SELECT DISTINCT writer FROM audit_call WHERE outcome = 'running'"
RUNNING_CALLS_OF_WRITER: Final = (
    "SELECT id, started_at FROM audit_call WHERE outcome = 'running' AND writer = ? ORDER BY id LIMIT 200"
)
COVERED: Final = "SELECT id, covered, sealed, covered_mac FROM audit_writer ORDER BY id"
COVER: Final = "UPDATE audit_writer SET covered = ?, sealed = ?, covered_mac = ? WHERE id = ?"
LAST_CHECKPOINTS: Final = (
    "SELECT number, at, heads, previous, hash, key, signature FROM audit_checkpoint ORDER BY number DESC LIMIT 20"
)
CHECKPOINT_NUMBERS: Final = "SELECT number FROM audit_checkpoint WHERE number > ? ORDER BY number LIMIT 1000"
CHECKPOINT: Final = (
    "INSERT INTO audit_checkpoint (number, at, heads, previous, hash, key, signature) VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


def select_running(count: int) -> str:
    return f"SELECT id FROM audit_call WHERE outcome = 'running' AND id IN ({', '.join('?' * count)})"  # noqa: S608
