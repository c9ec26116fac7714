"""The example catalogue of `quickstart`: catalogue.yaml, and what it cannot say about this machine."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction

from catalog import workspace
from catalog.exchange import files, importer
from catalog.functions import registry
from catalog.models import Prompt, Resource, Secret, Tool, Toolset, Upstream
from catalog.processes import allowlist

TOOLSET = "Examples"
UPSTREAM = "everything"
SAMPLES = "samples"
"""The name of the sample database."""
SAMPLE_PATH = "samples/sales.csv"
_FILE = Path(__file__).with_name("catalogue.yaml")
_SALES = Path(__file__).with_name("sales.csv")
_SAMPLE_FILES = {SAMPLE_PATH: _SALES, "report.md": Path(__file__).with_name("report.md")}
"""What the workspace holds at first, by its path there."""


def load(username: str = "demo") -> None:
    """Import the examples, once: where their toolset exists already, nothing is changed or brought back."""
    with transaction.atomic():
        if Toolset.objects.filter(name=TOOLSET).exists():
            return
        content = _without_known(read())
        if get_user_model().objects.filter(username=username).exists():
            content["grants"] = [{"toolset": TOOLSET, "user": username, "note": "Created by quickstart."}]
        importer.run(content)
    _make_samples()


def read() -> dict[str, Any]:
    """Return the content of the file for this machine: definitions of functions filled in, the rest switched on or off.

    An administrator who lists the programs later switches their tools on.
    """
    content: dict[str, Any] = files.read(_FILE.read_text(encoding="utf-8"))
    rows = {"tools": registry.tool_row, "resources": registry.resource_row, "prompts": registry.prompt_row}
    for section, row in rows.items():
        for entry in content[section]:
            if function := entry.get("function") or entry.get("settings", {}).get("function"):
                entry |= {**row(function), **entry}
    for tool in content["tools"]:
        if tool.get("runner") == "command":
            programs = [command["program"] for command in tool["settings"]["commands"].values()]
            tool["enabled"] = all(allowlist.find_problem(program) is None for program in programs)
        elif tool["name"] == "send_email":
            tool["enabled"] = bool(settings.EMAIL_HOST)
        elif tool.get("runner") == "sql_query":
            tool["enabled"] = tool["settings"]["database"] in settings.SQL_DATABASES
    for upstream in content["upstreams"]:
        upstream["enabled"] = allowlist.find_problem(upstream["command"]) is None
        # Its home is a temporary folder: what it downloads is kept for the next time.
        upstream["env"] = {"npm_config_cache": str(settings.DATA_DIR / "npm")}
    return content


def upstream_state() -> tuple[int, str] | None:
    """Return the number of the example upstream and what keeps it from being used, or ""; None when it is gone."""
    upstream = Upstream.objects.filter(name=UPSTREAM).first()
    if upstream is None:
        return None
    problem = allowlist.find_problem(upstream.command)
    if problem is not None:
        return upstream.pk, f"{problem} It needs {upstream.command}, which comes with Node."
    return upstream.pk, "" if upstream.enabled else "It is switched off."


def _without_known(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is there already under the same name: it belongs to an administrator."""
    models: dict[str, Any] = {"secrets": Secret, "upstreams": Upstream, "toolsets": Toolset, "tools": Tool}
    for section, model in {**models, "prompts": Prompt}.items():
        known = set(model.objects.values_list("name", flat=True))
        content[section] = [entry for entry in content[section] if entry["name"] not in known]
    addresses = {address for pair in Resource.objects.values_list("uri", "uri_template") for address in pair if address}
    content["resources"] = [
        entry for entry in content["resources"] if not addresses & {entry.get("uri"), entry.get("uri_template")}
    ]
    new = {entry["name"] for entry in content["tools"]}
    content["limits"] = [entry for entry in content["limits"] if entry["tool"] in new]
    return content


def _make_samples() -> None:
    """Write the samples into the workspace, and their table as a database into the data folder, if missing."""
    for path, sample in _SAMPLE_FILES.items():
        if not (workspace.root() / path).exists():
            workspace.write(path, sample.read_bytes())
    file: Path = settings.SAMPLES_FILE
    if settings.SQL_DATABASES.get(SAMPLES) != f"sqlite:///{file}" or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with _SALES.open(encoding="utf-8", newline="") as table:
        sales = [tuple(row.values()) for row in csv.DictReader(table)]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE sales (day TEXT, region TEXT, product TEXT, units INTEGER, revenue REAL)")
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", sales)
