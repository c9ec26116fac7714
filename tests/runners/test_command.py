"""Programs as tools: what is refused, that every value is one literal argument, and that nothing outlives its call."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from audit import outcomes
from catalog.checks import check_commands, check_tool_runners
from catalog.errors import ToolError
from catalog.functions.results import failure
from catalog.processes import launch
from catalog.runners import factory, registry
from tests import factories
from tests.catalog.pipeline import call, only_logged_call, run_in_database, text
from tests.conftest import missing
from tests.polling import wait_until_async
from tests.runners import harness
from tests.runners.bombs import make_bomb
from tests.runners.harness import (
    MARK,
    cancel_run,
    find_marked,
    make_script,
    produce_result,
    run,
    texts,
    wait_until_nothing_left,
)
from tests.runners.payloads import DASHED, IMPOSSIBLE, LITERAL

ROOT = Path(__file__).resolve().parent.parent.parent
SAY = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))"
ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture
def say(tmp_path: Path, settings: Any) -> str:
    program = make_script(tmp_path, "say", SAY)
    settings.COMMANDS = [program]
    return program


@pytest.fixture
def python(settings: Any) -> str:
    """An interpreter, which an administrator should never list: it can be made to misbehave."""
    settings.COMMANDS = [sys.executable]
    return sys.executable


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "give either program, or commands"),
        ({"program": "wc", "shell": True}, "shell: Extra inputs are not permitted"),
        ({"program": "wc", "arguments": "-l {path}"}, "arguments: Input should be a valid list"),
        ({"program": "wc", "arguments": ["x{path}"]}, "a placeholder must be a whole argument"),
        ({"program": "wc", "arguments": ["--file={path}"]}, "a placeholder must be a whole argument"),
        ({"program": "wc", "arguments": ["{a}{b}"]}, "a placeholder must be a whole argument"),
        ({"program": "wc", "arguments": ["-n", "{count}"]}, '"option": "-n", "value": "count"'),
        ({"program": "wc", "arguments": ["{path}", "-l"]}, "put options before"),
        ({"program": "wc", "arguments": [{"option": "lines", "value": "n"}]}, "option"),
        ({"program": "wc", "arguments": ["a\0b"]}, "NUL"),
        ({"program": "wc", "arguments": [{"each": "args", "options": ["l"]}]}, "is not an option such as"),
        ({"program": "wc", "arguments": [{"each": "args", "options": ["-la"]}]}, "is not an option such as"),
        ({"program": "wc", "arguments": [{"each": "args", "options": ["--"]}]}, "is not an option such as"),
        ({"program": "wc", "arguments": [{"each": ""}]}, "each"),
        ({"program": "wc", "arguments": ["{path}", {"each": "args"}]}, "put options before"),
        ({"program": "wc", "environment": {"LD_PRELOAD": "/tmp/x.so"}}, "decides which code runs"),
        ({"program": "wc", "environment": {"PATH": "/tmp"}}, "decides which code runs"),
        ({"program": "wc", "environment": {"A B": "x"}}, "not a valid environment variable name"),
        ({"program": "wc", "stdin": "a", "stdin_file": "b"}, "either stdin or stdin_file"),
        ({"program": "wc", "commands": {"x": {"program": "ls"}}, "choose": "c"}, "give either program, or commands"),
        ({"commands": {"x": {}}, "choose": "c"}, "program: Field required"),
        ({"program": "wc", "memory_bytes": 1}, "memory_bytes"),
    ],
)
def test_settings_that_could_not_be_meant_are_refused_with_the_reason(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        registry.parse_settings("command", settings)


def test_nothing_runs_while_no_program_is_listed(settings: Any) -> None:
    settings.COMMANDS = []
    with pytest.raises(LookupError, match="turned off"):
        factory.prepare("command", {"program": "date"})


@pytest.mark.parametrize("program", ["sh", "/bin/date", "../bin/date", "date ", "DATE", "date;sh", "./date"])
def test_a_program_that_is_not_listed_exactly_so_is_refused(settings: Any, program: str) -> None:
    settings.COMMANDS = ["date", "wc"]
    with pytest.raises(LookupError, match="not listed"):
        factory.prepare("command", {"program": program})


def test_a_name_is_looked_up_on_a_fixed_path_alone(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_script(tmp_path, "only-on-my-path", "print(1)")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    settings.COMMANDS = ["only-on-my-path"]
    with pytest.raises(LookupError, match="not found in"):
        factory.prepare("command", {"program": "only-on-my-path"})


@pytest.mark.parametrize("payload", [*DASHED, *IMPOSSIBLE])
async def test_a_value_that_is_an_option_or_no_text_is_refused_before_anything_starts(say: str, payload: str) -> None:
    for arguments in (["{x}"], [{"option": "--name", "value": "x"}]):
        with pytest.raises(ToolError, match="The argument x"):
            await run("command", {"program": say, "arguments": arguments}, {"x": payload})


@pytest.mark.parametrize("value", [["a", "b"], {"a": 1}])
async def test_a_list_or_an_object_is_no_argument(say: str, value: Any) -> None:
    with pytest.raises(ToolError, match="must be a text"):
        await run("command", {"program": say, "arguments": ["{x}"]}, {"x": value})


# --- every value is one literal argument -----------------------------------------------------------------------------


async def test_fifty_payloads_arrive_as_the_text_that_they_are(tmp_path: Path, settings: Any) -> None:
    program = make_script(tmp_path, "argv", ARGV)
    settings.COMMANDS = [program]
    names = [f"a{number}" for number in range(len(LITERAL))]
    given = dict(zip(names, LITERAL, strict=True))
    assert len(LITERAL) >= 40
    options = {"program": program, "arguments": [f"{{{name}}}" for name in names], "max_output_bytes": 1_000_000}
    value = await run("command", options, given)
    assert json.loads(value.text) == ["--", *LITERAL]
    assert not list(tmp_path.glob("PWNED"))


async def test_values_stand_where_the_template_says(say: str) -> None:
    template = [
        "-a",
        {"option": "--n", "value": "n"},
        {"option": "-v", "value": "yes"},
        {"option": "-q", "value": "no"},
    ]
    options = {"program": say, "arguments": [*template, "{x}", "{missing}", "{y}"], "stdin": "input"}
    given = {"n": 5, "yes": True, "no": False, "x": "a b", "y": 1.5, "input": "$(id)"}
    argv, _, _, stdin = json.loads((await run("command", options, given)).text)
    assert argv == ["-a", "--n", "5", "-v", "--", "a b", "1.5"] and stdin == "$(id)"
    bare: dict[str, Any] = {"program": say, "arguments": ["{x}"], "allow_dash": ["x"], "separator": False}
    assert json.loads((await run("command", bare, {"x": "-5"})).text)[0] == ["-5"]


@pytest.mark.parametrize("payload", [*DASHED, *IMPOSSIBLE, "-R", "-lR", "--all=x", "--", "-", "file", "", ["-l"], {}])
async def test_a_value_of_a_list_that_was_not_declared_is_refused(say: str, payload: Any) -> None:
    only = {"program": say, "arguments": [{"each": "args", "options": ["-l", "-a", "--all"]}]}
    with pytest.raises(ToolError):
        await run("command", only, {"args": ["-l", payload]})
    with pytest.raises(ToolError, match="must be a list"):
        await run("command", only, {"args": "-l"})
    with pytest.raises(ToolError, match="must be a list"):
        await run("command", only, {"args": ["-l"] * 101})


async def test_every_value_of_a_list_is_one_argument_and_options_come_first(say: str) -> None:
    template: list[Any] = ["-x", {"each": "args", "options": ["-l", "-a", "--all", "--sort=size"], "others": True}]
    options = {"program": say, "arguments": template}

    async def argv(given: dict[str, Any]) -> Any:
        return json.loads((await run("command", options, given)).text)[0]

    assert await argv({}) == ["-x"]
    assert await argv({"args": []}) == ["-x"]
    assert await argv({"args": ["a b", "-la", "$(id)", "--all", "--sort=size", 5]}) == [
        *("-x", "-la", "--all", "--sort=size", "--", "a b", "$(id)", "5"),
    ]


async def test_the_result_of_a_program_can_be_an_object(say: str) -> None:
    made = await run("command", {"program": say, "result": "object"}, {})
    assert made.value["status"] == 0 and made.value["output"] == made.content[0] and "[[]" in made.content[0]


async def test_the_environment_is_clean_and_the_folder_is_its_own(say: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_DATABASE_URL", "postgresql://u:hunter2@h/d")
    options = {"program": say, "environment": {"A": "1", "TOKEN": {"secret": "t", "prefix": "Bearer "}}}
    value = await run("command", options, {}, secrets={"t": "s3cret"})
    _, environment, folder, _ = json.loads(value.text)
    environment.pop("LC_CTYPE", None)  # Python adds it
    expected = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "A": "1", "TOKEN": "Bearer s3cret"}
    assert environment == expected
    assert Path(folder).parent == Path(tempfile.gettempdir()) and not Path(folder).exists()


async def test_files_and_folders_are_handed_over_open_and_links_are_not_followed(tmp_path: Path, settings: Any) -> None:
    settings.WORKSPACE_DIR = tmp_path / "workspace"
    inside = tmp_path / "workspace" / "data"
    inside.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("outside")
    (inside / "a.txt").write_text("one\ntwo\n")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "out").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    settings.COMMANDS = ["wc", "ls"]
    count = {"program": "wc", "arguments": ["-l"], "stdin_file": "path"}
    assert (await run("command", count, {"path": "data/a.txt"})).text.strip() == "2"
    listing = {"program": "ls", "arguments": ["-1"], "folder_argument": "path"}
    assert (await run("command", listing, {"path": "data"})).text.split() == ["a.txt", "link.txt", "out", "pipe"]
    assert (await run("command", listing, {})).text.split() == ["data"]
    for path in ("data/link.txt", "data/out/secret.txt", "data/pipe", "../secret.txt", "/etc/passwd", "data", "none"):
        with pytest.raises(ToolError):
            await run("command", count, {"path": path})
    for path in ("data/out", "..", "/etc", "data/a.txt", "none"):
        with pytest.raises(ToolError):
            await run("command", listing, {"path": path})


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"stdin_file": "path"}, {"path": "none.txt"}),
        ({"stdin_file": "path"}, {"path": "../secret.txt"}),
        ({"stdin": "text"}, {"text": "a\0b"}),
        ({"stdin": "text"}, {"text": {"a": 1}}),
        ({"folder_argument": "path"}, {"path": "none"}),
        ({"folder_argument": "path", "stdin_file": "file"}, {"path": "", "file": "none.txt"}),
        ({"environment": {"A": {"secret": "nul"}}}, {}),
    ],
)
async def test_a_call_that_fails_before_its_program_starts_leaves_no_folder(
    say: str,
    options: dict[str, Any],
    arguments: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:
    settings.WORKSPACE_DIR = tmp_path / "workspace"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    descriptors = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(ToolError):
            await run("command", {"program": say, **options}, arguments, secrets={"nul": "\0"})
    settings.TOOL_PROCESSES = 0
    with pytest.raises(ToolError, match="Too many programs"):
        await run("command", {"program": say}, {})
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


async def test_programs_of_one_user_leave_some_to_the_others(
    python: str, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TOOL_PROCESSES = 4
    gate = tmp_path / "gate"
    waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint('done')"

    async def start(running: int) -> asyncio.Task[Any]:
        """One more program; it is refused at once, or there are so many."""
        task = asyncio.ensure_future(run("command", {"program": python, "arguments": ["-c", waits]}, {}))
        await wait_until_async(lambda: task.done() or launch.count_running() == running, 60)
        return task

    def refusal(task: asyncio.Task[Any]) -> str:
        assert task.done(), "it runs"
        return str(task.exception())

    try:
        started = [await start(number) for number in (1, 2, 3)]
        assert "Too many programs are already running for your calls" in refusal(await start(4))
        with monkeypatch.context() as changed:
            bob = replace(harness.CALLER, credential=replace(harness.CALLER.credential, user_id=8, username="bob"))
            changed.setattr(harness, "CALLER", bob)
            started.append(await start(4))
            assert "Too many programs are already running for tools" in refusal(await start(5))
    finally:
        gate.touch()
    assert ["done" in str(await one) for one in started] == [True] * 4
    assert launch.count_running() == 0
    assert "done" in str(await run("command", {"program": python, "arguments": ["-c", waits]}, {}))


async def test_a_program_whose_supervisor_is_killed_leaves_no_folder(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = "import os, signal; open('x', 'w').write('x'); os.kill(os.getppid(), signal.SIGKILL); signal.pause()"
    result = await produce_result("command", {"program": python, "arguments": ["-c", source]}, {})
    assert result.is_error and "stopped from outside" in texts(result)[0]
    assert not list(tmp_path.glob("toolhub-command-*"))


async def test_one_argument_chooses_among_programs_and_nothing_else(settings: Any) -> None:
    settings.COMMANDS = ["echo", "uname"]
    commands = {"greet": {"program": "echo", "arguments": ["hello", "{who}"]}, "system": {"program": "uname"}}
    options = {"commands": commands, "choose": "command"}
    assert (await run("command", options, {"command": "system", "who": "x"})).text == os.uname().sysname + "\n"
    assert (await run("command", options, {"command": "greet", "who": "you"})).text == "hello -- you\n"
    with pytest.raises(ToolError, match="greet, system"):
        await run("command", options, {"command": "echo"})


def test_no_shell_is_ever_started(tmp_path: Path) -> None:
    """Seen from outside: strace notes every program that any process of the run becomes."""
    if shutil.which("strace") is None:
        missing("strace", "it is not installed")
    program, ledger = make_script(tmp_path, "argv", ARGV), tmp_path / "ledger"
    traces = tmp_path / "traces"
    traces.mkdir()
    for name in ("sh", "bash"):
        make_script(tmp_path, name, f"open({str(ledger)!r}, 'a').write('x')")
    done = subprocess.run(
        [
            # A file for each process: in one for all, a line is torn apart where another process has news meanwhile.
            *["strace", "-ff", "-qq", "-e", "trace=execve", "-o"],
            str(traces / "of"),
            sys.executable,
            "-m",
            "tests.runners.driver",
            program,
        ],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SHELL": str(tmp_path / "sh")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "PTRACE" in done.stderr:
        missing("strace", done.stderr[-200:])
    assert done.returncode == 0, done.stderr
    started = [path for trace in traces.iterdir() for path in re.findall(r'execve\("([^"]*)".* = 0', trace.read_text())]
    assert started.count(program) == 7
    assert {os.path.basename(path) for path in started} <= {"argv", os.path.basename(sys.executable)}, set(started)
    assert not ledger.exists() and not list(ROOT.glob("PWNED")) and not list(tmp_path.glob("PWNED"))


# --- how it ends -----------------------------------------------------------------------------------------------------


async def test_a_status_that_is_not_accepted_is_an_error_with_the_output_of_the_program(python: str) -> None:
    source = "import sys; print('half'); print('\\x1b[31mno such\\x07 thing', file=sys.stderr); sys.exit(3)"
    result = await produce_result("command", {"program": python, "arguments": ["-c", source]}, {})
    assert result.is_error
    assert texts(result) == ["The program exited with status 3. Its output: no such\\x07 thing", "half\n"]
    options = {"program": python, "arguments": ["-c", source], "accept_status": [0, 3]}
    result = await produce_result("command", options, {})
    assert not result.is_error and texts(result) == ["half\n"]


async def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path, settings: Any) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    settings.COMMANDS = [str(broken)]
    result = await produce_result("command", {"program": str(broken)}, {})
    assert result.is_error and "status 127" in texts(result)[0]


async def test_endless_output_is_cut_off_visibly_and_the_program_stopped(settings: Any) -> None:
    settings.COMMANDS = ["yes"]
    result = await produce_result("command", {"program": "yes", "max_output_bytes": 5000}, {})
    assert result.is_error and len(texts(result)[0]) == 5000
    assert texts(result)[1] == "[The output was truncated after 5000 bytes and the program was stopped.]"
    await wait_until_nothing_left()


@pytest.mark.parametrize(
    ("source", "limits", "says"),
    [
        ("x = bytearray(10 << 30)", {}, "MemoryError"),
        ("while True: pass", {"cpu_seconds": 1}, "more than 1 s of processor time"),
        ("open('f', 'wb').write(bytes(200_000))", {"max_file_bytes": 100_000}, "File too large"),
        ("import os; [os.open('/dev/null', 0) for _ in range(99)]", {"max_open_files": 32}, "Too many open files"),
        (make_bomb(), {"max_processes": 20}, "more than 20 processes"),
        (make_bomb(detached=True), {}, "more than 32 processes"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", {}, "SIGSEGV"),
    ],
    ids=["memory", "processor", "file", "descriptors", "fork bomb", "fork bomb in sessions", "crash"],
)
async def test_a_program_that_takes_too_much_is_stopped_and_the_answer_says_why(
    python: str, source: str, limits: dict[str, Any], says: str
) -> None:
    mark = uuid4().hex
    options = {"program": python, "arguments": ["-c", source], "environment": {MARK: mark}, **limits}
    try:
        result = await produce_result("command", options, {})
    except ToolError as error:
        result = failure(str(error))
    assert result.is_error and says in texts(result)[0]
    await wait_until_nothing_left(mark)


async def test_a_cancelled_call_ends_every_process_even_deaf_and_detached_ones(python: str, tmp_path: Path) -> None:
    mark, started = uuid4().hex, tmp_path / "started"
    source = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(1000)\n"
        "    os._exit(0)\n"
        "open(sys.argv[1], 'w').close()\n"
        "while True: time.sleep(1)"
    )
    options = {"program": python, "arguments": ["-c", source, str(started)], "environment": {MARK: mark}}
    await cancel_run("command", options, {}, started)
    await wait_until_nothing_left(mark)


async def test_background_processes_of_a_program_end_with_it(python: str) -> None:
    mark = uuid4().hex
    source = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\nprint('done')"
    options = {"program": python, "arguments": ["-c", source], "environment": {MARK: mark}}
    assert (await run("command", options, {})).text == "done\n"
    assert not find_marked(mark)


async def test_more_programs_than_may_run_at_once_are_refused(say: str, settings: Any) -> None:
    settings.TOOL_PROCESSES = 0
    with pytest.raises(ToolError, match="Too many programs"):
        await run("command", {"program": say}, {})
    await wait_until_nothing_left()


# --- who may make such a tool ----------------------------------------------------------------------------------------

ROW: dict[str, Any] = {"runner": "command", "settings": {"program": "date"}, "input_schema": {"type": "object"}}


@pytest.mark.django_db
def test_a_tool_cannot_be_switched_on_while_the_runner_is_off(settings: Any) -> None:
    settings.COMMANDS = []
    with pytest.raises(ValidationError, match="turned off"):
        factories.make_tool("now", clean=True, **ROW)
    factories.make_tool("now", clean=True, enabled=False, **ROW)
    settings.COMMANDS = ["date"]
    factories.make_tool("then", clean=True, **ROW)


@pytest.mark.django_db
def test_the_checks_name_what_is_off_or_dangerous(settings: Any) -> None:
    settings.COMMANDS = ["date", "python3.11", "bash", "no-such-program"]
    assert sorted(str(problem.id) for problem in check_commands(None)) == [
        "catalog.W002",
        "catalog.W002",
        "catalog.W003",
    ]
    factories.make_tool("now", **ROW)
    assert not check_tool_runners(None, databases=["default"])
    settings.COMMANDS = []
    (warning,) = check_tool_runners(None, databases=["default"])
    assert "now" in str(warning.msg)


@pytest.mark.django_db
def test_saving_needs_the_permission_in_the_form_and_in_the_model(client: Any, settings: Any, root: Any) -> None:
    from django.contrib.auth.models import Permission, User

    settings.COMMANDS = ["date"]
    editor = User.objects.create_user("editor", password="correct horse battery", is_staff=True)
    named = ["add_tool", "change_tool", "view_tool"]
    editor.user_permissions.add(*Permission.objects.filter(codename__in=named))
    tool = factories.make_tool("plain", clean=True, enabled=False, **ROW)
    change, listing = f"/admin/catalog/tool/{tool.pk}/change/", "/admin/catalog/tool/"

    client.force_login(editor)
    switch = {"action": "switch_on", "_selected_action": [tool.pk]}
    assert client.post(listing, switch).status_code == 403
    page = client.get(change)
    data = _form(page.context["adminform"].form)
    refused = client.post(change, {**data, "title": "Mine", **_inlines(page)})
    assert refused.status_code == 200 and b"need the permission" in refused.content
    again = client.post(change, {**data, "title": "Mine", **_inlines(page)}, headers={"accept-language": "zh-hans"})
    assert "您需要权限“可以保存" in again.content.decode() and b"Can save tools" not in again.content
    tool.refresh_from_db()
    assert not tool.enabled and tool.title == ""

    editor.user_permissions.add(Permission.objects.get(codename="use_command_runner"))
    client.force_login(User.objects.get(pk=editor.pk))
    done = client.post(change, {**data, "title": "Mine", **_inlines(page)})
    assert done.status_code == 302, done.context["adminform"].form.errors
    assert client.post(listing, switch).status_code == 302
    assert type(tool).objects.get(pk=tool.pk, enabled=True).title == "Mine"


def _form(form: Any) -> dict[str, Any]:
    found = {}
    for name, field in form.fields.items():
        value = form[name].value()
        if value is not None and value is not False:
            found[name] = field.prepare_value(value)
    return found


def _inlines(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for inline in page.context["inline_admin_formsets"]:
        prefix = inline.formset.prefix
        found |= {f"{prefix}-TOTAL_FORMS": 0, f"{prefix}-INITIAL_FORMS": 0}
    return found


def test_the_model_rejects_users_that_the_form_let_through(settings: Any, db: None, alice: Any, rf: Any) -> None:
    from audit.actions.actor import ActorMiddleware
    from catalog.models import Tool

    request = rf.get("/")
    request.user = alice

    def view(request: Any) -> Any:
        with pytest.raises(PermissionDenied):
            factories.make_tool("now", **ROW)
        assert not Tool.objects.exists()

    ActorMiddleware(view)(request)
    factories.make_tool("now", **ROW)


@pytest.mark.django_db(transaction=True)
async def test_a_deadline_ends_the_program_and_is_logged(alice: Any, settings: Any) -> None:
    settings.COMMANDS = ["sleep"]

    def publish() -> None:
        schema = {"type": "object", "properties": {"n": {"type": "number"}}}
        options = {"program": "sleep", "arguments": ["{n}"]}
        tool = factories.make_tool("nap", runner="command", settings=options, input_schema=schema, timeout=0.5)
        factories.grant(alice, tool)

    await run_in_database(publish)
    result = await call(alice, "nap", {"n": 1000})
    assert result.is_error and "did not finish within 0.5 s" in text(result)
    assert (await only_logged_call()).outcome == outcomes.TIMEOUT
    await wait_until_nothing_left()
