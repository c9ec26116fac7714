"""Reasons for a request without a usable answer.

The message of an error is in English, for callers and all logs; `localized_message` is in the language of a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _


class EgressError(Exception):
    """A request that got no usable answer; the message may be shown to the caller.

    `sentence` is a text of the translation catalogues, `params` fills its placeholders.
    """

    def __init__(self, sentence: str, **params: object) -> None:
        super().__init__(_fill(sentence, params))
        self._sentence, self._params = sentence, params

    @property
    def localized_message(self) -> str:
        """Return the reason in the language of the page, for the person who configures the address."""
        return _fill(gettext(self._sentence), self._params)


class Denied(EgressError):
    """A request that was denied; nothing was sent."""


class DeniedAddress(Denied):
    """A denied address. Every such error has the same message: a difference would reveal the internal network.

    `reason` is for the audit log, the log and the person who configures the address.
    """

    SENTENCE: Final = _("toolhub blocks requests to this address")

    def __init__(self, reason: str, **params: object) -> None:
        super().__init__(self.SENTENCE)
        self.reason = _fill(reason, params)
        self._reason, self._reason_params = reason, params

    @property
    def explanation(self) -> str:
        return f"{self.SENTENCE}: {self.reason}"

    @property
    def localized_message(self) -> str:
        params = {"what": gettext(self.SENTENCE), "why": _fill(gettext(self._reason), self._reason_params)}
        return gettext("%(what)s: %(why)s") % params


class PrivateAddress(DeniedAddress):
    """A denied address that a list of allowed networks could allow."""


class InvalidNetwork(EgressError, ValueError):
    """An entry of an allow list that is no network."""


class TooLarge(EgressError):
    """An answer that is larger than its cap, as sent or unpacked."""


class DeadlineExceeded(EgressError):
    """An answer that was not complete in time."""


class Unreachable(EgressError):
    """A name that does not resolve, a failed or broken connection, or an invalid certificate."""


def _fill(sentence: str, params: Mapping[str, object]) -> str:
    return sentence % params if params else sentence
