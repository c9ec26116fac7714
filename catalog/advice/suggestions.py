"""A suggestion: its code, where it applies, and its sentence in the language of the reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from toolhub import invisible

MAX_LISTED_NAMES = 8

TEXTS: dict[str, str | Promise] = {
    # The name.
    "name_long": gettext_lazy("The name is longer than %(most)d characters. Many clients reject or shorten it."),
    "name_dot": gettext_lazy(
        "The name contains a dot. Some clients accept only letters, digits, underscore and hyphen."
    ),
    "name_single_word": gettext_lazy(
        '"%(name)s" is likely to collide with a tool of another server. Make it specific, as in %(name)s_orders.'
    ),
    "name_joins": gettext_lazy("The name joins several actions. Models choose better when each tool does one thing."),
    # The description.
    "description_short": gettext_lazy(
        "The description is very short. Say what the tool does, when to use it, and its side effects."
    ),
    "description_long": gettext_lazy(
        "The description has about %(tokens)s tokens. Every model reads all of them in every conversation."
    ),
    "description_repeats_name": gettext_lazy(
        "The description only repeats the name. Say what the result is for, when to use the tool, and its side effects."
    ),
    "description_opening": gettext_lazy(
        'The description starts with "%(words)s". Start with what the tool does: models compare tools by '
        "the first words."
    ),
    "usage_missing": gettext_lazy(
        "The description does not say when to use the tool. Models then guess or choose another tool."
    ),
    "result_missing": gettext_lazy(
        "Neither an output schema nor the description says what the tool returns. Models then plan with guesses."
    ),
    "result_undescribed": gettext_lazy(
        "Fields of the result without a description: %(names)s. Models use descriptions to read a result."
    ),
    "failure_missing": gettext_lazy(
        "The tool makes changes, but the description does not say what happens when it fails, for example when the "
        "item does not exist or already exists. Models then repeat the call or give up."
    ),
    "undo_missing": gettext_lazy(
        "The description does not say whether the change can be undone. People and models decide by that."
    ),
    # Parameters.
    "parameter_undescribed": gettext_lazy(
        "Arguments without a description: %(names)s. Models use descriptions to fill in arguments."
    ),
    "parameter_untyped": gettext_lazy(
        "Arguments without a type: %(names)s. Models then guess between text, numbers and lists."
    ),
    "parameter_unknown_allowed": gettext_lazy(
        'A misspelled argument is silently ignored. Add "additionalProperties": false to reject it.'
    ),
    "choices_in_text": gettext_lazy("The description lists the choices of %(names)s. Use an enum to enforce them."),
    "default_in_text": gettext_lazy(
        "The description names a default of %(names)s. Put it in the schema to fill it in automatically."
    ),
    "parameter_nested": gettext_lazy("Objects inside arguments: %(names)s. Models fill flat parameters more reliably."),
    "size_unlimited": gettext_lazy(
        "No size limit (maxLength, maxItems): %(names)s. A model in a loop can send very large values."
    ),
    "number_unlimited": gettext_lazy(
        "No range (minimum, maximum): %(names)s. Models send 0, -1 or a million to mean “all”."
    ),
    "example_missing": gettext_lazy(
        "The values of %(names)s follow a format, but there is no example. Add one with “examples”, or in the "
        "description."
    ),
    "parameters_many": gettext_lazy(
        "The tool has %(number)d parameters. Models forget or invent some when there are more than %(most)d. "
        "Split the tool, or remove those that rarely change."
    ),
    "parameter_credential": gettext_lazy(
        "Arguments that look like credentials: %(names)s. Models must not see credentials, and arguments are logged. "
        "Save them under Secrets, and use them in the settings of the tool."
    ),
    "several_actions": gettext_lazy(
        '"%(name)s" chooses between several actions. Models choose better when each tool does one thing.'
    ),
    # Annotations.
    "read_only_undeclared": gettext_lazy(
        "Declare whether the tool is read-only. Clients ask before they run tools that may make changes."
    ),
    "destructive_undeclared": gettext_lazy("The tool makes changes. Declare whether it is destructive."),
    "idempotent_undeclared": gettext_lazy(
        "The tool makes changes. Declare whether it is idempotent: clients repeat only such calls after a timeout."
    ),
    "read_only_contradicted": gettext_lazy(
        "The tool is declared read-only, but %(word)s makes changes. Clients may run it without asking."
    ),
    "changes_contradicted": gettext_lazy(
        "The tool is not declared read-only, but %(word)s sounds like reading. Clients ask before each call."
    ),
    "destructive_contradicted": gettext_lazy(
        "The tool is declared non-destructive, but it deletes. Clients will not warn."
    ),
    # Texts that steer a model.
    "injection": gettext_lazy(
        "“%(text)s” in %(where)s tells the model what to do or to hide. A model may follow it in every conversation. "
        "Remove it unless you know why it is there."
    ),
    "invisible": gettext_lazy(
        "%(where)s contains invisible characters. Models read them, but people do not see them. Remove them."
    ),
    # Beside other tools.
    "similar_name": gettext_lazy("The name is almost the same as %(name)s. Models may confuse the two."),
    "similar_description": gettext_lazy(
        "The description is almost the same as that of %(name)s. Say when to use which tool."
    ),
    "upsert_fits": gettext_lazy(
        "%(name)s takes the same arguments. One tool that creates or updates saves models a look-up and a wrong choice."
    ),
    # Prompts.
    "placeholder_unknown": gettext_lazy("{%(name)s} is not replaced, because there is no such argument."),
    "argument_unused": gettext_lazy('The argument "%(name)s" is never used.'),
    "runner": "%(sentence)s",
}
"""The sentence of each code. `names` is a list; `where` is a field of the definition or a path."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    code: str
    params: Mapping[str, Any] = field(default_factory=dict)
    """What the sentence names: names, numbers, words of the definition."""

    def __str__(self) -> str:
        params = dict(self.params)
        if "names" in params:
            params["names"] = _list(params["names"])
        return str(TEXTS[self.code]) % params

    def as_data(self) -> dict[str, Any]:
        """Return the suggestion for programs: its code, its parameters, and its sentence."""
        return {"code": self.code, "params": dict(self.params), "advice": str(self)}


def _list(names: Iterable[str]) -> str:
    known = list(names)
    shown = ", ".join(invisible.show(name) for name in known[:MAX_LISTED_NAMES])
    if len(known) > MAX_LISTED_NAMES:
        shown = _("%(names)s and %(number)d more") % {"names": shown, "number": len(known) - MAX_LISTED_NAMES}
    return shown
