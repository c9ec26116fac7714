#!/usr/bin/env python
"""Run a command of toolhub: `python manage.py quickstart` is the first one."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    # Imports make no garbage: with Python's threshold of 700 objects, a fifth of the time of a start goes into looking.
    gc.set_threshold(20_000, 10, 10)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit(
            "Django is not installed here. In the project's folder: python3 -m venv .venv && .venv/bin/pip install ."
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
