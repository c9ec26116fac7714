"""Destinations of secrets: where the settings of a tool or of an upstream server send each secret. Pure.

Two destinations with the same key receive a secret under the same conditions: the same origin, or the same program with
the same arguments and environment. The label is for people.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_noop
from pydantic import BaseModel

from catalog.runners import secret_refs
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress
from toolhub.invisible import show

MAX_LABEL_CHARACTERS = 120
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that may be without TLS (RFC 8252, section 8.3)."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A receiver of secrets; `origin`, `to_program` and `tool_type` make one."""

    key: str
    """Equal for the same destination; stored with what a person allowed."""
    text: str = field(compare=False)
    program: str = field(default="", compare=False)
    """The program, exactly as TOOLHUB_COMMANDS lists it; empty for a destination on the network."""
    is_origin: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """The destination for people, in the active language, without invisible characters."""
        if self.is_origin:
            return self.text
        return (gettext("program %s") if self.program else gettext("tool type %s")) % self.text


@dataclass(frozen=True, slots=True)
class Flow:
    """One secret on its way from one place in the settings to one destination."""

    secret: str
    destination: Destination
    place: tuple[str, ...]
    """The path in the settings, such as ("static_headers", "Authorization")."""
    form: tuple[str, str] = ("", "plain")
    """The text before the value, and the encoding: with another prefix, the same place can mean something else."""
    use: str = ""
    """Digest of the settings that decide what is done with the secret: on the same host, another path or method can be
    another account, or delete instead of read."""


def origin(url: str) -> Destination:
    """Return the destination of requests to this URL. Raises egress.DeniedAddress for an unusable one."""
    text = egress.origin_of(url)
    return Destination(text, text, is_origin=True)


def check_https(url: str) -> None:
    """Check the address of a service where people sign in: https, or http on this machine itself (for tests).

    Raises egress.DeniedAddress for an unusable one, SettingsProblem for one without TLS.
    """
    parsed = egress.parse_url(url)
    if parsed.fragment or (parsed.scheme != "https" and parsed.host not in LOOPBACK):
        raise SettingsProblem(gettext_noop("use an https address, without a fragment"))


def to_program(program: str, words: Iterable[str], conditions: Any) -> Destination:
    """Return the destination of a secret in the environment of a program.

    `words` are its arguments for the label. `conditions` are all the settings that decide what the program does with
    its environment.
    """
    line = " ".join([program, *words])
    return Destination(f"program:{_digest([program, conditions])}", _shorten(line), program)


def tool_type(name: str, title: str | Promise, conditions: Any) -> Destination:
    """Return the destination of a runner that does not say where it sends secrets.

    Any change of the settings (`conditions`) is another destination, because it may lead elsewhere.
    """
    return Destination(f"runner:{name}:{_digest(conditions)}", _shorten(str(title)))


def describe_texts(values: Mapping[str, secret_refs.Text]) -> dict[str, Any]:
    """Return texts for the conditions of a program: plain ones as they are, of a reference all but its secret."""
    return {
        name: value if isinstance(value, str) else {"prefix": value.prefix, "encoding": value.encoding}
        for name, value in values.items()
    }


def flows(settings: BaseModel, destinations: Iterable[Destination], bounds: Collection[str]) -> frozenset[Flow]:
    """Return every flow: each reference in the settings goes to each of the destinations.

    `bounds` are the settings that do not decide what is done with a secret, such as a time limit.
    """
    use = settings.model_dump(mode="json", exclude=set(bounds))
    receivers, digest = tuple(destinations), _digest(_without_references(use))
    return frozenset(
        Flow(reference.secret, receiver, place, (reference.prefix, reference.encoding), digest)
        for place, reference in secret_refs.references(settings)
        for receiver in receivers
    )


def by_secret(found: Iterable[Flow]) -> dict[str, tuple[Destination, ...]]:
    """Return {name of a secret: its destinations, ordered by key}."""
    grouped: dict[str, dict[str, Destination]] = {}
    for flow in found:
        grouped.setdefault(flow.secret, {})[flow.destination.key] = flow.destination
    return {name: tuple(there[key] for key in sorted(there)) for name, there in sorted(grouped.items())}


def _without_references(value: Any) -> Any:
    """Return dumped settings without their references, each of which is a flow of its own."""
    if isinstance(value, dict):
        kept = ((name, inner) for name, inner in value.items() if not _is_reference(inner))
        return {name: _without_references(inner) for name, inner in kept}
    if isinstance(value, list):
        return [_without_references(inner) for inner in value if not _is_reference(inner)]
    return value


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == secret_refs.SecretRef.model_fields.keys()


def _shorten(text: str) -> str:
    # Shown before it is cut: half of a written-out character would be unreadable.
    shown = " ".join(show(text[: MAX_LABEL_CHARACTERS * 4]).split())
    return shown if len(shown) <= MAX_LABEL_CHARACTERS else shown[: MAX_LABEL_CHARACTERS - 1] + "…"


def _digest(value: Any) -> str:
    # The order of names in settings means nothing; that of arguments does.
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
