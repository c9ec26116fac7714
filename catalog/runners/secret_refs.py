"""Values in a runner's settings that may refer to a secret by its name instead of holding the text itself.

Wherever a text may hold a credential, `{"secret": "github_token", "prefix": "Bearer "}` may replace it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from audit.redaction.redactor import is_secret_name
from toolhub.invisible import show

NAME = r"[a-z0-9_]{1,64}"
LABELS: dict[str, Promise] = {"secret": _("Secret"), "prefix": _("Prefix"), "encoding": _("Encoding")}
"""The labels of a reference in the forms of runners."""


class SecretRef(BaseModel):
    """A secret by its name; what it says is filled in when the request is built."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: str = Field(pattern=f"^{NAME}$", description=gettext_noop("The name of a secret, shared or personal."))
    prefix: str = Field(
        default="", max_length=200, description=gettext_noop('Text before the value, such as "Bearer ".')
    )
    encoding: Literal["plain", "base64"] = Field(
        default="plain", description=gettext_noop("base64 is for HTTP Basic. The secret must then be user:password.")
    )


Text = str | SecretRef


def _with_references(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("secret"), str) and value.keys() <= SecretRef.model_fields.keys():
            return SecretRef.model_validate(value)
        return {name: _with_references(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_references(inner) for inner in value]
    return value


Value = Annotated[Any, BeforeValidator(_with_references)]
"""Any JSON value; an object {"secret": ...} anywhere in it is a reference."""


def references(settings: Any) -> Iterator[tuple[tuple[str, ...], SecretRef]]:
    """Yield (place, reference) for every reference in settings (a model, or plain values out of one).

    A place is the path of names and indexes, such as ("static_headers", "Authorization").
    """
    pending: list[tuple[tuple[str, ...], Any]] = [((), settings)]
    while pending:
        place, item = pending.pop()
        if isinstance(item, SecretRef):
            yield place, item
        elif isinstance(item, BaseModel):
            pending.extend(((*place, name), getattr(item, name)) for name in type(item).model_fields)
        elif isinstance(item, Mapping):
            pending.extend(((*place, str(name)), inner) for name, inner in item.items())
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending.extend(((*place, str(number)), inner) for number, inner in enumerate(item))


def names(settings: Any) -> frozenset[str]:
    """Return the names of all secrets that settings (a model, or plain values out of one) refer to."""
    return frozenset(reference.secret for _place, reference in references(settings))


def reveal(value: Text, secrets: Mapping[str, str]) -> str:
    """Return the text itself. Raises KeyError when the secret is not among `secrets`."""
    if isinstance(value, str):
        return value
    text = secrets[value.secret]
    if value.encoding == "base64":
        text = base64.b64encode(text.encode()).decode()
    return value.prefix + text


def reveal_all(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return the same value with every reference in it replaced by its text."""
    if isinstance(value, SecretRef):
        return reveal(value, secrets)
    if isinstance(value, dict):
        return {name: reveal_all(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [reveal_all(inner, secrets) for inner in value]
    return value


def advise_on_plain_values(settings: Any, *members: str) -> Iterator[str]:
    """Yield a suggestion for each value in these members of stored settings that looks like a credential in clear."""
    for member in members:
        values = settings.get(member) if isinstance(settings, Mapping) else None
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, str) and value and is_secret_name(str(name)):
                yield gettext(
                    "%(name)s looks like a credential in clear. Everyone who can view the tool, its history or an "
                    "export can read it. Store it as a secret."
                ) % {"name": show(str(name))}
