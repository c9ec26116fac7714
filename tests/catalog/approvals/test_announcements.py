"""Approvers hear of requests: by mail, and at an address that is configured. Neither has an argument of the call."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from catalog.approvals.webhook import Announcer
from catalog.models import Approval
from tests import factories
from tests.catalog.approvals.waiting import NAME, approve, ask, make_rule
from tests.catalog.pipeline import publish, run_in_database
from toolhub.people import outbox
from toolhub.people.models import OutgoingMail

pytestmark = pytest.mark.django_db(transaction=True)
SECRET_PATH = "/services/T0/hunter2?key=1"


class Chat(HTTPServer):
    """A chat that writes down what it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.told: list[tuple[str, dict[str, Any]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        return


@pytest.fixture
def chat(settings: Any) -> Iterator[Chat]:
    with Chat() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.APPROVAL_WEBHOOK_URL = f"http://127.0.0.1:{server.server_port}{SECRET_PATH}"
        settings.APPROVAL_WEBHOOK_NETWORKS = ["127.0.0.1/32"]
        yield server
        server.shutdown()


@pytest.fixture
def approvers(bob: Any, charlie: Any) -> Any:
    for person in (bob, charlie):
        person.email = f"{person.username}@example.com"
        person.save()
    return factories.make_group("approvers", [bob, charlie])


async def set_up(alice: Any, approvers: Any, **fields: Any) -> None:
    tool = await run_in_database(publish, alice, NAME)
    await run_in_database(make_rule, tool, approvers, **fields)


async def send_now() -> list[Any]:
    """The mails that are sent once their time to gather is over."""
    before = len(mail.outbox)
    await OutgoingMail.objects.aupdate(due=timezone.now())
    await run_in_database(outbox.send_due)
    return mail.outbox[before:]


# --- mail ----------------------------------------------------------------------------------------------------------


async def test_without_a_mail_server_no_mail_is_kept(alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    assert not await OutgoingMail.objects.aexists()


async def test_each_approver_gets_one_mail_about_all_that_waits(settings: Any, alice: Any, approvers: Any) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    await set_up(alice, approvers)
    await ask(alice, {"region": "emea", "note": "open sesame"})
    await ask(alice, {"region": "apac"})
    assert await run_in_database(outbox.send_due) is None and mail.outbox == [], "it gathers for a while"
    sent = await send_now()
    assert sorted(one.to[0] for one in sent) == ["bob@example.com", "charlie@example.com"]
    assert sent[0].body.count("call_ticket, for alice") == 2 and "/approvals/\n" in sent[0].body
    assert "sesame" not in sent[0].body


async def test_no_mail_goes_out_when_somebody_decided_meanwhile(
    settings: Any, alice: Any, bob: Any, approvers: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    await set_up(alice, approvers)
    await ask(alice)
    await approve(bob)
    assert await send_now() == [] and not await OutgoingMail.objects.aexists()


async def test_nobody_is_mailed_about_their_own_call_under_four_eyes(settings: Any, bob: Any, approvers: Any) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    await set_up(bob, approvers)
    await ask(bob)
    assert [one.to[0] for one in await send_now()] == ["charlie@example.com"]


# --- webhook -------------------------------------------------------------------------------------------------------


async def test_a_request_is_announced_once_without_its_arguments(chat: Chat, alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    await ask(alice, {"region": "emea", "note": "open sesame"})
    for _ in range(2):
        await run_in_database(Announcer().run)
    ((path, told),) = chat.told
    row = await Approval.objects.aget()
    assert path == SECRET_PATH and told["event"] == "approval.requested" and told["id"] == str(row.pk)
    assert told["url"].endswith(f"/approvals/{row.pk}/") and told["url"] in told["text"]
    assert (told["tool"], told["user"], told["approvers"]) == ("call_ticket", "alice", "approvers")
    assert "sesame" not in json.dumps(told) and "emea" not in json.dumps(told)


async def test_a_decided_request_is_not_announced(chat: Chat, alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    await approve(bob)
    await run_in_database(Announcer().run)
    assert chat.told == []


@pytest.mark.parametrize(
    ("trouble", "said"), [("status", "status 500"), ("network", "PrivateAddress"), ("gone", "Unreachable")]
)
async def test_an_announcement_that_fails_is_tried_again_and_the_address_stays_secret(
    chat: Chat,
    settings: Any,
    alice: Any,
    approvers: Any,
    caplog: pytest.LogCaptureFixture,
    trouble: str,
    said: str,
) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    address = settings.APPROVAL_WEBHOOK_URL
    if trouble == "status":
        chat.status = 500
    elif trouble == "network":
        settings.APPROVAL_WEBHOOK_NETWORKS = []
    else:
        settings.APPROVAL_WEBHOOK_URL = f"http://127.0.0.1:1{SECRET_PATH}"
    with caplog.at_level(logging.WARNING):
        await run_in_database(Announcer().run)
    assert f"{said}, see TOOLHUB_APPROVAL_WEBHOOK_URL" in caplog.text and "hunter2" not in caplog.text
    chat.status, settings.APPROVAL_WEBHOOK_URL = 204, address
    settings.APPROVAL_WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    chat.told.clear()
    await run_in_database(Announcer().run)
    assert len(chat.told) == 1
