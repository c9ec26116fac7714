"""The bounds of a process: from its settings, and from the descriptors that the system allows."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolhub.edge import limits

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("descriptors", "setting", "most"),
    [(1024, 0, 768), (1024, 5000, 768), (1024, 100, 100), (65_536, 0, 10_000), (65_536, 20_000, 20_000), (256, 0, 128)],
)
def test_clients_never_get_the_last_descriptors(
    settings: Any, monkeypatch: pytest.MonkeyPatch, descriptors: int, setting: int, most: int
) -> None:
    settings.MAX_CONNECTIONS = setting
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert limits.from_settings().max_connections == most


def test_the_soft_limit_of_descriptors_is_raised() -> None:
    code = (
        "import resource, django; django.setup()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "from toolhub.edge import limits; limits.raise_descriptor_limit()\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "print(soft == min(hard, limits.MAX_DESCRIPTORS) or hard == resource.RLIM_INFINITY)"
    )
    env = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr
