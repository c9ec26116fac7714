"""JSON-RPC 2.0 messages: one strict parser, one encoder.

Strict because two parsers that understand the same bytes differently make checks avoidable: no duplicate members, no
NaN, no byte order mark, no lone surrogates, no number that Python cannot hold. The transport limits the size of a body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NoReturn, TypeAlias

from .errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, McpError
from .json_size import MAX_VALUES, count_values, has_many_strings, strip_strings

MAX_BATCH_ENTRIES: Final = 50
MAX_DEPTH_LEVELS: Final = 64
MAX_ID_CHARACTERS: Final = 1000
MAX_ID_NUMBER: Final = 10**MAX_ID_CHARACTERS
"""An id is echoed, logged and kept while its request runs: it need not be longer."""

RequestId: TypeAlias = str | int


@dataclass(slots=True)
class Request:
    id: RequestId
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Notification:
    method: str
    params: dict[str, Any]


@dataclass(slots=True)
class Response:
    """The other side's answer to a request of ours; it has exactly one of `result` and `error`."""

    id: RequestId
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


Message: TypeAlias = Request | Notification | Response


class _Unreadable(ValueError):
    """A decoder error with the sentence for the client."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Unreadable("an object has the same member twice")
    return members


def _constant(name: str) -> NoReturn:
    raise _Unreadable(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise _Unreadable("a number is too large")
    return value


_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(  # type: ignore[attr-defined]
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
).scan_once


def _dumper() -> Callable[[Any], str]:
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the accelerator
        return encoder.encode
    # `encode` would build this object for every message, which is half of its time on a short one.
    chunks = make(None, encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_dump: Final = _dumper()

_BLANKS: Final = " \t\n\r"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_EXCESS: Final = f"more than {MAX_VALUES:,} values"
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def _check_size(body: bytes, max_depth: int) -> None:
    """Raise _Unreadable for a body that nests too deep or has too many values, before the decoder sees it."""
    openings = body.count(b"{") + body.count(b"[")
    closings = body.count(b"}") + body.count(b"]")
    is_long = len(body) > MAX_VALUES and openings + body.count(b",") > MAX_VALUES
    if openings <= max_depth and not is_long:
        return
    if is_long and has_many_strings(body):
        raise _Unreadable(_EXCESS)
    bare = strip_strings(body)
    if is_long and count_values(bare) > MAX_VALUES:
        raise _Unreadable(_EXCESS)
    brackets = bare.translate(None, _NOT_BRACKETS)
    if closings > MAX_VALUES and len(brackets) > 2 * MAX_VALUES:
        raise _Unreadable("more closing brackets than opening ones")
    if any(depth > max_depth for depth in accumulate(map(_STEP.__getitem__, brackets))):
        raise _Unreadable(f"nested deeper than {max_depth} levels")


def decode(body: bytes, *, max_depth: int = MAX_DEPTH_LEVELS) -> Any:
    """Decode the JSON value in `body` strictly. Raises McpError PARSE_ERROR."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise McpError(PARSE_ERROR, "Parse error: the body is not UTF-8") from None
    try:
        _check_size(body, max_depth)
        value, end = _scan(text, 0 if text[:1] == "{" else len(text) - len(text.lstrip(_BLANKS)))
        if end != len(text) and text[end:].strip(_BLANKS):
            raise _Unreadable("there is text after the message")
        # Only an escape can write an unpaired surrogate, which could be neither stored nor answered.
        if "\\u" in text and _SURROGATE.search(text):
            _dump(value).encode()
    except (StopIteration, json.JSONDecodeError):
        raise McpError(PARSE_ERROR, "Parse error: the body is not JSON") from None
    except _Unreadable as error:
        raise McpError(PARSE_ERROR, f"Parse error: {error}") from None
    except UnicodeEncodeError:
        raise McpError(PARSE_ERROR, "Parse error: an unpaired surrogate") from None
    except ValueError:
        raise McpError(PARSE_ERROR, "Parse error: a number has too many digits") from None
    except RecursionError:
        raise McpError(PARSE_ERROR, "Parse error: nested too deeply") from None
    return value


