"""Rows of the audit log for tests that read it: put in directly, since they need no chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from audit.integrity import verification
from audit.models import Call, Verification
from audit.queries.search import id_at

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def build_call(number: int = 0, **values: Any) -> Call:
    """A call that began `number` seconds after noon; not saved."""
    started = values.pop("started_at", NOON + timedelta(seconds=number))
    row = {
        "id": UUID(int=id_at(started).int | 0x7000_8000_0000_0000_0000 | number),
        "username": "",
        "credential_id": "token:1",
        "credential": "laptop",
        "client_name": "claude-code",
        "client_version": "1.0",
        "transport": "http",
        "revision": "2025-11-25",
        "address": "192.0.2.1",
        "method": "tools/call",
        "name": "calculate_sum",
        "definition": "d" * 64,
        "rule": "everyone may use the toolset Basics",
        "rule_reason": "",
        "request_id": str(number),
        "arguments": '{"a":1,"b":2}',
        "outcome": "ok",
        "error_class": "",
        "detail": "",
        "detail_reason": "",
        "result": '{"content":[{"text":"3","type":"text"}]}',
        "result_bytes": 40,
        "result_sha256": "e" * 64,
        "started_at": started,
        "ended_at": started + timedelta(milliseconds=12),
        "duration_us": 12_345,
        "writer": 101,
        "link": (101 << 40) + 2 * number + 2,
        "end_link": (101 << 40) + 2 * number + 3,
        "body_state": "",
    } | values
    user = row.pop("user", None)
    if user is not None:
        row["user_id"], row["username"] = user.pk, user.username
    return Call(**row)


def save(*calls: Call) -> list[Call]:
    return Call.objects.bulk_create(calls)


def save_verification(number: int, **values: Any) -> Verification:
    """A stored result that this installation vouches for."""
    row = {
        "at": NOON,
        "ok": True,
        "through": "",
        "problem": "",
        "links": 5,
        "checkpoint": 3,
        "outside_head": False,
    } | values
    result = Verification(id=build_call(number).pk, **row)
    verification.save(result)
    return result
