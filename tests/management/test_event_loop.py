"""The event loop of a server: no task of a tool ends it, and its own end is never missed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SECONDS = 60


def run(main: str) -> subprocess.CompletedProcess[str]:
    """Run `main`, a body of a coroutine, as a command does, in a process of its own: these exceptions end one."""
    program = textwrap.dedent("""
        import asyncio
        from toolhub.management.event_loop import survive_exits

        async def leave(error):
            raise error

        async def main():
        {}

        with asyncio.Runner() as runner:
            survive_exits(runner.get_loop())
            print("returned", runner.run(main()))
    """).format(textwrap.indent(textwrap.dedent(main).strip(), " " * 4))
    try:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError("the program did not end") from None


def test_the_exit_of_another_task_reaches_only_those_who_await_it():
    done = run("""
        for error in (SystemExit(3), KeyboardInterrupt()):
            task = asyncio.create_task(leave(error))
            await asyncio.sleep(0)
            try:
                await task
            except BaseException as caught:
                print("caught", type(caught).__name__)
        return 5
    """)
    assert done.stdout.split() == ["caught", "SystemExit", "caught", "KeyboardInterrupt", "returned", "5"]
    assert done.returncode == 0


def test_the_exit_of_the_main_task_ends_the_process_with_its_status():
    done = run("raise SystemExit(7)")
    assert (done.returncode, done.stdout) == (7, "")


def test_an_interrupt_of_the_main_task_ends_the_process():
    done = run("raise KeyboardInterrupt")
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr


def test_an_exit_while_the_main_task_goes_on_is_not_its_end():
    done = run("""
        asyncio.get_running_loop().call_soon(lambda: (_ for _ in ()).throw(SystemExit(9)))
        await asyncio.sleep(0.01)
        return "late"
    """)
    assert (done.returncode, done.stdout.split()) == (0, ["returned", "late"])
