"""`rotatesecrets`: re-encrypt every secret with the first of TOOLHUB_ENCRYPTION_KEYS, or change nothing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from audit.actions import log
from catalog import encryption
from toolhub.parts import parts


class Command(BaseCommand):
    help = "Re-encrypt every secret with the first of TOOLHUB_ENCRYPTION_KEYS. Then remove the other keys."

    def handle(self, *args: Any, **options: Any) -> None:
        counts: dict[str, int] = {}
        with transaction.atomic():
            for mover in parts.get(encryption.EncryptedValues).movers:
                try:
                    counts.update(mover())
                except encryption.UnreadableValue as problem:
                    raise CommandError(f"{problem} Nothing was changed.") from None
                except encryption.KeysError as problem:
                    raise CommandError(f"{problem}. Nothing was changed.") from None
            log.record("re-encrypted", "secret", "all secrets", None, {"values": sum(counts.values())})
        self.stdout.write("These values are now encrypted with the first key:")
        for what, number in counts.items():
            self.stdout.write(f"  {number:,} {what}")
