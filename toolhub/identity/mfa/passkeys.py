"""Passkeys: adding one, and proving to hold one (WebAuthn).

The protocol is Yubico's library, the rows are allauth's. What is pinned here: the origin and the domain of the public
address, whatever a request calls this server; verification of the person by the device; a challenge that is good once,
for five minutes and for one purpose; a counter of signatures that only grows.
"""

from __future__ import annotations

import binascii
import json
import logging
import struct
import time
from typing import Any, TypeVar

from allauth.account.utils import url_str_to_user_pk
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from cryptography.exceptions import UnsupportedAlgorithm
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AuthenticationResponse,
    CollectedClientData,
    PublicKeyCredentialRpEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from toolhub.access.backends import may_use_password
from toolhub.identity.mfa import factors
from toolhub.identity.mfa_adapter import Adapter, origin

log = logging.getLogger(__name__)

CHALLENGE_KEY = "passkey_challenge"
CHALLENGE_SECONDS = 300
MAX_ANSWER_CHARACTERS = 32_768
MAX_PASSKEYS = 20
MAX_NAME_CHARACTERS = 100
SIGN_COUNT = "sign_count"
MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    binascii.Error,
    LookupError,
    RuntimeError,  # recursion, and keys of an unknown type
    struct.error,
    TypeError,
    UnsupportedAlgorithm,
    ValueError,
)
"""Whatever the libraries raise for an answer that they cannot read, or that does not hold."""
Response = TypeVar("Response", RegistrationResponse, AuthenticationResponse)


class Refused(Exception):
    """An error for an answer that proves nothing; `user` is the account that it names, if it names one."""

    def __init__(self, reason: str, user: User | None = None) -> None:
        super().__init__(reason)
        self.user = user


# --- adding one ------------------------------------------------------------------------------------------------------


def begin_adding(request: HttpRequest, user: User) -> dict[str, Any]:
    """Return what the browser needs to create a passkey for this account, which must not be on the device yet."""
    options, state = _server().register_begin(
        user=auth.build_user_payload(user),
        credentials=auth.get_credentials(user),
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
        extensions=auth.EXTENSIONS,
    )
    _keep(request, f"add:{user.pk}", state)
    return _to_json(options)


def add(request: HttpRequest, user: User, name: str, answer: str) -> Authenticator:
    """Add the passkey that the browser created. Raises Refused."""
    state = _take(request, f"add:{user.pk}")
    try:
        response = _parse(RegistrationResponse, answer)
        _check_frame(response.response.client_data)
        made = _server().register_complete(state, response)
        credential = made.credential_data
        if credential is None or credential.public_key.ALGORITHM not in CoseKey.supported_algorithms():
            raise Refused("the algorithm of the key is not supported")
        stored = dict(response)
        json.dumps(stored)
    except MALFORMED as problem:
        raise Refused(str(problem)) from problem
    with transaction.atomic():
        factors.lock(user.pk)
        if any(one.credential_id == credential.credential_id for one in auth.get_credentials(user)):
            raise Refused("the passkey was added before")
        row: Authenticator = Authenticator.objects.create(
            user=user,
            type=factors.PASSKEY,
            data={"name": name, "credential": stored, SIGN_COUNT: made.counter},
        )
    return row


# --- proving to hold one ---------------------------------------------------------------------------------------------


