"""Preview of a tool during editing: problems with their places, suggestions, and the definition for clients.

Nothing is saved and nothing runs. The form that saves uses the same checks, so that the two cannot disagree.

The definition for clients comes from the code that serves clients, for each revision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from catalog.admin.editor import runner_forms
from catalog.advice import beside
from catalog.advice.suggestions import Suggestion
from catalog.advice.tools import check_tool
from catalog.advice.words import estimate_tokens
from catalog.canonical import dumps
from catalog.models import Secret, Tool, Upstream, secret_flows
from catalog.policy import loader
from catalog.policy.definitions import ToolDefinition
from catalog.runners import registry
from catalog.runners.destinations import Flow
from catalog.schemas import validator
from catalog.schemas.parameters import Mark, Parameter, list_parameters, marks
from toolhub.chinese import close_blanks
from toolhub.invisible import show
from toolhub.wire import json_pointer
from toolhub.wire.shapes import shape
from toolhub.wire.versions import ALL

MAX_PREVIEW_CHARACTERS = 40_000
"""Maximum number of characters of a definition in a preview."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The entry of tools/list for these revisions."""

    revisions: tuple[str, ...]
    text: str
    """Indented, with invisible characters made visible; cut after MAX_PREVIEW_CHARACTERS."""
    cut: bool
    size: int
    """Size in bytes, compact."""
    tokens: int


def preview_definition(row: Tool) -> ToolDefinition:
    """Return the definition that the snapshot would hold for this row, saved or not."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return loader.build_tool(values, frozenset())


def preview_shapes(wire: dict[str, Any]) -> list[Shape]:
    """Return the entries of tools/list, newest revision first; revisions with the same entry share one."""
    by_text: dict[str, list[str]] = {}
    for revision in reversed(ALL):
        entry = shape("tools/list", revision, {"tools": [wire]})["tools"][0]
        by_text.setdefault(dumps(entry), []).append(revision)
    found = []
    for compact, revisions in by_text.items():
        text = json.dumps(json.loads(compact), indent=2, ensure_ascii=False)
        size = len(compact.encode("utf-8", "surrogatepass"))
        found.append(
            Shape(
                tuple(revisions),
                show(text[:MAX_PREVIEW_CHARACTERS]),
                len(text) > MAX_PREVIEW_CHARACTERS,
                size,
                estimate_tokens(compact),
            )
        )
    return found


def has_hidden(wire: dict[str, Any]) -> bool:
    """Return whether a text in it holds characters that are invisible to people and visible to a model."""
    text = json.dumps(wire, ensure_ascii=False)
    return show(text) != text


SCHEMAS = ("input_schema", "output_schema")
MAX_SIMILAR_TOOLS = 5


@dataclass(frozen=True, slots=True)
class Problem:
    field: str
    """A field of the form; "" for the tool as a whole."""
    label: str
    place: list[str | int]
    """Keys and indexes into the field's JSON; empty for the whole value."""
    text: str

    @property
    def readable_place(self) -> list[str]:
        """The place as people read it: indexes start at one."""
        return [f"#{step + 1}" if isinstance(step, int) else step for step in self.place]

    def as_data(self) -> dict[str, Any]:
        return {"field": self.field, "place": self.place, "text": self.text}


@dataclass(frozen=True, slots=True)
class Preview:
    problems: list[Problem]
    suggestions: list[Suggestion]
    shapes: list[Shape]
    parameters: list[Parameter]
    marks: list[Mark]
    title: str
    description: str
    hidden: bool
    sent: list[str] = field(default_factory=list)
    """Where the settings send secrets, one sentence for each."""
    obstacles: list[str] = field(default_factory=list)
    """Why calls would fail on this installation, one sentence each; none of them keeps the tool from being saved."""
    invalid_labels: list[str] = field(default_factory=list)
    """Labels of the invalid fields: the preview shows their previous values."""


def find_suggestions(row: Tool) -> list[Suggestion]:
    """Return the suggestions about this definition, alone and beside the other tools of the catalogue."""
    others = list(Tool.objects.exclude(pk=row.pk).values_list("name", "description"))
    found = check_tool(row) + beside.describe_similar(row, others)[:MAX_SIMILAR_TOOLS]
    partners = beside.find_partners(row.name, [name for name, _ in others])[:MAX_SIMILAR_TOOLS]
    if partners:
        found += beside.describe_upserts(row, Tool.objects.filter(name__in=partners).order_by("name"))
    return found


