"""An attempt that is refused before the door sees it is on record like any other refusal."""

from __future__ import annotations

from audit import outcomes, recorder
from toolhub.server.peer import Peer
from toolhub.wire import jsonrpc

ATTEMPTS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


async def record(request: jsonrpc.Request, peer: Peer, why: str) -> None:
    """Record that an attempt was refused for its form, its `requestState`, or because too much is running."""
    member = ATTEMPTS.get(request.method)
    if member is None:
        return
    name = request.params.get(member)
    intent = recorder.Intent(
        peer.caller, request.method, name if isinstance(name, str) else "", request_id=str(request.id)
    )
    await recorder.refuse(intent, recorder.Ending(outcomes.REFUSED, error_class="BadRequest", detail=why))
