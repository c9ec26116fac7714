"""The house keeps its shape. import-linter holds the floors; this holds what it cannot see."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOP = {
    "manage.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "toolhub",
    "catalog",
    "audit",
    "templates",
    "tests",
}


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def sources(*folders: str) -> list[Path]:
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts and ".clients" not in path.parts
    ]


def test_nothing_else_stands_at_the_top():
    extra = {name.split("/")[0] for name in tracked()} - TOP
    assert {name for name in extra if not name.startswith(".")} == set()


def test_every_module_says_what_it_owns():
    silent = []
    for path in sources("toolhub", "catalog", "audit"):
        text = path.read_text(encoding="utf-8")
        if path.name not in {"__init__.py", "apps.py", "urls.py"} and text and not text.startswith('"""'):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_nothing_is_left_unfinished():
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError|xfail)\b")
    left = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources("toolhub", "catalog", "audit")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert left == []


def test_nothing_names_a_machine_or_a_registry():
    # The words are put together here so that this file does not name them either.
    words = ["/" + "work/", "file" + r"s\.pythonhosted", "registry" + r"\.npmjs", "pypi" + r"\.org"]
    forbidden = re.compile("|".join(words))
    named = []
    for name in tracked():
        path = ROOT / name
        if path.suffix in {".png", ".ico", ".woff2"} or not path.is_file():
            continue
        if forbidden.search(path.read_text(encoding="utf-8", errors="replace")):
            named.append(name)
    assert named == []


def test_installing_puts_no_package_of_ours_anywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"] == {"packages": [], "py-modules": []}


def test_no_page_has_a_script_or_style_inline():
    inline = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\son[a-z]+\s*=|\sstyle\s*=", re.IGNORECASE)
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "templates").rglob("*.html")
        if path.relative_to(ROOT / "templates").parts[0] != "admin" and inline.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_runners_touch_no_table():
    importing = [
        str(path.relative_to(ROOT))
        for path in sources("catalog/runners")
        if re.search(r"^\s*(from|import) django\.db", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importing == []


def test_no_module_of_toolhub_keeps_process_state():
    """That belongs to the parts of a `Hub`; and no import has an effect, except where Django asks for it."""
    asked_for = {"toolhub/access/admin.py", "toolhub/asgi.py"}
    found = []
    for path in sources("toolhub"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(ROOT).as_posix()
        found += [f"{name}: global" for node in ast.walk(tree) if isinstance(node, ast.Global)]
        called = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        if called and name not in asked_for:
            found.append(f"{name}: {ast.unparse(called[0])}")
        found += [f"{name}: reset()" for node in tree.body if getattr(node, "name", "") == "reset"]
    assert not found


def test_no_function_of_audit_or_catalog_rebinds_a_name_of_its_module():
    """State belongs to the parts that `audit.apps` and `catalog.apps` put in place."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sources("audit", "catalog")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Global)
    ]
    assert not found
