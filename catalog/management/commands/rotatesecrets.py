"""`rotatesecrets`: re-encrypt every secret with the first of TOOLHUB_ENCRYPTION_KEYS, or change nothing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from audit.actions import log
from catalog import encryption
from catalog.models import PersonalSecret, Secret
from toolhub.parts import parts

OWN = frozenset({"shared", "personal"})


class Command(BaseCommand):
    help = "Re-encrypt every secret with the first of TOOLHUB_ENCRYPTION_KEYS. Then remove the other keys."

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            # Bypasses the watched managers: this is logged as one change, not as one for each row.
            shared = list(Secret._base_manager.select_for_update().exclude(value=""))
            personal = list(
                PersonalSecret._base_manager.select_related("secret", "user").select_for_update(of=("self",))
            )
            rows: list[Secret | PersonalSecret] = [*shared, *personal]
            for row in rows:
                try:
                    value = encryption.decrypt(row.value, row.owner)
                    fresh = encryption.encrypt(value, row.owner)
                except encryption.DecryptionError:
                    raise CommandError(
                        f"The secret {row} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS. Nothing was "
                        "changed. Add the key it was encrypted with, enter the secret again, or delete it."
                    ) from None
                except encryption.KeysError as problem:
                    raise CommandError(f"{problem}. Nothing was changed.") from None
                type(row)._base_manager.filter(pk=row.pk).update(value=fresh)
            counts = {"shared": len(shared), "personal": len(personal)} | self._rotate_others()
            log.record("re-encrypted", "secret", "all secrets", None, counts)
        what = f"{len(shared)} shared and {len(personal)} personal secrets"
        others = "".join(f", and {number} {name}" for name, number in counts.items() if name not in OWN)
        self.stdout.write(f"{what}{others} are now encrypted with the first key.")

    def _rotate_others(self) -> dict[str, int]:
        """Re-encrypt the values of other applications, and return how many of each kind there are, if any."""
        found = parts.find(encryption.EveryOtherRow) or encryption.EveryOtherRow()
        counts = {}
        for kind in found.kinds:
            try:
                if number := kind.rotate():
                    counts[kind.name] = number
            except encryption.DecryptionError as problem:
                raise CommandError(
                    f"One of the {kind.name} cannot be decrypted with any of TOOLHUB_ENCRYPTION_KEYS: {problem}. "
                    "Nothing was changed. Add the key it was encrypted with, or remove it."
                ) from None
        return counts
