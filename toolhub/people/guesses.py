"""Rates for the forms of people who are not signed in, counted as wrong passwords are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.forms import BaseForm
from django.http import HttpRequest
from django.utils.translation import ngettext

from toolhub import client_address
from toolhub.access import throttle


class TooManyGuesses(Exception):
    """A rate is exceeded; the text is a sentence for the page. The answer has status 429."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """The tries of one thing (an invitation, an account) and of one address."""

    group: str
    rate: str
    address_rate: str

    def reserve(self, request: HttpRequest, key: str) -> throttle.Reservation:
        """Count a try. Raises TooManyGuesses."""
        address = client_address.counted(str(request.META.get("REMOTE_ADDR", "")))
        found = throttle.reserve(
            [
                throttle.Counter(self.group, f"{key}\n{address}", self.rate),
                throttle.Counter(f"{self.group}-address", address, self.address_rate),
            ]
        )
        if found.seconds:
            request.throttled_seconds = found.seconds  # type: ignore[attr-defined]
            minutes = -(-found.seconds // 60)
            sentence = ngettext(
                "Too many attempts. Try again in %(minutes)d minute.",
                "Too many attempts. Try again in %(minutes)d minutes.",
                minutes,
            )
            raise TooManyGuesses(sentence % {"minutes": minutes})
        return found

    @contextmanager
    def counted(self, request: HttpRequest, key: str, form: BaseForm) -> Iterator[None]:
        """Count a try that leaves the form with an error; any other is taken off again. Raises TooManyGuesses."""
        found = self.reserve(request, key)
        try:
            yield
        finally:
            if not form.errors:
                found.give_back()
