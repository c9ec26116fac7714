"""Runs every payload through the command runner, for an observer: `python -m tests.runners.driver PROGRAM`."""

from __future__ import annotations

import asyncio
import os
import sys


async def main(program: str) -> None:
    from tests.runners import harness, payloads

    names = [f"a{number}" for number in range(len(payloads.LITERAL))]
    settings = {"program": program, "arguments": [f"{{{name}}}" for name in names]}
    result = await harness.produce_result("command", settings, dict(zip(names, payloads.LITERAL, strict=True)))
    assert not result.is_error, result
    for payload in ("$(touch PWNED)", "; touch PWNED", "`touch PWNED`"):
        await harness.produce_result("command", {"program": program, "stdin": "t"}, {"t": payload})
        options = {"program": program, "arguments": [{"option": "--name", "value": "t"}]}
        await harness.produce_result("command", options, {"t": payload})
    await harness.wait_until_nothing_left()


if __name__ == "__main__":
    os.environ["TOOLHUB_COMMANDS"] = sys.argv[1]
    import django

    django.setup()
    asyncio.run(main(sys.argv[1]))
