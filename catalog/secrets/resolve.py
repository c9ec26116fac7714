"""Secrets of tools: stored encrypted, read when a call needs them, decrypted in memory only.

The values are kept until the catalogue's revision changes, which the database itself raises with every change of a
secret, and until something in this process changed one.

Also checks values that are entered as secrets.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DatabaseError, InterfaceError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit.redaction.rules import MIN_VALUE_CHARACTERS, redaction
from audit.types import Caller
from catalog import encryption, host_patterns, threads
from catalog.accounts import links, tokens
from catalog.errors import CallNotLogged
from catalog.models import PersonalSecret, Secret, Tool
from catalog.policy import snapshot
from catalog.policy.definitions import Item, ToolDefinition
from catalog.runners import registry
from catalog.runners.destinations import Destination, Flow, by_secret
from catalog.runners.upstream_mcp import connection as reaching
from toolhub import contact, deadline
from toolhub.parts import parts

log = logging.getLogger(__name__)
EMPTY: Mapping[str, str] = {}
MAX_USERS = 5_000
MAX_NAMES = 20_000


class MissingSecret(Exception):
    """An error for a missing secret; the message is a sentence for the caller, with the link where to enter it.

    `audit_message`, the one for the audit log and for staff, may say more.
    """

    def __init__(self, name: str, sentence: str, audit_message: str = "") -> None:
        super().__init__(sentence)
        self.name = name
        self.audit_message = audit_message or sentence


class AccountNeeded(MissingSecret):
    """An error for an account that the caller has to connect at `link`; `request` asks for it without the link."""

    def __init__(self, name: str, link: str) -> None:
        values = {"name": name, "link": link}
        super().__init__(
            name,
            gettext(
                "This tool needs your own account %(name)s, which is not connected. Open %(link)s to connect it, and "
                "then call the tool again."
            )
            % values,
            gettext("The account %(name)s is not connected.") % values,
        )
        self.link = link
        self.request = gettext("Connect your account %(name)s, which this tool uses.") % values


class SecretNotAllowed(MissingSecret):
    """An error for a secret that exists and must not be sent: to this destination, or for this caller."""


Sent = Mapping[str, Iterable[Destination]]
"""{name of a secret: where it will be sent}."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a secret."""

    what: str
    """The tool or upstream server in words for a page."""
    destinations: tuple[Destination, ...]

    @property
    def labels(self) -> str:
        return ", ".join(destination.label for destination in self.destinations)


@dataclass(frozen=True, slots=True)
class _Entered:
    """A personal secret: the encrypted value, and the keys of the destinations that its owner allowed."""

    value: str
    allowed: frozenset[str]


@dataclass(slots=True)
class _ReadSecrets:
    """The secrets read at one revision. Decrypted on first use, so that one bad value does not affect the others."""

    revision: int
    version: int
    loop: asyncio.AbstractEventLoop | None
    kinds: dict[str, str] | None = None
    hosts: dict[str, list[str]] = field(default_factory=dict)
    """The patterns that each secret is bound to; without the secrets that are not bound."""
    shared: dict[str, str] = field(default_factory=dict)
    personal: OrderedDict[int, dict[str, _Entered]] = field(default_factory=OrderedDict)
    plain: dict[tuple[int, str], str] = field(default_factory=dict)
    reading: dict[int, asyncio.Lock] = field(default_factory=dict)


Uses = Callable[[], Iterable[tuple[str, Use]]]


