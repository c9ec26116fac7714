"""Re-encryption of the secrets of identity providers with the first key."""

from __future__ import annotations

from collections.abc import Iterator

from catalog import encryption
from toolhub.identity.models import Identity, Provider


def move() -> Iterator[encryption.Moved]:
    """Re-encrypt the secrets of providers and their tokens, see `encryption.EncryptedValues`.

    A token of a provider that cannot be read is dropped: the sign-in then lapses. Raises UnreadableValue, KeysError.
    """
    providers = list(Provider._base_manager.select_for_update().exclude(client_secret=""))
    for provider in providers:
        fresh = encryption.move_or_refuse(
            provider.client_secret,
            provider.secret_owner,
            f"The client secret of the identity provider {provider} cannot be decrypted with any of "
            "TOOLHUB_ENCRYPTION_KEYS. Add the key it was encrypted with, or enter the secret again.",
        )
        Provider._base_manager.filter(pk=provider.pk).update(client_secret=fresh)
    identities = list(Identity._base_manager.select_for_update().exclude(refresh_token=""))
    for identity in identities:
        try:
            fresh = encryption.move(identity.refresh_token, identity.token_owner)
        except encryption.DecryptionError:
            fresh = ""
        Identity._base_manager.filter(pk=identity.pk).update(refresh_token=fresh)
    yield "client secrets of identity providers", len(providers)
    yield "tokens of identity providers", len(identities)
