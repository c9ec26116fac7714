"""The sentences about warnings of a review, made from their codes in the language of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.reviews.changes import Path
from catalog.reviews.risks import HIGH, MEDIUM, Risk
from toolhub import invisible
from toolhub.chinese import close_blanks

MAX_PLACE_CHARACTERS = 120
"""A place in a sentence is cut; the page shows it whole beside the change."""

LABELS: Mapping[str, str | Promise] = {
    "name": gettext_lazy("Name at its source"),
    "uri": gettext_lazy("Address at its source"),
    "uriTemplate": gettext_lazy("Address template at its source"),
    "title": gettext_lazy("Title"),
    "description": gettext_lazy("Description"),
    "inputSchema": gettext_lazy("Input schema"),
    "outputSchema": gettext_lazy("Output schema"),
    "annotations": gettext_lazy("Annotations"),
    "settings": gettext_lazy("Tool type settings"),
    "arguments": gettext_lazy("Arguments"),
    "mimeType": gettext_lazy("MIME type"),
    "text": gettext_lazy("Content"),
    "blob": gettext_lazy("Content in Base64"),
    "icons": gettext_lazy("Icons"),
    "ui": gettext_lazy("App"),
}
LEVELS: Mapping[int, Promise] = {HIGH: gettext_lazy("Danger"), MEDIUM: gettext_lazy("Check")}
"""The label of a level; one that is not here is only information."""
SENTENCES: Mapping[str, str | Promise] = {
    "invisible": gettext_lazy(
        "New invisible characters in %(where)s (%(number)s): %(names)s. People do not see them, but models read them."
    ),
    "steering": gettext_lazy(
        "“%(text)s” in %(where)s tells the model what to do or to hide. A model may follow it in every conversation. "
        "Reject it unless you know why it is there."
    ),
    "lookalike": gettext_lazy(
        "%(where)s has letters of another script that look like Latin ones: %(words)s. They can imitate a known name."
    ),
    "marks": gettext_lazy("%(where)s has letters with many marks, which cover the lines around them."),
    "long_name": gettext_lazy("“%(name)s” is too long for a name. It may be an instruction. Read all of it below."),
    "alike": gettext_lazy("%(where)s looks the same as before, but has other characters."),
    "blanks": gettext_lazy(
        "%(where)s has a long run of blanks before more text. It pushes this text out of sight in most clients."
    ),
    "too_long": gettext_lazy(
        "There is too much new text to search for dangers. From %(where)s on, it was not searched. Read all of it."
    ),
    "secret_sent": gettext_lazy("The secret %(secret)s would now be sent to %(destination)s."),
    "host": gettext_lazy("Requests would now go to %(after)s instead of %(before)s."),
    "method": gettext_lazy("Requests would now use %(after)s instead of %(before)s."),
    "settings": gettext_lazy("What the tool requests changed."),
    "parameter_confidential": gettext_lazy(
        "New parameters ask the model for something confidential: %(names)s. A model fills in what it knows."
    ),
    "parameter_new": gettext_lazy("“%(name)s” is a new parameter. Models fill it in from the conversation."),
    "parameter_gone": gettext_lazy("The parameter “%(name)s” is gone. Calls that pass it may fail."),
    "required_new": gettext_lazy("Now required: %(names)s. Calls without it fail."),
    "default": gettext_lazy("%(where)s is now “%(value)s”. It is used whenever a call leaves the argument out."),
    "links": gettext_lazy("%(where)s names new addresses: %(links)s."),
    "longer": gettext_lazy("%(where)s is %(number)s characters longer."),
    "content": gettext_lazy("%(where)s changed. Clients show it to people."),
    "read_only_now": gettext_lazy("It now says that it is read-only. Clients may run it without asking."),
    "read_only_lost": gettext_lazy("It no longer says that it is read-only: it may make changes."),
    "destructive_now": gettext_lazy("It now says that it is destructive: it may delete or overwrite."),
    "harmless_now": gettext_lazy("It now says that it is not destructive. Clients stop warning about it."),
}


def describe_risk(risk: Risk) -> str:
    """Return the sentence of a warning."""
    params: dict[str, Any] = {"where": describe_place(risk.member, risk.path), **risk.params}
    if "destination" in params:
        params["destination"] = params["destination"].label
    if isinstance(params.get("number"), int):
        params["number"] = f"{params['number']:,}"
    return close_blanks(str(SENTENCES[risk.code]) % params)


def describe_place(member: str, path: Path = ()) -> str:
    """Return where in a definition a value is, as in "Input schema › city › description"."""
    place = " › ".join((str(LABELS.get(member, member)), *name_path(path)))
    return place if len(place) <= MAX_PLACE_CHARACTERS else f"{place[:MAX_PLACE_CHARACTERS]}…"


def name_path(path: Path) -> list[str]:
    """Return the parts of a path for people: a parameter by its name, without the schema's words around it."""
    words = [name for number, name in enumerate(path) if name != "properties" or (number and path[number - 1] == name)]
    return [invisible.show(name) if name != "items" else _("each item") for name in words]
