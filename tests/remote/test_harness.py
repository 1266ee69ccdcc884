"""The harness, really run: every row has its result, whatever the script does and whatever the kernel refuses."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Isolation, Limits, SandboxUnavailableError
from sandboxes.process import ProcessConfig, ProcessSandbox
from sandboxes.remote import agent_protocol
from tests.groups import MEMORY, limited
from tests.remote.room import PYTHON
from tests.remote.ways import EACH_WAY, LIMITS, OWN, Running, Way, ask, asked, refused, rows
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


MANY = """
import asyncio, os, random, sys
print("loading")
count = 0
class Thing: pass
def evaluate(x, seed=None):
    global count
    count += 1
    print("row", x)
    match x:
        case "counts": return [count, "loading" in sys.modules]
        case "draws": return [random.random(), os.urandom(4).hex()]
        case "orders": return list({"a", "b", "c", "d", "e", "f", "g"})
        case "raises": return {}["key"]
        case "leaves": raise SystemExit(3)
        case "exits": os._exit(7)
        case "aborts": os.abort()
        case "recurses": return (lambda f: f(f))(lambda f: f(f))
        case "waits": return asyncio.sleep(0.01, result="slept")
        case "hangs":
            while True: pass
        case "sleeps for ever": return asyncio.sleep(60)
        case "floods":
            while True: print("x" * 4096)
        case "says much":
            for n in range(3000): print("line", n, file=sys.stderr if n % 2 else sys.stdout)
            return 1
        case "returns much": return "y" * (2 << 20)
        case "returns a thing": return Thing()
        case "returns nan": return float("nan")
        case "returns text": return "\\udc80 é \\u2028 \\0"
        case "imports": import numpy
        case "listens": import socket; socket.socket()
        case "starts": import subprocess; subprocess.run(["true"])
        case "devices": return [len(open("/dev/urandom", "rb").read(3)), open("/dev/null", "w").write("x")]
        case "files": return [open("/tmp/a", "w").write("a"), os.listdir("/tmp")]
        case "files of another row": return os.listdir("/tmp")
        case "environment": return dict(os.environ)
        case "forks":
            for _ in range(3):
                if os.fork() == 0:
                    os.setpgid(0, 0)
                    while True: pass
            return "forked"
        case "threads":
            import threading, time
            threading.Thread(target=time.sleep, args=(60,)).start()
            return "threaded"
        case "takes memory":
            kept = []
            while True: kept.append(bytearray(1 << 20))
        case "takes it at once": return len(bytearray(10**10))
        case _: return x
"""
KINDS = [line.split('"')[1] for line in MANY.splitlines() if line.startswith("        case ") and '"' in line]
HANG = ("hangs", "sleeps for ever")
SHORT = Limits(timeout=0.7, load_timeout=10, memory=64 << 20, output=2000)
"""For what never ends; what ends by itself may find a busy machine."""
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
    assert told["environment"][1] in ({}, {"LC_CTYPE": "C.UTF-8"})
    died = {"exits": "crash", "aborts": "crash", "floods": "output", "takes memory": "memory"}
    assert {kind: status for kind, (status, _) in told.items() if status != "ok"} == {
        kind: status for kind, status in died.items() if kind in told
    }


LEAVES = """
import os, time
def evaluate(x):
    found = []
    for top in ("/tmp", "/var/tmp", "/dev/shm"):
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
    assert found.values == [["a secret", ["TOKEN"]]]


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


FAILS = {
    "no-filter": ("agent.confine.seccomp = None", {"seccomp"}),
    "bare": ("agent.confine.mount_tmp = None", {"mounts", "seccomp", "pids"}),
}


@pytest.mark.parametrize(("broken", "lacks"), FAILS.values(), ids=FAILS)
def test_what_the_kernel_only_seems_to_have_is_left_out_and_told(broken: str, lacks: set[str]) -> None:
    """The walls are broken inside the harness, for no kernel at hand is as odd as some are."""
    program = f"{broken}; agent.main("
    running = Running(OWN, asked(MANY), rows("x", "exits", "y"), change=lambda b: b.replace("agent.main(", program))
    found = running.answer()
    assert found.listener.greeting is not None
    assert not lacks & set(found.listener.greeting.protects)
    assert [(e.status, e.value) for e in found.executions] == [("ok", "x"), ("crash", None), ("ok", "y")]


def test_an_older_python_says_who_it_is_and_no_more() -> None:
    def older(boot: str) -> str:
        changed = boot.replace("sys.version_info < (3, 11)", "sys.version_info < (9, 0)")
        assert changed != boot
        return changed

    found = Running(OWN, None, [], change=older).answer()
    assert found.listener.greeting is not None
    assert (found.listener.greeting.protects, found.listener.finished) == ((), True)


