"""Function signatures: the JSON Schema of arguments and result, and the conversion of arguments to parameters."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from catalog.errors import InvalidArguments
from catalog.functions.context import Context, SyncContext

Kind = Literal["tool", "prompt", "resource"]
PLAIN_TYPES = (str, bool, float, dict, list, Any, None, type(None))


@dataclass(slots=True)
class Function:
    """A registered function with everything derived from it."""

    kind: Kind
    name: str
    call: Callable[..., Any]
    is_async: bool
    context: str | None
    """The name of the parameter that takes the context."""
    parameters: frozenset[str]
    takes_any: bool
    """Whether the function has a **parameter."""
    defaults: dict[str, Any]
    """The values for parameters whose default is a pydantic Field, when they are not given."""
    convert: dict[str, Callable[[Any], Any]]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    title: str = ""
    description: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    """For a tool: the columns of its row that the decorator sets."""
    asks_before_task: bool = False
    arguments: list[dict[str, Any]] = field(default_factory=list)
    uri: str = ""
    mime_type: str = ""
    complete: dict[str, Callable[..., Any] | Sequence[str]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"{self.call.__module__}.{self.call.__qualname__}"

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return `arguments`, already checked against the schema, as keyword arguments for the function."""
        given = dict(arguments)
        if not self.takes_any and not given.keys() <= self.parameters:
            given = {name: value for name, value in given.items() if name in self.parameters}
        for name, default in self.defaults.items():
            given.setdefault(name, default)
        for name, convert in self.convert.items():
            if name in given:
                try:
                    given[name] = convert(given[name])
                except ValidationError as error:
                    raise InvalidArguments(f"{name}: {error.errors()[0]['msg']}") from None
        return given


class _UntitledSchema(GenerateJsonSchema):
    """A schema generator that omits the titles that repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def derive(kind: Kind, name: str, call: Callable[..., Any], input_schema: dict[str, Any] | None) -> Function:
    """Return the function with everything derived from the signature and the docstring of `call`.

    Raises TypeError when the signature cannot be used for a tool, prompt or resource.
    """
    try:
        hints = typing.get_type_hints(call, include_extras=True)
    except NameError as error:
        raise TypeError(f"{call.__qualname__}: the type hints name something unknown: {error}") from None
    context: str | None = None
    takes_any = False
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    convert: dict[str, Callable[[Any], Any]] = {}
    is_async = inspect.iscoroutinefunction(call)
    for parameter in inspect.signature(call).parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint in (Context, SyncContext):
            if is_async != (hint is Context):
                raise TypeError(f"{call.__qualname__}: an async function takes Context, any other takes SyncContext")
            context = parameter.name
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{call.__qualname__}: *{parameter.name} cannot be called by name")
        default = ... if parameter.default is parameter.empty else parameter.default
        if isinstance(default, FieldInfo) and not default.is_required():
            defaults[parameter.name] = default.get_default(call_default_factory=True)
        fields[parameter.name] = (hint, default)
        converter = _converter(hint)
        if converter is not None:
            convert[parameter.name] = converter
    schema = input_schema or _object_schema(call.__qualname__, fields, takes_any)
    return Function(
        kind=kind,
        name=name,
        call=call,
        is_async=is_async,
        context=context,
        parameters=frozenset(fields),
        takes_any=takes_any,
        defaults=defaults,
        convert=convert,
        input_schema=schema,
        output_schema=result_schema(hints.get("return")) if kind == "tool" else None,
        description=re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(call) or ""),
    )


def derive_arguments(function: Function) -> list[dict[str, Any]]:
    """Return the arguments of a prompt: name, title, description, required, enum."""
    required = set(function.input_schema.get("required", ()))
    found = []
    for name, schema in function.input_schema.get("properties", {}).items():
        argument: dict[str, Any] = {"name": name, "required": name in required}
        argument |= {key: schema[key] for key in ("title", "description", "enum") if key in schema}
        if "const" in schema:
            argument["enum"] = [schema["const"]]
        found.append(argument)
    return found


def _object_schema(name: str, fields: dict[str, Any], takes_any: bool) -> dict[str, Any]:
    model = create_model(name, __config__=ConfigDict(extra="allow" if takes_any else "forbid"), **fields)
    derived = model.model_json_schema(schema_generator=_UntitledSchema)
    schema: dict[str, Any] = {"type": "object", "properties": derived.get("properties", {})}
    schema |= {key: derived[key] for key in ("required", "$defs") if key in derived}
    return schema | {"additionalProperties": takes_any}


def result_schema(hint: Any) -> dict[str, Any] | None:
    """Return the schema of a result that is a pydantic model, a dataclass or a TypedDict; None for other results.

    For the `output_schema` of a function that returns a `Structured` or `Result`, whose type says too little.
    """
    if not isinstance(hint, type) or hint.__module__ == "catalog.functions.content":
        return None
    if not (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)):
        return None
    schema = TypeAdapter(hint).json_schema(schema_generator=_UntitledSchema, mode="serialization")
    schema.pop("title", None)
    return schema


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the converter for a hint; None when JSON data fits the hint unchanged and can be passed on directly."""
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if bare is int:
        return _to_int
    return None if _is_plain(bare) else TypeAdapter(hint).validate_python


def _is_plain(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is None:
        return hint in PLAIN_TYPES
    if origin is Literal:
        return True
    if origin is typing.Annotated:
        return _is_plain(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType, list, dict):
        return all(_is_plain(inner) for inner in typing.get_args(hint))
    return False


def _to_int(value: Any) -> Any:
    """Convert a float to int: 5.0 is an integer in JSON Schema, so a function with an `int` parameter gets 5."""
    return int(value) if isinstance(value, float) else value
