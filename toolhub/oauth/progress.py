"""Steps of a sign-in, for the open Connect page of the person who connects the client."""

from __future__ import annotations

from django.http import HttpRequest

from toolhub.parts import parts
from toolhub.server.live.connect_check import ConnectCheck


def report_to_address(step: str, request: HttpRequest, client: str = "") -> None:
    """Report a step of a client that is not known yet to pages at the same address."""
    check = parts.find(ConnectCheck)
    if check is not None:
        check.report_sign_in(step, address=str(request.META.get("REMOTE_ADDR", "")), client=client)


def report_to_person(step: str, user_id: int, client: str, credential: str = "") -> None:
    """Report a step that a person took, or that was taken for them."""
    check = parts.find(ConnectCheck)
    if check is not None:
        check.report_sign_in(step, user_id=user_id, client=client, credential=credential)
