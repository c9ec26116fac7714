"""A runner outside of the tree: named in TOOLHUB_RUNNERS, it is offered, saved, called and logged like the others."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from catalog.checks import check_tool_runners
from catalog.runners import registry
from tests import factories
from tests.client import HttpClient
from tests.e2e import proofs
from tests.e2e.pages import Pages
from tests.real_servers import Hub

CONTRIBUTING = Path(__file__).resolve().parents[2] / ".github" / "CONTRIBUTING.md"
SHOUT = CONTRIBUTING.read_text(encoding="utf-8").split("## Add a runner")[1].split("```python\n")[1].split("```")[0]
"""The example that contributors start from."""
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text.", "maxLength": 100}},
    "required": ["text"],
    "additionalProperties": False,
}


def seed_users() -> None:
    """Alice, and an administrator who can sign in."""
    from django.contrib.auth.models import User

    proofs.create_root()
    User.objects.create_user("alice")


def list_calls() -> list[list[Any]]:
    from audit.models import Call

    return [[call.name, call.outcome, call.arguments] for call in Call.objects.filter(method="tools/call")]


async def test_a_runner_in_a_setting_is_listed_saved_called_and_logged(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(SHOUT)
    env = {"TOOLHUB_RUNNERS": "shout", "PYTHONPATH": str(tmp_path)}
    with Hub(env=env, seed=seed_users) as hub:
        async with Pages(hub, proofs.ROOT) as pages:
            await pages.sign_in()
            page = await pages.get("/admin/catalog/tool/add/")
            assert re.search(r'<option value="shout"[^>]*>\s*Shout\s*<', page)
            found = re.search(r'data-editor="([^"]*)"', page)
            assert found is not None
            offered = json.loads(html.unescape(found[1]))["kinds"]["shout"]
            assert offered["about"] == "Writes a text in capitals."
            (suffix,) = offered["fields"]
            assert (suffix["label"], suffix["help"], suffix["default"]) == ("Suffix", "Text after the shout.", "!")
            tool = {"name": "shout_it", "description": "Write a text in capitals.", "input_schema": json.dumps(SCHEMA)}
            wrong = {**tool, "runner": "shout", "settings": '{"prefix": "?"}'}
            token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
            assert token is not None
            wrong["csrfmiddlewaretoken"] = token[1]
            looked = await pages.http.post("/admin/catalog/tool/look/", data=wrong)
            assert [one["place"] for one in looked.json()["problems"] if one["field"] == "settings"] == [["prefix"]]
            rows = {f"grants-{name}": value for name, value in (("TOTAL_FORMS", "1"), ("0-everyone", "on"))}
            right = {**tool, **rows, "runner": "shout", "settings": '{"suffix": "?"}', "enabled": "on"}
            await pages.send("/admin/catalog/tool/add/", **right)
            assert "Shout" in await pages.get("/admin/catalog/tool/")
        async with HttpClient(hub.mcp_url, hub.manage("createtoken", "alice"), "2025-11-25") as client:
            assert await client.tools() == ["shout_it"]
            assert await client.text("shout_it", {"text": "hello"}) == "HELLO?"
        assert hub.call(list_calls) == [["shout_it", "ok", '{"text":"hello"}']]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, "ModuleNotFoundError"),
        ("raise OSError('no network')", "OSError: no network"),
        ("RUNNER = 'mine'", "no RUNNER"),
        (SHOUT.replace('name="shout"', 'name="Shout it"'), "lower-case letters"),
        (SHOUT.replace('name="shout"', 'name="command"'), 'another runner named "command"'),
    ],
)
def test_a_module_that_brings_no_runner_is_an_error_that_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, source: str | None, why: str
) -> None:
    module = f"outside_{abs(hash((source, str(tmp_path))))}"
    if source is not None:
        (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    settings.RUNNERS = [module]
    (error,) = [found for found in run_checks() if found.id == "catalog.E005"]
    assert "TOOLHUB_RUNNERS" in error.msg and module in error.msg and why in error.msg
    assert set(registry.runners()) == {"python_function", "http_api", "command", "sql_query", "upstream_mcp"}


@pytest.mark.django_db
def test_tools_of_a_runner_that_nobody_names_any_more_are_named_by_the_check(settings: Any) -> None:
    factories.make_tool("loud", runner="shout", settings={})
    factories.make_tool("off", runner="shout", settings={}, enabled=False)
    (warning,) = check_tool_runners(None, databases=["default"])
    assert warning.id == "catalog.W004" and warning.hint is not None and "TOOLHUB_RUNNERS" in warning.hint
    assert "loud (shout)" in warning.msg and "off (" not in warning.msg
    assert check_tool_runners(None, databases=None) == []


@pytest.mark.parametrize("kind", list(registry.runners()))
def test_the_folder_of_a_runner_documents_each_of_its_settings(kind: str) -> None:
    described = registry.runner(kind)
    folder = Path(registry.__file__).parent / kind
    text = (folder / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"`([a-z_]+)`", "\n".join(re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE))))
    assert rows == set(described.settings.model_fields) - described.form.hidden


def test_every_setting_of_an_http_tool_says_what_it_means() -> None:
    assert all(field.description for field in registry.runner("http_api").settings.model_fields.values())
