"""Mails about answered requests for access: whom they reach, and what they say."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from catalog.access_requests import decisions
from catalog.models import AccessRequest, Toolset
from tests import factories
from tests.people.conftest import Send
from toolhub.access.models import Preference
from toolhub.people.models import OutgoingMail

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(charlie: User) -> AccessRequest:
    charlie.email = "charlie@example.com"
    charlie.save()
    toolset: Toolset = factories.make_toolset("Numbers", requestable=True)
    return AccessRequest.objects.create(
        person=charlie, kind="toolset", toolset=toolset, name="Numbers\u202e", reason="Because."
    )


def test_the_person_is_told_by_mail_that_an_answer_waits_and_not_the_answer(asked: AccessRequest, send: Send) -> None:
    decisions.approve(asked.pk, "root", answer="Keep this between us.")
    (message,) = send()
    assert message.to == ["charlie@example.com"] and message.subject == "Your request for access was approved"
    assert "Numbers⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩" in message.body and "/requests/" in message.body
    assert "Keep this between us." not in message.body
    assert send() == [] and not OutgoingMail.objects.exists()


def test_a_decline_is_told_in_the_language_of_the_person(asked: AccessRequest, send: Send) -> None:
    Preference.objects.create(user=asked.person, language="zh-hans")
    decisions.decline(asked.pk, "root")
    assert OutgoingMail.objects.get().language == "zh-hans"
    assert len(send()) == 1


def test_no_mail_leaves_without_a_mail_server_or_an_address(asked: AccessRequest, send: Send) -> None:
    User.objects.filter(pk=asked.person.pk).update(email="")
    decisions.decline(asked.pk, "root")
    assert not OutgoingMail.objects.exists()


def test_without_a_mail_server_nothing_is_queued(asked: AccessRequest) -> None:
    decisions.decline(asked.pk, "root")
    assert not OutgoingMail.objects.exists()


def test_a_decision_that_was_taken_back_or_made_anew_is_told_once(asked: AccessRequest, send: Send) -> None:
    decisions.decline(asked.pk, "root")
    decisions.undo(asked.pk)
    assert send() == []
    decisions.decline(asked.pk, "root")
    decisions.undo(asked.pk)
    decisions.approve(asked.pk, "root")
    assert [message.subject for message in send()] == ["Your request for access was approved"]


def test_an_inactive_person_gets_no_mail(asked: AccessRequest, send: Send) -> None:
    decisions.decline(asked.pk, "root")
    User.objects.filter(pk=asked.person.pk).update(is_active=False)
    assert send() == []
