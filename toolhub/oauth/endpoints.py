"""What every address for machines shares: JSON and never HTML, readable by web pages of any origin, no cookies.

No such address reads a session, so an answer that any origin may read (`Access-Control-Allow-Origin: *`) tells it
nothing about the person in front of the browser.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import RawPostDataException
from django.views.decorators.csrf import csrf_exempt

log = logging.getLogger(__name__)

View = Callable[..., HttpResponse]
RETRY_SECONDS = 5


def error(code: str, description: str, status: int = 400, headers: dict[str, str] | None = None) -> HttpResponse:
    """Return an error of RFC 6749, section 5.2."""
    answer = JsonResponse({"error": code, "error_description": description}, status=status)
    for name, value in (headers or {}).items():
        answer.headers[name] = value
    return answer


def json_endpoint(*methods: str) -> Callable[[View], View]:
    """Decorate a view for machines, which answers these methods."""
    allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method == "OPTIONS":
                response = HttpResponse(status=204)
                response.headers["Access-Control-Allow-Methods"] = allowed
                response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, MCP-Protocol-Version"
                response.headers["Access-Control-Max-Age"] = "600"
            elif request.method not in methods and not (request.method == "HEAD" and "GET" in methods):
                text = f"This address answers {' and '.join(methods)}."
                response = error("invalid_request", text, 405, {"Allow": allowed})
            else:
                response = _call(view, request, *args, **kwargs)
            if response.status_code == 401:
                response.headers["WWW-Authenticate"] = _challenge(request)
            response.headers["Access-Control-Allow-Origin"] = "*"
            response.headers["Access-Control-Expose-Headers"] = "Retry-After, WWW-Authenticate"
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return csrf_exempt(answer)

    return decorate


def _challenge(request: HttpRequest) -> str:
    """Return the challenge to a client that is not known: in the scheme that it used (RFC 6749, section 5.2)."""
    if "Authorization" in request.headers:
        return 'Basic realm="toolhub"'
    return 'Bearer realm="toolhub", error="invalid_client"'


def _call(view: View, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    try:
        return view(request, *args, **kwargs)
    except (OperationalError, InterfaceError) as failure:
        log.warning("%s cannot be answered: the database does not answer (%s)", request.path, type(failure).__name__)
        text = f"The server cannot answer now. Try again in {RETRY_SECONDS} s."
        return error("temporarily_unavailable", text, 503, {"Retry-After": str(RETRY_SECONDS)})
    except (SuspiciousOperation, BadRequest, RawPostDataException, UnicodeError):
        return error("invalid_request", "The body of the request cannot be read.")
    except Exception:
        # Clients read JSON here, also when the fault is ours; the log has the details.
        log.exception("%s failed", request.path)
        return error("server_error", "The server failed. Its log has the details.", 500)
