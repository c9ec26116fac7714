"""Re-encryption of the secrets of tools with the first key."""

from __future__ import annotations

from collections.abc import Iterator

from catalog import encryption
from catalog.models import PersonalSecret, Secret


def move() -> Iterator[encryption.Moved]:
    """Re-encrypt shared and personal secrets, see `encryption.EncryptedValues`. Raises UnreadableValue, KeysError."""
    # Bypasses the watched managers: the command logs one change, not one for each row.
    shared = list(Secret._base_manager.select_for_update().exclude(value=""))
    personal = list(PersonalSecret._base_manager.select_related("secret", "user").select_for_update(of=("self",)))
    rows: list[Secret | PersonalSecret] = [*shared, *personal]
    for row in rows:
        try:
            fresh = encryption.move(row.value, row.owner)
        except encryption.DecryptionError:
            raise encryption.UnreadableValue(
                f"The secret {row} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. Add the key it was "
                "encrypted with, enter the secret again, or delete it."
            ) from None
        type(row)._base_manager.filter(pk=row.pk).update(value=fresh)
    yield "shared secrets", len(shared)
    yield "personal secrets", len(personal)
