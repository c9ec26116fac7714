"""What every address for identity providers shares: a token, JSON and never HTML, one transaction, no session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from audit.actions import actor
from audit.types import AuditLogUnavailable
from toolhub.identity.models import Provider
from toolhub.scim import errors, messages, tokens
from toolhub.scim.errors import ScimError
from toolhub.wire import jsonrpc
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/scim+json"
ACCEPTED_TYPES = (CONTENT_TYPE, "application/json")
MAX_BODY_BYTES = 2_000_000
MAX_DEPTH_LEVELS = 16
RETRY_SECONDS = 5
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Call:
    """A request of an identity provider."""

    request: HttpRequest
    provider: Provider
    by: str
    """The provider in the audit log."""
    body: dict[str, Any]
    """The object that was sent, its names in lower case; empty with GET and DELETE."""


View = Callable[..., HttpResponse]


def respond(body: Mapping[str, Any] | None, status: int = 200, **headers: str) -> HttpResponse:
    answer = HttpResponse(status=status) if body is None else JsonResponse(body, status=status)
    if body is None:
        del answer.headers["Content-Type"]
    else:
        answer.headers["Content-Type"] = CONTENT_TYPE
    for name, value in headers.items():
        answer.headers[name] = value
    return answer


def endpoint(**views: View) -> View:
    """Return a view that passes a `Call` on by its method; without any, it says that there is nothing.

    What a view changes is stored completely, or not at all.
    """

    @csrf_exempt
    def answer(request: HttpRequest, **parameters: str) -> HttpResponse:
        # No cookie counts here, also not for the limits of staff.
        request.user = AnonymousUser()
        request.encoding = "utf-8"
        try:
            found = _call(views, request, parameters)
        except ScimError as error:
            found = respond(error.body(), error.status, **error.headers)
        found.headers["Cache-Control"] = "no-store"
        return found

    return answer


def _call(views: Mapping[str, View], request: HttpRequest, parameters: dict[str, str]) -> HttpResponse:
    method = "GET" if request.method == "HEAD" else str(request.method)
    if views and method not in views:
        allowed = ", ".join([*views, *(["HEAD"] if "GET" in views else [])])
        raise ScimError(405, f"This address answers {' and '.join(views)}.", headers={"Allow": allowed})
    try:
        provider = tokens.authenticate(request).provider
        if not views:
            raise errors.not_found()
        body = _read_body(request) if method in METHODS_WITH_BODY else {}
        call = Call(request, provider, f"provisioning by {provider.name}", body)
        if method == "GET":
            return views[method](call, **parameters)
        with transaction.atomic(), actor.override(call.by):
            return views[method](call, **parameters)
    except ScimError:
        raise
    except IntegrityError:
        raise errors.taken("Another request stored the same at the same time.") from None
    except (OperationalError, InterfaceError, AuditLogUnavailable) as failure:
        log.warning("%s cannot be answered: the database does not answer (%s)", request.path, type(failure).__name__)
        text = f"The server cannot answer now. Try again in {RETRY_SECONDS} s."
        raise ScimError(503, text, headers={"Retry-After": str(RETRY_SECONDS)}) from None
    except RequestDataTooBig:
        raise _too_large() from None
    except (SuspiciousOperation, UnreadablePostError):
        raise errors.invalid("The request cannot be read.", errors.INVALID_SYNTAX) from None
    except Exception:
        # Clients read JSON here, also when the fault is ours; the log has the details.
        log.exception("%s failed", request.path)
        raise ScimError(500, "The server failed. Its log has the details.") from None


def _read_body(request: HttpRequest) -> dict[str, Any]:
    """Return the object in the body, its names in lower case. Raises ScimError."""
    if request.content_type not in ACCEPTED_TYPES:
        raise ScimError(415, f"The body must be {CONTENT_TYPE}.")
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not (length.isascii() and length.isdecimal()) or len(length) > 18:
        raise errors.invalid("Content-Length is not a number.", errors.INVALID_SYNTAX)
    if int(length) > MAX_BODY_BYTES or len(request.body) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        value = jsonrpc.decode(request.body, max_depth=MAX_DEPTH_LEVELS)
    except McpError as error:
        raise errors.invalid(f"{error.message}.", errors.INVALID_SYNTAX) from None
    return messages.read_object(value, "The body")


def _too_large() -> ScimError:
    return ScimError(413, f"The body is larger than {MAX_BODY_BYTES:,} bytes.")