def build_preview(form: Any) -> Preview:
    """Return the preview of a bound ToolForm. An invalid field keeps its previous value in the preview."""
    form.is_valid()
    row: Tool = form.instance
    problems = list(_find_problems(form))
    wrong = {problem.field for problem in problems}
    shapes, hidden = [], False
    annotations: dict[str, Any] = {}
    if isinstance(row.input_schema, dict) and (row.name or "name" not in wrong):
        definition = preview_definition(row)
        shapes, hidden = preview_shapes(definition.wire), has_hidden(definition.wire)
        annotations = definition.annotations
    described = bool(row.name and row.description.strip())
    suggestions = find_suggestions(row) if described else []
    schema = row.input_schema if isinstance(row.input_schema, dict) else {}
    invalid_labels = [_label(form, name) for name in form.fields if name in wrong]
    flows = _find_flows(row)
    return Preview(
        problems,
        suggestions,
        shapes,
        list_parameters(schema),
        marks(annotations),
        row.title or row.name,
        row.description,
        hidden,
        secret_flows.describe(flows),
        _find_obstacles(row, flows, problems),
        invalid_labels,
    )


def _find_obstacles(row: Tool, flows: frozenset[Flow], problems: list[Problem]) -> list[str]:
    """Return why calls of this tool would fail here, without what the problems say already."""
    found = [registry.find_obstacle(row.runner, row.settings), *_find_missing_secrets(flows)]
    known = " ".join(problem.text for problem in problems)
    return [sentence for sentence in found if sentence and sentence not in known]


def _find_missing_secrets(flows: frozenset[Flow]) -> Iterator[str]:
    """Yield a sentence for each secret that does not exist, and for each shared one without a value."""
    names = sorted({flow.secret for flow in flows})
    known = {secret.name: secret for secret in Secret.objects.filter(name__in=names)} if names else {}
    for name in names:
        if name not in known:
            yield gettext("There is no secret with the name %(name)s. Add it, or choose another one.") % {"name": name}
        elif not known[name].is_own and not known[name].value:
            yield gettext("The secret %(name)s has no value yet. Enter it on the page of the secret.") % {"name": name}


def _find_flows(row: Tool) -> frozenset[Flow]:
    """Return where a call of this tool sends secrets: an upstream tool those of its connection."""
    if row.runner != loader.UPSTREAM or not isinstance(row.settings, dict):
        return row.secret_flows()
    upstream = Upstream.objects.filter(name=str(row.settings.get("upstream", ""))[:40]).first()
    return frozenset() if upstream is None else upstream.secret_flows()


def _label(form: Any, name: str) -> str:
    return str(form.fields[name].label or name) if name in form.fields else ""


def _find_problems(form: Any) -> Any:
    for name, errors in form.errors.items():
        label = _label(form, name)
        own = "" if name == "__all__" else name
        placed: list[Problem] = []
        if own in SCHEMAS:
            placed = _find_schema_problems(form, own, label)
        elif own == "settings" and isinstance(form.cleaned_data.get("settings", form.instance.settings), dict):
            placed = _find_settings_problems(form, label)
        yield from placed or [Problem(own, label, [], str(error)) for error in errors]


def _find_schema_problems(form: Any, name: str, label: str) -> list[Problem]:
    try:
        check = validator.check if name == "input_schema" else validator.check_result
        check(form.fields[name].to_python(form.data.get(form.add_prefix(name))))
    except ValidationError as problem:
        # A syntax error has no place in the schema; its message names line and column.
        place: str = getattr(problem, "place", "")
        steps = [json_pointer.unescape(step) for step in place.split("/")[1:]]
        return [Problem(name, label, list(steps), problem.messages[0])]
    return []


def _find_settings_problems(form: Any, label: str) -> list[Problem]:
    try:
        data = form.fields["settings"].to_python(form.data.get(form.add_prefix("settings"))) or {}
    except ValidationError:
        return []
    found = runner_forms.find_problems(str(form.data.get(form.add_prefix("runner"), "")), data)
    return [Problem("settings", label, place, text) for place, text in found]


def format_summary(preview: Preview) -> str:
    """Return one line that sums up the preview."""
    if preview.problems:
        parts = ", ".join(dict.fromkeys(preview.invalid_labels)) or preview.problems[0].text
        return close_blanks(gettext("Fix before saving: %(parts)s") % {"parts": parts})
    if preview.obstacles:
        return gettext("Ready to save, but calls would fail")
    return gettext("Ready to save")
