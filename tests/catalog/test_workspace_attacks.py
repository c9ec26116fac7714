"""The tools for files against paths and folders made to lead them astray: refused, nothing read or changed outside,
and never a hang.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from catalog import workspace
from catalog.errors import ToolError
from catalog.examples import files, tables

SECRET = "the secret outside"
HANG_SECONDS = 60.0
MIN_ATTEMPTS = 20
"""So often a call must have succeeded, and so often have been refused, before a race says anything."""

TOOLS: dict[str, Callable[[str], Any]] = {
    "read_file": lambda path: files.read_file(path),
    "write_file": lambda path: files.write_file(path, "x"),
    "append": lambda path: workspace.write(path, b"x", append=True),
    "delete_file": workspace.delete,
    "size": workspace.size_of,
    "list_directory": lambda path: files.list_directory(path),
    "analyze_csv": lambda path: tables.analyze_csv(path, column="a"),
    "resource": lambda path: files.workspace_file(path),
    "program's input": lambda path: _resolve(workspace.open_file(path)),
    "program's folder": lambda path: _resolve(workspace.open_folder(path)),
}


def _resolve(opened: Any) -> str:
    with opened as descriptor:
        return os.readlink(f"/proc/self/fd/{descriptor}")


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """The workspace, with a secret beside it in a folder whose name begins alike."""
    settings.WORKSPACE_DIR = tmp_path / "data" / "files"
    made = workspace.root()
    for name in ("secret.csv", "files-secret/secret.csv"):
        outside = made.parent / name
        outside.parent.mkdir(exist_ok=True)
        outside.write_text(f"a\n{SECRET}\n")
    (made / "sub").mkdir()
    (made / "sub" / "inside.csv").write_text("a\n1\n")
    yield made
    for name in ("secret.csv", "files-secret/secret.csv"):
        assert (made.parent / name).read_text() == f"a\n{SECRET}\n"
    assert sorted(entry.name for entry in made.parent.iterdir()) == ["files", "files-secret", "secret.csv"]


def get_refusal(tool: str, path: str) -> str:
    """What the tool says; it answers soon, and tells nothing about where the workspace is."""
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ToolError) as caught:
            pool.submit(TOOLS[tool], path).result(HANG_SECONDS)
        said = str(caught.value)
    assert SECRET not in said and "/data/" not in said, said
    return said


OUTSIDE = [
    *("..", "../secret.csv", "sub/../../secret.csv", "sub/../sub/../../secret.csv", "./../secret.csv", "sub/.."),
    *("../files-secret/secret.csv", "./../files-secret/secret.csv", "../files/sub/inside.csv"),
    *("/etc/passwd", "//etc/passwd", "/", "~", "~/secret.csv", "~root/x", "/proc/self/environ", "/dev/zero"),
    *("..\\secret.csv", "sub\\..\\..\\secret.csv", "C:/secret.csv", "c:secret.csv", "\\\\host\\share\\x"),
    *("\0", "sub/inside.csv\0.txt", "../secret.csv\0", "a" * 1001, "a/" * 40 + "b"),
]
LITERAL = ["%2e%2e/secret.csv", "..%2fsecret.csv", "....//secret.csv", "\u2024\u2024/secret.csv", "file:secret.csv"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_path_that_leads_out_or_cannot_be_one_is_refused(tool: str, folder: Path) -> None:
    for path in OUTSIDE:
        get_refusal(tool, path)


@pytest.mark.parametrize("path", LITERAL)
def test_names_that_only_resemble_an_escape_are_allowed(path: str, folder: Path) -> None:
    for tool in ("read_file", "delete_file", "program's input"):
        get_refusal(tool, path)
    files.write_file(path, "x")
    assert any(name in "".join(found) for _, _, found in os.walk(folder) for name in (path.rpartition("/")[2],))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_link_is_refused_wherever_it_stands_and_wherever_it_leads(tool: str, folder: Path) -> None:
    outside = folder.parent / "secret.csv"
    (folder / "absolute.csv").symlink_to(outside)
    (folder / "relative.csv").symlink_to("../secret.csv")
    (folder / "inside.csv").symlink_to(folder / "sub" / "inside.csv")
    (folder / "broken.csv").symlink_to(folder / "nowhere")
    (folder / "circle.csv").symlink_to(folder / "circle.csv")
    (folder / "out").symlink_to(folder.parent)
    (folder / "to_sub").symlink_to(folder / "sub")
    (folder / "environ").symlink_to("/proc/self/environ")
    names = ["absolute.csv", "relative.csv", "inside.csv", "broken.csv", "circle.csv", "environ"]
    for path in [*names, "out/secret.csv", "out/files-secret/secret.csv", "to_sub/inside.csv", "out", "to_sub"]:
        get_refusal(tool, path)
    assert not (folder / "nowhere").exists()
    assert (folder / "sub" / "inside.csv").read_text() == "a\n1\n"
    assert all((folder / name).is_symlink() for name in names)


@pytest.mark.parametrize("tool", ["read_file", "append", "analyze_csv", "resource", "program's input"])
def test_a_hard_link_to_a_file_outside_is_refused(tool: str, folder: Path) -> None:
    outside = folder.parent / "secret.csv"
    os.link(outside, folder / "linked.csv")
    os.link(outside, folder / "sub" / "linked.csv")
    for path in ("linked.csv", "sub/linked.csv"):
        assert "hard link" in get_refusal(tool, path)


def test_a_hard_link_is_no_file_in_a_list_and_its_name_can_be_replaced_and_deleted(folder: Path) -> None:
    os.link(folder.parent / "secret.csv", folder / "linked.csv")
    os.link(folder.parent / "secret.csv", folder / "other.csv")
    found, _ = workspace.list_entries()
    assert [(entry.path, entry.type, entry.size) for entry in found if entry.type != "folder"] == [
        ("linked.csv", "other", 0),
        ("other.csv", "other", 0),
    ]
    files.write_file("linked.csv", "x")
    assert files.read_file("linked.csv").value["content"] == "x"
    workspace.delete("other.csv")
    assert not (folder / "other.csv").exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_special_files_are_refused_at_once(tool: str, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with tempfile.TemporaryDirectory(prefix="s") as short:  # the address of a socket is short
        (Path(short) / "w").symlink_to(folder)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{short}/w/socket")
            listening.listen()
            for name in ("pipe", "socket"):
                get_refusal(tool, name)
    with contextlib.suppress(PermissionError):
        for name, numbers in (("zero", (1, 5)), ("full", (1, 7)), ("tty", (5, 0))):
            os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(*numbers))
            get_refusal(tool, name)
    if tool not in ("list_directory", "program's folder"):
        get_refusal(tool, "sub")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(folder: Path) -> None:
    with (folder / "huge.csv").open("wb") as file:
        file.truncate(1 << 40)
    began = time.process_time()
    for tool in ("read_file", "analyze_csv", "append", "resource"):
        assert "bytes" in get_refusal(tool, "huge.csv")
    with pytest.raises(ToolError, match="more than the"):
        files.write_file("new.csv", "x" * (workspace.MAX_WRITE_BYTES + 1))
    assert not (folder / "new.csv").exists()
    assert time.process_time() - began < 10


def _swap(folder: str, stop: Any) -> None:
    """Another process, which puts links in the place of a folder and of a file and back, as fast as it can."""
    os.chdir(folder)
    os.symlink("..", "link")
    os.symlink("../secret.csv", "link.csv")
    while not stop.is_set():
        for real, link, name in (("real", "link", "swapped"), ("real.csv", "link.csv", "swapped.csv")):
            for put in (real, link):
                with contextlib.suppress(OSError):
                    os.rename(put, name)
                with contextlib.suppress(OSError):
                    os.rename(name, put)
        for make in (os.symlink, os.link):
            with contextlib.suppress(OSError):
                make("../secret.csv", "fresh.csv")
            with contextlib.suppress(OSError):
                os.unlink("fresh.csv")


def test_links_that_are_swapped_in_during_the_call_lead_nowhere(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "secret.csv").write_text("inside")
    (folder / "real.csv").write_text("inside")
    fresh = multiprocessing.get_context("spawn")
    stop = fresh.Event()
    swapping = fresh.Process(target=_swap, args=(str(folder), stop), daemon=True)
    swapping.start()
    outcomes = {"done": 0, "refused": 0}

    def use(number: int) -> None:
        for tool, path in (
            ("read_file", "swapped/secret.csv"),
            ("read_file", "swapped.csv"),
            ("program's input", "swapped/secret.csv"),
            ("program's folder", "swapped"),
            ("list_directory", "swapped"),
            ("write_file", f"swapped/new{number}.csv"),
            ("write_file", "fresh.csv"),
            ("append", "swapped.csv"),
            ("append", "fresh.csv"),
            ("read_file", "fresh.csv"),
            ("delete_file", "fresh.csv"),
            ("delete_file", f"swapped/new{number}.csv"),
        ):
            try:
                answer = str(TOOLS[tool](path))
            except ToolError as error:
                answer = str(error)
                outcomes["refused"] += 1
            else:
                outcomes["done"] += 1
                if tool.startswith("program"):
                    # The name that it has just now is not the point: where it is.
                    assert answer.startswith(f"{folder}/"), answer
            assert SECRET not in answer and "files-secret" not in answer, (tool, answer)

    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not (folder / "link").is_symlink() and time.monotonic() < deadline:
            time.sleep(0.01)

        def use_for_a_while() -> None:
            """Longer where the disk or the processor was somebody else's: until both ends were met often enough."""
            began, number = time.monotonic(), 0
            while (now := time.monotonic() - began) < 2.5 or (
                now < HANG_SECONDS and min(outcomes.values()) <= MIN_ATTEMPTS
            ):
                use(number := number + 1)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(use_for_a_while).result(2 * HANG_SECONDS)
    finally:
        stop.set()
        swapping.join(HANG_SECONDS)
    assert min(outcomes.values()) > MIN_ATTEMPTS, outcomes
    assert not list(folder.parent.glob("new*.csv")) and not list(folder.parent.glob(".new*"))
