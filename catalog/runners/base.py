"""Description of a tool type: settings, form, suggestions and permission.

It names the module with the code that runs, and imports none of it.

A runner is a module or a package with a `Runner` named `RUNNER`. Each folder in `catalog/runners/` is one; a runner
elsewhere is named in the setting TOOLHUB_RUNNERS:

    from pydantic import BaseModel

    from catalog.runners.base import Runner

    class Settings(BaseModel):
        suffix: str = "!"

    def prepare(settings):
        async def run(arguments, context):
            return arguments["text"].upper() + settings.suffix
        return run

    RUNNER = Runner(name="shout", title="Shout", about="Writes a text in capitals.", settings=Settings,
                    prepare="shout.prepare")

`prepare(settings)` returns `run`; `await run(arguments, context)` runs it and returns a value that
`catalog.functions.results.produce` understands. The arguments are valid for the input schema of the tool. A runner
raises ToolError with a message for the caller, and is cancelled when the call is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from pydantic import BaseModel

from catalog.runners.destinations import Destination

Words = str | Promise
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""Stored with each tool, in a column of forty characters."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The values of one column of a model, which the form offers. A runner itself reads no table."""

    model: str
    """Application and model, such as "catalog.Upstream"."""
    column: str


@dataclass(frozen=True, slots=True)
class FormWords:
    """The form of a runner's settings in the tool editor. Every part is optional."""

    main: tuple[str, ...] = ()
    """The settings that a first tool needs, in this order; the others are collapsed. Empty: all are shown."""
    hidden: frozenset[str] = frozenset()
    """Settings that toolhub fills in itself."""
    labels: Mapping[str, Words] = field(default_factory=dict)
    """Labels at any depth of the form. Without one, a setting is labelled with its name, such as "Max bytes"."""
    helps: Mapping[str, Words] = field(default_factory=dict)
    """Help texts instead of the descriptions in the settings model, at any depth of the form."""
    choices: Mapping[str, Callable[[], Iterable[str]] | Rows] = field(default_factory=dict)
    """The existing values, for settings where only these can run."""
    fill_from: str = ""
    """The setting whose value can fill in the name, description and schemas of a tool."""
    fill: Callable[[str], Mapping[str, Any]] | None = None
    """The columns of a tool for a value of `fill_from`. Raises LookupError when there are none."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The side effects of a tool as its settings reveal them, for suggestions about its annotations."""

    word: str
    """The word that reveals the effect, such as DELETE."""
    changes: bool | None
    """Whether the tool changes data; None where the word does not tell."""
    destroys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One tool type. Names are stored with tools and exported, so they never change."""

    name: str
    title: Words
    about: Words
    """One or two sentences for the form."""
    settings: type[BaseModel]
    prepare: str
    """Dotted path of `prepare(settings) -> run`. It is imported when the first tool of this type is called."""
    form: FormWords = FormWords()
    not_ready: Callable[[Any], str | None] | None = None
    """Why a tool with these valid settings could not run on this installation, as a sentence."""
    blocked: Callable[[Any], str | None] | None = None
    """Why calls of such a tool would fail on this installation although it can be saved, as a sentence that names the
    setting. It gets valid settings, or None where they are not valid yet, and looks nothing up on the network."""
    switched_off: Callable[[], str | None] | None = None
    """How to switch the runner on, as a hint of a system check; None where it is on."""
    effect: Callable[[Mapping[str, Any]], Effect | None] | None = None
    """The effect of a tool, from its stored settings."""
    advice: Callable[[Any], Iterable[str]] | None = None
    """Suggestions about a row of the catalogue, as sentences in the language of the reader."""
    asks_before_task: Callable[[Any], bool] | None = None
    """Whether a tool with these settings asks the client before it continues as a task."""
    secret_destinations: Callable[[Any], Iterable[Destination]] | None = None
    """The places that receive the secrets of a tool with these valid settings. Without it, pages name the tool type."""
    bounds: frozenset[str] = frozenset()
    """Settings that only bound a call or shape its result. Changing any other one of a tool with a secret is a new use
    of the secret."""
    permission: str = ""
    """The permission, besides those for tools, that saving such a tool needs."""
    permission_refusal: Words = ""
    """The sentence for a person who does not have this permission."""
    position: int = 100
    """The place in lists: small numbers first, then by name."""
    default_hints: bool = False
    """Whether errors with a common code get a hint where the tool has none of its own (see `hints.DEFAULTS`)."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a valid runner name. Use lower-case letters, digits and underscore")
        if self.permission and not self.permission_refusal:
            raise ValueError("permission_refusal: say which permission is missing")