def begin(request: HttpRequest, purpose: str, user: User | None = None) -> dict[str, Any]:
    """Return what the browser needs to prove that somebody holds a passkey, one of this account's if there is one."""
    options, state = _server().authenticate_begin(
        credentials=None if user is None else auth.get_credentials(user),
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    _keep(request, _name_purpose(purpose, user), state)
    return _to_json(options)


def prove(request: HttpRequest, purpose: str, answer: str, user: User | None = None) -> User:
    """Return the account whose passkey the browser used: this one, or the one that the passkey names. Raises Refused.

    An account that is not active has no passkeys.
    """
    state = _take(request, _name_purpose(purpose, user))
    claimed = user
    try:
        response = _parse(AuthenticationResponse, answer)
        _check_frame(response.response.client_data)
        if claimed is None:
            claimed = _find_user(response)
        if claimed is None or not claimed.is_active:
            raise Refused("no active account has this passkey", claimed)
        if user is None and not may_use_password(claimed):
            raise Refused("this account signs in with an identity provider", claimed)
        credential = _server().authenticate_complete(state, auth.get_credentials(claimed), response)
        row = auth.get_authenticator_by_credential_id(claimed, credential.credential_id)
    except MALFORMED as problem:
        raise Refused(str(problem), claimed) from problem
    if row is None:
        raise Refused("the passkey was removed", claimed)
    _count(row, claimed, response.response.authenticator_data.counter)
    return claimed


def _find_user(response: AuthenticationResponse) -> User | None:
    """Return the account that the passkey names; its public key then decides whether that is true."""
    handle = response.response.user_handle
    return None if handle is None else User.objects.filter(pk=url_str_to_user_pk(handle.decode())).first()


def _count(row: Authenticator, user: User, counter: int) -> None:
    """Keep the device's counter of signatures; one that does not grow is that of a copy. Raises Refused.

    Passkeys that are synchronised between devices have none: it stays 0.
    """
    with transaction.atomic():
        locked = factors.find(user.pk, factors.PASSKEY).select_for_update().filter(pk=row.pk).first()
        if locked is None:
            raise Refused("the passkey was removed", user)
        before = locked.data.get(SIGN_COUNT, 0)
        if (counter or before) and counter <= before:
            log.warning(
                "A passkey (id %s) of account %s was used with an old counter: is there a copy?", row.pk, user.pk
            )
            raise Refused("the counter of the passkey did not grow", user)
        locked.data[SIGN_COUNT], locked.last_used_at = counter, timezone.now()
        locked.save(update_fields=["data", "last_used_at"])


# --- names -----------------------------------------------------------------------------------------------------------


def rename(user: User, pk: int, name: str) -> bool:
    """Give the passkey another name; return whether the account has it."""
    with transaction.atomic():
        row = factors.find(user.pk, factors.PASSKEY).select_for_update().filter(pk=pk).first()
        if row is None:
            return False
        row.data["name"] = name
        row.save(update_fields=["data"])
    return True


# --- parts -----------------------------------------------------------------------------------------------------------


def _server() -> Fido2Server:
    party = PublicKeyCredentialRpEntity(**Adapter().get_public_key_credential_rp_entity())
    return Fido2Server(party, verify_origin=lambda sent: sent == origin())


def _parse(kind: type[Response], answer: str) -> Response:
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise ValueError("the answer is too long")
    found: Response = kind.from_dict(json.loads(answer))
    return found


def _check_frame(client_data: CollectedClientData) -> None:
    if client_data.cross_origin:
        raise ValueError("the page was in a frame of another site")


def _to_json(options: Any) -> dict[str, Any]:
    found: dict[str, Any] = dict(options)
    return found


def _name_purpose(purpose: str, user: User | None) -> str:
    return purpose if user is None else f"{purpose}:{user.pk}"


def _keep(request: HttpRequest, purpose: str, state: dict[str, Any]) -> None:
    request.session[CHALLENGE_KEY] = {"purpose": purpose, "state": state, "at": int(time.time())}


def _take(request: HttpRequest, purpose: str) -> dict[str, Any]:
    """Return the challenge, which is then used up, whatever the answer is worth. Raises Refused."""
    kept = request.session.pop(CHALLENGE_KEY, None)
    if not isinstance(kept, dict) or kept["purpose"] != purpose or time.time() - kept["at"] > CHALLENGE_SECONDS:
        raise Refused("no challenge waits for this answer")
    state: dict[str, Any] = kept["state"]
    return state
