"""Settings of a tool of the HTTP API runner."""

from __future__ import annotations

import re
from typing import Literal

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from catalog.runners.hints import DESCRIPTION, MAX_HINTS, Hint
from catalog.runners.http_api.json_path import parse_path
from catalog.runners.secret_refs import SecretRef, Text, Value
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
CREDENTIAL_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "host"})
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;\s*[A-Za-z0-9_.-]+=[\x20-\x7e]+)*")
Names = dict[str, str]
Texts = dict[str, Text]


class FilePart(BaseModel):
    """A file of a multipart body."""

    model_config = ConfigDict(extra="forbid")

    argument: str = Field(description=_("The argument that holds the content, in Base64."))
    filename: str = Field(default="file", max_length=255, description=_("The file name that is sent."))
    filename_argument: str = Field(
        default="", description=_("The argument that holds the file name, instead of a fixed name.")
    )
    content_type: str = Field(default="application/octet-stream", description=_("The MIME type that is sent."))

    @field_validator("content_type")
    @classmethod
    def _check_content_type(cls, value: str) -> str:
        if not MEDIA_TYPE.fullmatch(value):
            raise SettingsProblem(_("enter a MIME type such as image/png"))
        return value


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    method: Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] = Field(
        default="GET", description=_("The method of the request.")
    )
    url: str = Field(max_length=2000, description=_("Use {argument} placeholders in the path; the host is fixed."))
    query: Names = Field(default_factory=dict, description=_("Maps names in the query to arguments."))
    query_lists: Literal["repeat", "comma"] = Field(
        default="repeat", description=_("Lists in the query: tag=a&tag=b (repeat) or tag=a,b (comma).")
    )
    headers: Names = Field(default_factory=dict, description=_("Maps header names to arguments."))
    cookies: Names = Field(default_factory=dict, description=_("Maps cookie names to arguments."))
    body: Names | Literal["*"] | None = Field(
        default=None,
        description=_('Maps names in the body to arguments. "*" sends every argument that is not used elsewhere.'),
    )
    body_argument: str = Field(default="", description=_("The argument that is the whole body, instead of `body`."))
    body_format: Literal["json", "form", "multipart", "text", "base64"] = Field(
        default="json",
        description=_("Format of the body. text and base64 need body_argument. base64 is decoded before sending."),
    )
    content_type: str = Field(
        default="", max_length=200, description=_("The MIME type of the body, instead of the default.")
    )
    files: dict[str, FilePart] = Field(
        default_factory=dict,
        description=_("Files of a multipart body. Map each name in the body to the argument that holds the file."),
    )
    static_query: Texts = Field(
        default_factory=dict, description=_("Always sent in the query. A value may be a secret.")
    )
    static_headers: Texts = Field(default_factory=dict, description=_("Always sent. A value may be a secret."))
    static_cookies: Texts = Field(default_factory=dict, description=_("Always sent. A value may be a secret."))
    static_body: dict[str, Value] = Field(
        default_factory=dict,
        description=_("Always sent in the body, regardless of the arguments. Any value in it may be a secret."),
    )
    response: Literal["json", "text", "auto", "image", "audio", "binary"] = Field(
        default="auto",
        description=_(
            "The type of the result. auto uses the type of the response. Images and audio are checked by their bytes."
        ),
    )
    select: str = Field(
        default="",
        max_length=500,
        description=_("Path to the part of a JSON response to keep, such as $.items[0].name."),
    )
    keep: list[str] = Field(
        default_factory=list,
        max_length=100,
        description=_("Keys to keep in the selected object or in each selected object. Empty: keep all."),
    )
    timeout: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description=_("Time limit for each attempt, in seconds. The tool's own time limit also applies."),
    )
    max_response_bytes: int = Field(
        default=4_194_304,
        ge=1,
        le=67_108_864,
        description=_("Maximum size of the response after decompression. A larger response is an error."),
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=5,
        description=_(
            "Additional attempts after a connection failure or a 502, 503 or 504 response. Only GET, HEAD, "
            "OPTIONS, PUT and DELETE are retried, and only within the time limit."
        ),
    )
    break_after: int = Field(
        default=10,
        ge=0,
        le=1000,
        description=_("Number of consecutive failures after which calls to the host pause. 0 means no pause."),
    )
    break_seconds: float = Field(
        default=30.0, gt=0, le=3600, description=_("Seconds of pause before one call tries the host again.")
    )
    hints: list[Hint] = Field(default_factory=list, max_length=MAX_HINTS, description=DESCRIPTION)
    max_concurrent: int = Field(
        default=16,
        ge=1,
        le=1000,
        description=_("Maximum number of concurrent calls of this tool. One user gets three quarters of them."),
    )
    wait_seconds: float = Field(
        default=2.0,
        ge=0,
        le=60,
        description=_("Seconds that a further call waits before the client learns that the tool is busy."),
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        host_and_path = url.partition("://")[2]
        host, _slash, rest = host_and_path.partition("/")
        if "{" in host or "{" in url.partition("://")[0]:
            raise SettingsProblem(_("an argument can be in the path, but not in the scheme or host"))
        if "?" in url or "#" in url:
            raise SettingsProblem(_("the URL cannot contain a query or fragment. Use query and static_query"))
        if any(not name.isidentifier() for name in PLACEHOLDER.findall(rest)) or "{" in PLACEHOLDER.sub("", rest):
            raise SettingsProblem(_("the only braces allowed in the path are {argument} placeholders"))
        try:
            egress.parse_url(PLACEHOLDER.sub("x", url))
        except egress.DeniedAddress as error:
            raise SettingsProblem("%(why)s", why=error) from None
        return url

    @field_validator("headers", "static_headers", "cookies", "static_cookies")
    @classmethod
    def _check_names(cls, given: dict[str, Text]) -> dict[str, Text]:
        for name in given:
            if not TOKEN.fullmatch(name):
                raise SettingsProblem(_("%(name)s is not a valid header or cookie name"), name=repr(name))
        return given

    @field_validator("headers")
    @classmethod
    def _check_no_credentials(cls, headers: Names) -> Names:
        for name in headers:
            if name.lower() in CREDENTIAL_HEADERS:
                raise SettingsProblem(_("%(name)s cannot be filled from an argument"), name=name)
        return headers

    @field_validator("content_type")
    @classmethod
    def _check_content_type(cls, value: str) -> str:
        if value and not MEDIA_TYPE.fullmatch(value):
            raise SettingsProblem(_("enter a MIME type such as application/json"))
        return value

    @field_validator("select")
    @classmethod
    def _check_selection(cls, path: str) -> str:
        parse_path(path)
        return path

    @model_validator(mode="after")
    def _check_combination(self) -> Settings:
        has_body = self.body is not None or self.static_body or self.body_argument or self.files
        if has_body and self.method not in BODY_METHODS:
            raise SettingsProblem(_("%(method)s requests cannot have a body"), method=self.method)
        if self.body_argument and (self.body is not None or self.static_body or self.files):
            raise SettingsProblem(_("body_argument is the whole body. Remove body, static_body and files"))
        if self.body_format in ("text", "base64") and not self.body_argument:
            raise SettingsProblem(_("the body format %(format)s needs body_argument"), format=self.body_format)
        if self.body_argument and self.body_format in ("form", "multipart"):
            raise SettingsProblem(
                _("the body format %(format)s needs body, not body_argument"), format=self.body_format
            )
        if self.files and self.body_format != "multipart":
            raise SettingsProblem(_("files need the body_format multipart"))
        if self.content_type and self.body_format == "multipart":
            raise SettingsProblem(_("a multipart body sets its own content type. Remove content_type"))
        if (self.select or self.keep) and self.response not in ("json", "auto"):
            raise SettingsProblem(_("select and keep need a JSON response"))
        fixed = [name.lower() for name in (*self.static_headers, *self.headers)]
        if (self.cookies or self.static_cookies) and "cookie" in fixed:
            raise SettingsProblem(
                _("set cookies either in cookies and static_cookies or in the Cookie header, not in both")
            )
        if len(set(fixed)) != len(fixed):
            raise SettingsProblem(_("a header is set twice. Keep one of them"))
        if "content-type" in fixed and self.content_type:
            raise SettingsProblem(_("the content type is set twice: in a header and in content_type. Remove one"))
        return self

    @property
    def base(self) -> str:
        """The common prefix of every URL of this tool."""
        start, brace, _ = self.url.partition("{")
        return start[: start.rindex("/") + 1] if brace else self.url


__all__ = ["IDEMPOTENT_METHODS", "PLACEHOLDER", "FilePart", "SecretRef", "Settings"]
