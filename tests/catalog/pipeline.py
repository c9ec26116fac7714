"""For tests that go through the call pipeline: a caller, a channel that remembers, what is logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from audit.models import Call
from audit.types import Caller
from catalog.calls import call_tool
from catalog.errors import NeedsInput
from catalog.functions import registry
from catalog.functions.channel import Question
from catalog.functions.results import ToolResult
from catalog.policy import snapshot
from tests import factories

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
ALL_CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


class RecordingChannel:
    """A channel that remembers what was said, and answers what it was given answers for."""

    def __init__(
        self,
        capabilities: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        modern: bool = False,
    ) -> None:
        self.capabilities = ALL_CAPABILITIES if capabilities is None else capabilities
        self.request_id = "7"
        self.meta: Mapping[str, Any] = {}
        self.answers = dict(answers or {})
        self.modern = modern
        self.reports: list[tuple[float, float | None, str | None]] = []
        self.lines: list[tuple[str, Any, str | None]] = []
        self.asked: list[dict[str, Question]] = []
        self.closed = False
        self.continues: UUID | None = None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        self.lines.append((level, data, logger))

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        self.asked.append(dict(requests))
        missing = {key: question for key, question in requests.items() if key not in self.answers}
        if missing and self.modern:
            raise NeedsInput(missing, self.answers)
        assert not missing, f"the test has no answer for {sorted(missing)}"
        return {key: self.answers[key] for key in requests}

    def close_stream(self) -> None:
        self.closed = True


def caller(user: Any, revision: str = HANDSHAKE, **fields: Any) -> Caller:
    credential = factories.credential(user, **fields)
    return Caller(credential, "http", revision, "192.0.2.7", "test client", "1")


def publish(user: Any, *names: str, **fields: Any) -> Any:
    """Rows for registered tool functions, granted to the user; the last one."""
    tool = None
    for name in names:
        tool = factories.make_tool(**{**registry.tool_row(name), **fields})
        if user is not None:
            factories.grant(user, tool)
    return tool


async def call(user: Any, name: str, arguments: Any = None, channel: Any = None, **options: Any) -> ToolResult:
    revision = options.pop("revision", HANDSHAKE)
    return await call_tool.call_tool(
        caller(user, revision), name, {} if arguments is None else arguments, channel or RecordingChannel(), **options
    )


def text(result: ToolResult) -> str:
    found: str = result.content[0]["text"]
    return found


async def logged_calls(**which: Any) -> list[Call]:
    """The recorded calls, in order."""
    return [row async for row in Call.objects.filter(**which).order_by("id")]


async def only_logged_call() -> Call:
    """The one call logged."""
    rows = await logged_calls()
    assert len(rows) == 1, [str(row) for row in rows]
    return rows[0]


async def run_in_database(work: Any, *args: Any, **options: Any) -> Any:
    """Change the catalogue in the middle of a test, and let the hub see it."""
    found = await sync_to_async(work)(*args, **options)
    await snapshot.reload()
    return found
