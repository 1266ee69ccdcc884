"""What every backend promises of limits (5), of the host (6) and of the result's channel (7); see test_promises.py."""

from __future__ import annotations

import json

import pytest

from sandboxes import Call, Isolation, SandboxConfig, UnsupportedConfigError, backends, create, find
from tests.sandboxes.backends import LIMITS, Backend, calls
from tests.sandboxes.languages import Source, body
from tests.sandboxes.shared import evaluate

# 5. Memory, output and result size are bounded while they are produced.

HOGS = {
    "buffers": Source(
        python="def evaluate():\n    kept = []\n    while True: kept.append(bytearray(1 << 20))\n",
        typescript="""
export function evaluate() {
  const kept: Uint8Array[] = [];
  while (true) kept.push(new Uint8Array(1 << 20).fill(1));
}
""",
    ),
    "objects": Source(
        python="def evaluate():\n    kept = []\n    while True: kept.append([{}] * 1000)\n",
        typescript="""
export function evaluate() {
  const kept: object[][] = [];
  while (true) kept.push(new Array(1000).fill({}));
}
""",
    ),
    "at-once": body("return len(bytearray(10**9))", "return new Uint8Array(1e9).fill(1).length;"),
}


@pytest.mark.each_provider("buffers")
@pytest.mark.needs("bounds")
@pytest.mark.parametrize("script", HOGS.values(), ids=HOGS)
def test_memory_is_bounded(backend: Backend, script: Source) -> None:
    (found,) = evaluate(backend, script, calls())
    assert found.status == "memory"
    assert found.error is not None
    assert "128 MB" in found.error.message


KEEPS = Source(
    python="""
import time
kept = []
def evaluate(size):
    while size < 0: kept.append(bytearray(b"x") * (1 << 20))
    kept.append(bytearray(b"x") * (size << 20))
    time.sleep(0.06)  # longer than from one look at the memory to the next
    return size
""",
    typescript="""
const kept: Uint8Array[] = [];
export function evaluate({size}: {size: number}) {
  while (size < 0) kept.push(new Uint8Array(1 << 20).fill(1));
  kept.push(new Uint8Array(size << 20).fill(1));
  const until = Date.now() + 60;
  while (Date.now() < until);
  return size;
}
""",
)


@pytest.mark.needs("bounds")
@pytest.mark.parametrize("isolation", ["batch"])
def test_memory_is_said_only_of_what_needs_too_much_by_itself(backend: Backend, isolation: Isolation) -> None:
    sizes = [70, 70, 70, -1, -1, 10]
    batch = [Call(id=n, arguments={"size": size}) for n, size in enumerate(sizes)]
    found = evaluate(backend, KEEPS, batch, isolation=isolation)
    assert [e.value if e.status == "ok" else e.status for e in found] == [s if s > 0 else "memory" for s in sizes]


LINES = Source(
    python="""
import sys
def evaluate(lines):
    for n in range(lines): print("line", n, file=sys.stderr if n % 2 else sys.stdout)
    return 1
""",
    typescript="""
export function evaluate({lines}: {lines: number}) {
  for (let n = 0; n < lines; n++) (n % 2 ? console.error : console.log)("line", n);
  return 1;
}
""",
)


@pytest.mark.needs("bounds")
def test_the_kept_output_is_the_tail_and_flagged(backend: Backend) -> None:
    limits = LIMITS.model_copy(update={"output": 100})
    batch = [Call(id=0, arguments={"lines": 3}), Call(id=1, arguments={"lines": 500})]
    short, long = evaluate(backend, LINES, batch, limits=limits)
    assert (short.output, short.truncated) == ("line 0\nline 1\nline 2\n", False)
    assert (long.output.endswith("line 498\nline 499\n"), len(long.output) <= 100, long.truncated) == (True, True, True)
    assert long.status == "ok"


FLOODS = body("while True: print('x' * 4096)", 'while (true) console.log("x".repeat(4096));')


@pytest.mark.each_provider
@pytest.mark.needs("bounds")
def test_output_without_end_is_stopped(backend: Backend) -> None:
    (found,) = evaluate(backend, FLOODS, calls())
    assert (found.status, found.truncated, len(found.output)) == ("output", True, LIMITS.output)


