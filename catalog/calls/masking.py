"""Masking of secrets in results: a tool that uses secrets must not pass them on, in any spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.redaction import redactor
from catalog.calls.execution import Outcome
from catalog.errors import NeedsInput, ProtocolError
from catalog.functions.channel import Channel, Question
from catalog.functions.content import ABSENT
from catalog.functions.results import Produced, failure

WITHHELD = "The result was withheld because its binary data contains a secret."
_BINARY = ("data", "blob")


class MaskedChannel:
    """A channel to the client that masks every secret."""

    __slots__ = ("_channel", "_values")

    def __init__(self, channel: Channel, secrets: Mapping[str, str]) -> None:
        self._channel = channel
        self._values = tuple(secrets.values())

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._channel.capabilities

    @property
    def request_id(self) -> str:
        return self._channel.request_id

    @property
    def meta(self) -> Mapping[str, Any]:
        return self._channel.meta

    @property
    def continues(self) -> UUID | None:
        return self._channel.continues

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._channel.progress(progress, total, message and redactor.mask_values(self._values, message))

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        await self._channel.log(level, _mask_json(self._values, data), logger)

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        masked = {key: (method, _mask_json(self._values, params)) for key, (method, params) in requests.items()}
        return await self._channel.ask(masked)

    def close_stream(self) -> None:
        self._channel.close_stream()


def mask_result(produced: Produced, secrets: Mapping[str, str]) -> None:
    """Mask the values in a result that is about to be measured, logged and sent."""
    values = tuple(secrets.values())
    for block in produced.content:
        inner = block["content"] if isinstance(block.get("content"), dict) else block  # a message of a prompt
        inner = inner.get("resource", inner)
        for member in _BINARY:
            data = inner.get(member)
            if isinstance(data, str) and redactor.mask_values(values, data) != data:
                withheld = failure(WITHHELD)
                produced.content, produced.structured = withheld.content, ABSENT
                produced.is_error, produced.size = True, withheld.size
                return
    produced.content = [_mask_block(values, block) for block in produced.content]
    if produced.structured is not ABSENT:
        produced.structured = _mask_json(values, produced.structured)
    if produced.meta:
        produced.meta = _mask_json(values, produced.meta)


def mask_outcome(outcome: Outcome, secrets: Mapping[str, str]) -> None:
    """Mask the values in the messages of a failed run."""
    if outcome.name == outcomes.OK:
        return
    if outcome.produced is not None:
        mask_result(outcome.produced, secrets)
    values = tuple(secrets.values())
    if isinstance(outcome.error, ProtocolError):
        error = outcome.error
        outcome.error = ProtocolError(
            error.code, redactor.mask_values(values, error.message), _mask_json(values, error.data)
        )
    elif isinstance(outcome.error, NeedsInput):
        asked = outcome.error
        asked.requests = {key: (method, _mask_json(values, params)) for key, (method, params) in asked.requests.items()}


def _mask_block(values: Sequence[str], block: dict[str, Any]) -> dict[str, Any]:
    return {name: inner if name in _BINARY else _mask_member(values, name, inner) for name, inner in block.items()}


def _mask_member(values: Sequence[str], name: str, inner: Any) -> Any:
    if name in ("resource", "content") and isinstance(inner, dict):
        return _mask_block(values, inner)
    return _mask_json(values, inner)


def _mask_json(values: Sequence[str], value: Any) -> Any:
    """Return the same JSON value with the secrets masked, also in member names."""
    if isinstance(value, str):
        return redactor.mask_values(values, value)
    if isinstance(value, dict):
        return {redactor.mask_values(values, str(name)): _mask_json(values, inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mask_json(values, inner) for inner in value]
    if type(value) in (int, float) and str(value) in values:
        return redactor.MASK
    return value
