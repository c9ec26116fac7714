"""A process loads what its first pages need before somebody opens them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.polling import wait_until
from tests.real_servers import DATABASE_FILE, Hub, migrated_sqlite

ROOT = Path(__file__).resolve().parents[2]
VISIT = """
import json, sys
import toolhub.asgi
from django.conf import settings
from django.contrib.auth.models import User
from django.template import engines
from django.test import Client
from toolhub.management import first_pages

settings.ALLOWED_HOSTS = ["testserver"]
pauses = []
first_pages.load(lambda: pauses.append(len(sys.modules)))
templates = engines["django"].engine.template_loaders[0].get_template_cache
modules, compiled = set(sys.modules), set(templates)
root = User.objects.create_superuser("root")
statuses = []
for language in ("en", "zh-hans"):
    for path in ("/sign-in/", "/admin/", "/tools/", "/connect/", "/calls/"):
        client = Client(headers={"Accept-Language": language})
        if path != "/sign-in/":
            client.force_login(root)
        statuses.append(client.get(path).status_code)
print(json.dumps({
    "statuses": statuses,
    "modules": sorted(set(sys.modules) - modules),
    "templates": sorted(set(templates) - compiled),
    "pauses": len(pauses),
}))
"""


def test_the_first_visitors_import_and_compile_nothing(tmp_path: Path) -> None:
    shutil.copyfile(migrated_sqlite(), tmp_path / DATABASE_FILE)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    env = plain | {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_DATA_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", VISIT], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["statuses"] == [200] * 10
    assert (found["modules"], found["templates"]) == ([], [])
    assert found["pauses"] > 20, "calls get their turn between the pieces"


def test_a_process_that_serves_loads_them_by_itself() -> None:
    with Hub() as hub:
        wait_until(lambda: "The first pages were loaded" in hub.log(), what="the process loads the first pages")
