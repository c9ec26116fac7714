"""A look at a tool while it is being edited: what is wrong and where, what could be better, what a client would get.

Nothing is saved and nothing runs. The form that saves decides here too, so that the two cannot disagree.

What a client will see of a tool that is being edited: from the code that serves clients, for each revision.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from catalog import lint
from catalog.admin.editor import runner_forms
from catalog.canonical import dumps
from catalog.models import Tool
from catalog.policy import loader
from catalog.policy.definitions import ToolDefinition
from catalog.schemas import validator
from catalog.schemas.parameters import Mark, Parameter, marks, rows
from toolhub.invisible import show
from toolhub.wire.shapes import shape
from toolhub.wire.versions import ALL

SHOWN = 40_000
"""Characters of a definition that a preview shows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The entry of tools/list as these revisions get it."""

    revisions: tuple[str, ...]
    text: str
    """Indented, with what hides made visible; the beginning of it when it is very long."""
    cut: bool
    size: int
    """Bytes, compact."""
    tokens: int


def preview_definition(row: Tool) -> ToolDefinition:
    """As the snapshot would hold this row, saved or not."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return loader.tool(values, frozenset())


def preview_shapes(wire: dict[str, Any]) -> list[Shape]:
    """The newest revisions first; those that get the same are together."""
    by_text: dict[str, list[str]] = {}
    for revision in reversed(ALL):
        entry = shape("tools/list", revision, {"tools": [wire]})["tools"][0]
        by_text.setdefault(dumps(entry), []).append(revision)
    found = []
    for compact, revisions in by_text.items():
        text = json.dumps(json.loads(compact), indent=2, ensure_ascii=False)
        size = len(compact.encode("utf-8", "surrogatepass"))
        found.append(Shape(tuple(revisions), show(text[:SHOWN]), len(text) > SHOWN, size, tokens(compact)))
    return found


def tokens(text: str) -> int:
    """About what a model reads: a token for every four ASCII characters, and for each other one (Chinese, say)."""
    plain = sum(character < "\x80" for character in text)
    return max(1, round(plain / 4 + len(text) - plain))


def has_hidden(wire: dict[str, Any]) -> bool:
    """Whether a text in it holds characters that nobody sees and a model reads."""
    text = json.dumps(wire, ensure_ascii=False)
    return show(text) != text


SCHEMAS = ("input_schema", "output_schema")
SIMILAR = 5


@dataclass(frozen=True, slots=True)
class Problem:
    field: str
    """Of the form; "" for the tool as a whole."""
    label: str
    place: list[str | int]
    """Keys and indexes into the field's JSON; empty for the whole of it."""
    text: str

    @property
    def where(self) -> list[str]:
        """The place for people, who count from one."""
        return [f"#{step + 1}" if isinstance(step, int) else step for step in self.place]

    def as_data(self) -> dict[str, Any]:
        return {"field": self.field, "place": self.place, "text": self.text}


@dataclass(frozen=True, slots=True)
class Look:
    problems: list[Problem]
    advice: list[str]
    shapes: list[Shape]
    parameters: list[Parameter]
    marks: list[Mark]
    title: str
    description: str
    hidden: bool
    parts: list[str] = field(default_factory=list)
    """Labels of the fields that are wrong: the preview shows what they were before."""


def at(form: Any) -> Look:
    """`form` is a bound ToolForm. What is wrong with one field leaves that field as it was in the preview."""
    form.is_valid()
    row: Tool = form.instance
    problems = list(_problems(form))
    wrong = {problem.field for problem in problems}
    shapes, hidden = [], False
    annotations: dict[str, Any] = {}
    if isinstance(row.input_schema, dict) and (row.name or "name" not in wrong):
        definition = preview_definition(row)
        shapes, hidden = preview_shapes(definition.wire), has_hidden(definition.wire)
        annotations = definition.annotations
    described = bool(row.name and row.description.strip())
    advice = lint.tool(row) if described else []
    if described:
        advice += lint.twins_of(row, Tool.objects.exclude(pk=row.pk).values_list("name", "description"))[:SIMILAR]
    schema = row.input_schema if isinstance(row.input_schema, dict) else {}
    parts = [_label(form, name) for name in form.fields if name in wrong]
    return Look(
        problems,
        advice,
        shapes,
        rows(schema),
        marks(annotations),
        row.title or row.name,
        row.description,
        hidden,
        parts,
    )


def _label(form: Any, name: str) -> str:
    return str(form.fields[name].label or name) if name in form.fields else ""


def _problems(form: Any) -> Any:
    for name, errors in form.errors.items():
        label = _label(form, name)
        own = "" if name == "__all__" else name
        placed: list[Problem] = []
        if own in SCHEMAS:
            placed = _in_schema(form, own, label)
        elif own == "settings" and isinstance(form.cleaned_data.get("settings", form.instance.settings), dict):
            placed = _in_settings(form, label)
        yield from placed or [Problem(own, label, [], str(error)) for error in errors]


def _in_schema(form: Any, name: str, label: str) -> list[Problem]:
    try:
        validator.check(form.fields[name].to_python(form.data.get(form.add_prefix(name))))
    except ValidationError as refused:
        # A syntax error has no place in the schema; its sentence names line and column.
        place: str = getattr(refused, "place", "")
        steps = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
        return [Problem(name, label, list(steps), refused.messages[0])]
    return []


def _in_settings(form: Any, label: str) -> list[Problem]:
    try:
        data = form.fields["settings"].to_python(form.data.get(form.add_prefix("settings"))) or {}
    except ValidationError:
        return []
    found = runner_forms.problems(str(form.data.get(form.add_prefix("runner"), "")), data)
    return [Problem("settings", label, place, text) for place, text in found]


def summary(look: Look) -> str:
    """One line for people who look at nothing else."""
    if look.problems:
        return gettext("Fix before saving: %(parts)s") % {
            "parts": ", ".join(dict.fromkeys(look.parts)) or look.problems[0].text
        }
    return gettext("Ready to save")
