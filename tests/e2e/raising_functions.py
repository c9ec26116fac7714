"""Tools that end in every way a function can, and what the server of `test_raising` holds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, model_serializer

from catalog.errors import InternalFailure, LimitReached, NeedsInput, ProtocolError
from catalog.functions import tool
from catalog.functions.content import Result, Text, ToolError
from tests.pages.try_seed import PASSWORD

MODULES = "tests.e2e.raising_functions"


class Own(BaseException):
    """A tool's own BaseException."""


class Unreadable(BaseException):
    """One whose texts raise when they are read."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class UnreadableError(ToolError):
    def __str__(self) -> str:
        raise Own


class Trap(Exception):
    """One whose chain raises when a traceback is formatted."""

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise SystemExit(3)


class UglyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise GeneratorExit

    def encode(self, *_: Any) -> bytes:
        raise Own


class SlyMapping(dict[str, Any]):
    """Readable once: what is checked, logged and sent must be the same."""

    read = 0

    def items(self) -> Any:
        self.read += 1
        if self.read > 1:
            raise Own
        return super().items()


class Model(BaseModel):
    way: str

    @model_serializer
    def serialise(self) -> Any:
        return fail(self.way)


def recurse() -> None:
    recurse()


def deep_chain() -> BaseException:
    error: BaseException = ValueError("the first")
    for _ in range(3000):
        error = BaseExceptionGroup("outer", [error])
    return error


WAYS: dict[str, Callable[[], BaseException]] = {
    "own": lambda: Own("hunter2"),
    "group": lambda: BaseExceptionGroup("several", [Own("hunter2"), KeyboardInterrupt()]),
    "error group": lambda: ExceptionGroup("several", [ValueError("hunter2")]),
    "generator exit": GeneratorExit,
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(3),
    "memory": MemoryError,
    "recursion": RecursionError,
    "cancelled": asyncio.CancelledError,
    "cancelled with text": lambda: asyncio.CancelledError("hunter2"),
    "stop": StopIteration,
    "stop async": StopAsyncIteration,
    "unreadable": Unreadable,
    "unreadable tool error": UnreadableError,
    "trap": Trap,
    "deep": deep_chain,
    "asks by itself": lambda: NeedsInput({"a": ("elicitation/create", {"message": object()})}),
    "asks nonsense": lambda: NeedsInput({1: 2}),  # type: ignore[dict-item]
    "hub": InternalFailure,
    "limit": lambda: LimitReached("none", 5),
    "bad protocol error": lambda: ProtocolError("x", object(), object()),  # type: ignore[arg-type]
}
PROTOCOL = {"hub"}
"""The only ways that are a JSON-RPC error and not a result: the function says that the hub failed."""


def fail(way: str) -> Any:
    if way == "recursion":
        recurse()
    raise WAYS[way]()


@tool("raise_async")
async def raise_async(way: str) -> str:
    """Raise at once, on the event loop."""
    return str(fail(way))


@tool("raise_later")
async def raise_later(way: str) -> str:
    """Raise after the function has waited."""
    await asyncio.sleep(0)
    return str(fail(way))


@tool("raise_thread")
def raise_thread(way: str) -> str:
    """Raise in a thread."""
    return str(fail(way))


@tool("raise_isolated")
def raise_isolated(way: str) -> str:
    """Raise in a process of its own."""
    return str(fail(way))


@tool("raise_child")
async def raise_child(way: str) -> str:
    """Raise in a task that the function made."""

    async def child() -> Any:
        return fail(way)

    return str(await asyncio.ensure_future(child()))


@tool("raise_several")
async def raise_several(way: str) -> str:
    """Raise in one of several tasks."""

    async def child() -> Any:
        return fail(way)

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        group.create_task(child())
    return "no"


@tool("raise_model")
async def raise_model(way: str) -> Model:
    """Raise while the result is written as JSON."""
    return Model(way=way)


@tool("raise_iterating")
def raise_iterating(way: str) -> Iterator[int]:
    """Raise while the items of the result are read."""

    def items() -> Iterator[int]:
        yield 1
        fail(way)

    return items()


@tool("raise_text")
async def raise_text() -> Result:
    """Return texts that raise when they are used."""
    return Result([Text(UglyText("ugly"))])


@tool("raise_sly")
async def raise_sly() -> Result:
    """Return mappings that can be read only once."""
    return Result([SlyMapping(type="text", text="sly")], meta=SlyMapping(a=1))


@tool("cancel_self")
async def cancel_self() -> str:
    """Cancel its own task, and wait."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(30)
    return "no"


@tool("cancel_self_and_return")
async def cancel_self_and_return() -> str:
    """Cancel its own task, and return."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "returned"


@tool("end_from_callback")
async def end_from_callback() -> str:
    """Raise SystemExit from a callback of the event loop."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.01)
    return "still here"


@tool("wait_and_hide")
async def wait_and_hide() -> str:
    """Replace its cancellation by another one, without the reason."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise asyncio.CancelledError from None
    return "no"


@tool("raise_nothing")
async def raise_nothing() -> str:
    """Say that the hub is there."""
    return "here"


WITH_WAY = (
    "raise_async",
    "raise_later",
    "raise_thread",
    "raise_isolated",
    "raise_child",
    "raise_several",
    "raise_model",
    "raise_iterating",
)
OTHERS = ("raise_text", "raise_sly", "cancel_self", "cancel_self_and_return", "end_from_callback", "wait_and_hide")


def seed() -> dict[str, Any]:
    """alice may use every tool; root may try them."""
    from django.contrib.auth.models import User

    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast()
    User.objects.create_superuser("root", password=PASSWORD)
    rows = {}
    for name in (*WITH_WAY, *OTHERS, "raise_nothing"):
        settings = {"function": name, "isolated": name == "raise_isolated"}
        rows[name] = grant_tool(name, ["alice"], settings=settings, task_support="optional")
    return {"alice": tokens["alice"], "rows": rows}


def list_statuses() -> list[list[str]]:
    """[name, outcome, error class] of every call, the oldest first."""
    from audit.models import Call

    return [list(row) for row in Call.objects.order_by("pk").values_list("name", "outcome", "error_class")]
