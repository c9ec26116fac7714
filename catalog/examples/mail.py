"""An example tool that sends mail through the server of TOOLHUB_SMTP_URL."""

from __future__ import annotations

import smtplib
from dataclasses import dataclass
from typing import Annotated

from django.conf import settings
from django.core.mail import EmailMessage
from pydantic import Field

from catalog.examples.results import Facts, with_sentence
from catalog.functions import result_schema, tool
from catalog.functions.content import Structured, ToolError
from toolhub import contact

MAX_RECIPIENTS = 10
_Address = Annotated[str, Field(max_length=254, pattern=r"^[^\s@<>,;:\"\\()\[\]]{1,64}@[A-Za-z0-9.-]{1,189}$")]


@dataclass(slots=True)
class Sent(Facts):
    to: list[str]
    """The recipients."""
    subject: str
    """The subject."""


@tool(
    title="Send an email",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=True,
    output_schema=result_schema(Sent),
)
def send_email(
    to: Annotated[
        list[_Address],
        Field(description="Addresses of the recipients, at most 10.", min_length=1, max_length=MAX_RECIPIENTS),
    ],
    subject: Annotated[
        str, Field(description="What it is about, on one line.", min_length=1, max_length=200, pattern=r"^[^\r\n]+$")
    ],
    body: Annotated[str, Field(description="The text of the mail, without HTML.", min_length=1, max_length=50_000)],
) -> Structured:
    """Send one email as plain text from the address of this hub. Use it only when the person asked for a mail and has
    seen the recipients and the text: mail cannot be called back. Not idempotent: each call sends another mail. Returns
    the recipients, or names those that the server refused.
    """
    if not settings.EMAIL_HOST:
        raise ToolError(f"Mail is not set up. Ask {contact.english()} to set TOOLHUB_SMTP_URL.")
    message = EmailMessage(subject, body, settings.DEFAULT_FROM_EMAIL, to)
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        refused = ", ".join(sorted(error.recipients))[:500]
        raise ToolError(f"The mail server refused these recipients: {refused}. Check the addresses.") from None
    except (smtplib.SMTPException, OSError) as error:
        raise ToolError(
            f"The mail could not be sent ({type(error).__name__}). Ask {contact.english()} to check the mail server."
        ) from error
    return with_sentence(Sent(to, subject), f"Sent {subject!r} to {', '.join(to)}.")
