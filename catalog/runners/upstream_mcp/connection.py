"""Connection settings of an upstream server: typed, validated on save and again before every connection. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from audit.redaction.redactor import is_secret_name
from catalog.runners import destinations, settings_errors
from catalog.runners.destinations import Destination, Flow
from catalog.runners.secret_refs import SecretRef, Text, names, reveal
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress
from toolhub.wire import meta

HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,8000}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
RESERVED_HEADERS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
    | {"keep-alive", "accept", "accept-encoding", "last-event-id", "proxy-authorization"}
)
"""Headers that belong to the connection or to the protocol."""


BOUNDS = frozenset({"upstream", "name", "allowed_networks", "timeout", "forward_meta", "icons", "apps"})
"""Values that do not decide what is done with a secret."""


class UnusableSecret(ValueError):
    """A secret with a value that a header cannot carry; `name` is the name of the header."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret for {name} contains characters that HTTP does not allow")
        self.name = name


class Connection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    upstream: int
    """The upstream's number: two upstreams never share a connection, whatever they have in common."""
    name: str = ""
    transport: Literal["streamable_http", "sse", "stdio"] = "streamable_http"
    url: str = Field(default="", max_length=2000)
    command: str = Field(default="", max_length=500)
    args: tuple[str, ...] = ()
    env: dict[str, Text] = Field(default_factory=dict)
    headers: dict[str, Text] = Field(default_factory=dict)
    allowed_networks: tuple[str, ...] = ()
    timeout: float = Field(default=30.0, gt=0, le=600)
    forward_meta: tuple[str, ...] = Field(default=(), max_length=50)
    icons: bool = False
    """Whether its icons are kept."""
    apps: bool = False
    """Whether its pages for MCP Apps are kept."""

    @field_validator("forward_meta")
    @classmethod
    def _check_keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            match meta.find_rule_problem(key):
                case "invalid":
                    raise SettingsProblem(_("%(key)s is not a valid key of _meta"), key=repr(key))
                case "reserved":
                    raise SettingsProblem(_("%(key)s belongs to the protocol and is never forwarded"), key=repr(key))
                case "always":
                    raise SettingsProblem(_("%(key)s is always forwarded: remove it"), key=repr(key))
        return keys

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, Text]) -> dict[str, Text]:
        for name, value in headers.items():
            if not HEADER.fullmatch(name):
                raise SettingsProblem(_("%(name)s is not a valid header name"), name=repr(name))
            if name.lower() in RESERVED_HEADERS or name.lower().startswith("mcp-"):
                raise SettingsProblem(_("the header %(name)s cannot be set"), name=name)
            if isinstance(value, str) and not HEADER_VALUE.fullmatch(value):
                raise SettingsProblem(_("the header %(name)s contains characters that HTTP does not allow"), name=name)
        return _check_no_credentials(headers)

    @field_validator("env")
    @classmethod
    def _check_variables(cls, env: dict[str, Text]) -> dict[str, Text]:
        for name, value in env.items():
            if not VARIABLE.fullmatch(name):
                raise SettingsProblem(_("%(name)s is not a valid environment variable name"), name=repr(name))
            if name.startswith(("LD_", "TOOLHUB_")) or name in {"PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "ENV"}:
                raise SettingsProblem(_("the environment variable %(name)s cannot be set"), name=name)
            if isinstance(value, str) and "\0" in value:
                raise SettingsProblem(_("the environment variable %(name)s contains a NUL character"), name=name)
        return _check_no_credentials(env)

    @field_validator("args")
    @classmethod
    def _check_arguments(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in argument or len(argument) > 4000 for argument in args) or len(args) > 100:
            raise SettingsProblem(_("enter at most 100 arguments of at most 4,000 characters, without NUL"))
        return args

    @field_validator("allowed_networks")
    @classmethod
    def _check_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        egress.parse_allowed(networks)
        return networks

    @model_validator(mode="after")
    def _check_combination(self) -> Connection:
        if self.transport == "stdio":
            if not self.command or self.url or self.headers:
                raise SettingsProblem(_("stdio needs a command, and cannot have a URL or headers"))
        else:
            if self.command or self.args or self.env:
                raise SettingsProblem(_("a command, its arguments and environment are allowed only for stdio"))
            try:
                egress.parse_url(self.url)
            except egress.DeniedAddress as error:
                raise SettingsProblem(_("%(what)s: %(why)s"), what="url", why=error) from None
        return self

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @cached_property
    def secret_names(self) -> frozenset[str]:
        return names(self)

    @property
    def destination(self) -> Destination:
        """The receiver of its secrets: the origin of its URL, or its program."""
        if self.transport != "stdio":
            return destinations.origin(self.url)
        conditions = {"args": self.args, "environment": destinations.describe_texts(self.env)}
        return destinations.to_program(self.command, self.args, conditions)

    def flows(self) -> frozenset[Flow]:
        """Return where it sends secrets."""
        return destinations.flows(self, [self.destination], BOUNDS) if self.secret_names else frozenset()

    @property
    def label(self) -> str:
        return gettext("The upstream server %(name)s") % {"name": self.name or self.upstream}

    def reveal_values(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return headers, or environment variables, with their secrets filled in.

        Raises UnusableSecret for a value that a header cannot carry.
        """
        found = {}
        for name, value in (self.env if self.transport == "stdio" else self.headers).items():
            text = reveal(value, secrets)
            if self.transport != "stdio" and not HEADER_VALUE.fullmatch(text):
                raise UnusableSecret(name)
            found[name] = text
        return found


def parse(data: Mapping[str, Any]) -> Connection:
    """Return the typed connection. Raises ValueError with a sentence that names the field."""
    try:
        return Connection.model_validate(data)
    except ValidationError as error:
        raise ValueError(settings_errors.format_errors(error)) from None


def key_of(connection: Connection, secrets: Mapping[str, str], *more: Any) -> str:
    """Return a key that is equal for two calls exactly when they may share a connection."""
    used = {name: secrets.get(name) for name in sorted(connection.secret_names)}
    text = json.dumps([connection.fingerprint, used, *more], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check_no_credentials(values: dict[str, Text]) -> dict[str, Text]:
    for name, value in values.items():
        if not isinstance(value, SecretRef) and value and is_secret_name(name):
            clear = _('%(name)s looks like a credential. Store it as a secret and write {"secret": "its_name"}')
            raise SettingsProblem(clear, name=name)
    return values
