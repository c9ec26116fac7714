"""The whole audit log over the pages' own socket: auditors alone hear that it changed, and nothing else of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.utils import timezone

from audit.models import Call
from audit.queries import live_calls
from tests.polling import wait_until_async
from tests.transports import functions
from tests.transports.conftest import Person, run_in_database, sockets
from tests.transports.sockets import WAIT_SECONDS
from tests.transports.windows import Window
from toolhub.server.live import audit_log, calls
from toolhub.transports import live, live_viewers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
NEWS = {"topic": "all_calls"}
WATCH = {"watch": "all_calls"}
NEVER_SECONDS = 3600.0


@pytest.fixture
async def alices(with_tools: Any) -> Person:
    made: Person = await with_tools("t_add", "t_silent")
    return made


@pytest.fixture
async def auditor(transactional_db: None) -> User:
    def make() -> User:
        user = User.objects.create_user("auditor", is_staff=True)
        user.groups.add(Group.objects.get(name="auditor"))
        return user

    return await run_in_database(make)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """News without a pause between them: tests that need the pause set it."""
    monkeypatch.setattr(calls, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(audit_log, "NOTIFY_SECONDS", 0.0)


async def listening(window: Window) -> Window:
    """The window once it is told of every change."""
    await window.opened()
    window.send(WATCH)
    assert await window.message() == NEWS
    return window


async def call(person: Person) -> None:
    assert (await person.modern("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})).status == 200


# --- who hears nothing -----------------------------------------------------------------------------------------------


def change_nothing(user: User) -> None:
    """A user as any other."""


def make_staff(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=True)


def permit_without_staff(user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="view_call"))


def permit_other_pages_of_the_log(user: User) -> None:
    make_staff(user)
    user.user_permissions.add(*Permission.objects.filter(codename__in=["view_action", "cancel_call", "make_casefile"]))


@pytest.mark.parametrize(
    "prepare",
    [change_nothing, make_staff, permit_without_staff, permit_other_pages_of_the_log],
    ids=lambda p: p.__name__,
)
async def test_who_may_not_view_calls_is_answered_as_for_a_topic_that_does_not_exist(
    alice: User, windows: Any, prepare: Callable[[User], None]
) -> None:
    await run_in_database(prepare, alice)
    for topic in (WATCH, {"watch": "no_such_topic"}):
        window = await (await windows(alice)).opened()
        window.send(topic)
        assert await window.next() == {"type": "websocket.close", "code": 1008}
        assert window.outgoing.empty()


async def test_nobody_without_a_session_watches_the_log(windows: Any) -> None:
    window = await windows(key="")
    assert await window.refused()


async def test_other_users_hear_nothing_of_what_auditors_are_told(
    alices: Person, bob: User, auditor: User, windows: Any
) -> None:
    his = await (await windows(bob)).opened()
    his.send({"watch": "calls"})
    await his.message(topic="calls", id=None)
    reader = await listening(await windows(auditor))
    await call(alices)
    assert await reader.message() == NEWS
    assert his.outgoing.empty()


@pytest.mark.parametrize(
    "text", ['{"unwatch": "everything"}', '{"watch": ["all_calls"]}', '{"unwatch": ["all_calls"]}']
)
async def test_an_invalid_topic_closes_an_auditors_socket(auditor: User, windows: Any, text: str) -> None:
    window = await (await windows(auditor)).opened()
    window.send(text)
    assert await window.closed() == 1008


# --- what ends it ----------------------------------------------------------------------------------------------------


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def sign_out(user: User) -> None:
    Session.objects.all().delete()


def expire(user: User) -> None:
    Session.objects.update(expire_date=timezone.now())


def set_new_password(user: User) -> None:
    user.set_password("another horse battery")
    user.save()


def remove_permission(user: User) -> None:
    Group.objects.get(name="auditor").permissions.remove(Permission.objects.get(codename="view_call"))


def leave_group(user: User) -> None:
    user.groups.clear()


def end_staff(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=False)


@pytest.mark.parametrize(
    ("happened", "code"),
    [
        (deactivate, live.SIGNED_OUT),
        (sign_out, live.SIGNED_OUT),
        (expire, live.SIGNED_OUT),
        (set_new_password, live.SIGNED_OUT),
        (remove_permission, 1013),
        (leave_group, 1013),
        (end_staff, 1013),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_rights_are_read_again_before_every_message(
    alices: Person, auditor: User, windows: Any, monkeypatch: Any, happened: Callable[[User], None], code: int
) -> None:
    monkeypatch.setattr(live, "CHECK_SECONDS", NEVER_SECONDS)
    window = await listening(await windows(auditor))
    await run_in_database(happened, auditor)
    await call(alices)
    assert await window.closed() == code, "the next message is the end, not the news"
    if code == 1013:
        again = await (await windows(auditor)).opened()
        again.send(WATCH)
        assert await again.closed() == 1008, "still signed in, and no auditor"


async def test_a_lost_permission_ends_the_socket_without_any_call(
    auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.05)
    window = await listening(await windows(auditor))
    await run_in_database(remove_permission, auditor)
    assert await window.closed() == 1013


async def test_while_rights_cannot_be_read_nobody_is_told_anything(
    alices: Person, auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = await listening(await windows(auditor))

    def fail(keys: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(live_viewers, "identify", fail)
    await call(alices)
    assert await window.closed() == 1013


async def test_a_page_whose_log_cannot_be_read_is_told_to_connect_again(
    auditor: User, alice: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await (await windows(alice)).opened()
    own.send({"watch": "calls"})
    await own.message(topic="calls", id=None)
    window = await listening(await windows(auditor))

    def fail() -> None:
        raise OperationalError("away")

    with monkeypatch.context() as away:
        away.setattr(live_calls, "read_position", fail)
        assert await window.closed() == 1013
    await listening(await windows(auditor))
    assert not own.task.done() and own.outgoing.empty()


async def test_the_number_of_windows_that_watch_the_log_is_bounded(
    auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_WATCHERS", 1)
    first = await listening(await windows(auditor))
    second = await (await windows(auditor)).opened()
    second.send(WATCH)
    assert await second.closed() == 1013
    first.send(WATCH)
    first.send({"unwatch": "all_calls"})
    await listening(await windows(auditor))
    assert not first.task.done() and first.outgoing.empty()


# --- what it tells ---------------------------------------------------------------------------------------------------


async def test_an_auditor_is_told_without_content_that_any_call_began_and_ended(
    alices: Person, auditor: User, windows: Any, label: str
) -> None:
    window = await listening(await windows(auditor))
    request = alices.begin_modern("tools/call", {"name": "t_silent", "arguments": {"label": label}})
    await asyncio.wait_for(functions.STARTED[label].wait(), WAIT_SECONDS)
    assert await window.message() == NEWS
    # What is on its way belongs to the beginning.
    reference = await listening(await windows(auditor))
    while not window.outgoing.empty():
        assert await window.message() == NEWS
    functions.GO[label].set()
    await request.answer()
    for each in (window, reference):
        assert await each.message() == NEWS


@pytest.mark.parametrize("tool", ["no_such_tool", "t_add"], ids=["unknown", "invalid arguments"])
async def test_a_denied_call_is_news_too(alices: Person, auditor: User, windows: Any, tool: str) -> None:
    window = await listening(await windows(auditor))
    await alices.modern("tools/call", {"name": tool, "arguments": {"a": "x"}})
    assert await Call.objects.acount() == 1
    assert await window.message() == NEWS


async def test_many_calls_are_one_message_and_the_last_one_is_not_lost(
    alices: Person, auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = 0
    read = live_calls.read_position

    def count() -> Any:
        nonlocal polls
        polls += 1
        return read()

    monkeypatch.setattr(live_calls, "read_position", count)
    window = await listening(await windows(auditor))
    monkeypatch.setattr(audit_log, "NOTIFY_SECONDS", NEVER_SECONDS)
    (socket,) = sockets()
    assert socket.watcher.everything
    for _ in range(10):
        await call(alices)
    now = polls
    await wait_until_async(lambda: polls > now + 2, what="two more polls")
    assert window.outgoing.empty(), "the second is not over"
    monkeypatch.setattr(audit_log, "NOTIFY_SECONDS", 0.0)
    assert await window.message() == NEWS
    now = polls
    await wait_until_async(lambda: polls > now + 2, what="two more polls")
    assert window.outgoing.empty(), "once"


async def test_more_windows_do_not_hurry_the_news_of_the_others(
    alices: Person, auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = await listening(await windows(auditor))
    monkeypatch.setattr(audit_log, "NOTIFY_SECONDS", NEVER_SECONDS)
    await call(alices)
    for _ in range(3):
        await listening(await windows(auditor))
    assert window.outgoing.empty()


async def test_who_stopped_watching_hears_nothing_and_may_start_again(
    alices: Person, auditor: User, windows: Any
) -> None:
    window, other = await listening(await windows(auditor)), await listening(await windows(auditor))
    window.send({"unwatch": "all_calls"})
    window.send({"watch": "call", "id": "00000000-0000-7000-8000-000000000000"})
    await wait_until_async(lambda: any(socket.calls for socket in sockets()), what="the last message was read")
    await call(alices)
    assert await other.message() == NEWS
    assert window.outgoing.empty()
    window.send(WATCH)
    assert await window.message(topic="all_calls") == NEWS


async def test_the_log_is_not_read_after_the_last_window_closed(
    auditor: User, windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = await listening(await windows(auditor))
    await window.leave()

    def polling() -> bool:
        return any(task.get_name() == "live calls" and not task.done() for task in asyncio.all_tasks())

    await wait_until_async(lambda: not polling(), what="the polling ends")
