"""Room on the disk: calls are refused while there is still enough of it to end the ones that run."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.db import connections


def log_folders() -> tuple[Path, ...]:
    """Where the record grows: the data folder, and the folder of an SQLite database."""
    found = [Path(settings.DATA_DIR)]
    database = connections["default"].settings_dict
    if "sqlite3" in str(database["ENGINE"]):
        found.append(Path(str(database["NAME"])).absolute().parent)
    return tuple(dict.fromkeys(found))


def disk_shortage(places: tuple[Path, ...]) -> str:
    """Why there is not enough room, or an empty text."""
    for place in places:
        try:
            status = os.statvfs(place)
        except FileNotFoundError:
            continue  # made with the first file in it
        except OSError as error:
            return f"the disk of {place.name} cannot be read ({error.strerror})"
        free = status.f_bavail * status.f_frsize // 1_000_000
        if free < settings.MIN_FREE_MB:
            return f"the disk is almost full ({free} MB left, {settings.MIN_FREE_MB} MB are kept free)"
    return ""
