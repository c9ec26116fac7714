"""Names of fields that hold secrets: a default list that an operator can extend and reduce."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

ENDINGS = (
    "password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets", "token", "apikey", "apikeys",
    "authorization", "cookie", "credential", "credentials", "privatekey", "secretkey", "signingkey", "encryptionkey",
    "accesskey", "accesskeyid", "masterkey", "sharedkey", "sessionkey", "accesstokens", "refreshtokens", "authtokens",
    "clientsecrets", "connectionstring",
)  # fmt: skip
"""Endings of secret names, in any spelling: `db_password`, `X-Api-Key`, `clientSecret`."""
WORDS = frozenset({"pwd", "pass", "jwt", "otp", "totp", "cvv", "cvc", "ssn", "auth", "bearer", "sessionid", "pin"})
"""Words too short to match at the end of longer words: they match the whole name, or its last word after _ or -."""
LATER_WORDS = frozenset(
    {"hash", "value", "text", "again", "confirm", "confirmation", "repeat", "base64", "b64", "plain"}
)
"""Words that may follow a secret name: `password_confirmation`, `secret value`."""
NON_SECRET_NAMES = frozenset({
    "pagetoken", "nextpagetoken", "previouspagetoken", "prevpagetoken", "progresstoken", "continuationtoken",
    "synctoken", "boardingpass", "nexttoken", "isauth", "requiresauth", "dependsonsecret", "haspassword", "hassecret",
    "hastoken",
})  # fmt: skip
"""Names that end like a secret but are not secret: positions in a list, flags."""

_SPLIT = re.compile(r"[^0-9A-Za-z]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_CACHED_NAMES = 20_000


def squash(name: str) -> str:
    """Return the name in lower case without spaces and punctuation: `X-Api-Key` and `x_apiKey` give `xapikey`."""
    return "".join(character for character in name.lower() if character.isalnum())


class SecretNames:
    """A test for secret names that caches its results: arguments repeat the same few names in call after call."""

    def __init__(self, configured: Iterable[str] = ()) -> None:
        added = [entry.strip() for entry in configured if entry.strip()]
        self._patterns = [
            "".join(part if part == "*" else squash(part) for part in re.split(r"(\*)", entry))
            for entry in added
            if "*" in entry and not entry.startswith("-")
        ]
        self._names = frozenset(squash(entry) for entry in added if "*" not in entry and not entry.startswith("-"))
        self._non_secret_names = NON_SECRET_NAMES | {squash(entry[1:]) for entry in added if entry.startswith("-")}
        self._endings = tuple(ending for ending in ENDINGS if ending not in self._non_secret_names)
        self._words = WORDS - self._non_secret_names
        self.known: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        answer = self.known.get(name)
        if answer is None:
            if len(self.known) >= _MAX_CACHED_NAMES:
                self.known.clear()
            answer = self.known[name] = self._is_secret(name)
        return answer

    def _is_secret(self, name: str) -> bool:
        words = [word.lower() for word in _SPLIT.split(name[:200]) if word]
        while len(words) > 1 and (words[-1] in LATER_WORDS or words[-1].isdigit()):
            words.pop()
        if not words:
            return False
        last, whole = words[-1], "".join(words).rstrip("0123456789")
        full = squash(name[:200])
        if full in self._names or whole in self._names or any(fnmatchcase(full, pattern) for pattern in self._patterns):
            return True
        if full in self._non_secret_names or whole in self._non_secret_names:
            return False
        # A configured name counts as the last words of a longer one too: `ssn` in `customer_ssn`.
        tails = {"".join(words[start:]) for start in range(len(words))}
        if tails & self._names:
            return True
        return whole.endswith(self._endings) or last.rstrip("0123456789") in self._words
