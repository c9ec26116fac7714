"""Attempts for tests: alice, from her laptop."""

from __future__ import annotations

from audit import recorder
from audit.types import Caller, Credential
from tests.polling import wait_until_async

ALICE = Caller(
    Credential(7, "alice", "token:1", "laptop", None, None), "http", "2025-11-25", "192.0.2.7", "inspector", "1.0"
)


def intent(name: str = "calculate_sum", arguments: str = '{"a":1,"b":2}') -> recorder.Intent:
    return recorder.Intent(ALICE, "tools/call", name, 3, "d" * 64, "grant 1", arguments, "17")


def ending(outcome: str = "ok", result: str = '{"content":[{"type":"text","text":"3"}]}') -> recorder.Ending:
    return recorder.Ending(outcome, result=result, result_bytes=len(result), result_sha256="e" * 64)


async def call(name: str = "calculate_sum", outcome: str = "ok") -> str:
    begun = await recorder.begin(intent(name))
    await recorder.finish(begun, ending(outcome))
    return begun.id.hex


async def wait_until_ready() -> None:
    """Returns when calls can be recorded again."""

    async def ready() -> bool:
        return await recorder.ready() is None

    await wait_until_async(ready)
