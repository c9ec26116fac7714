"""A passkey device and an authenticator app without a screen, and a browser that uses them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from fido2.cose import ES256
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

PASSWORD = "correct horse battery"
ORIGIN, DOMAIN = "http://localhost:8000", "localhost"
FLAG = AuthenticatorData.FLAG
BOTH = FLAG.UP | FLAG.UV


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Device:
    """One passkey; what it answers can be changed to what it must not be."""

    def __init__(self, counting: bool = True) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(16)
        self.handle = b""
        self.counter = 1 if counting else 0
        self.counting = counting

    def create(self, options: dict[str, Any], *, origin: str = ORIGIN, domain: str = DOMAIN, flags: int = BOTH) -> str:
        self.handle = decode(options["publicKey"]["user"]["id"])
        made = AttestedCredentialData.create(b"\0" * 16, self.id, ES256.from_cryptography_key(self.key.public_key()))
        data = AuthenticatorData.create(hash_of(domain), FLAG(flags | FLAG.AT), self.counter, made)
        return self._write(
            clientDataJSON=client_data("webauthn.create", options, origin),
            attestationObject=AttestationObject.create("none", data, {}),
        )

    def get(
        self,
        options: dict[str, Any],
        *,
        origin: str = ORIGIN,
        domain: str = DOMAIN,
        flags: int = BOTH,
        handle: bytes | None = None,
        cross_origin: bool = False,
    ) -> str:
        self.counter += self.counting
        data = AuthenticatorData.create(hash_of(domain), FLAG(flags), self.counter)
        said = client_data("webauthn.get", options, origin, cross_origin)
        signed = self.key.sign(data + hashlib.sha256(said).digest(), ec.ECDSA(hashes.SHA256()))
        return self._write(
            clientDataJSON=said,
            authenticatorData=data,
            signature=signed,
            userHandle=self.handle if handle is None else handle,
        )

    def _write(self, **response: bytes) -> str:
        return json.dumps(
            {
                "id": encode(self.id),
                "rawId": encode(self.id),
                "type": "public-key",
                "clientExtensionResults": {},
                "response": {name: encode(value) for name, value in response.items()},
            }
        )


def hash_of(domain: str) -> bytes:
    return hashlib.sha256(domain.encode()).digest()


def client_data(kind: str, options: dict[str, Any], origin: str, cross_origin: bool = False) -> bytes:
    return CollectedClientData.create(kind, options["publicKey"]["challenge"], origin, cross_origin)


def code_of(seed: str, steps: int = 0) -> str:
    """What an app shows; some steps of 30 s from now."""
    from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value

    return str(format_hotp_value(hotp_value(seed.replace(" ", ""), int(time.time()) // 30 + steps)))


# --- at the pages ----------------------------------------------------------------------------------------------------


def options_at(client: Client, path: str) -> dict[str, Any]:
    answer = client.post(path)
    assert answer.status_code == 200, (answer.status_code, answer.content[:300])
    found: dict[str, Any] = answer.json()
    return found


def add_passkey(client: Client, device: Device, name: str = "Laptop", **changes: Any) -> Any:
    made = device.create(options_at(client, "/account/security/passkeys/add/options/"), **changes)
    return client.post("/account/security/passkeys/add/", {"name": name, "credential": made})


def set_up_app(client: Client) -> tuple[str, list[str]]:
    """The seed, and the recovery codes if some were made. The code of the step before was used."""
    page = client.get("/account/security/app/").content.decode()
    seed = re.findall(r'<code id="seed">([A-Z2-7 ]+)</code>', page)[0].replace(" ", "")
    answer = client.post("/account/security/app/", {"code": code_of(seed, -1)})
    assert answer.status_code in (200, 302), answer.content.decode()[-2000:]
    return seed, codes_on(answer.content.decode())


def codes_on(page: str) -> list[str]:
    found = re.findall(r'<pre id="codes">([^<]*)</pre>', page)
    return found[0].splitlines() if found else []


def enter_password(client: Client, name: str = "alice", target: str = "", password: str = PASSWORD) -> Any:
    return client.post("/sign-in/", {"username": name, "password": password, "next": target})


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def sign_in_with(client: Client, device: Device, target: str = "", **changes: Any) -> Any:
    answer = device.get(options_at(client, "/sign-in/passkey/options/"), **changes)
    return client.post("/sign-in/passkey/", {"credential": answer, "next": target})