ORPHANS = """
import os, time
def evaluate(x):
    if x == "leaves":
        heard, tell = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                os.setpgid(0, 0)
                os.write(tell, b".")
                time.sleep(60)
            os._exit(0)
        os.read(heard, 1)
    return x
"""


@pytest.mark.parametrize("lacks", [(), ("namespaces", "landlock")])
def test_a_kernel_that_lets_nobody_adopt_orphans_runs_scripts_and_says_what_that_costs(lacks: tuple[str, ...]) -> None:
    """As gVisor before July 2023. A namespace of processes keeps orphans in; without one nobody finds them."""
    refusing = refused().before
    way = replace(OWN, before=(*refusing[: refusing.index("namespaces")], "subreaper", *lacks, "--"), alone=True)
    running = Running(way.lasting, asked(ORPHANS, limits=SHORT), rows("first", "leaves", "last"))
    try:
        found, pieces = [], running.pieces()
        while not running.listener.finished:
            found += running.listener.feed(next(pieces))
        assert [(e.status, e.value) for e in found] == [("ok", "first"), ("ok", "leaves"), ("ok", "last")]
        greeting = running.listener.greeting
        assert greeting is not None
        assert "orphans" not in greeting.protects
        assert ("pids" in greeting.protects) == (not lacks)
        assert bool(running.left(0.5 if lacks else 3)) == bool(lacks)
    finally:
        running.process.kill()
        running.end()


SETTLED = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
def evaluate(x):
    flags = [sys.flags.hash_randomization, sys.flags.utf8_mode]
    return [list(map(str, {*"abcdefgh"})), flags, [str(libc.getenv(name.encode())) for name in x]]
"""
DROPPED = {
    "all": {},
    "some": {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"},
    "replaced": {"PYTHONHASHSEED": "7", "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONPATH": "/nowhere"},
}


@pytest.mark.parametrize("variables", DROPPED.values(), ids=DROPPED)
def test_what_a_service_does_with_variables_changes_no_result(variables: dict[str, str]) -> None:
    """As where sudo keeps none of them, or a machine has its own."""
    calls = rows(["OMP_NUM_THREADS", "LD_BIND_NOW"])
    usual = ask(SETTLED, calls)
    assert usual.values[0][1:] == [[0, 1], ["b'1'", "b'1'"]]
    found = Running(OWN, asked(SETTLED), calls, variables=variables).answer()
    assert found.listener.greeting is not None
    assert found.listener.greeting.hash_seed == "0"
    assert (found.values, found.errors) == (usual.values, "")


def test_a_python_that_obeys_no_variable_says_its_hash_seed_and_starts_no_script() -> None:
    """Its way to begin anew is taken from it, for no Python at hand is as deaf."""

    def deaf(boot: str) -> str:
        changed = boot.replace("not settled()", "False")
        assert changed != boot
        return changed

    found = Running(OWN, None, [], change=deaf, variables={}).answer()
    assert found.listener.greeting is not None
    assert found.listener.greeting.hash_seed == "other"
    running = Running(OWN, asked("def evaluate(x): return x"), rows(1), change=deaf, variables={})
    with pytest.raises(agent_protocol.UnclearError, match="hash seed is not 0"):
        running.answer()


ENTERS = """
import os, sys
count = int(sys.argv[1])
for folder in sys.argv[2:2 + count]:
    with open(folder + "/cgroup.procs", "w") as file: file.write("0")
os.execvp(sys.argv[2 + count], sys.argv[2 + count:])
"""
EATS = f"""
import os, signal
def evaluate(x):
    if x == "much": return len(b"x" * ({MEMORY + 150} << 20))
    if x == "kills itself": os.kill(os.getpid(), signal.SIGKILL)
    return x
"""


@pytest.mark.parametrize("isolation", ["batch", "call"])
def test_a_row_that_the_machine_has_no_memory_for_is_lost_and_the_others_go_on(isolation: Isolation) -> None:
    with limited() as folders:
        enters = (str(PYTHON), "-I", "-S", "-c", ENTERS, str(len(folders)), *folders)
        way = replace(OWN, before=enters)
        found = ask(
            EATS,
            rows("a", "much", "b", "kills itself", "c"),
            isolation,
            way,
            LIMITS.model_copy(update={"timeout": 60, "memory": 2000 << 20}),
        )
    assert [(e.call, e.status) for e in found.executions] == [(10, "ok"), (12, "ok"), (13, "crash"), (14, "ok")]
    assert found.listener.lost.startswith("the machine, or its container, ran out of memory")
