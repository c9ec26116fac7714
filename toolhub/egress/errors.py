"""Why a request that went out brought nothing back.

What an error says of itself is English, as callers, the record and the log have it; `in_words` says it to a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _


class EgressError(Exception):
    """A request that got no usable answer; the message may be shown to whoever asked for it.

    `sentence` is one that the catalogues of translations have, `said` fills its placeholders.
    """

    def __init__(self, sentence: str, **said: object) -> None:
        super().__init__(_filled(sentence, said))
        self._sentence, self._said = sentence, said

    @property
    def in_words(self) -> str:
        """For a page of whoever sets the address up, in the language of the page."""
        return _filled(gettext(self._sentence), self._said)


class Denied(EgressError):
    """Not allowed to send this; nothing was sent."""


class DeniedAddress(Denied):
    """Not allowed to go there. Every such refusal reads the same: which it is would tell about the network in here.

    `reason` is for the record, the log and whoever sets the address up.
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
    """The answer is larger than its cap, as sent or unpacked."""


class DeadlineExceeded(EgressError):
    """Not answered completely in time."""


class Unreachable(EgressError):
    """No such name, no connection, no valid certificate, or the connection broke."""


def _filled(sentence: str, said: Mapping[str, object]) -> str:
    return sentence % said if said else sentence