class SecretStore:
    """The secrets that a process has read, and the other users of secrets besides tools.

    `other_uses` yield (name of a secret, a use of it).
    """

    def __init__(self, other_uses: Sequence[Uses] = ()) -> None:
        self.other_uses = tuple(other_uses)
        self._version = 0
        self._read = _ReadSecrets(0, -1, None)
        self._sent: OrderedDict[str, Mapping[str, tuple[Destination, ...]]] = OrderedDict()

    def forget(self) -> None:
        """Discard the secrets, so that the next reader queries the database again."""
        self._version += 1

    def current(self, loop: asyncio.AbstractEventLoop) -> _ReadSecrets:
        """Return the secrets read at this revision of the catalogue, for this loop."""
        revision = snapshot.current().revision
        read = self._read
        if read.revision != revision or read.version != self._version or read.loop is not loop:
            read = self._read = _ReadSecrets(revision, self._version, loop)
        return read

    def sent_by(self, item: Item) -> Mapping[str, tuple[Destination, ...]]:
        """Return where a tool, resource or prompt sends each of its secrets."""
        found = self._sent.get(item.hash)
        if found is None:
            found = self._sent[item.hash] = by_secret(_find_flows(item))
            if len(self._sent) > MAX_NAMES:
                self._sent.popitem(last=False)
        return found


def forget(**kwargs: Any) -> None:
    """Discard the secrets, see `SecretStore.forget`: handler of `catalog.signals.changed`."""
    parts.get(SecretStore).forget()


async def resolve(sent: Sent, caller: Caller) -> Mapping[str, str]:
    """Return the values of the secrets for this caller: the caller's own where a secret is personal.

    Reads the database only the first time at a catalogue revision, and for accounts at each call. Raises MissingSecret,
    SecretNotAllowed when a secret must not be sent where `sent` says, CallNotLogged.
    """
    user_id = caller.credential.user_id
    read = await _read_for(user_id)
    if _is_try_as_another(caller):
        _refuse_personal(read, sent, caller.credential.username)
    elif not caller.credential.made_by_owner:
        _refuse_token_of_others(read, sent)
    connected = _find_accounts(read, sent)
    if not connected:
        return _values(read, sent, user_id)
    found = {name: await _read_account(name, user_id) for name in connected}
    return {**_values(read, sent, user_id), **found}


async def replace_rejected(found: Mapping[str, str], sent: Sent, caller: Caller) -> Mapping[str, str] | None:
    """Return the values again after the service refused them (401): with new tokens of the caller's accounts.

    None when there are none, so that the refusal stands. Raises AccountNeeded where only the owner can connect anew,
    and what else `resolve` raises.
    """
    user_id = caller.credential.user_id
    fresh = dict(found)
    for name in _find_accounts(await _read_for(user_id), sent):
        if name in found:
            fresh[name] = await _read_account(name, user_id, rejected=found[name])
    return fresh if fresh != dict(found) else None


def resolve_now(sent: Sent, user_id: int | None = None) -> Mapping[str, str]:
    """Return the values without a call: for imports and tests in the admin, in a thread that may use the database.

    Raises MissingSecret, SecretNotAllowed.
    """
    read, number = _ReadSecrets(0, 0, None), -1 if user_id is None else user_id
    _load(read, number)
    found = {name: threads.run_in_loop(_read_account(name, number)) for name in _find_accounts(read, sent)}
    return {**_values(read, sent, number), **found}


def sent_by(item: Item) -> Mapping[str, tuple[Destination, ...]]:
    """Return where an item sends each of its secrets, see `SecretStore.sent_by`."""
    return parts.get(SecretStore).sent_by(item)


def _find_flows(item: Item) -> Iterable[Flow]:
    """Return where an item sends secrets; nowhere while its settings are not valid."""
    if isinstance(item, ToolDefinition):
        return registry.flows(item.runner, item.settings)
    try:
        return reaching.parse(item.connection).flows() if item.connection is not None else ()
    except ValueError:
        return ()


def uses() -> dict[str, list[Use]]:
    """Return the uses of each secret by name; reads the catalogue."""
    found: dict[str, list[Use]] = {}
    for name, runner, data in Tool.objects.filter(settings__contains="secret").values_list(
        "name", "runner", "settings"
    ):
        for secret, destinations in by_secret(registry.flows(runner, data)).items():
            found.setdefault(secret, []).append(Use(gettext("tool %s") % name, destinations))
    for other_uses in parts.get(SecretStore).other_uses:
        for secret, use in other_uses():
            found.setdefault(secret, []).append(use)
    return found


