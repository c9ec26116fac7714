"""Documents that lead a client from /mcp to the sign-in: RFC 9728 for the resource, RFC 8414 for the server.

They depend on TOOLHUB_PUBLIC_URL alone, never on the Host of a request.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from toolhub.access import hooks
from toolhub.oauth import assertions, client_documents, progress, registration, scopes
from toolhub.oauth.endpoints import error, json_endpoint
from toolhub.oauth.resources import ISSUER, RESOURCE

KEEP = "public, max-age=300"


@json_endpoint("GET")
def protected_resource(request: HttpRequest) -> HttpResponse:
    """Answer with the metadata of /mcp (RFC 9728, section 3.2), with the scopes that suffice."""
    return _document(
        {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER],
            "scopes_supported": [scopes.MCP],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolhub",
        }
    )


@json_endpoint("GET")
def authorization_server(request: HttpRequest) -> HttpResponse:
    """Answer with the metadata of the authorization server (RFC 8414, section 2)."""
    progress.report_to_address("metadata", request)
    found: dict[str, object] = {
        "issuer": ISSUER,
        "authorization_endpoint": _address("authorize"),
        "token_endpoint": _address("token"),
        "revocation_endpoint": _address("revoke"),
        "device_authorization_endpoint": _address("device-authorization"),
        "scopes_supported": sorted(scopes.Scopes().get_all_scopes()),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(registration.GRANT_TYPES),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": client_documents.are_read(),
        "service_documentation": ISSUER,
    }
    if hooks.installed().accepts_assertions():
        found["grant_types_supported"] = [*registration.GRANT_TYPES, assertions.GRANT]
        found["authorization_grant_profiles_supported"] = [assertions.PROFILE]
    if client_documents.may_register_at_all():
        found["registration_endpoint"] = _address("register")
    return _document(found)


@json_endpoint("GET", "POST")
def unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer 404 in JSON: clients look for several documents here, and read each answer."""
    return error("not_found", "There is no such document at this server.", 404)


def _address(name: str) -> str:
    # PUBLIC_URL has the path that a proxy adds; `reverse` has none.
    return f"{ISSUER}{reverse(f'oauth:{name}')}"


def _document(values: dict[str, object]) -> HttpResponse:
    answer = JsonResponse(values)
    answer.headers["Cache-Control"] = KEEP
    return answer
