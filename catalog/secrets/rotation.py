"""Re-encryption of the secrets of tools with the first key."""

from __future__ import annotations

from collections.abc import Iterator

from catalog import encryption
from catalog.models import ConnectedAccount, PersonalSecret, Secret


def move() -> Iterator[encryption.Moved]:
    """Re-encrypt secrets and accounts, see `encryption.EncryptedValues`. Raises UnreadableValue, KeysError."""
    # Bypasses the watched managers: the command logs one change, not one for each row.
    shared = list(Secret._base_manager.select_for_update().exclude(value=""))
    entered = PersonalSecret._base_manager.exclude(value="").select_related("secret", "user")
    personal = list(entered.select_for_update(of=("self",)))
    rows: list[Secret | PersonalSecret] = [*shared, *personal]
    for row in rows:
        fresh = encryption.move_or_refuse(
            row.value,
            row.owner,
            f"The secret {row} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. Add the key it was encrypted "
            "with, enter the secret again, or delete it.",
        )
        type(row)._base_manager.filter(pk=row.pk).update(value=fresh)
    yield "shared secrets", len(shared)
    yield "personal secrets", len(personal)
    yield "clients of accounts", _move_clients()
    yield "connected accounts", _move_accounts()


def _move_clients() -> int:
    """Re-encrypt the clients with which people connect accounts: entered by hand, or registered by this server."""
    number = 0
    for row in Secret._base_manager.select_for_update().exclude(client_secret="", registration=""):
        changed = {}
        for column, owner in (("client_secret", row.client_owner), ("registration", row.registration_owner)):
            if stored := getattr(row, column):
                changed[column] = encryption.move_or_refuse(
                    stored,
                    owner,
                    f"The client of the account {row} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. Add the "
                    "key it was encrypted with, or delete the account.",
                )
        Secret._base_manager.filter(pk=row.pk).update(**changed)
        number += 1
    return number


def _move_accounts() -> int:
    accounts = ConnectedAccount._base_manager.exclude(tokens="").select_related("entry__secret", "entry__user")
    rows = list(accounts.select_for_update(of=("self",)))
    for row in rows:
        fresh = encryption.move_or_refuse(
            row.tokens,
            row.owner,
            f"The account {row} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. Add the key it was encrypted "
            "with, or have its owner connect it again.",
        )
        # A refresh that began before stores its tokens with the first key as well, or finds another version.
        ConnectedAccount._base_manager.filter(pk=row.pk).update(tokens=fresh)
    return len(rows)
