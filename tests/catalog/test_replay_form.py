"""The replay on the form of a rule: who may run it, what is refused, and that it saves nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient
from django.utils import timezone

from audit.models import Action, Call
from catalog.models import ApprovalRule, Grant, Limit, Tool
from catalog.replay import walk
from catalog.replay.report import Progress
from tests import factories
from tests.audit.rows import build_call, save
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)
GRANTS, LIMITS, RULES = (f"/admin/catalog/{name}/replay/" for name in ("grant", "limit", "approvalrule"))
ON_A = [{"path": "/a", "op": "equals", "value": 1}]


@pytest.fixture
def tool(db: None) -> Tool:
    return factories.make_tool()


@pytest.fixture
def allowed(tool: Tool, alice: User) -> Grant:
    """alice may use the tool, and did three times; bob tried once."""
    return factories.grant(alice, tool)


def call(user: User, tool: Tool, number: int = 0, **values: Any) -> Call:
    started = timezone.now() - timedelta(hours=1) + timedelta(seconds=number)
    return save(build_call(number, user=user, name=tool.name, target_id=tool.pk, started_at=started, **values))[0]


def person(name: str, *permissions: str) -> User:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def grant_form(tool: Tool, **values: Any) -> dict[str, Any]:
    return {"effect": "deny", "tool": tool.pk, "everyone": "on", "days": "7", **values}


async def start(user: User, address: str, form: dict[str, Any], **options: Any) -> Any:
    await sync_to_async(factories.load)()
    client = AsyncClient(**options)
    await client.aforce_login(user)
    return await client.post(address, form)


async def read(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.status_code
    assert answer["Content-Type"] == "application/x-ndjson" and "no-store" in answer["Cache-Control"]
    chunks = [chunk async for chunk in answer.streaming_content]
    return [json.loads(line) for line in b"".join(chunks).splitlines()]


async def replay(user: User, address: str, form: dict[str, Any]) -> dict[str, Any]:
    """Return the last line."""
    return (await read(await start(user, address, form)))[-1]


# --- refusals ----------------------------------------------------------------------------------------------------


async def test_only_a_form_that_is_sent_is_replayed(root: User) -> None:
    client = AsyncClient()
    await client.aforce_login(root)
    for address in (GRANTS, LIMITS, RULES):
        assert (await client.get(address)).status_code == 405


@pytest.mark.parametrize(
    ("permissions", "query", "status"),
    [
        ((), "", 302),
        (("view_grant",), "", 403),
        (("change_grant",), "", 403),
        (("add_grant",), "", 200),
        (("add_grant",), "?row={row}", 403),
        (("change_grant",), "?row={row}", 200),
        (("add_grant",), "?row=999999", 403),
        (("change_grant",), "?row=999999", 404),
        (("change_grant",), "?row=nonsense", 404),
        (("change_grant",), "?row=" + "9" * 30, 404),
        (("change_limit", "add_limit"), "?row={row}", 403),
    ],
)
async def test_who_may_not_save_the_form_may_not_replay_it(
    tool: Tool, allowed: Grant, alice: User, permissions: tuple[str, ...], query: str, status: int
) -> None:
    user = await sync_to_async(person)("sam", *permissions) if permissions else alice
    answer = await start(user, GRANTS + query.format(row=allowed.pk), grant_form(tool))
    assert answer.status_code == status


async def test_a_form_from_another_site_is_refused(root: User, tool: Tool) -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    await client.aforce_login(root)
    assert (await client.post(GRANTS, grant_form(tool))).status_code == 403


@pytest.mark.parametrize("days", ["", "0", "2", "91", "-7", "7.0", "x" * 1_000])
async def test_another_period_is_refused(root: User, tool: Tool, days: str) -> None:
    end = await replay(root, GRANTS, grant_form(tool, days=days))
    assert (end["end"], end["text"]) == ("bad", "Choose a period: 1, 7, 30 or 90 days.")


async def test_a_form_that_cannot_be_saved_is_not_replayed_and_its_errors_are_named(root: User, tool: Tool) -> None:
    end = await replay(root, GRANTS, grant_form(tool, everyone="", conditions="nonsense"))
    assert (end["end"], end["text"]) == ("bad", "Fix the form, then replay it again.")
    assert any(problem.startswith("Conditions: ") for problem in end["problems"])


async def test_a_rate_limit_of_a_method_is_not_replayed(root: User) -> None:
    end = await replay(
        root, LIMITS, {"measure": "calls", "rate": "3/m", "method": "tools/list", "scope": "each_user", "days": "7"}
    )
    assert end["end"] == "bad" and "no requests of this method" in end["text"]


async def test_calls_of_others_are_counted_and_not_named_for_who_may_not_read_them(
    tool: Tool, allowed: Grant, alice: User
) -> None:
    theirs = await sync_to_async(call)(alice, tool)
    sam = await sync_to_async(person)("sam", "add_grant")
    end = await replay(sam, GRANTS, grant_form(tool))
    assert end["text"].startswith("1 of 1 calls")
    assert "1 call of others is counted and not listed" in end["html"]
    assert "alice" not in end["html"] and str(theirs.pk) not in end["html"]


async def test_conditions_tell_nobody_arguments_of_calls_that_they_may_not_read(
    tool: Tool, allowed: Grant, alice: User
) -> None:
    await sync_to_async(call)(alice, tool, arguments='{"a":1,"b":2}')
    sam = await sync_to_async(person)("sam", "add_grant")
    answers = [
        await replay(sam, GRANTS, grant_form(tool, conditions=json.dumps([{**ON_A[0], "value": value}])))
        for value in (1, 2)
    ]
    assert answers[0] == answers[1]
    assert "1 call is not compared" in answers[0]["html"]


# --- what it answers ---------------------------------------------------------------------------------------------


async def test_the_calls_that_would_be_denied_are_named_with_links_and_nothing_is_saved(
    root: User, tool: Tool, allowed: Grant, alice: User
) -> None:
    calls = [await sync_to_async(call)(alice, tool, number) for number in range(5)]
    before = (await Grant.everything.acount(), await Action.objects.filter(kind="grant").acount())
    lines = await read(await start(root, GRANTS, grant_form(tool)))
    assert lines[0] == {"done": 0, "total": 5, "text": "0 of 5 calls"}
    end = lines[-1]
    assert (end["end"], end["text"]) == ("good", "5 of 5 calls of the last 7 days would have another answer.")
    assert "allowed → denied" in end["html"] and "alice" in end["html"]
    assert all(f"/admin/audit/call/{one.pk}/change/" in end["html"] for one in calls)
    assert "Show 2 more" in end["html"]
    assert (await Grant.everything.acount(), await Action.objects.filter(kind="grant").acount()) == before


async def test_the_form_of_a_stored_rule_takes_its_place(root: User, tool: Tool, allowed: Grant, alice: User) -> None:
    await sync_to_async(call)(alice, tool)
    form = grant_form(tool, effect="allow", everyone="", user=alice.pk)
    same = await replay(root, f"{GRANTS}?row={allowed.pk}", form)
    assert same["text"].startswith("0 of 1 calls")
    other = await replay(root, f"{GRANTS}?row={allowed.pk}", {**form, "user": root.pk})
    assert other["text"].startswith("1 of 1 calls") and "allowed → denied" in other["html"]
    stored = await Grant.objects.aget(pk=allowed.pk)
    assert stored.user_id == alice.pk


async def test_the_form_of_a_trial_takes_the_place_of_the_rule_that_it_would_replace(
    root: User, tool: Tool, allowed: Grant, alice: User
) -> None:
    await sync_to_async(call)(alice, tool)
    trial = await sync_to_async(factories.grant)(alice, tool, trial=True, replaces=allowed)
    form = grant_form(tool, effect="allow", everyone="", user=root.pk)
    end = await replay(root, f"{GRANTS}?row={trial.pk}", form)
    assert end["text"].startswith("1 of 1 calls")


async def test_an_approval_rule_that_is_switched_off_is_gone(
    root: User, tool: Tool, allowed: Grant, alice: User
) -> None:
    await sync_to_async(call)(alice, tool)
    rule = await ApprovalRule.objects.acreate(name="Numbers", tool=tool, asks="person")
    form = {"name": "Numbers", "tool": tool.pk, "asks": "person", "minutes": 60, "days": "7"}
    on, off = [await replay(root, f"{RULES}?row={rule.pk}", {**form, **state}) for state in ({"enabled": "on"}, {})]
    assert on["text"].startswith("0 of 1 calls")
    assert off["text"].startswith("1 of 1 calls") and "asks for approval → allowed" in off["html"]


async def test_a_rate_limit_says_which_calls_it_would_stop(root: User, tool: Tool, allowed: Grant, alice: User) -> None:
    for number in range(3):
        await sync_to_async(call)(alice, tool, number)
    end = await replay(
        root, LIMITS, {"measure": "calls", "rate": "1/d", "tool": tool.pk, "scope": "each_user", "days": "1"}
    )
    assert "calls of the last day would have another answer" in end["text"]
    assert "allowed → rate limited" in end["html"] and "Limits begin with empty counters." in end["html"]
    assert not await Limit.objects.aexists()


async def test_texts_of_calls_are_text_in_the_report(root: User, allowed: Grant, alice: User, tool: Tool) -> None:
    await User.objects.filter(pk=alice.pk).aupdate(username="<b>\u202ealice")
    await alice.arefresh_from_db()
    await sync_to_async(call)(alice, tool)
    html = (await replay(root, GRANTS, grant_form(tool)))["html"]
    assert "<b>" not in html and "&lt;b&gt;" in html and "\u202e" not in html


# --- how it runs -------------------------------------------------------------------------------------------------


class Halted:
    """Replays that go on when the test lets them."""

    def __init__(self) -> None:
        self.go, self.cancelled = threading.Event(), threading.Event()

    def __call__(self, *args: Any, is_cancelled: Any, **options: Any) -> Iterator[Progress]:
        yield Progress(0, 10)
        while not self.go.wait(0.01):
            if is_cancelled():
                self.cancelled.set()
                return


@pytest.fixture
def halted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Halted]:
    made = Halted()
    monkeypatch.setattr(walk, "replay", made)
    yield made
    made.go.set()


async def test_a_reader_that_leaves_ends_the_replay(root: User, tool: Tool, halted: Halted) -> None:
    answer = await start(root, GRANTS, grant_form(tool))
    lines = aiter(answer.streaming_content)
    assert json.loads(await anext(lines))["done"] == 0
    reading = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    reading.cancel()
    await wait_until_async(halted.cancelled.is_set)


async def test_one_person_runs_one_replay_and_a_process_two(
    root: User, alice: User, tool: Tool, halted: Halted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog.replay.background.WAIT_SECONDS", 0.05)
    people = [root, *[await sync_to_async(person)(name, "add_grant") for name in ("sam", "kim")]]
    running = []
    for one in people[:2]:
        lines = aiter((await start(one, GRANTS, grant_form(tool))).streaming_content)
        await anext(lines)
        running.append(lines)
    own = await replay(root, GRANTS, grant_form(tool))
    assert (own["end"], own["text"]) == ("bad", "Your last replay still runs. Try again when it has ended.")
    other = await replay(people[2], GRANTS, grant_form(tool))
    assert (other["end"], other["text"]) == ("bad", "Other people run replays now. Try again in a minute.")
    halted.go.set()
    for lines in running:
        async for _line in lines:
            pass


async def test_a_replay_that_fails_says_so_and_the_log_has_the_reason(
    root: User, tool: Tool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **options: Any) -> Iterator[Progress]:
        yield Progress(0, 10)
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(walk, "replay", fail)
    end = await replay(root, GRANTS, grant_form(tool))
    assert (end["end"], end["text"]) == ("bad", "The replay failed. The server log has the details.")
    assert "the disk is gone" in caplog.text