async def _read_for(user_id: int) -> _ReadSecrets:
    """Return the secrets, with those of this user. Raises CallNotLogged."""
    read = parts.get(SecretStore).current(asyncio.get_running_loop())
    if read.kinds is None or user_id not in read.personal:
        try:
            await deadline.within(_fill(read, user_id), settings.RECORD_SECONDS)
        except (DatabaseError, InterfaceError, TimeoutError, threads.Busy):
            log.warning("the secrets cannot be read", exc_info=True)
            raise CallNotLogged("the catalogue cannot be read now") from None
    return read


async def _fill(read: _ReadSecrets, user_id: int) -> None:
    """Read the secrets once for each user, however many calls wait for them."""
    lock = read.reading.setdefault(user_id, asyncio.Lock())
    async with lock:
        if read.kinds is None or user_id not in read.personal:
            await threads.storage().run(lambda: _load(read, user_id))
    read.reading.pop(user_id, None)


def _load(read: _ReadSecrets, user_id: int) -> None:
    if read.kinds is None:
        rows = list(Secret.objects.values_list("name", "kind", "value", "hosts"))
        read.shared = {name: value for name, kind, value, _hosts in rows if kind == Secret.Kind.SHARED and value}
        read.hosts = {name: hosts for name, _kind, _value, hosts in rows if hosts != []}
        read.kinds = {name: kind for name, kind, _value, _hosts in rows}
    mine = PersonalSecret.objects.filter(user_id=user_id, secret__kind__in=Secret.OWN_KINDS)
    read.personal[user_id] = {
        name: _Entered(value, frozenset(destinations or ()))
        for name, value, destinations in mine.values_list("secret__name", "value", "destinations")
    }
    if len(read.personal) > MAX_USERS:
        read.personal.popitem(last=False)


async def _read_account(name: str, user_id: int, rejected: str = "") -> str:
    """Return the access token of a user's account; another one than `rejected`, if a service refused that one.

    Raises AccountNeeded, MissingSecret for tokens that cannot be refreshed now, CallNotLogged.
    """
    try:
        if rejected:
            value = await tokens.replace_rejected(user_id, name, rejected)
        else:
            value = await tokens.access_token(user_id, name)
    except tokens.NotConnected:
        raise AccountNeeded(name, links.make(user_id, name)) from None
    except tokens.CannotRefresh:
        sentence = gettext(
            "The tokens of your account %(name)s cannot be refreshed now. Try again in a minute. If that does not "
            "help, connect the account again at %(address)s."
        )
        raise MissingSecret(name, sentence % {"name": name, "address": f"{settings.PUBLIC_URL}/secrets/"}) from None
    except (DatabaseError, InterfaceError, threads.Busy):
        log.warning("the account %s cannot be read", name, exc_info=True)
        raise CallNotLogged("the catalogue cannot be read now") from None
    redaction().add_log_values([value])
    return value


def _find_accounts(read: _ReadSecrets, sent: Sent) -> list[str]:
    return [name for name in sent if (read.kinds or {}).get(name) == Secret.Kind.ACCOUNT]


def _values(read: _ReadSecrets, sent: Sent, user_id: int) -> dict[str, str]:
    """Return the values, without those of accounts, whose destinations are only checked."""
    found = {}
    for name, destinations in sent.items():
        kind = (read.kinds or {}).get(name)
        if kind != Secret.Kind.ACCOUNT:
            key = (user_id if kind == Secret.Kind.PERSONAL else 0, name)
            value = read.plain.get(key)
            if value is None:
                value = read.plain[key] = _decrypt(read, name, kind, user_id)
            found[name] = value
        for destination in destinations:
            _check_destination(read, name, kind, user_id, destination)
    return found


