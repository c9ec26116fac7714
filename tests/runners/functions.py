"""Functions that misbehave, for the tests of isolation: each in a process of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from catalog.functions import Context, SyncContext, tool
from catalog.functions.content import Image, Structured, ToolError
from tests.runners.bombs import make_bomb

PNG = b"\x89PNG\r\n\x1a\n"


@tool("bad_loop")
def loop(started: str = "", deaf: bool = False) -> str:
    """Never return, and not on SIGTERM either if `deaf`."""
    if deaf and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if started:
        Path(started).touch()
    while True:
        pass


@tool("bad_deaf")
async def deaf(started: str = "") -> str:
    """Ignore the signal that asks to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if started:
        Path(started).touch()
    while True:
        time.sleep(1)


@tool("bad_end")
async def end(how: str) -> Any:
    """Come to a bad end."""
    if how == "exit":
        sys.exit(3)
    if how == "at once":
        os._exit(4)
    if how == "crash":
        ctypes.string_at(0)
    if how == "memory":
        return str(len(bytearray(10 << 30)))
    if how == "fork bomb":
        exec(make_bomb())  # noqa: S102 - which bounds itself
    if how == "raise":
        raise RuntimeError("password=hunter2")
    if how == "sentence":
        raise ToolError("A sentence for the model.")
    if how == "nan":
        return float("nan")
    if how == "null":
        return Structured(None)
    if how == "cycle":
        cycle: list[Any] = []
        cycle.append(cycle)
        return cycle
    if how == "object":
        return object()
    if how == "values":
        return [[]] * 200_000
    if how == "huge":
        return "x" * (64 << 20)
    if how == "orphan":
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        return "left one"
    if how == "noise":
        for _ in range(200):
            os.write(1, b"n" * 100_000)
            sys.stderr.write("e" * 100_000)
        return "noisy"
    return {"how": how, "pid": os.getpid()}


@tool("good_steps")
def steps(ctx: SyncContext, n: int, words: list[str]) -> str:
    """Report progress and a log line."""
    ctx.progress(1, 2, "half")
    ctx.log({"n": n}, "warning", "steps")
    return f"{ctx.username} {n} {words}"


@tool("good_image")
async def image() -> Any:
    """Return an image."""
    return ["first", Image(PNG)]


@tool("good_ask")
async def ask(ctx: Context) -> str:
    """Ask the client, which an isolated function cannot."""
    return str(await ctx.roots())


@tool("quick")
async def quick(n: int) -> int:
    """What another person calls meanwhile."""
    return n + 1


@tool("good_environment")
def environment() -> dict[str, Any]:
    """Tell everything that the process was given and what the settings made of it."""
    from django.conf import settings

    keys = [settings.SECRET_KEY, settings.RECORD_KEY, *settings.ENCRYPTION_KEYS, *settings.RECORD_OLD_KEYS]
    return {"environment": dict(os.environ), "keys": keys, "arguments": sys.argv, "folder": os.getcwd()}


@tool("good_database")
def use_database(name: str = "") -> list[str]:
    """Return the names of all users, after giving the first one another name if there is one."""
    from django.contrib.auth.models import User

    if name:
        User.objects.filter(pk=-1).delete()
        user = User.objects.earliest("pk")
        user.username = name
        user.save()
    return list(User.objects.order_by("pk").values_list("username", flat=True))
