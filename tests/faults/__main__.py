"""`python -m tests.faults [--only TEXT] [--jobs N]`: plant each fault of the catalogue, run the tests that must see it.

Each is planted alone, in a copy of the tracked files. Prints one line for each: caught (an assertion failed), error
(the tests failed in another way), hung (a test ran into its time limit), or SURVIVED. Exits with 1 when any survived.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.catalogue import FAULTS, Fault

ROOT = Path(__file__).parents[2]
MAX_SECONDS = 600.0
_TIMED_OUT = re.compile(r"Timeout|timed out after|TimeoutError")
_ASSERTED = re.compile(r"^E\s+(AssertionError|assert |Failed: DID NOT)|DID NOT RAISE", re.MULTILINE)


def copy_project(target: Path) -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def plant(fault: Fault, project: Path) -> None:
    """Change the one place. Raise ValueError when the text is not there exactly once."""
    path = project / fault.path
    text = path.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.path} has {text.count(fault.old)} places with {fault.old!r}, not one")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def judge(fault: Fault) -> tuple[str, str]:
    """Return the verdict on a fault, and the tests that failed."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        project = Path(folder)
        copy_project(project)
        plant(fault, project)
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *fault.tests.split()]
        command = [sys.executable, "-m", "pytest", *options]
        environment = {**os.environ, "PYTHONPATH": ""}
        try:
            ran = subprocess.run(
                command, cwd=project, env=environment, check=False, capture_output=True, text=True, timeout=MAX_SECONDS
            )
        except subprocess.TimeoutExpired:
            return "hung", f"no end after {MAX_SECONDS:.0f} s"
    if ran.returncode == 0:
        return "SURVIVED", ""
    failed = ", ".join(re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", ran.stdout, re.MULTILINE)) or ran.stdout[-300:]
    if _ASSERTED.search(ran.stdout):
        return "caught", failed
    return ("hung" if _TIMED_OUT.search(ran.stdout) else "error"), failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only faults whose promise or file contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.only in f"{fault.promise} {fault.path}"]
    verdicts: Counter[str] = Counter()

    def run(fault: Fault) -> None:
        started = time.monotonic()
        verdict, failed = judge(fault)
        verdicts[verdict] += 1
        seconds = time.monotonic() - started
        sys.stdout.write(f"{verdict:9}{seconds:4.0f} s  {fault.path}: {fault.promise}  {failed}\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, chosen))
    sys.stdout.write(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) + "\n")
    return 1 if verdicts["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