def _check_destination(read: _ReadSecrets, name: str, kind: str | None, user_id: int, destination: Destination) -> None:
    """Raise SecretNotAllowed unless the secret's hosts and, for a personal one, its owner allow the destination."""
    if name in read.hosts and not host_patterns.allow(read.hosts[name], destination):
        sentence = gettext(
            "This tool cannot use the secret %(name)s, because the secret is bound to other hosts. Ask "
            "%(contact)s to change the tool, or the hosts of the secret."
        )
        details = gettext("The secret %(name)s is bound to hosts, and %(destination)s is not among them.")
        values = {"name": name, "destination": destination.label, "contact": contact.describe()}
        raise SecretNotAllowed(name, sentence % values, details % values)
    if kind not in Secret.OWN_KINDS:
        return
    entered = read.personal.get(user_id, {}).get(name)
    if entered is None or destination.key not in entered.allowed:
        sentence = gettext(
            "Your own secret %(name)s would be sent to %(destination)s, which you have not allowed. Review this at "
            "%(address)s. If you allow it, try again."
        )
        values = {"name": name, "destination": destination.label, "address": f"{settings.PUBLIC_URL}/secrets/"}
        raise SecretNotAllowed(name, sentence % values)


def _refuse_token_of_others(read: _ReadSecrets, sent: Sent) -> None:
    for name in sent:
        if (read.kinds or {}).get(name) in Secret.OWN_KINDS:
            sentence = gettext(
                "Somebody else created this access token, so it cannot use your own secret %(name)s. Create one "
                "yourself at %(address)s, and use it in this client."
            )
            raise SecretNotAllowed(name, sentence % {"name": name, "address": f"{settings.PUBLIC_URL}/tokens/"})


def _is_try_as_another(caller: Caller) -> bool:
    """Return whether staff try the tool as another user: credential "admin:ACTOR:USER"."""
    kind, *numbers = caller.credential.id.split(":")
    return kind == "admin" and len(numbers) != 1


def _refuse_personal(read: _ReadSecrets, sent: Sent, username: str) -> None:
    for name in sent:
        if (read.kinds or {}).get(name) in Secret.OWN_KINDS:
            sentence = gettext(
                "This tool needs the personal secret %(name)s. A try as another user never uses the secrets of that "
                "user. Try the tool as yourself, or ask %(user)s to call it."
            )
            raise SecretNotAllowed(name, sentence % {"name": name, "user": username})


def _decrypt(read: _ReadSecrets, name: str, kind: str | None, user_id: int) -> str:
    personal = kind == Secret.Kind.PERSONAL
    if personal:
        entered = read.personal.get(user_id, {}).get(name)
        stored = None if entered is None else entered.value
    else:
        stored = read.shared.get(name)
    if stored is None:
        raise MissingSecret(name, _missing_sentence(name, personal))
    owner = f"personal {name} of user {user_id}" if personal else f"shared {name}"
    try:
        value = encryption.decrypt(stored, owner)
    except (encryption.DecryptionError, encryption.KeysError):
        log.error("the %s secret %s cannot be decrypted with TOOLHUB_ENCRYPTION_KEYS", kind, name)
        if personal:
            sentence = gettext("The secret %(name)s can no longer be read. Enter it again at %(address)s.")
        else:
            sentence = gettext("The secret %(name)s can no longer be read. Ask %(contact)s to enter it again.")
        values = {"name": name, "address": f"{settings.PUBLIC_URL}/secrets/", "contact": contact.describe()}
        raise MissingSecret(name, sentence % values) from None
    if personal:
        redaction().add_log_values([value])
    else:
        redaction().add_values([value])
    return value


def _missing_sentence(name: str, personal: bool) -> str:
    if personal:
        own = gettext(
            "Your own secret %(name)s is required, and you have not entered it yet. Enter it at %(address)s and try "
            "again."
        )
        return own % {"name": name, "address": f"{settings.PUBLIC_URL}/secrets/"}
    absent = gettext("The secret %(name)s is required, and nobody has entered it yet. Ask %(contact)s to enter it.")
    return absent % {"name": name, "contact": contact.describe()}


def check_value(value: str) -> None:
    if len(value) < MIN_VALUE_CHARACTERS:
        raise ValidationError(
            _("Enter at least %d characters. A shorter secret cannot be masked in the audit log.")
            % MIN_VALUE_CHARACTERS,
            code="too_short",
        )
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", value):
        raise ValidationError(_("A secret cannot contain control characters. Remove them."), code="control_characters")
