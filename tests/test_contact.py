"""The contact of the operator stands wherever somebody is told whom to ask."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.forms import Form
from django.template import Context, Template
from django.test import Client
from django.utils.translation import gettext_lazy, override

from catalog.errors import EndNotLogged
from catalog.runners import hints
from catalog.schemas import errors
from tests import test_glossary
from toolhub import contact
from toolhub.access import privileges
from toolhub.access.connect import TROUBLES

ANYBODY = re.compile(r"\b(?:your|its) administrator\b", re.IGNORECASE)
HOME = "toolhub/contact.py"


@pytest.fixture
def dana(settings: Any) -> None:
    settings.CONTACT_NAME = "Dana & the <Data> team"
    settings.CONTACT_URL = 'https://help.example.com/?a=1&b="2"'


LINK = '<a href="https://help.example.com/?a=1&amp;b=&quot;2&quot;">Dana &amp; the &lt;Data&gt; team</a>'
PLAIN = 'Dana & the <Data> team (https://help.example.com/?a=1&b="2")'


def test_no_text_names_the_administrator_itself_but_the_module_of_the_contact() -> None:
    places = list(test_glossary.collect_texts())
    wrong = [
        f"{where}: {text[:200]}"
        for where, text in places
        if ANYBODY.search(" ".join(text.split())) and not where.startswith((HOME, "django.po", "README", "CHANGELOG"))
    ]
    assert not wrong, "Write %(contact)s, see toolhub/contact.py:\n" + "\n".join(wrong)
    assert any(where.startswith(HOME) and ANYBODY.search(text) for where, text in places)


def test_without_a_contact_texts_say_your_administrator_in_the_language_of_the_reader() -> None:
    assert contact.describe() == contact.link() == "your administrator"
    assert contact.fill("Ask %(contact)s.") == "Ask your administrator."
    with override("zh-hans"):
        assert contact.english() == "your administrator"


@pytest.mark.parametrize(
    ("name", "address", "plain", "link"),
    [
        ("Dana", "", "Dana", "Dana"),
        ("", "https://h.example/", "https://h.example/", '<a href="https://h.example/">https://h.example/</a>'),
        ("Dana", "mailto:d@x.example?b=c", "Dana (d@x.example)", '<a href="mailto:d@x.example?b=c">Dana</a>'),
    ],
)
def test_a_name_or_an_address_alone_is_enough(settings: Any, name: str, address: str, plain: str, link: str) -> None:
    settings.CONTACT_NAME, settings.CONTACT_URL = name, address
    assert (contact.describe(), contact.link()) == (plain, link)


def test_a_sentence_is_plain_text_for_programs_and_has_a_link_on_pages(dana: None) -> None:
    sentence = contact.fill(gettext_lazy("Ask %(contact)s for <%(thing)s>."), thing="<b>")
    assert sentence == f"Ask {PLAIN} for <<b>>."
    html = f"Ask {LINK} for &lt;&lt;b&gt;&gt;."
    lazy = contact.fill_lazily(gettext_lazy("Ask %(contact)s for <%(thing)s>."), thing="<b>")
    for value in (sentence, lazy, ValidationError(sentence).messages[0]):
        assert Template("{{ value }}").render(Context({"value": value})) == html
    form = Form({})
    form.add_error(None, sentence)
    assert Template("{% for e in form.non_field_errors %}{{ e }}{% endfor %}").render(Context({"form": form})) == html
    assert html in str(form.non_field_errors())
    both = contact.join([sentence, sentence])
    assert both == f"{sentence} {sentence}" and both.html == f"{html} {html}"


def test_pages_link_to_the_contact(dana: None, charlie: User) -> None:
    client = Client()
    assert f"Contact {LINK}." in client.get("/sign-in/").content.decode()
    client.force_login(charlie)
    assert f"Ask {LINK}. Granted tools" in client.get("/tools/").content.decode()
    page = client.get("/connect/").content.decode()
    assert page.count(LINK) > 5 and "administrator" not in page


def test_somebody_who_is_locked_out_finds_the_contact(dana: None, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhub.access.forms.NAME_RATE", "1/10h")
    for _ in range(2):
        answer = Client().post("/sign-in/", {"username": "alice", "password": "wrong"})
    assert answer.status_code == 429 and f"ask {LINK} for a new one" in answer.content.decode()


def test_refusals_of_the_admin_link_to_the_contact(dana: None) -> None:
    refusal = privileges.token_refusal()
    assert f"Ask {PLAIN} for it" in refusal and f"Ask {LINK} for it" in refusal.__html__()  # type: ignore[attr-defined]


def test_clients_read_the_name_and_the_address(dana: None) -> None:
    assert hints.find((), "401", "", hints.DEFAULTS).endswith(f"ask {PLAIN} to check them.")
    own = hints.Hint(code="401", text="Ask {contact}.")
    assert hints.find((own,), "401", "", hints.DEFAULTS) == "Next step: Ask {contact}."
    unusable = errors.SchemaProblem((), errors.UNUSABLE)
    assert errors.english(unusable).endswith(f"ask {PLAIN} to fix it")
    assert errors.english_of_result(unusable).endswith(f"ask {PLAIN} to fix it")
    assert EndNotLogged(uuid4(), "the disk is full").reason.endswith(f"tell {PLAIN}")


def test_every_trouble_that_names_the_contact_fits_it(dana: None) -> None:
    named = [str(trouble.advice) for trouble in TROUBLES if "Dana" in str(trouble.advice)]
    assert len(named) == 7 and not any("%(" in str(trouble.advice) for trouble in TROUBLES)
