"""One call of a registered function in a process of its own.

Run as `python -m catalog.runners.python_function.child`, started by `python_function` for tools whose settings say
`isolated`.

The request is one line of JSON on stdin; the answers are lines of JSON on stdout: {"progress": [...]}, {"log": [...]},
and last {"value": ...}, {"produced": ...} or {"error": [kind, sentence]}. The output that the function prints goes to
stderr.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

NO_CLIENT = "This tool runs in a process of its own and cannot ask the client."


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def send(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message, allow_nan=False).encode() + b"\n")

    send(asyncio.run(_answer(request, send)))
    sys.stdout.flush()
    # Threads and exit handlers of the function must not delay the answer.
    os._exit(0)


async def _answer(request: dict[str, Any], send: Any) -> dict[str, Any]:
    from catalog.errors import InvalidArguments, ProtocolError, ToolError

    try:
        return await _call(request, send)
    except ToolError as error:
        return {"error": ["tool", str(error)]}
    except InvalidArguments as error:
        return {"error": ["arguments", error.message]}
    except ProtocolError as error:
        return {"error": ["protocol", error.message, error.code]}
    except MemoryError:
        return {"error": ["tool", "The tool exceeded its memory limit."]}
    except SystemExit as error:
        return {"error": ["exit", str(error.code)[:100]]}
    except BaseException as error:  # noqa: BLE001 - the boundary: the hub logs what is on stderr
        import traceback

        traceback.print_exc()
        return {"error": ["failed", type(error).__name__]}


async def _call(request: dict[str, Any], send: Any) -> dict[str, Any]:
    if request["django"]:
        import django

        django.setup()
    from catalog.functions import registry, results
    from catalog.functions.content import ABSENT, BLOCKS, Result, Structured
    from catalog.functions.context import Context
    from catalog.functions.invoke import invoke
    from catalog.functions.updates import ResourceUpdates
    from catalog.threads import ThreadPools
    from toolhub.parts import parts

    updates = ResourceUpdates()
    updates.add(lambda uri: send({"updated": uri}))
    parts.put(updates)
    parts.put(ThreadPools())
    importlib.import_module(request["module"])
    function = registry.lookup_imported("tool", request["function"])
    caller = _caller(request["caller"])
    context = Context(
        caller,
        _Channel(request["capabilities"], request["request_id"], send),
        request["name"],
        UUID(request["call_id"]),
        _Clock(request["seconds"]),
        request["secrets"],
    )
    value = await invoke(function, request["arguments"], context)
    await context.flush()
    blocks = isinstance(value, (list, tuple)) and any(isinstance(item, BLOCKS) for item in value)
    if blocks or isinstance(value, (Result, Structured, *BLOCKS)):
        made = results.produce(value)
        structured = [] if made.structured is ABSENT else [made.structured]
        return {"produced": [made.content, structured, made.is_error, made.meta, made.size]}
    if isinstance(value, bytes):
        results.produce(value)  # raises with the reason
    return {"value": results.to_plain_json(value)[0]}


def _caller(data: dict[str, Any]) -> Any:
    from audit.types import Caller, Credential

    credential = dict(data.pop("credential"))
    if credential["toolset_ids"] is not None:
        credential["toolset_ids"] = frozenset(credential["toolset_ids"])
    return Caller(credential=Credential(**credential), **data)


class _Clock:
    def __init__(self, seconds: float | None) -> None:
        self.deadline = float("inf") if seconds is None else time.monotonic() + seconds

    def pause(self) -> None:
        return

    def resume(self) -> None:
        return


class _Channel:
    meta: Mapping[str, Any] = {}
    continues = None

    def __init__(self, capabilities: Mapping[str, Any], request_id: str, send: Any) -> None:
        self.capabilities, self.request_id, self._send = capabilities, request_id, send

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._send({"progress": [progress, total, message]})

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        self._send({"log": [level, data, logger]})

    async def ask(self, requests: Any) -> dict[str, dict[str, Any]]:
        from catalog.errors import ToolError

        raise ToolError(NO_CLIENT)

    def close_stream(self) -> None:
        return


if __name__ == "__main__":
    main()
