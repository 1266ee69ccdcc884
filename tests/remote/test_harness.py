"""The harness, really run: every row has its result, whatever the script does and whatever the kernel refuses."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Isolation, Limits, SandboxUnavailableError
from sandboxes.process import ProcessConfig, ProcessSandbox
from sandboxes.remote import agent_protocol
from tests.remote.harness_scripts import MANY, SHORT
from tests.remote.room import PYTHON
from tests.remote.ways import EACH_WAY, LIMITS, OWN, Running, Way, ask, asked, rows
from tests.scripts import python

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines run Linux"),
    pytest.mark.rotating("providers", "remote"),
]


@EACH_WAY
def test_who_is_there_and_what_is_closed(way: Way) -> None:
    found = Running(way, None, []).answer()
    assert (found.code, found.errors, found.executions, found.listener.finished) == (0, "", [], True)
    greeting = found.listener.greeting
    assert greeting is not None
    assert greeting.python.startswith("3.")
    assert greeting.system.startswith("Linux ")
    missing = way.closed - set(greeting.protects)
    if missing and way.name in ("own", "user"):
        pytest.skip(f"this machine's kernel refuses {sorted(missing)}")
    assert not missing


KINDS = [line.split('"')[1] for line in MANY.splitlines() if line.startswith("        case ") and '"' in line]
HANG = ("hangs", "sleeps for ever")
PATIENT = SHORT.model_copy(update={"timeout": 10})


def of_the_process_sandbox(calls: list[Call], isolation: Isolation, limits: Limits) -> list[Execution]:
    async def body() -> list[Execution]:
        async with ProcessSandbox(ProcessConfig(isolation=isolation, jobs=1)) as sandbox:
            program = await sandbox.load(python(MANY), limits)
            return [execution async for execution in program.run(calls, limits)]

    try:
        return asyncio.run(body())
    except SandboxUnavailableError as e:
        pytest.skip(str(e))


def shown(execution: Execution) -> dict[str, Any]:
    """Without what differs from run to run."""
    told = execution.model_dump(exclude={"duration"})
    if execution.error and "recursion" in execution.error.message:
        told["error"]["traceback"] = told["error"]["message"] = ""
    if execution.status == "memory":  # by an exception, or seen from outside before that
        told["error"]["traceback"] = ""
    if execution.status in ("output", "memory") and execution.truncated:
        told["output"] = len(told["output"]) > 1000
    return told


@pytest.mark.parametrize("limits", [PATIENT, SHORT], ids=["ends", "hangs"])
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_results_are_those_of_the_process_sandbox(isolation: Isolation, limits: Limits) -> None:
    kinds = [kind for each in KINDS if (each in HANG) == (limits is SHORT) for kind in (each, "counts")]
    calls = [Call(id=n, arguments={"x": kind}, seed=n) for n, kind in enumerate(kinds)]
    expected = of_the_process_sandbox(calls, isolation, limits)
    found = ask(MANY, calls, isolation, limits=limits)
    assert found.listener.loaded is not None
    assert found.listener.loaded.output == "loading\n"
    assert [shown(e) for e in found.executions] == [shown(e) for e in expected]


@EACH_WAY
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_every_row_has_its_result_whatever_the_kernel_refuses(way: Way, isolation: Isolation) -> None:
    kinds = ["first", "second", "exits", "aborts", "floods", "environment"]
    kinds += ["takes memory", "forks", "last"] if "memory" in way.closed else ["last"]
    found = ask(MANY, rows(*kinds), isolation, way, PATIENT)
    told = {kind: (e.status, e.value) for kind, e in zip(kinds, found.executions, strict=True)}
    hung = ask(MANY, rows("first", "hangs", "last"), isolation, way, SHORT)
    assert [(e.status, e.value) for e in hung.executions] == [("ok", "first"), ("timeout", None), ("ok", "last")]
    for kind in ("first", "second", "last"):
        assert told[kind] == ("ok", kind)
    assert told.get("forks") in (None, ("ok", "forked"))
    own = {name for name in told["environment"][1] if not name.startswith("XDG_")}
    assert own - {"LC_CTYPE"} == {"HOME", "USER", "LOGNAME"}
    died = {"exits": "crash", "aborts": "crash", "floods": "output", "takes memory": "memory"}
    assert {kind: status for kind, (status, _) in told.items() if status != "ok"} == {
        kind: status for kind, status in died.items() if kind in told
    }


LEAVES = """
import os, time
def evaluate(x):
    found = []
    for top in {os.path.realpath(top) for top in ("/tmp", "/var/tmp", "/dev/shm")}:
        if os.path.isdir(top):
            found += [name for name in os.listdir(top) if name.startswith("left-")]
            try: os.makedirs(f"{top}/left-{x}/" + "/".join(["deep"] * 50))
            except OSError: pass
            try: open(f"{top}/left-{x}/file", "w").close()
            except OSError: pass
            try: os.symlink("/etc", f"{top}/left-link-{x}")
            except OSError: pass
    if x == "hangs": time.sleep(60)
    return found
"""


@EACH_WAY
def test_files_of_a_row_are_not_there_for_the_next(way: Way) -> None:
    if not {"mounts", "uid"} & way.closed:
        pytest.skip("what is written there cannot be told from the harness's own")
    found = ask(LEAVES, rows(1, "hangs", 2, 3), way=way, limits=SHORT.model_copy(update={"timeout": 1.2}))
    assert [(e.status, e.value) for e in found.executions] == [("ok", []), ("timeout", None), ("ok", []), ("ok", [])]
    assert [path for top in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(top).glob("left-*")] == []


REACHES = """
import os, sys
above = sys._getframe()
while above:
    if above.f_locals.get("boot"): above.f_locals["boot"]["tmp"] = []
    above = above.f_back
