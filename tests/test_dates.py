"""Dates have one format and the reader's zone on every page, in every language."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import formats, timezone, translation

from audit import local_time
from audit.integrity import verifier
from tests import census, factories

MONTHS = "Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec"
FOREIGN = re.compile(
    rf"\b(?:{MONTHS})[a-z]*\.? \d{{1,2}}, \d{{4}}|\b\d{{1,2}} (?:{MONTHS})[a-z]*\.? \d{{4}}"
    r"|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{4}/\d{1,2}/\d{1,2}|\d{4} ?年|\b[ap]\.m\.|\d [AP]M\b|\bnoon\b|\bmidnight\b",
)
HIDDEN = re.compile(r"<(script|style|template|code)\b.*?</\1>|<[^>]+>", re.DOTALL)
WHEN = datetime(2026, 3, 4, 17, 5, 6, tzinfo=UTC)


def read_text(html: str) -> str:
    return unescape(HIDDEN.sub(" ", html))


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_what_django_formats_by_itself_reads_like_the_rest(language: str) -> None:
    with translation.override(language), timezone.override("Europe/Zurich"):
        local = timezone.localtime(WHEN)
        for name in ("DATETIME_FORMAT", "SHORT_DATETIME_FORMAT"):
            assert formats.date_format(local, name) == local_time.format_time_with_zone(WHEN, "minutes")
        assert formats.date_format(local, "DATE_FORMAT") == "2026-03-04"
        assert formats.get_format("DATE_INPUT_FORMATS")[0] == "%Y-%m-%d"


@pytest.mark.parametrize(
    "text", ["Nov. 27, 2026, 12:38 a.m.", "2026年11月27日 00:38", "27/11/2026", "4 March 2026", "midnight"]
)
def test_other_formats_would_be_noticed(text: str) -> None:
    assert FOREIGN.search(text)


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_has_a_date_in_another_format(
    alice: User, root: User, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "start", lambda: True)
    values = census.create_address_values(alice)
    User.objects.update(last_login=WHEN, date_joined=WHEN)
    factories.load()
    wrong, read = [], 0
    for user in (alice, root):
        client = Client(headers={"accept-language": language}, raise_request_exception=False)
        client.force_login(user)
        client.cookies["toolhub_zone"] = "Asia/Tokyo"
        for rule in census.every_rule():
            if "GET" not in rule.methods.split() or rule.who.is_staff != user.is_staff:
                continue
            answer: Any = client.get(rule.path(values))
            if answer.status_code != 200 or not answer.get("Content-Type", "").startswith("text/html"):
                continue
            read += 1
            text = read_text(answer.content.decode())
            wrong += [f"{rule.path(values)}: {found[0]}" for found in FOREIGN.finditer(text)]
            wrong += [f"{rule.path(values)}: {found}" for found in re.findall(r"2026-03-04 17:05\S*", text)]
    assert read > 80
    assert not wrong, "\n".join(wrong)
