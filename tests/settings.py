"""toolhub's own settings, read in an environment that belongs to the tests alone.

A settings module and not a conftest, because pytest-django reads the settings before any conftest is imported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

for _name in [name for name in os.environ if name.startswith("TOOLHUB_") and not name.startswith("TOOLHUB_TEST_")]:
    del os.environ[_name]
_data = Path(tempfile.mkdtemp(prefix="toolhub-test-"))
_maker = os.getpid()


def _remove() -> None:
    if os.getpid() == _maker:
        shutil.rmtree(_data, ignore_errors=True)


atexit.register(_remove)
os.environ["TOOLHUB_DATA_DIR"] = str(_data)
# The database that tests without a server of their own use: an SQLite file, unless this names another.
_database = os.environ.get("TOOLHUB_TEST_DATABASE_URL", "")
os.environ["TOOLHUB_DATABASE_URL"] = _database
os.environ["TOOLHUB_SECRET_KEY"] = "only-for-tests-" + "k" * 50
os.environ["TOOLHUB_RECORD_KEY"] = "only-for-tests-" + "r" * 50
os.environ["TOOLHUB_MIN_FREE_MB"] = "1"
os.environ["TOOLHUB_VERIFY_SECONDS"] = "0"
# A machine that is busy with other tests must not look like a database that is away.
os.environ["TOOLHUB_RECORD_TIMEOUT_MS"] = "30000"
# Servers and commands that tests start are real ones: they read toolhub's settings, not these.
os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"

from toolhub.settings import *  # noqa: E402, F403
from toolhub.settings import DATABASES  # noqa: E402

# A file database: threads of their own (the audit log's writer) must see what the test sees.
if not _database:
    DATABASES["default"]["TEST"] = {"NAME": str(_data / "test.sqlite3")}
# Each test client makes its own chain of middleware: WhiteNoise would look at all static files for each of them.
WHITENOISE_AUTOREFRESH = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
