"""The person to ask for help: the contact of TOOLHUB_CONTACT_NAME and TOOLHUB_CONTACT_URL, or "your administrator".

A sentence has one placeholder, `Ask %(contact)s for help.`, so that it stays one sentence in every language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.utils.functional import lazy
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from toolhub.chinese import close_blanks

UNNAMED = gettext_noop("your administrator")


class Sentence(str):
    """A sentence as plain text, in which pages find the contact as a link: templates ask for `__html__`."""

    __slots__ = ("html",)
    html: SafeString

    def __new__(cls, text: str, html: SafeString) -> Sentence:
        made = super().__new__(cls, text)
        made.html = html
        return made

    def __str__(self) -> str:
        return self  # so that Django's forms, which convert every error, keep the link

    def __html__(self) -> SafeString:
        return self.html


def describe(translate: Callable[[str], str] = gettext) -> str:
    """Return the contact as plain text: the name, and the address in parentheses."""
    name, address = settings.CONTACT_NAME, _readable_address()
    if name and address:
        return f"{name} ({address})"
    return name or address or translate(UNNAMED)


def english() -> str:
    """Return the contact for sentences that are English in every language, such as those for clients."""
    return describe(str)


def link() -> SafeString:
    """Return the contact for a page: the name, linked to the address."""
    name = settings.CONTACT_NAME or _readable_address() or gettext(UNNAMED)
    if not settings.CONTACT_URL:
        return escape(name)
    return format_html('<a href="{}">{}</a>', settings.CONTACT_URL, name)


def fill(sentence: Any, **values: object) -> Sentence:
    """Return the sentence with the contact in the place of `%(contact)s`, and the other values in theirs."""
    text = str(sentence)
    html = escape(text) % {"contact": link(), **{name: escape(value) for name, value in values.items()}}
    return Sentence(close_blanks(text % {"contact": describe(), **values}), SafeString(close_blanks(html)))


fill_lazily = lazy(fill, str)
"""`fill` for a sentence that is translated when somebody reads it."""


def join(sentences: Iterable[Sentence]) -> Sentence:
    """Return the sentences as one text, with a blank between them where the language has one."""
    found = list(sentences)
    html = format_html_join(" ", "{}", ((one,) for one in found))
    return Sentence(close_blanks(" ".join(found)), SafeString(close_blanks(html)))


def _readable_address() -> str:
    """Return the address as people write it: that of a mail alone."""
    address: str = settings.CONTACT_URL
    return address.removeprefix("mailto:").partition("?")[0] if address.startswith("mailto:") else address
