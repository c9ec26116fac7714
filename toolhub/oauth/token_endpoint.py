"""The endpoints at which clients exchange codes and refresh tokens, and revoke what they no longer need."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from oauth2_provider.oauth2_backends import get_oauthlib_core

from toolhub.oauth.endpoints import error, json_endpoint

FORM = "application/x-www-form-urlencoded"
SINGLE_PARAMETERS = frozenset(
    {
        *("grant_type", "client_id", "client_secret", "scope"),
        *("code", "code_verifier", "redirect_uri", "refresh_token", "device_code", "assertion"),
    }
)
"""Parameters that may come once (RFC 6749, section 3.2); `resource` may come more often."""


@json_endpoint("POST")
@sensitive_post_parameters()
@sensitive_variables()
def token(request: HttpRequest) -> HttpResponse:
    """Exchange a code, a refresh token, or an assertion (RFC 6749, sections 4.1.3 and 6, and RFC 7523)."""
    if request.content_type != FORM:
        return error("invalid_request", f"The body must be {FORM}.")
    for name, values in request.POST.lists():
        if name in SINGLE_PARAMETERS and len(values) > 1:
            # The library would take the last one.
            return error("invalid_request", f"Duplicate {name} parameter.")
    _uri, headers, body, status = get_oauthlib_core().create_token_response(request)
    return _answer(headers, body, status)


@json_endpoint("POST")
@sensitive_post_parameters()
@sensitive_variables()
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke a token with everything that came from the same decision of a person (RFC 7009)."""
    if request.content_type != FORM:
        return error("invalid_request", f"The body must be {FORM}.")
    _uri, headers, body, status = get_oauthlib_core().create_revocation_response(request)
    return _answer(headers, body, status)


def _answer(headers: dict[str, str], body: str, status: int) -> HttpResponse:
    answer = HttpResponse(body or "{}", status=status, content_type="application/json")
    for name, value in headers.items():
        if not name.lower().startswith("access-control-"):
            answer.headers[name] = value
    return answer
