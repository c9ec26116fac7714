"""Example tools for files. They stay in the workspace (TOOLHUB_WORKSPACE_DIR); links and special files are refused."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field

from catalog import workspace
from catalog.errors import ClientLacks
from catalog.examples.results import Facts, with_sentence
from catalog.functions import Context, prompt, resource, resource_updated, result_schema, tool
from catalog.functions.content import Structured, ToolError, User
from catalog.threads import tools as in_threads

ASK_ABOVE_BYTES = 100_000
"""Size from which on `delete_file` asks the person first."""
MAX_SEARCHED_FILES, MAX_SEARCHED_BYTES, MAX_LINE_CHARACTERS = 500, 1_000_000, 300
MAX_MATCHES = 100
_SENSITIVE = re.compile(
    r"(?:\.env(?:\..*)?|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg)|id_(?:rsa|dsa|ecdsa|ed25519)(?:\..*)?"
    r"|\.?(?:netrc|npmrc|pypirc|pgpass|htpasswd|git-credentials)|.*(?:credential|secret|password|token)s?(?:[._-].*)?"
    r"|\.ssh|\.aws|\.gnupg|\.kube|\.docker)",
    re.IGNORECASE,
)
"""Names of files and folders that usually hold keys, passwords or tokens."""
FilePath = Annotated[
    str,
    Field(
        description="Path relative to the workspace, with forward slashes, as in reports/2026.csv.",
        min_length=1,
        max_length=500,
    ),
]


@dataclass(slots=True)
class FileContent(Facts):
    path: str
    """The path that was asked for."""
    encoding: str
    """utf-8 or base64."""
    bytes: int
    """The size of the file."""
    content: str
    """The text of the file, or its bytes as base64."""


@tool(
    title="Read a file",
    read_only=True,
    idempotent=True,
    open_world=False,
    max_result_bytes=4_000_000,
    output_schema=result_schema(FileContent),
)
def read_file(
    path: FilePath,
    encoding: Annotated[
        Literal["utf-8", "base64"],
        Field(description="utf-8 for text; base64 for anything else, such as a picture or an archive."),
    ] = "utf-8",
) -> Structured:
    """Read a file of the workspace and return its whole content, up to 1 MB: text, or any bytes as base64. Use
    list_directory first when you do not know its path, and analyze_csv to calculate with a table. Changes nothing.
    """
    data = workspace.read(path)
    if encoding == "base64":
        text = base64.b64encode(data).decode("ascii")
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolError(f'{path!r} is not a text file in UTF-8. Read it with "encoding": "base64".') from None
    return with_sentence(FileContent(path, encoding, len(data), text), text)


@dataclass(slots=True)
class FileChange(Facts):
    path: str
    """The path of the file."""
    bytes: int
    """The size of the file now."""
    appended: bool
    """Whether the content was added at the end."""


@tool(
    title="Write a file",
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    max_argument_bytes=1_100_000,
    output_schema=result_schema(FileChange),
)
def write_file(
    path: FilePath,
    content: Annotated[str, Field(description="The text to write, up to 1 MB.", max_length=1_000_000)],
    append: Annotated[
        bool, Field(description="True adds the text to the end of the file; false replaces the whole file.")
    ] = False,
) -> Structured:
    """Write text to a file of the workspace, making the file and its folders when they are missing. An existing file is
    replaced unless append is true; the old content is then lost.
    """
    size = workspace.write(path, content.encode("utf-8", "replace"), append=append)
    announce(path)
    sentence = f"{'Added to' if append else 'Wrote'} {path}: it has {size} bytes now."
    return with_sentence(FileChange(path, size, append), sentence)


@dataclass(slots=True)
class Listing(Facts):
    entries: list[workspace.Entry]
    """Files and folders, sorted by path."""
    truncated: bool
    """Whether there are more entries than these."""


@tool(title="List a directory", read_only=True, idempotent=True, open_world=False)
def list_directory(
    path: Annotated[
        str, Field(description="Folder relative to the workspace; empty is the workspace itself.", max_length=500)
    ] = "",
    recursive: Annotated[bool, Field(description="True lists the folders inside as well.")] = False,
) -> Listing:
    """List the files and folders of a folder in the workspace with size and time of change, sorted by path, at most
    1000. Use it to find the path of a file before reading it. Changes nothing.
    """
    found, truncated = workspace.list_entries(path, recursive=recursive)
    return Listing(found, truncated)


@dataclass(slots=True)
class Match(Facts):
    path: str
    """The path of the file."""
    line: int
    """The number of the line; 0 when the name of the file matches."""
    text: str
    """The line."""


@dataclass(slots=True)
class Matches(Facts):
    matches: list[Match]
    """Lines and names of files that contain the text."""
    searched: int
    """The number of files."""
    truncated: bool
    """Whether there are more matches than these."""


@tool(title="Search files", read_only=True, idempotent=True, open_world=False)
def search_files(
    query: Annotated[
        str, Field(description="Text to look for, in any case of letters. Not a pattern.", min_length=1, max_length=200)
    ],
    path: Annotated[
        str, Field(description="Folder relative to the workspace; empty is the workspace itself.", max_length=500)
    ] = "",
) -> Matches:
    """Find a text in the names and lines of the files of a folder in the workspace and of the folders inside: at most
    100 matches in at most 500 text files of up to 1 MB. Use it when you do not know which file holds something. Changes
    nothing.
    """
    entries, more = workspace.list_entries(path, recursive=True)
    files = [entry for entry in entries if entry.type == "file"]
    wanted = query.casefold()
    found: list[Match] = []
    for entry in files[:MAX_SEARCHED_FILES]:
        if wanted in entry.path.rpartition("/")[2].casefold():
            found.append(Match(entry.path, 0, ""))
        if entry.size > MAX_SEARCHED_BYTES:
            continue
        try:
            text = workspace.read(entry.path, MAX_SEARCHED_BYTES).decode("utf-8")
        except (ToolError, UnicodeDecodeError):
            continue  # removed meanwhile, or not a text
        for number, line in enumerate(text.splitlines(), 1):
            if wanted in line.casefold():
                found.append(Match(entry.path, number, line.strip()[:MAX_LINE_CHARACTERS]))
                if len(found) > MAX_MATCHES:
                    return Matches(found[:MAX_MATCHES], len(files), True)
    return Matches(found[:MAX_MATCHES], min(len(files), MAX_SEARCHED_FILES), more or len(files) > MAX_SEARCHED_FILES)


@dataclass(slots=True)
class Deleted(Facts):
    path: str
    """The path that was asked for."""
    deleted: bool
    """False when the person did not agree."""


class _Confirmation(BaseModel):
    delete: bool = Field(description="Delete the file for good.")


@tool(
    title="Delete a file",
    read_only=False,
    destructive=True,
    idempotent=True,
    open_world=False,
    timeout=600,
    output_schema=result_schema(Deleted),
)
async def delete_file(ctx: Context, path: FilePath) -> Structured:
    """Delete one file of the workspace for good. There is no way to get it back: ask the person first. Folders are
    refused, and so are files whose names say that they hold keys, passwords or tokens. The person is asked before a
    file of more than 100 kB is deleted."""
    if any(_SENSITIVE.fullmatch(step) for step in workspace.split_path(path)):
        raise ToolError(
            f"{path!r} looks like a file with keys, passwords or tokens, and is not deleted. Ask a person to delete it."
        )
    size = await in_threads().run(lambda: workspace.size_of(path))
    if size > ASK_ABOVE_BYTES and not await _is_confirmed(ctx, path, size):
        return with_sentence(Deleted(path, False), f"{path} was not deleted: the person did not agree.")
    await in_threads().run(lambda: workspace.delete(path))
    announce(path)
    return with_sentence(Deleted(path, True), f"Deleted {path}.")


async def _is_confirmed(ctx: Context, path: str, size: int) -> bool:
    """Ask the person. Raises ToolError when the client cannot be asked."""
    try:
        answer = await ctx.elicit(f"Delete {path} ({size:,} bytes) for good?", _Confirmation, key="delete")
    except ClientLacks:
        raise ToolError(
            f"{path!r} has {size:,} bytes. A file of more than {ASK_ABOVE_BYTES:,} bytes is deleted only after its "
            "person agreed, and this client cannot ask."
        ) from None
    return answer.action == "accept" and bool((answer.content or {}).get("delete"))


def _paths(typed: str) -> list[str]:
    found, _ = workspace.list_entries(recursive=True)
    return [entry.path for entry in found if entry.type == "file" and entry.path.startswith(typed)]


@prompt(title="Explain a file", complete={"path": _paths})
def explain_file(
    path: Annotated[str, Field(description="The file to explain, relative to the workspace.")],
    audience: Annotated[Literal["expert", "beginner"], Field(description="Whom to explain it to.")] = "beginner",
) -> list[object]:
    """Ask for an explanation of one file of the workspace, for an expert or a beginner."""
    text = workspace.read(path, 100_000).decode("utf-8", "replace")
    return [User(f"Explain the file {path} to {'an expert' if audience == 'expert' else 'a beginner'}:\n\n{text}")]


def announce(path: str) -> None:
    """Tell those who watch the file, if `workspace_file` serves it: it serves those at the top of the workspace."""
    [*folders, name] = workspace.split_path(path)
    if not folders:
        resource_updated(f"workspace://{quote(name, safe='')}")


@resource(
    "workspace://{path}",
    title="A file of the workspace",
    description="The content of a text file at the top of the workspace.",
    complete={"path": _paths},
)
def workspace_file(path: str) -> str:
    return workspace.read(path).decode("utf-8", "replace")