def parse(body: bytes, *, batches: bool = False, max_depth: int = MAX_DEPTH_LEVELS) -> Message | list[Message]:
    """Parse the message in `body`, or a list of messages where `batches` are allowed. Raises McpError."""
    value = decode(body, max_depth=max_depth)
    if type(value) is dict:
        return message(value)
    if type(value) is list:
        return _batch(value, batches)
    raise McpError(INVALID_REQUEST, "Invalid request: a message must be an object")


def message(value: dict[str, Any]) -> Message:
    """Sort one decoded object into request, notification or response."""
    method = value.get("method")
    id_ = value.get("id")
    if method is None and "method" not in value:
        return _response(value, id_)
    readable = _is_id(id_)
    if value.get("jsonrpc") != "2.0" or type(method) is not str or not method:
        raise _invalid('`jsonrpc` must be "2.0" and `method` a non-empty string', id_ if readable else None)
    if "result" in value or "error" in value:
        raise _invalid("a message has either `method`, or `result` or `error`", id_ if readable else None)
    params = value.get("params")
    if type(params) is not dict:
        if "params" in value:
            raise McpError(
                INVALID_PARAMS,
                "Invalid params: `params` must be an object",
                request_id=id_ if readable else None,
            )
        params = {}
    if readable:
        return Request(id_, method, params)  # type: ignore[arg-type]
    if "id" in value:
        raise _bad_id(id_)
    return Notification(method, params)


def _is_id(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= MAX_ID_CHARACTERS
    return type(value) is int and -MAX_ID_NUMBER < value < MAX_ID_NUMBER


def _bad_id(value: Any) -> McpError:
    if type(value) is str or type(value) is int:
        return _invalid(f"`id` is longer than {MAX_ID_CHARACTERS} characters")
    return _invalid("`id` must be a string or an integer")


def _response(value: dict[str, Any], id_: Any) -> Response:
    # The id is one of ours: echoing it would answer a request with an unrelated error.
    if value.get("jsonrpc") != "2.0" or not ("result" in value or "error" in value):
        raise _invalid("not a request, notification or response")
    if not _is_id(id_):
        raise _bad_id(id_)
    if "error" not in value:
        if type(value["result"]) is not dict:
            raise _invalid("`result` must be an object")
        return Response(id_, result=value["result"])
    error = value["error"]
    if "result" in value:
        raise _invalid("a response has `result` or `error`, not both")
    if type(error) is not dict or type(error.get("code")) is not int or type(error.get("message")) is not str:
        raise _invalid("`error` must be an object with an integer `code` and a string `message`")
    return Response(id_, error=error)


def _batch(values: list[Any], allowed: bool) -> list[Message]:
    if not allowed:
        raise _invalid("this protocol version has no batches")
    if not 1 <= len(values) <= MAX_BATCH_ENTRIES:
        raise _invalid(f"a batch has 1 to {MAX_BATCH_ENTRIES} messages")
    messages: list[Message] = []
    seen: set[RequestId] = set()
    for value in values:
        if type(value) is not dict:
            raise _invalid("a message must be an object")
        one = message(value)
        if isinstance(one, Request):
            if one.method == "initialize":
                raise _invalid("`initialize` must not be part of a batch", one.id)
            if one.id in seen:
                raise _invalid("two requests of a batch have the same `id`", one.id)
            seen.add(one.id)
        messages.append(one)
    return messages


def _invalid(reason: str, request_id: RequestId | None = None) -> McpError:
    return McpError(INVALID_REQUEST, f"Invalid request: {reason}", request_id=request_id)


def encode(message: Any) -> bytes:
    """Encode a message as one line of compact UTF-8; escape a lone surrogate from a tool instead of failing."""
    return _dump(message).encode("utf-8", "backslashreplace")  # writes a surrogate as JSON does


def encode_and_empty(message: dict[str, Any] | list[Any]) -> bytes:
    """Encode a message that nobody needs afterwards: what it was made of can be as large as its text."""
    text = _dump(message)
    message.clear()
    return text.encode("utf-8", "backslashreplace")


def result(id_: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error(id_: RequestId | None, error: McpError) -> dict[str, Any]:
    """Build an error answer; JSON-RPC requires a null `id` when the request's id was not readable."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": id_, "error": body}


def notification(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    if params is None:
        return {"jsonrpc": "2.0", "method": method}
    return {"jsonrpc": "2.0", "method": method, "params": params}


def request(id_: RequestId, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    if params is None:
        return {"jsonrpc": "2.0", "id": id_, "method": method}
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
