"""The example catalogue of `quickstart`: rows for `catalog.examples`, grants for one user, a limit to run into."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

from catalog import workspace
from catalog.examples import apis, local, upstream
from catalog.functions import registry
from catalog.models import Grant, Limit, Prompt, Resource, Tool, Toolset

TOOLSET = "Examples"
DESTRUCTIVE = "Destructive examples"
TOOLS = (
    "calculate_sum",
    "analyze_csv",
    "list_directory",
    "read_file",
    "write_file",
    "delete_file",
    "set_config",
    "upsert_record",
    "add_log",
    "long_task",
)
SAMPLE_PATH = "samples/sales.csv"
SAMPLE = """\
date,region,product,units,revenue
2026-01-05,north,lamp,12,240.00
2026-01-09,south,lamp,7,140.00
2026-02-02,north,chair,3,270.00
2026-02-17,east,desk,1,410.50
2026-03-11,south,chair,9,810.00
2026-03-12,east,lamp,20,400.00
"""
GUIDE = """\
# What these example tools are for

- `calculate_sum` adds two numbers.
- `list_directory`, `read_file`, `write_file` and `analyze_csv` work with files in the hub's workspace folder.
  Try: "What is the average revenue in samples/sales.csv?"
- `set_config` may be repeated (idempotent), `add_log` may not: compare their annotations.
- `upsert_record` adds a record or replaces it; `run_sql_query` asks a sample database with a fixed statement.
- `execute_command` runs `date`, `uname`, `wc` or `ls`: off until an administrator lists them in TOOLHUB_COMMANDS, and
  granted to nobody.
- `long_task` shows progress, can be cancelled, and is limited to 6 calls a minute.
- `delete_file` exists, and is granted to nobody until an administrator does so.
- `get_weather` asks a public API (Open-Meteo).

Every call, refused ones included, is on record.
"""
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "title": "Get the current weather",
    "description": "Get the current temperature, wind and precipitation at a place, from the public API of "
    "Open-Meteo. Use it for questions about the weather now; give coordinates in degrees. Changes nothing.",
    "input_schema": {
        "type": "object",
        "properties": {
            "latitude": {
                "type": "number",
                "minimum": -90,
                "maximum": 90,
                "description": "Degrees north; negative is south, as in 46.95 for Bern.",
            },
            "longitude": {
                "type": "number",
                "minimum": -180,
                "maximum": 180,
                "description": "Degrees east; negative is west, as in 7.45 for Bern.",
            },
            "temperature_unit": {
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "default": "celsius",
                "description": "Unit of the temperature.",
            },
        },
        "required": ["latitude", "longitude"],
        "additionalProperties": False,
    },
    "read_only": True,
    "idempotent": True,
    "open_world": True,
    "timeout": 20,
    "runner": "http_api",
    "settings": {
        "method": "GET",
        "url": "https://api.open-meteo.com/v1/forecast",
        "query": {"latitude": "latitude", "longitude": "longitude", "temperature_unit": "temperature_unit"},
        "static_query": {"current": "temperature_2m,wind_speed_10m,precipitation", "timezone": "auto"},
        "response": "json",
        "select": "$.current",
        "timeout": 15,
    },
}


def load(username: str = "demo") -> None:
    """Make the example catalogue, once: where its toolset exists already, nothing is changed or brought back."""
    user = get_user_model().objects.filter(username=username).first()
    with transaction.atomic():
        examples, made = Toolset.objects.get_or_create(
            name=TOOLSET, defaults={"description": "Tools to try the hub with."}
        )
        if not made:
            return
        destructive, _ = Toolset.objects.get_or_create(
            name=DESTRUCTIVE, defaults={"description": "Tools that lose something: grant them with care."}
        )
        for position, name in enumerate(TOOLS, 1):
            tool = _tool(registry.tool_row(name), position * 10)
            tool.toolsets.add(destructive if name == "delete_file" else examples)
            if name == "long_task":
                _limit(tool)
        _tool(WEATHER, 200).toolsets.add(examples)
        apis.load()
        upstream.load()
        for position, columns in enumerate(local.rows(), 220):
            tool = _tool(columns, position)
            if tool.name != "execute_command":
                tool.toolsets.add(examples)
        _offers(examples)
        if user is not None:
            grant = Grant(toolset=examples, user=user, note="Made by quickstart.")
            grant.full_clean()
            grant.save()
    local.make_samples()
    if not (workspace.root() / SAMPLE_PATH).exists():
        workspace.write(SAMPLE_PATH, SAMPLE.encode())


def _tool(columns: dict[str, Any], position: int) -> Tool:
    known: Tool | None = Tool.objects.filter(name=columns["name"]).first()
    if known is not None:
        return known
    tool = Tool(**columns, position=position)
    tool.full_clean()
    tool.save()
    return tool


def _limit(tool: Tool) -> None:
    limit = Limit(tool=tool, scope=Limit.Scope.EACH_USER, rate="6/m", note="An example of a limit.")
    limit.full_clean()
    limit.save()


def _offers(examples: Toolset) -> None:
    """One text, one template, one prompt."""
    guide = Resource(
        name="guide",
        title="Guide to the examples",
        description="What the example tools are for.",
        uri="toolhub-examples://guide",
        mime_type="text/markdown",
        text=GUIDE,
    )
    for row in (guide, Resource(**registry.resource_row("workspace_file"))):
        if not Resource.objects.filter(uri=row.uri, uri_template=row.uri_template).exists():
            row.full_clean()
            row.save()
            row.toolsets.add(examples)
    if not Prompt.objects.filter(name="explain_file").exists():
        prompt = Prompt(**registry.prompt_row("explain_file"))
        prompt.full_clean()
        prompt.save()
        prompt.toolsets.add(examples)