@pytest.mark.each_provider("x")
@pytest.mark.needs("bounds")
@pytest.mark.parametrize("char", ["x", "é", "\x00"])
def test_the_results_size_is_bounded(backend: Backend, char: str) -> None:
    size = len(char.encode()) if char != "\x00" else 6  # as JSON
    script = Source(
        python=f"def evaluate(n): return {char!r} * n\n",
        typescript=f"export const evaluate = ({{n}}) => {json.dumps(char)}.repeat(n);\n",
    )
    fits, over = (Call(id=n, arguments={"n": (1000 - 2) // size + n}) for n in range(2))
    limits = LIMITS.model_copy(update={"result": 1000})
    first, second = evaluate(backend, script, [fits, over], limits=limits)
    assert (first.status, second.status, second.value) == ("ok", "output", None)


# 6. No network, no files of the host, an empty environment.

HOST = {
    "reads-a-file": ("open('/etc/hostname').read()", 'Deno.readTextFileSync("/etc/hostname");'),
    "lists-etc": ("import os; os.listdir('/etc')", '[...Deno.readDirSync("/etc")];'),
    "lists-home": ("import os; os.listdir('/home')", '(await import("node:fs")).readdirSync("/home");'),
    "reads-HOME": ("import os; open(os.environ['HOME'] + '/.profile')", 'Deno.env.get("HOME")!.at(0);'),
    "reads-PATH": ("import os; os.environ['PATH']", '(await import("node:process")).env.PATH.at(0);'),
    "connects": (
        "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
        'await Deno.connect({hostname: "127.0.0.1", port: 9});',
    ),
    "makes-a-socket": ("import socket; socket.socket()", "Deno.listen({port: 0});"),
    "fetches": (
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        'await fetch("http://127.0.0.1:81/");',
    ),
    "starts-a-program": ("import subprocess; subprocess.run(['true'])", 'new Deno.Command("true").outputSync();'),
    "writes-a-file": ("open('written', 'w')", 'Deno.writeTextFileSync("written", "");'),
}


@pytest.mark.each_provider("reads-PATH", "connects")
@pytest.mark.needs("closed")
@pytest.mark.parametrize(("python", "typescript"), HOST.values(), ids=HOST)
def test_nothing_of_the_host_is_there(backend: Backend, python: str, typescript: str) -> None:
    script = body(f"{python}; return 'ESCAPED'", f"{typescript} return 'ESCAPED';")
    (found,) = evaluate(backend, script, calls())
    assert found.status == "error", found


SYSTEM = {
    "lists-the-root": ("import os; os.listdir('/')", '[...Deno.readDirSync("/")];'),
    "starts-a-thread": (
        "import threading; threading.Thread(target=print).start()",
        'new Worker("data:application/javascript,", {type: "module"});',
    ),
}


@pytest.mark.needs("nothing")
@pytest.mark.parametrize(("python", "typescript"), SYSTEM.values(), ids=SYSTEM)
def test_there_is_no_system_at_all(backend: Backend, python: str, typescript: str) -> None:
    script = body(f"{python}; return 'ESCAPED'", f"{typescript} return 'ESCAPED';")
    (found,) = evaluate(backend, script, calls())
    assert found.status == "error", found


@pytest.mark.parametrize(
    "asked",
    [{"packages": ("numpy",)}, {"files": {"MODEL": "model.json"}}, {"network": True}, {"env": ("HOME",)}],
    ids=["packages", "files", "network", "env"],
)
def test_what_cannot_be_honoured_is_refused(asked: dict[str, object]) -> None:
    (feature,) = asked
    for name in backends():
        if getattr(find(name).capabilities, feature):
            continue
        with pytest.raises(UnsupportedConfigError, match=name):
            create(SandboxConfig.model_validate({"backend": name, **asked}))


# 7. The result travels on a channel that nothing printed can forge; arguments travel as data.

FORGES = Source(
    python="""
import sys
def evaluate():
    for forged in ('{"said":0,"output":"","status":"ok","value":1.0}', "===RESULT===\\n1.0\\n===END==="):
        print(forged); print(forged, file=sys.stderr, end="")
        sys.stdout.buffer.write(forged.encode())
    return 0.25
""",
    typescript="""
export function evaluate() {
  for (const forged of ['{"said":0,"output":"","status":"ok","value":1.0}', "===RESULT===\\n1.0\\n===END==="]) {
    console.log(forged); console.error(forged);
    Deno.stdout.writeSync(new TextEncoder().encode(forged));
  }
  return 0.25;
}
""",
)


@pytest.mark.each_provider
@pytest.mark.needs("channel")
def test_nothing_printed_is_a_result(backend: Backend) -> None:
    (found,) = evaluate(backend, FORGES, calls())
    assert (found.status, found.value) == ("ok", 0.25)


PATCHES = Source(
    python="""
import abc, builtins, json, json.decoder, json.encoder

def lies(*given, **named):
    return "a lie"

def evaluate(x):
    for place in (json.JSONEncoder, json.JSONDecoder):
        for name in [name for name in vars(place) if name[:2] != "__"]:
            setattr(place, name, lies)
    for place in (json.encoder, json.decoder, json):
        for name in [name for name in vars(place) if name[:2] != "__"]:
            setattr(place, name, lies)
    abc.ABCMeta.__instancecheck__ = lambda *given: True
    for name in "all any getattr hasattr isinstance len repr type int str dict tuple".split():
        setattr(builtins, name, lies)
    return x
""",
    typescript="""
const lies = () => "a lie";
export function evaluate({x}: {x: unknown}) {
  for (const place of [JSON, Reflect, Array, Array.prototype, String.prototype, Number, Map.prototype, Set.prototype]) {
    for (const name of Object.getOwnPropertyNames(place)) {
      if (!["prototype", "length", "name", "constructor"].includes(name)) (place as any)[name] = lies;
    }
  }
  (Object.prototype as any).toJSON = lies;
  Object.keys = Object.entries = Object.getPrototypeOf = lies as any;
  return x;
}
""",
)


@pytest.mark.needs("channel")
def test_what_a_script_patches_does_not_change_how_its_results_travel(backend: Backend) -> None:
    value = {"score": 0.5, "label": 'é "😀"', "explanation": None, "list": [1, 2.5, True, {"a": []}]}
    found = evaluate(backend, PATCHES, calls(2, x=value))
    assert [(e.status, e.value) for e in found] == [("ok", value)] * 2


GIVES_BACK = Source(
    python="def evaluate(x, **more): return [x, more]",
    typescript="export const evaluate = ({x, ...more}: Record<string, unknown>) => [x, more];",
)


@pytest.mark.needs("channel")
@pytest.mark.parametrize(
    "text",
    [
        "'''\nraise SystemExit\n'''",
        '"; import os; "',
        "`;Deno.exit()",
        "\\u0022",
        "${x}",
        "{{x}}",
        "\0\x1b[2J",
        "__proto__",
    ],
)
def test_arguments_are_data(backend: Backend, text: str) -> None:
    (found,) = evaluate(backend, GIVES_BACK, [Call(id=0, arguments={"x": text, "__proto__": text})])
    assert found.value == [text, {"__proto__": text}]
