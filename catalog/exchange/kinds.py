"""The sections of a catalogue file, in import order, with the columns that each leaves out and the reason.

Every column of a model is in the file unless it is left out here with a reason; a new column is included automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import models

from catalog.conditions import measures, periods
from catalog.exchange.values import Values
from catalog.models import (
    ApprovalRule,
    Flag,
    Grant,
    ImportedDocument,
    Limit,
    Prompt,
    Resource,
    Secret,
    Tool,
    Toolset,
    Upstream,
    ValueList,
    ValueListPart,
)


def _by_name(values: Values) -> tuple[Any, ...]:
    return (values["name"],)


@dataclass(frozen=True)
class Kind:
    section: str
    model: type[models.Model]
    word: str
    """The singular noun for a row in a plan."""
    key: Callable[[Values], tuple[Any, ...]] = _by_name
    """The identity of a row; several rows may share it where nothing else distinguishes them."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    many: tuple[str, ...] = ()
    named_by_grants: bool = False
    """Whether grants name such a row. It can be removed only after them."""
    draft: str = ""
    """The column that says of a row that it is only previewed so far. Such a row is no part of the catalogue."""
    label: Callable[[Values], str] = lambda values: str(values["name"])

    def columns(self) -> list[Any]:
        concrete = self.model._meta.concrete_fields
        found = [column for column in concrete if not column.primary_key and column.name not in self.excluded]
        return sorted(found, key=lambda column: column.name != "name")  # the name comes first for readers


def _target(values: Values) -> tuple[Any, ...]:
    names = ("tool", "toolset", "resource", "prompt", "all_tools", "method")
    return tuple((name, values[name]) for name in names if values.get(name))


def _subject(values: Values) -> tuple[Any, ...]:
    return tuple((name, values[name]) for name in ("user", "group", "everyone", "scope") if values.get(name))


def _format_label(values: Values) -> str:
    parts = (*_target(values), *_subject(values))
    words = [name.replace("_", " ") if value is True else f"{name} {value}" for name, value in parts]
    return ", ".join([*words, "in trial"] if values.get("trial") else words)


def _is_quota(values: Values) -> bool:
    """Return whether a limit of calls is a quota: beside a rate, it is another row."""
    return periods.parse(str(values["rate"])) is not None


def _describe_amount(values: Values) -> str:
    measure, rate = str(values["measure"]), str(values["rate"])
    return measures.describe_amount(measure, rate) if measure in Limit.Measure.values else rate


KINDS: list[Kind] = []


def register(kind: Kind) -> None:
    """Add a section for the models of another application; sections are read in the order of registration."""
    KINDS.append(kind)


TRIAL_EXCLUSION = {"trial_since": "When this database got it."}
VERSION_EXCLUSION = {"version": "Counted by this database."}
register(
    Kind(
        "secrets",
        Secret,
        "secret",
        excluded={
            **dict.fromkeys(("value", "client_secret"), "Values never leave the database."),
            "registration": "Each server registers itself.",
            "changed_at": "When this database got its value.",
        },
    )
)
register(
    Kind(
        "upstreams",
        Upstream,
        "upstream",
        excluded=dict.fromkeys(Upstream.HEALTH_FIELDS, "Each server finds it out when it connects."),
    )
)
register(
    Kind(
        "openapi_documents",
        ImportedDocument,
        "OpenAPI document",
        excluded=dict.fromkeys(("pending", "pending_source", "pending_at", "draft"), "It was not imported.")
        | {"kept": "The document itself is at its source."},
        draft="draft",
    )
)
register(Kind("toolsets", Toolset, "toolset"))
register(Kind("tools", Tool, "tool", excluded=VERSION_EXCLUSION, many=("toolsets",)))
register(
    Kind(
        "resources",
        Resource,
        "resource",
        key=lambda values: (values["uri"], values["uri_template"]),
        label=lambda values: str(values["uri"] or values["uri_template"]),
        excluded=VERSION_EXCLUSION,
        many=("toolsets",),
    )
)
register(Kind("prompts", Prompt, "prompt", excluded=VERSION_EXCLUSION, many=("toolsets",)))
register(Kind("value_lists", ValueList, "value list", named_by_grants=True))
register(
    Kind(
        "value_list_parts",
        ValueListPart,
        "value list part",
        key=lambda values: (values["value_list"], _subject(values)),
        label=lambda values: f"{values['value_list']}, {_format_label(values)}",
    )
)
register(Kind("flags", Flag, "flag", named_by_grants=True))
register(
    Kind(
        "grants",
        Grant,
        "grant",
        key=lambda values: (values["effect"], _target(values), _subject(values), values["trial"]),
        label=lambda values: f"{values['effect']} {_format_label(values)}",
        excluded=TRIAL_EXCLUSION,
    )
)
register(
    Kind(
        "limits",
        Limit,
        "limit",
        key=lambda values: (_target(values), _subject(values), values["trial"], values["measure"], _is_quota(values)),
        label=lambda values: f"{_describe_amount(values)} {_format_label(values)}",
        excluded=TRIAL_EXCLUSION,
    )
)
register(Kind("approval_rules", ApprovalRule, "approval rule", excluded=TRIAL_EXCLUSION))
