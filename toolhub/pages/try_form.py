"""What a person types to try a tool: the arguments and the user, and the answers to a tool's questions."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext as _

from audit import texts
from catalog import schemas
from catalog.models import Tool
from catalog.questions import Elicit
from toolhub.access.trying import MAY_TRY_AS
from toolhub.pages import try_fields


class Refused(Exception):
    """Nothing runs. `where` is the id of a field, or empty for the form as a whole."""

    def __init__(self, message: str, where: str = "", call_id: UUID | None = None) -> None:
        super().__init__(message)
        self.message, self.where, self.call_id = message, where, call_id


class Form:
    """The arguments and the user, as they are typed now."""

    def __init__(self, request: HttpRequest, tool: Tool) -> None:
        actor = cast(User, request.user)
        self.tool, self.actor = tool, actor
        self.fields = try_fields.fields_of(tool.input_schema)
        data = request.POST if request.method == "POST" else None
        self.may_choose = actor.has_perm(MAY_TRY_AS)
        self.as_json = (data or request.GET).get("mode") == "json" or (not self.fields and bool(data))
        self.text, self.error = "{}", ""
        self.username = request.GET.get("user", "")[:150] or actor.get_username()
        self.user_error = ""
        if data is not None:
            self.username = data.get("user", "").strip()[:150] or actor.get_username()
            self.text = data.get(try_fields.WHOLE, "{}")
            if not self.as_json:
                try_fields.fill_fields(self.fields, data)

    def show(self, state: dict[str, Any]) -> None:
        """Filled as for a call that was tried."""
        try_fields.fill_values(self.fields, state["arguments"])
        self.text, self.username = try_fields.as_json(state["arguments"], indent=2), state["user"]

    def switch(self) -> None:
        """From fields to JSON, or back, with what is typed."""
        if self.as_json:
            try:
                try_fields.fill_values(self.fields, try_fields.whole(self.text))
            except ValueError as error:
                self.error = str(error)
                return
        else:
            self.text = try_fields.as_json(try_fields.read_arguments(self.fields) or {}, indent=2)
            for field in self.fields:
                field.error = ""
        self.as_json = not self.as_json

    def arguments(self) -> dict[str, Any]:
        """Raises Refused when they cannot be read."""
        if self.as_json:
            try:
                return try_fields.whole(self.text)
            except (ValueError, RecursionError) as error:
                raise Refused(str(error), try_fields.WHOLE) from None
        found = try_fields.read_arguments(self.fields)
        if found is None:
            raise Refused(_("Look at the fields that are marked."))
        return found

    def user(self) -> User:
        """Raises Refused for an unknown one, PermissionDenied for one that this person may not choose."""
        if self.username == self.actor.get_username():
            return self.actor
        if not self.may_choose:
            raise PermissionDenied
        found = get_user_model().objects.filter(username=self.username).first()
        if found is None:
            raise Refused(_("There is no user of this name."), "user")
        return found

    def blame(self, refused: Refused) -> None:
        if refused.where == "user":
            self.user_error = refused.message
        else:
            self.error = refused.message

    def errors(self) -> dict[str, str]:
        """By the id of the field."""
        found = {field.id: field.error for field in self.fields if field.error and not self.as_json}
        return {**found, **({"user": self.user_error} if self.user_error else {})}


class Question:
    """One question of a tool, as a form."""

    def __init__(self, key: str, method: str, params: dict[str, Any]) -> None:
        self.key, self.params = key, params
        self.message = texts.visible(str(params.get("message", ""))[:5000])
        self.url = str(params.get("url", "")) if params.get("mode") == "url" else ""
        self.schema = params.get("requestedSchema") if not self.url else None
        self.fields = try_fields.fields_of(self.schema) if isinstance(self.schema, dict) else None
        for field in self.fields or ():
            field.number += 10_000  # beside the fields of the tool on one page
        self.error = ""

    @property
    def href(self) -> str:
        return self.url if self.url.startswith(("https://", "http://")) else ""

    def read(self, data: Any) -> dict[str, Any] | None:
        """The values, or None when they do not fit; then the fields say why."""
        assert self.fields is not None  # noqa: S101 - only a form is read
        try_fields.fill_fields(self.fields, data)
        content = try_fields.read_arguments(self.fields)
        if content is None:
            return None
        schema = Elicit(self.message, cast("dict[str, Any]", self.schema)).requested()
        problem = schemas.validator(f"elicit:{try_fields.digest(schema)}", schema)(content)
        if problem is None:
            return content
        self.error = try_fields.place_error(self.fields, problem)
        return None
