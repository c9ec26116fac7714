"""Other people's clients, each installed once into a cache of the user, away from this project's environment.

A folder is filled under another name and then renamed, so that one that exists is complete; a lock keeps test
processes that run side by side from filling the same one twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.conftest import missing

NODE = "22"
"""Node 22 is a package like any other."""
CACHE = Path(os.environ.get("TOOLHUB_TEST_CACHE") or Path.home() / ".cache" / "toolhub-tests")
INSTALL_SECONDS = 600
MAX_TRIES = 3
"""A registry that does not answer once is asked again."""


def npm_packages(*packages: str) -> Path:
    """A folder whose `node_modules` holds these packages and Node itself; skips the test where that cannot be."""
    wanted = [*packages, f"node@{NODE}"]

    def fill(folder: Path) -> list[list[str]]:
        npm = shutil.which("npm")
        if npm is None:
            missing("node", "npm is not installed")
        (folder / "package.json").write_text("{}")
        return [[npm or "npm", "install", "--no-audit", "--no-fund", *wanted]]

    digest = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:12]
    return _installed("node", f"npm-{digest}", fill)


def npx_cache(package: str) -> Path:
    """A cache of npm with what `npx -y PACKAGE` needs for this exact version: nothing more is downloaded.

    To be copied, because npm writes into it; skips the test where it cannot be had.
    """

    def fill(folder: Path) -> list[list[str]]:
        npm = shutil.which("npm")
        if npm is None:
            missing("node", "npm is not installed")
        return [[npm or "npm", "exec", "--yes", "--cache", str(folder), "--package", package, "--", "true"]]

    digest = hashlib.sha256(package.encode()).hexdigest()[:12]
    return _installed("node", f"npx-{digest}", fill)


def environment(*requirements: str) -> Path:
    """The Python of a virtual environment with these packages; skips the test where that cannot be."""

    def fill(folder: Path) -> list[list[str]]:
        # Our pip fills it: an environment without its own is made in a tenth of the time.
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        return [
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            [*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check", *requirements],
        ]

    label = "-".join(requirements).replace("==", "-").replace("[", "-").replace("]", "")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return _installed("pypi", f"{label}-python{version}", fill) / "bin" / "python"


def _installed(service: str, name: str, fill: Callable[[Path], list[list[str]]]) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for attempt in range(MAX_TRIES):
            if folder.exists():
                return folder
            growing = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
            try:
                problem = _run(growing, fill(growing))
                if not problem:
                    growing.rename(folder)
                elif attempt == MAX_TRIES - 1:
                    missing(service, f"{name} cannot be installed: {problem}")
            finally:
                shutil.rmtree(growing, ignore_errors=True)
    return folder


def _run(folder: Path, commands: list[list[str]]) -> str:
    """What went wrong, or nothing."""
    plain = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "NODE_OPTIONS"}}
    for command in commands:
        try:
            done = subprocess.run(
                command, cwd=folder, env=plain, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"not within {INSTALL_SECONDS} s"
        if done.returncode:
            return done.stderr[-1000:]
    return ""
