"""SQL of the audit log, the same for both databases. Values are always parameters."""

from __future__ import annotations

from typing import Final

from audit.format.chain import BEGIN_COLUMNS, END_COLUMNS, MAX_SEQUENCE, MAX_WRITER

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
LAST_WRITER: Final = "SELECT MAX(id) FROM audit_writer WHERE id <= ?"
LAST_LINK: Final = "SELECT MAX(id) FROM audit_link WHERE id < ?"
END_WRITER: Final = "UPDATE audit_writer SET ended = ? WHERE id = ? AND ended IS NULL"
OPEN_WRITERS: Final = (
    "SELECT id, host, pid, born, CAST(heartbeat AS TEXT) FROM audit_writer WHERE ended IS NULL AND id > ? AND id <> ?"
)
WRITER: Final = "SELECT id, host, pid, born, CAST(heartbeat AS TEXT) FROM audit_writer WHERE id = ?"
RUNNING_WRITERS: Final = "SELECT DISTINCT writer FROM audit_call WHERE outcome = 'running'"
RUNNING_CALLS_OF_WRITER: Final = (
    "SELECT id FROM audit_call WHERE outcome = 'running' AND writer = ? ORDER BY id LIMIT 200 OFFSET ?"
)
_WIDTH: Final = MAX_SEQUENCE + 1
_FIRST_LINK: Final = "SELECT MIN(id) FROM audit_link WHERE id >= {} AND id < {}"
CHAINS: Final = f"""
WITH RECURSIVE chains(writer) AS (
  SELECT CAST(({_FIRST_LINK.format(_WIDTH, (MAX_WRITER + 1) * _WIDTH)}) / {_WIDTH} AS BIGINT)
  UNION ALL
  SELECT CAST(({_FIRST_LINK.format(f"(chains.writer + 1) * {_WIDTH}", (MAX_WRITER + 1) * _WIDTH)}) / {_WIDTH} AS BIGINT)
  FROM chains WHERE chains.writer IS NOT NULL
)
SELECT chains.writer, (
  SELECT MAX(id) FROM audit_link WHERE id < (chains.writer + 1) * {_WIDTH}
) - chains.writer * {_WIDTH}, audit_writer.covered, audit_writer.sealed, audit_writer.covered_mac
FROM chains LEFT JOIN audit_writer ON audit_writer.id = chains.writer WHERE chains.writer IS NOT NULL
"""  # noqa: S608
"""Every chain that has links, its last sequence, and the coverage in its writer's row, which may have been deleted."""
COVER: Final = "UPDATE audit_writer SET covered = ?, sealed = ?, covered_mac = ? WHERE id = ?"
LAST_CHECKPOINTS: Final = (
    "SELECT number, at, heads, previous, hash, key, signature FROM audit_checkpoint"
    " WHERE number < ? AND number > 0 AND at > '1970-01-01' AND at < '9999-01-01' ORDER BY number DESC LIMIT 50"
)
"""Checkpoints that can be read. Others were not written by this installation."""
CHECKPOINT_NUMBERS: Final = "SELECT number FROM audit_checkpoint WHERE number > ?"
CHECKPOINT: Final = (
    "INSERT INTO audit_checkpoint (number, at, heads, previous, hash, key, signature) VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


def select_running(count: int) -> str:
    return f"SELECT id FROM audit_call WHERE outcome = 'running' AND id IN ({', '.join('?' * count)})"  # noqa: S608
