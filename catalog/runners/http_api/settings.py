"""What a tool of the HTTP API runner is set up with."""

from __future__ import annotations

import re
from typing import Literal

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from catalog.runners.http_api.json_path import parse_path
from catalog.runners.secret_refs import SecretRef, Text, Value
from toolhub import egress

FIELD = re.compile(r"\{([^{}]*)\}")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
BODY_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "host"})
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:\s*;\s*[A-Za-z0-9_.-]+=[\x20-\x7e]+)*")
Names = dict[str, str]
Texts = dict[str, Text]


class FilePart(BaseModel):
    """A file of a multipart body."""

    model_config = ConfigDict(extra="forbid")

    argument: str = Field(description="The argument that holds the content, as base64.")
    filename: str = Field(default="file", max_length=255, description="The file name that is sent.")
    filename_argument: str = Field(default="", description="The argument that holds the file name instead.")
    content_type: str = Field(default="application/octet-stream", description="The MIME type that is sent.")

    @field_validator("content_type")
    @classmethod
    def _it_is_a_type(cls, value: str) -> str:
        if not MEDIA_TYPE.fullmatch(value):
            raise ValueError(_("a MIME type looks like image/png"))
        return value


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    method: Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] = Field(
        default="GET", description="The method of the request."
    )
    url: str = Field(max_length=2000, description="May hold {argument} in its path, never in its host.")
    query: Names = Field(default_factory=dict, description="Name in the query: name of the argument.")
    query_lists: Literal["repeat", "comma"] = Field(
        default="repeat", description="A list in the query: tag=a&tag=b (repeat) or tag=a,b (comma)."
    )
    headers: Names = Field(default_factory=dict, description="Name of the header: name of the argument.")
    cookies: Names = Field(default_factory=dict, description="Name of the cookie: name of the argument.")
    body: Names | Literal["*"] | None = Field(
        default=None, description='Name in the body: name of the argument; "*" sends every argument not used elsewhere.'
    )
    body_argument: str = Field(default="", description="The argument that is the whole body, instead of `body`.")
    body_format: Literal["json", "form", "multipart", "text", "base64"] = Field(
        default="json",
        description="How the body is written. text and base64 (sent as the bytes it stands for) need body_argument.",
    )
    content_type: str = Field(default="", max_length=200, description="The type of the body, instead of the usual one.")
    files: dict[str, FilePart] = Field(
        default_factory=dict, description="Files of a multipart body: name in the body: which argument holds it."
    )
    static_query: Texts = Field(default_factory=dict, description="Always in the query; a value may be a secret.")
    static_headers: Texts = Field(default_factory=dict, description="Always sent; a value may be a secret.")
    static_cookies: Texts = Field(default_factory=dict, description="Always sent; a value may be a secret.")
    static_body: dict[str, Value] = Field(
        default_factory=dict, description="Always in the body, whatever the arguments say; secrets anywhere in it."
    )
    response: Literal["json", "text", "auto", "image", "audio", "binary"] = Field(
        default="json",
        description="What the answer becomes; auto decides by its type. Images and audio are checked by their bytes.",
    )
    select: str = Field(default="", max_length=500, description="What of a JSON answer is kept, as $.items[0].name.")
    keep: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Of what was selected, an object or a list of them, only these members are kept; empty: all.",
    )
    timeout: float = Field(default=20.0, gt=0, le=600, description="Seconds for each attempt, within the tool's own.")
    max_response_bytes: int = Field(
        default=4_194_304, ge=1, le=67_108_864, description="A larger answer is an error; counted when unpacked."
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=5,
        description="Further attempts when the connection fails or the answer is 502, 503 or 504; "
        "only for GET, HEAD, OPTIONS, PUT and DELETE, and only while the deadline allows it.",
    )
    break_after: int = Field(
        default=10,
        ge=0,
        le=1000,
        description="After so many failures in a row the host is left alone for a while; 0 never does that.",
    )
    break_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long it is left alone before one call tries again."
    )
    max_concurrent: int = Field(default=16, ge=1, le=1000, description="Calls of this tool at the same time.")
    wait_seconds: float = Field(
        default=2.0, ge=0, le=60, description="How long a further call waits before it is told that the tool is busy."
    )

    @field_validator("url")
    @classmethod
    def _the_host_is_fixed(cls, url: str) -> str:
        host_and_path = url.partition("://")[2]
        host, _slash, rest = host_and_path.partition("/")
        if "{" in host or "{" in url.partition("://")[0]:
            raise ValueError(_("an argument may stand in the path, not in the scheme or host"))
        if "?" in url or "#" in url:
            raise ValueError(_("put the query into query and static_query"))
        if any(not name.isidentifier() for name in FIELD.findall(rest)) or "{" in FIELD.sub("", rest):
            raise ValueError(_("the path holds {argument} and no other braces"))
        try:
            egress.parse_url(FIELD.sub("x", url))
        except egress.DeniedAddress as error:
            raise ValueError(error.in_words) from None
        return url

    @field_validator("headers", "static_headers", "cookies", "static_cookies")
    @classmethod
    def _names_are_names(cls, given: dict[str, Text]) -> dict[str, Text]:
        for name in given:
            if not TOKEN.fullmatch(name):
                raise ValueError(_("%(name)s is not the name of a header or cookie") % {"name": repr(name)})
        return given

    @field_validator("headers")
    @classmethod
    def _arguments_are_no_credentials(cls, headers: Names) -> Names:
        for name in headers:
            if name.lower() in CREDENTIALS:
                raise ValueError(_("%(name)s must not come from an argument") % {"name": name})
        return headers

    @field_validator("content_type")
    @classmethod
    def _the_type_is_one(cls, value: str) -> str:
        if value and not MEDIA_TYPE.fullmatch(value):
            raise ValueError(_("a MIME type looks like application/json"))
        return value

    @field_validator("select")
    @classmethod
    def _the_selection_is_one(cls, path: str) -> str:
        parse_path(path)
        return path

    @model_validator(mode="after")
    def _it_fits_together(self) -> Settings:
        has_body = self.body is not None or self.static_body or self.body_argument or self.files
        if has_body and self.method not in BODY_METHODS:
            raise ValueError(_("%(method)s takes no body") % {"method": self.method})
        if self.body_argument and (self.body is not None or self.static_body or self.files):
            raise ValueError(_("body_argument is the whole body: leave body, static_body and files out"))
        if self.body_format in ("text", "base64") and not self.body_argument:
            raise ValueError(_("a body as %(format)s needs body_argument") % {"format": self.body_format})
        if self.body_argument and self.body_format in ("form", "multipart"):
            raise ValueError(_("a body as %(format)s has names: use body") % {"format": self.body_format})
        if self.files and self.body_format != "multipart":
            raise ValueError(_("files need body_format multipart"))
        if self.content_type and self.body_format == "multipart":
            raise ValueError(_("the type of a multipart body is made with it: leave content_type out"))
        if (self.select or self.keep) and self.response not in ("json", "auto"):
            raise ValueError(_("select and keep: needs a JSON response"))
        fixed = [name.lower() for name in (*self.static_headers, *self.headers)]
        if (self.cookies or self.static_cookies) and "cookie" in fixed:
            raise ValueError(_("cookies go into cookies and static_cookies, or into the header, not both"))
        if len(set(fixed)) != len(fixed):
            raise ValueError(_("a header is named twice"))
        if "content-type" in fixed and self.content_type:
            raise ValueError(_("the type of the body is named twice: in a header and as content_type"))
        return self

    @property
    def base(self) -> str:
        """What every address of this tool stays below."""
        start, brace, _ = self.url.partition("{")
        return start[: start.rindex("/") + 1] if brace else self.url


__all__ = ["FIELD", "IDEMPOTENT", "FilePart", "SecretRef", "Settings"]
