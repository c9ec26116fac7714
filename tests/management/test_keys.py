"""A database whose audit log was signed with other keys is not served by mistake, and goes on only when told to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.management.test_quickstart import manage
from tests.real_servers import Hub

COMMANDS = (("quickstart", "--no-serve"), ("testtools", "--json"), ("mcpstdio",), ("serve", "--port", "0"))
KEYS = ("record-key", "encryption-key", "secret-key")


def make_user() -> None:
    from django.contrib.auth.models import User

    User.objects.create_user("grace")


def read_state() -> list[int]:
    """How many entries of the log there are: admin activity, checkpoints."""
    from audit.models import Action, Checkpoint

    return [Action.objects.count(), Checkpoint.objects.count()]


def read_key_changes() -> list[str]:
    """The names of the keys that went on with the log, as admin activity has them."""
    from audit.models import Action

    changes = Action.objects.filter(kind="record", verb="changed", target="key").order_by("id")
    return [json.loads(change.after)["key"] for change in changes]


def prepare(*, postgres: bool) -> Hub:
    """A hub that has served once."""
    hub = Hub(postgres=postgres)
    hub.prepare()
    hub.call(make_user)
    hub.start()
    assert hub.stop() == 0
    return hub


def lose_keys(hub: Hub) -> dict[str, str]:
    data = hub.folder / "data"
    kept = {name: (data / name).read_text() for name in KEYS}
    for name in KEYS:
        (data / name).unlink()
    return kept


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    hub = prepare(postgres=request.param == "postgres")
    try:
        lose_keys(hub)
        yield hub
    finally:
        hub.remove()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_nothing_starts_on_the_audit_log_of_other_keys_and_the_next_step_is_said(
    hub: Hub, command: tuple[str, ...]
) -> None:
    before = hub.call(read_state)
    assert before[1] > 0, "it was signed when the server stopped"
    done = manage(*command, TOOLHUB_TOKEN="thp_" + "a" * 43, **toolhub_settings(hub))
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    assert "signed with other keys" in done.stderr and "record-key" in done.stderr and "--new-keys" in done.stderr
    assert str(hub.folder / "data") in done.stderr
    assert hub.call(read_state) == before


def toolhub_settings(hub: Hub) -> dict[str, str]:
    return {name: value for name, value in hub.environment().items() if name.startswith("TOOLHUB_")}


def test_going_on_with_new_keys_is_a_decision_that_is_logged_and_made_once(hub: Hub) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        stopped = manage("serve", "--port", port, "--new-keys", **toolhub_settings(hub))
    assert "Choose another --port" in stopped.stderr
    (name,) = hub.call(read_key_changes)
    hub.start()
    assert hub.stop() == 0, "the decision was signed before the server served anything"
    again = manage("serve", "--port", "0", "--new-keys", **toolhub_settings(hub))
    assert again.returncode != 0 and "Start without --new-keys" in again.stderr
    assert hub.call(read_key_changes) == [name]
    checked = manage("verifycalls", **toolhub_settings(hub))
    assert checked.returncode == 1, "what the other keys signed cannot be verified, and the check says so"
    assert "Traceback" not in checked.stderr


def test_a_database_that_was_never_signed_takes_the_keys_that_are_there() -> None:
    hub = Hub()
    try:
        hub.prepare()
        assert manage("quickstart", "--no-serve", **toolhub_settings(hub)).returncode == 0
    finally:
        hub.remove()
