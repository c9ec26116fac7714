"""What the scripts beside this one write to stdout, a line of JSON for everything that happens, and how they answer.

It imports nothing that is installed: each script runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


async def heard(_value, _total, message):
    say(progress=message)


def accept(params, result):
    """Show the question of these parameters, and accept it with a result of this class."""
    if params.mode == "url":
        say(asked="url", message=params.message, link=params.url)
        return result(action="accept")
    say(asked="form", message=params.message)
    return result(action="accept", content={"run": True})
