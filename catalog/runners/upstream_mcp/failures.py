"""Failures of upstream servers: in English for callers, the audit log and logs, in the page's language for a page."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, override
from pydantic import ValidationError

from catalog.functions.results import clean_text
from catalog.language import ENGLISH
from catalog.runners.upstream_mcp import pipes
from catalog.runners.upstream_mcp.connection import Connection, UnusableSecret
from toolhub import egress, invisible

MAX_SENTENCE_CHARACTERS = 500
log = logging.getLogger(__name__)


class UpstreamError(Exception):
    """An upstream that cannot be used.

    The message is a sentence for callers; `audit_message`, the one for the audit log, may say more.
    """

    def __init__(
        self,
        sentence: str,
        audit_message: str = "",
        localized_message: Callable[[], str] | None = None,
        code: str = "",
        rejected: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.code, self.rejected = code, rejected
        self.audit_message = audit_message or sentence
        self._localized = localized_message

    @property
    def localized_message(self) -> str:
        """The logged sentence, in the language of the page."""
        return self.audit_message if self._localized is None else self._localized()


def failure(connection: Connection, error: BaseException) -> UpstreamError:
    """Return the error of a connection or a request as an UpstreamError."""

    def words(*, explained: bool = True) -> str:
        return f"{connection.label} {explain_error(error, explained=explained)}"

    with override(ENGLISH):
        return UpstreamError(words(explained=False), words(), words, find_code(error))


def find_code(error: BaseException) -> str:
    """Return the code by which hints are chosen: an HTTP status, "timeout" or "unreachable"; empty for none."""
    import httpx2

    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, httpx2.HTTPStatusError):
        return str(error.response.status_code)
    if isinstance(error, egress.EgressTransportError) and isinstance(error.error, egress.DeniedAddress):
        return ""  # another attempt would be blocked as well
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "timeout"
    return "unreachable" if isinstance(error, httpx2.TransportError | OSError) else ""


def refusal(connection: Connection, sentence: str, **params: object) -> UpstreamError:
    """Return an UpstreamError from the end of a sentence about the upstream, a text of the translation catalogues."""

    def words() -> str:
        return f"{connection.label} {_(sentence) % params}"

    with override(ENGLISH):
        return UpstreamError(words(), localized_message=words)


def refused_error(connection: Connection) -> UpstreamError:
    """Return the error of a server that refused the credentials."""
    refused = refusal(connection, gettext_noop("answered with HTTP status %(status)d."), status=401)
    refused.code, refused.rejected = "401", True
    return refused


def timeout_error(connection: Connection) -> UpstreamError:
    late = refusal(connection, gettext_noop("did not answer within %(seconds)g seconds."), seconds=connection.timeout)
    late.code = "timeout"
    return late


def explain_error(error: BaseException, *, explained: bool = False) -> str:
    """Return the cause, as the end of a sentence about the upstream; an `explained` one is not for callers."""
    import httpx2
    from mcp import MCPError

    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return _("answered with an error: %(why)s (%(code)s).") % {"why": one_line(error.message), "code": error.code}
    if isinstance(error, (egress.EgressTransportError, egress.EgressError)):
        why = one_line(error.localized_message if explained else str(error))
        cause = error.error if isinstance(error, egress.EgressTransportError) else error
        if explained and isinstance(cause, egress.PrivateAddress):
            return _(
                "cannot be reached: %(why)s. The allowed networks of the upstream server must include it as well."
            ) % {"why": why}
        return _("cannot be reached: %(why)s.") % {"why": why}
    if isinstance(error, httpx2.HTTPStatusError):
        return _("answered with HTTP status %(status)d.") % {"status": error.response.status_code}
    if isinstance(error, httpx2.TimeoutException):
        return _("did not answer in time.")
    if isinstance(error, (httpx2.TransportError, OSError)):
        return _("cannot be reached.")
    if isinstance(error, pipes.ProgramNotAllowed):
        return _("cannot be started: %(why)s") % {"why": error.localized_message}
    if isinstance(error, UnusableSecret):
        return _("cannot be used: the secret for %(name)s contains characters that HTTP does not allow.") % {
            "name": error.name
        }
    if isinstance(error, (ValidationError, json.JSONDecodeError, UnicodeDecodeError)):
        return _("sent a response that is not valid MCP.")
    if not explained:  # once for each failure
        log.warning("an upstream failed with %s: %s", type(error).__name__, error)
    return _("cannot be used.")


def one_line(text: str) -> str:
    """Return text from outside as a short single line, to be part of a sentence."""
    return " ".join(invisible.remove(clean_text(text)).split())[:MAX_SENTENCE_CHARACTERS].rstrip(".")
