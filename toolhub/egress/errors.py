"""Reasons for a request without a usable answer.

The message of an error is in English, for callers, the audit log and the log; `in_words` is in the language of a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _


class EgressError(Exception):
    """A request that got no usable answer; the message may be shown to the caller.

    `sentence` is a text of the translation catalogues, `said` fills its placeholders.
    """

    def __init__(self, sentence: str, **said: object) -> None:
        super().__init__(_filled(sentence, said))
        self._sentence, self._said = sentence, said

    @property
    def in_words(self) -> str:
        """Return the reason in the language of the page, for the person who configures the address."""
        return _filled(gettext(self._sentence), self._said)


class Denied(EgressError):
    """A request that was denied; nothing was sent."""


class DeniedAddress(Denied):
    """A denied address. Every such error has the same message: a difference would reveal the internal network.

    `reason` is for the audit log, the log and the person who configures the address.
    """

    SENTENCE: Final = _("toolhub blocks requests to this address")

    def __init__(self, reason: str, **said: object) -> None:
        super().__init__(self.SENTENCE)
        self.reason = _filled(reason, said)
        self._reason, self._why = reason, said

    @property
    def explained(self) -> str:
        return f"{self.SENTENCE}: {self.reason}"

    @property
    def in_words(self) -> str:
        said = {"what": gettext(self.SENTENCE), "why": _filled(gettext(self._reason), self._why)}
        return gettext("%(what)s: %(why)s") % said


class TooLarge(EgressError):
    """An answer that is larger than its cap, as sent or unpacked."""


class DeadlineExceeded(EgressError):
    """An answer that was not complete in time."""


class Unreachable(EgressError):
    """A name that does not resolve, a failed or broken connection, or an invalid certificate."""


def _filled(sentence: str, said: Mapping[str, object]) -> str:
    return sentence % said if said else sentence
