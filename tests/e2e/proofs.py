"""Tools that keep a ledger of what they did, and what the servers of the proofs hold: run inside them by `Hub.call`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from catalog.functions import Context, tool
from tests.e2e.seed import create_cast, grant_tool

MODULES = "tests.e2e.proofs"
PASSWORD = "correct horse battery"
ROOT = "root"


def _note(line: str) -> None:
    """One line of the ledger, whole whoever else writes; it is apart from everything that toolhub keeps."""
    descriptor = os.open(os.environ["PROOF_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


@tool()
async def ledger(entry: str, ctx: Context) -> str:
    """Notes that it ran, and says the same."""
    _note(str(ctx.call_id))
    return entry


@tool()
async def whose(nonce: str, ctx: Context, pause: float = 0.0) -> str:
    """Says for whom it runs, after a while."""
    if pause:
        await asyncio.sleep(pause)
    return f"{ctx.username} {nonce}"


@tool()
def which_worker() -> str:
    """Says which process runs it."""
    return str(os.getpid())


@tool()
async def hold(ctx: Context, started: str, seconds: float = 100.0) -> str:
    """Notes that it runs, and goes on."""
    _note(str(ctx.call_id))
    Path(started).touch()
    await asyncio.sleep(seconds)
    return "held"


@tool(max_result_bytes=1000)
def overlong(text: str, times: int = 1000) -> str:
    """Says it too often to be sent in one answer."""
    return text * times


@tool(task_support="optional")
async def ask_in_task(ctx: Context) -> str:
    """Asks while it runs, as a task where the client can have one."""
    return await _ask(ctx)


@tool()
async def ask_end(ctx: Context) -> str:
    """Asks the person."""
    return await _ask(ctx)


async def _ask(ctx: Context) -> str:
    answer: Any = await ctx.elicit(
        "How does it end?", {"type": "object", "properties": {"end": {"type": "string"}}, "required": ["end"]}
    )
    return f"{answer}"


@tool()
async def two_steps(ctx: Context) -> str:
    """Reports progress and then answers."""
    for step in (1, 2):
        await ctx.progress(step, 2, f"step {step}")
        await asyncio.sleep(0.06)
    return "both steps"


@tool()
def plus(a: float, b: float = 0.0) -> float:
    """Adds two numbers."""
    return a + b


# --- seeds -----------------------------------------------------------------------------------------------------------


def create_root() -> None:
    """An administrator who can sign in."""
    from django.contrib.auth.models import User

    User.objects.create_superuser(ROOT, password=PASSWORD)


def allow_sign_in(user: str) -> None:
    from django.contrib.auth.models import User

    found = User.objects.get(username=user)
    found.set_password(PASSWORD)
    found.save()


def seed_everything() -> dict[str, str]:
    """The cast and an administrator; every tool here for alice and bob."""
    from catalog.functions.registry import list_functions

    tokens = create_cast()
    create_root()
    for name in list_functions("tool"):
        grant_tool(name, ["alice", "bob"], **get_declared(name))
    return tokens


def get_declared(name: str) -> dict[str, Any]:
    """What a decorator says about a tool, without what it leaves open."""
    from catalog.functions.registry import lookup

    return {key: value for key, value in lookup("tool", name).options.items() if value is not None}


def token_id(user: str) -> int:
    from toolhub.access.models import AccessToken

    return AccessToken.objects.filter(user__username=user).latest("id").pk


def list_calls(name: str) -> list[list[str]]:
    """Id, user, outcome, arguments and detail of every call of this tool logged."""
    from audit.models import Call

    rows = Call.objects.filter(name=name).values_list("id", "username", "outcome", "arguments", "detail")
    return [[str(pk), *texts] for pk, *texts in rows]


def count_by_outcome() -> dict[str, int]:
    """How many calls have which outcome."""
    from django.db.models import Count

    from audit.models import Call

    return {row["outcome"]: row["n"] for row in Call.objects.values("outcome").annotate(n=Count("id"))}
