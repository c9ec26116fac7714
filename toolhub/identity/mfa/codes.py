"""Codes of an authenticator app (TOTP, RFC 6238) and recovery codes.

The library has the algorithms. A code of the app is good once: the time step of the last one is kept with the seed, so
this holds for every process, and after a restart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.utils import decrypt
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from catalog import encryption
from toolhub.identity.mfa import factors
from toolhub.identity.mfa_adapter import Adapter, seed_owner, seeds_of

log = logging.getLogger(__name__)

SET_UP_KEY = "app_set_up"
SET_UP_SECONDS = 1800
LAST_STEP = "last_step"
MAX_CODE_CHARACTERS = 40
SEEDS = {str(factors.APP): "secret", str(factors.CODES): "seed"}
"""Kinds of factors with a seed, and the name under which the library stores it."""
RECOVERY_CODE_GROUP = 5


# --- setting up an authenticator app ---------------------------------------------------------------------------------


def start_set_up(request: HttpRequest, user: User) -> str:
    """Return the seed that the person is setting up, a new one if there is none.

    The session has it encrypted: sessions are in the database. Raises KeysError.
    """
    seed = _read_set_up(request, user)
    if seed is None:
        seed = totp.generate_totp_secret()
        stored = encryption.encrypt(seed, _set_up_owner(user))
        request.session[SET_UP_KEY] = {"seed": stored, "at": int(time.time())}
    return seed


def finish_set_up(request: HttpRequest, user: User, code: str) -> bool:
    """Make the authenticator app a second factor if the code is right; return whether it was."""
    seed = _read_set_up(request, user)
    step = None if seed is None else _find_step(seed, code, 0)
    if step is None:
        return False
    with transaction.atomic():
        factors.lock(user.pk)
        factors.find(user.pk, factors.APP).delete()
        with seeds_of(user.pk, factors.APP):
            made = totp.TOTP.activate(user, seed).instance
        made.data[LAST_STEP] = step
        made.save(update_fields=["data"])
    request.session.pop(SET_UP_KEY, None)
    return True


def draw_qr_code(user: User, seed: str) -> str:
    """Return the picture that the app scans, as SVG."""
    adapter = Adapter()
    drawn: str = adapter.build_totp_svg(adapter.build_totp_url(user, seed))
    return drawn[drawn.index("<svg") :]


def _set_up_owner(user: User) -> str:
    return f"second factor:set-up:{user.pk}"


def _read_set_up(request: HttpRequest, user: User) -> str | None:
    stored = request.session.get(SET_UP_KEY)
    if not isinstance(stored, dict) or time.time() - stored["at"] > SET_UP_SECONDS:
        return None
    try:
        return encryption.decrypt(stored["seed"], _set_up_owner(user))
    except encryption.DecryptionError:  # of another account that used this browser
        return None


# --- recovery codes --------------------------------------------------------------------------------------------------


def make_missing_recovery_codes(user: User) -> list[str]:
    """Make recovery codes for an account that has none, and return them; otherwise return nothing."""
    with transaction.atomic():
        factors.lock(user.pk)
        return [] if factors.find(user.pk, factors.CODES).exists() else _make(user)


def replace_recovery_codes(user: User) -> list[str]:
    """Make new recovery codes in place of the old ones, and return them."""
    with transaction.atomic():
        factors.lock(user.pk)
        factors.find(user.pk, factors.CODES).delete()
        return _make(user)


def count_unused_recovery_codes(user: User) -> int:
    row = factors.find(user.pk, factors.CODES).first()
    if row is None:
        return 0
    try:
        with seeds_of(user.pk, factors.CODES):
            return len(RecoveryCodes(row).get_unused_codes())
    except (encryption.DecryptionError, encryption.KeysError):
        _log_unreadable(user, factors.CODES)
        return 0


def _make(user: User) -> list[str]:
    with seeds_of(user.pk, factors.CODES):
        made = RecoveryCodes.activate(user).generate_codes()
    size = RECOVERY_CODE_GROUP
    return ["-".join(code[start : start + size] for start in range(0, len(code), size)) for code in made]


# --- checking --------------------------------------------------------------------------------------------------------


def check(user: User, code: str) -> str | None:
    """Use up a code of the account's app, or one of its recovery codes; return its kind, None for a wrong one."""
    if len(code) > MAX_CODE_CHARACTERS:
        return None
    for kind, is_right in ((factors.APP, _use_app_code), (factors.CODES, _use_recovery_code)):
        try:
            if is_right(user, code):
                return str(kind)
        except (encryption.DecryptionError, encryption.KeysError):
            _log_unreadable(user, kind)
    return None


def move_seeds() -> Iterator[encryption.Moved]:
    """Re-encrypt every seed, see `encryption.EncryptedValues`. Raises UnreadableValue, KeysError."""
    rows = list(Authenticator.objects.select_related("user").select_for_update(of=("self",)).filter(type__in=SEEDS))
    for row in rows:
        name, owner = SEEDS[row.type], seed_owner(row.user_id, row.type)
        row.data[name] = encryption.move_or_refuse(
            row.data[name],
            owner,
            f"The second factor ({row.type}) of {row.user} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. "
            "Add the key it was encrypted with, or remove the factors of this user with removefactors.",
        )
        row.save(update_fields=["data"])
    yield "seeds of second factors", len(rows)


def _use_app_code(user: User, code: str) -> bool:
    with transaction.atomic():
        row = factors.find(user.pk, factors.APP).select_for_update().first()
        if row is None:
            return False
        with seeds_of(user.pk, factors.APP):
            seed = decrypt(row.data["secret"])
        step = _find_step(seed, code, row.data.get(LAST_STEP, 0))
        if step is None:
            return False
        row.data[LAST_STEP], row.last_used_at = step, timezone.now()
        row.save(update_fields=["data", "last_used_at"])
    return True


def _use_recovery_code(user: User, code: str) -> bool:
    row = factors.find(user.pk, factors.CODES).first()
    if row is None or not factors.has_any(user.pk):
        return False
    codes = RecoveryCodes(row)
    try:
        with seeds_of(user.pk, factors.CODES):
            if not codes.validate_code(code):
                return False
    except ObjectDoesNotExist:  # replaced by another request
        return False
    Authenticator.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
    return True


def _find_step(seed: str, code: str, after: int) -> int | None:
    """Return the time step, later than `after`, that this code belongs to."""
    step: int
    for step in totp.yield_hotp_counters_from_time():
        expected = totp.format_hotp_value(totp.hotp_value(seed, step))
        if step > after and compare_user_code(actual=code, expected=expected):
            return step
    return None


def _log_unreadable(user: User, kind: str) -> None:
    log.error("A second factor (%s) of account %s cannot be decrypted with TOOLHUB_ENCRYPTION_KEYS.", kind, user.pk)
