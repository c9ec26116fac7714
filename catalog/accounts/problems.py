"""Why an account cannot be connected, as codes. Pages make the sentences (`describe`)."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from toolhub import contact
from toolhub.contact import Sentence


class AccountProblem(Exception):
    """A reason why an account cannot be connected, or why its tokens cannot be refreshed: a code and its parameters."""

    def __init__(self, code: str, **params: object) -> None:
        super().__init__(f"{code}: {params}" if params else code)
        self.code, self.params = code, params


SENTENCES: dict[str, Promise] = {
    "unreachable": _("%(where)s did not give a usable answer: %(why)s. Try again, or tell %(contact)s."),
    "status": _("%(where)s answered with HTTP status %(status)s. Try again, or tell %(contact)s."),
    "insecure": _("%(where)s is not an https address, so nothing is sent there. Tell %(contact)s."),
    "not_metadata": _("The metadata at %(where)s cannot be read. Tell %(contact)s."),
    "other_resource": _(
        "The service says that it is %(found)s. That does not belong to the address %(where)s. Tell %(contact)s."
    ),
    "other_issuer": _(
        "The authorization server at %(where)s says that it is %(found)s, so it is not trusted. Tell %(contact)s."
    ),
    "issuer_not_listed": _(
        "The service does not trust the authorization server %(where)s: it names others. Tell %(contact)s."
    ),
    "no_server": _(
        "Nothing at %(where)s says where to sign in. Tell %(contact)s: the issuer or the endpoints must be entered."
    ),
    "no_pkce": _(
        "The authorization server %(where)s does not support PKCE with S256, so a sign-in there would not be safe. "
        "Tell %(contact)s."
    ),
    "no_client": _(
        "%(where)s does not let clients register themselves. Ask %(contact)s to register this server there, with the "
        "redirect address %(redirect)s, and to enter the client ID."
    ),
    "no_issuer": _(
        "The client ID for %(where)s belongs to no authorization server. Ask %(contact)s to enter the issuer where it "
        "is registered."
    ),
    "registration": _("%(where)s did not register this server: %(why)s. Tell %(contact)s."),
    "client_secret": _("The client secret can no longer be read. Ask %(contact)s to enter it again."),
    "keys": _("Accounts cannot be connected yet. Ask %(contact)s to set up TOOLHUB_ENCRYPTION_KEYS."),
    "state": _("This sign-in is too old, was used before, or began in another browser. Connect again."),
    "other_answer": _("The answer came from %(found)s and not from %(where)s, so it was not used. Connect again."),
    "declined": _("You did not allow the access at %(where)s. Nothing was connected."),
    "error": _("%(where)s answered with an error: %(why)s. Connect again, or tell %(contact)s."),
    "no_code": _("The answer of %(where)s has no authorization code. Connect again, or tell %(contact)s."),
    "changed": _("The settings of this account changed in the meantime. Connect again."),
    "no_token": _("%(where)s sent no token that can be used: %(why)s. Connect again, or tell %(contact)s."),
    "too_many": _("You began too many sign-ins. Try again in ten minutes."),
}


def describe(problem: AccountProblem) -> Sentence:
    """Return the problem as a sentence for a page, in its language."""
    return contact.fill(SENTENCES[problem.code], **problem.params)