def evaluate(x):
    found = [os.environ["USER"], os.path.exists("/tmp/left-behind")]
    try: open("/tmp/left-behind", "w").close()
    except OSError: pass
    return found
"""


def test_a_script_that_gets_hold_of_its_process_leaves_nothing_for_the_next_row() -> None:
    found = ask(REACHES, rows(1, 2, 3))
    assert [(e.status, e.value) for e in found.executions] == [("ok", ["evalcell", False])] * 3
    assert found.listener.left == {"reach"}
    assert not Path("/tmp/left-behind").exists()


LOADS = {
    "hangs": ("while True: pass", "timeout"),
    "takes-memory": ("kept = []\nwhile True: kept.append(bytearray(1 << 20))", "memory"),
    "floods": ("while True: print('x' * 4096)", "output"),
    "exits": ("import os; os._exit(0)", "crash"),
    "raises": ("1 / 0", "error"),
    "leaves-processes": ("import os, time\nif os.fork() == 0: time.sleep(60)\ndef evaluate(x): return x", "ok"),
}


@pytest.mark.parametrize(("source", "status"), LOADS.values(), ids=LOADS)
def test_how_loading_ends_is_every_rows_result(source: str, status: str) -> None:
    limits = SHORT.model_copy(update={"load_timeout": 0.5 if status == "timeout" else 10})
    found = ask(source, rows(1, 2, 3), limits=limits)
    assert found.listener.loaded is not None
    assert found.listener.loaded.status == status
    assert [(e.call, e.status) for e in found.executions] == [(10, status), (11, status), (12, status)]


def test_arguments_that_are_no_json_are_refused_without_being_sent() -> None:
    found = ask("def evaluate(x): return x\n", [*rows(1), Call(id=3, arguments={"x": object()}), *rows("y")])
    assert [(e.call, e.status) for e in found.executions] == [(3, "error"), (10, "ok"), (10, "ok")]


@EACH_WAY
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "SIGHUP", "stdout"])
def test_when_it_is_told_to_end_nothing_is_left(way: Way, how: str) -> None:
    if way.name == "nothing":
        pytest.skip("without a /proc and any namespace, nobody knows what a script has started")
    source = "import os\ndef evaluate(x):\n    os.fork()\n    while True: pass\n"
    limits = LIMITS.model_copy(update={"timeout": 60})
    running = Running(way.lasting, asked(source, limits=limits), rows(1, 2))
    try:
        running.first_row()
        time.sleep(0.1)
        if how == "stdout":
            assert running.process.stdout is not None
            running.process.stdout.close()
        else:
            running.signal(getattr(signal, how))
        assert running.left() == []
        assert running.process.poll() is None, "what stands above it has ended everything"
    finally:
        running.process.kill()
        running.end()


def test_it_ends_when_its_input_ends_early() -> None:
    command, _ = agent_protocol.hello()
    ended = subprocess.run([PYTHON, *command.argv[1:]], input=b"123\nabc", capture_output=True, timeout=10)
    assert ended.returncode == 1
    assert b"its input ended early" in ended.stderr


def test_a_host_that_is_slow_to_listen_fills_no_memory() -> None:
    limits = LIMITS.model_copy(update={"result": 1 << 20})
    running = Running(OWN, asked("def evaluate(x): return 'x' * 1000000", "batch", limits), rows(*range(60)))
    running.first_row()
    time.sleep(1)
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    found = running.answer()
    assert [len(e.value) for e in found.executions] == [1000000] * 60
    assert peak < 60 << 10, f"{peak} KB"


def test_variables_are_the_scripts_alone() -> None:
    source = "import os\ndef evaluate(x): return [os.environ.get(x), list(os.environ)]"
    found = ask(source, rows("TOKEN"), variables={"TOKEN": "a secret"})
    ((value, names),) = found.values
    assert value == "a secret"
    assert {name for name in names if not name.startswith("XDG_")} == {"HOME", "USER", "LOGNAME", "TOKEN"}


CONNECTS = """
import socket
def evaluate(x):
    with socket.create_connection(("127.0.0.1", x), 2) as connection: return connection.recv(9).decode()
"""


@EACH_WAY
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_when_it_was_asked_for(way: Way, network: bool) -> None:
    if way.name == "nothing" and not network:
        pytest.skip("nothing there can close it")
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = rows(server.getsockname()[1])
        running = Running(way, asked(CONNECTS, network=network), calls)
        if network:
            server.settimeout(10)
            with server.accept()[0] as heard:
                heard.sendall(b"hello")
        found = running.answer()
    (execution,) = found.executions
    if network:
        assert execution.value == "hello"
    else:
        assert execution.error is not None
        assert execution.error.type in ("PermissionError", "OSError")


NUMERIC = "import numpy\ndef evaluate(x): return numpy.mean(x)\n"


def test_packages_of_a_folder(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    missing = ask(NUMERIC, rows([1, 2]))
    assert missing.listener.loaded is not None
    assert missing.listener.loaded.error is not None
    assert missing.listener.loaded.error.hint is not None
    assert "numpy" in missing.listener.loaded.error.hint
    folder = Path(numpy.__file__).parents[1]
    found = ask(NUMERIC, rows([1, 2], [3.5, 4.5]), packages=str(folder))
    assert found.values == [1.5, 4.0], found.listener.loaded


def test_packages_of_the_machines_own_python() -> None:
    numpy = pytest.importorskip("numpy")
    if not Path(numpy.__file__).is_relative_to(sysconfig.get_path("platlib")):
        pytest.skip("numpy is installed elsewhere")
    assert ask(NUMERIC, rows([1, 2]), packages="site", python=sys.executable).values == [1.5]
