"""Patterns of the hosts and programs that a secret is bound to. Pure.

`api.github.com` is https on port 443, `api.github.com:8443` another port, `http://10.0.0.5:8080` plain HTTP, which is
allowed only where it is written, `*.github.com` every name below github.com at any depth, and `program:git` any use of
this program, as TOOLHUB_COMMANDS lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.utils.translation import gettext_noop as _

from catalog.runners.destinations import Destination
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress
from toolhub.invisible import show

MAX_PATTERNS = 100
MAX_PATTERN_CHARACTERS = 500
PROGRAM = "program:"
_SCHEMES = {"https": 443, "http": 80}
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_WILDCARD = "*."


@dataclass(frozen=True, slots=True)
class Pattern:
    """One parsed pattern: a program, or scheme, host and port."""

    program: str = ""
    scheme: str = "https"
    host: str = ""
    port: int = 443
    below: bool = False
    """Whether it means every name below the host, and not the host itself."""

    def __str__(self) -> str:
        if self.program:
            return PROGRAM + self.program
        host = f"[{self.host}]" if ":" in self.host else self.host
        # An IPv6 address keeps its scheme: a list of names that begins with a bracket would read as JSON.
        scheme = "" if self.scheme == "https" and ":" not in self.host else f"{self.scheme}://"
        port = "" if self.port == _SCHEMES[self.scheme] else f":{self.port}"
        return f"{scheme}{_WILDCARD if self.below else ''}{host}{port}"

    def covers(self, other: Pattern) -> bool:
        """Return whether everything that the other pattern allows is allowed by this one."""
        if (self.program, self.scheme, self.port) != (other.program, other.scheme, other.port):
            return False
        if not self.below:
            return not other.below and self.host == other.host
        return other.host.endswith(f".{self.host}") or (other.below and self.host == other.host)


def parse(text: object) -> Pattern:
    """Return the pattern. Raises SettingsProblem with a sentence."""
    if not isinstance(text, str):  # what a file held
        raise SettingsProblem(_("Enter hosts such as api.example.com, separated by commas"))
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise SettingsProblem(_("A pattern has at most %(most)d characters"), most=MAX_PATTERN_CHARACTERS)
    if text.startswith(PROGRAM):
        return Pattern(program=_parse_program(text))
    shown = show(text)
    scheme, separator, rest = text.partition("://")
    scheme, rest = (scheme.lower(), rest) if separator else ("https", text)
    if scheme not in _SCHEMES:
        raise SettingsProblem(_("%(pattern)s: only http and https are possible"), pattern=shown)
    if re.search(r"[/?#\\]", rest):
        raise SettingsProblem(_("%(pattern)s: enter a host without a path, such as api.example.com"), pattern=shown)
    if "@" in rest:
        raise SettingsProblem(_("%(pattern)s: enter a host without a user name or password"), pattern=shown)
    below = rest.startswith(_WILDCARD)
    host = rest.removeprefix(_WILDCARD) if below else rest
    if "*" in host:
        raise SettingsProblem(
            _("%(pattern)s: an asterisk is possible only at the start, as in *.example.com"), pattern=shown
        )
    try:
        origin = egress.parse_url(f"{scheme}://{host}")
        found = origin.raw_host.decode("ascii").lower()
    except egress.DeniedAddress:
        raise SettingsProblem(
            _("%(pattern)s is not a host. Enter one such as api.example.com or api.example.com:8443"), pattern=shown
        ) from None
    is_address = ":" in found or re.fullmatch(r"[0-9.]+", found) is not None
    if not is_address and not _HOST.fullmatch(found):
        raise SettingsProblem(
            _("%(pattern)s is not a host. Enter one such as api.example.com or api.example.com:8443"), pattern=shown
        )
    if below and (is_address or "." not in found):
        raise SettingsProblem(_("%(pattern)s: an asterisk needs a domain after it, as in *.example.com"), pattern=shown)
    return Pattern("", scheme, found, origin.port or _SCHEMES[scheme], below)


def normalise(patterns: Iterable[str]) -> list[str]:
    """Return the patterns in their one spelling, each once, in their order. Raises SettingsProblem."""
    return list(dict.fromkeys(str(parse(text)) for text in patterns))


def is_widened(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether `after` allows a destination that `before` does not. An empty list allows every destination."""
    if not before:
        return False
    known = [parse(text) for text in before]
    return not after or not all(any(old.covers(parse(new)) for old in known) for new in after)


def allow(patterns: object, destination: Destination) -> bool:
    """Return whether a secret that is bound to these patterns may go there. With an empty list it may.

    Patterns that cannot be read, which only a hand in the database can store, allow no destination.
    """
    if not isinstance(patterns, list | tuple):
        return False
    known = tuple(map(str, patterns))
    return not known or _allow(known, destination.key, destination.program, destination.is_origin)


@lru_cache(4096)
def _allow(patterns: tuple[str, ...], origin: str, program: str, is_origin: bool) -> bool:
    known = _parse_stored(patterns)
    if program:
        return any(pattern.program == program for pattern in known)
    if not is_origin:
        return False
    try:
        wanted = parse(origin)  # a pattern itself, of exactly one host
    except SettingsProblem:  # a host that no pattern can name, such as one with a dot at its end
        return False
    return any(pattern.covers(wanted) for pattern in known)


def _parse_stored(patterns: Iterable[str]) -> list[Pattern]:
    """Return the patterns that are valid: another one, which only a hand in the database can store, allows nothing."""
    found = []
    for text in patterns:
        try:
            found.append(parse(text))
        except SettingsProblem:
            continue
    return found


def _parse_program(text: str) -> str:
    program = text.removeprefix(PROGRAM)
    if not program or "*" in program or not program.isprintable() or program != program.strip():
        raise SettingsProblem(
            _("%(pattern)s: enter the program as TOOLHUB_COMMANDS lists it, such as program:git"), pattern=show(text)
        )
    return program
