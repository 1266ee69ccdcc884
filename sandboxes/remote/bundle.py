"""The agent's modules and the short Python program that loads them, which are sent to a machine first."""

from __future__ import annotations

import functools
import json
import zlib

from sandboxes.base import Language
from sandboxes.boxes.launch import GUEST, VARIABLES

_FIRST = ("wire", "box.confine", "box.reap", "box.init", "supervisor.clock", "supervisor.pipes", "supervisor.procfs")
_SUPERVISOR = tuple(
    f"supervisor.{name}" for name in ("outgoing", "inbox", "blame", "shortage", "timing", "driver", "processor", "run")
)
_INNER: dict[Language, tuple[str, ...]] = {
    "python": (
        *("harness", "python.fork_pages", "python.leftovers", "python.no_programs", "python.child", "python.zygote"),
        *("supervisor.attempt", "supervisor.python_load", "supervisor.python_run"),
    ),
    "typescript": ("supervisor.deno_fifo", "supervisor.deno_run", "deno.exec"),
}
_MACHINE = ("event_loop", "frames", "host_facts", "cleanup", "namespaces", "spawner", "channel", "box")
_BOX: dict[Language, tuple[str, ...]] = {
    "python": ("agent", "python_box"),
    "typescript": ("agent", "deno_box"),
}


def modules(language: Language) -> tuple[str, ...]:
    """
    Modules of the package `guest` for scripts in a language; each imports only those above it and the standard library.

    The last but one has `main`, which is called with the `Runtime` of the last.
    """
    machine = (f"machine.{name}" for name in (*_MACHINE, *_BOX[language]))
    return (*_FIRST, *_SUPERVISOR, *_INNER[language], *machine)


ENVIRONMENT = VARIABLES | {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
"""The variables that Python is started with. Not secret; they are arguments too, since a service may drop variables."""

_BOOT = """
import sys
sys.path[:] = [place for place in sys.path if place]
import os
wanted = WANTED
def settled():
    return not sys.flags.hash_randomization and sys.flags.utf8_mode and wanted.items() <= os.environ.items()
if sys.version_info >= (3, 11) and sys.argv[-1] != 'again' and not settled():
    words = [sys.executable, '-s', '-S', '-B', '-c', sys.orig_argv[sys.orig_argv.index('-c') + 1]]
    try:
        os.execve(sys.executable, [*words, *sys.argv[1:], 'again'], {**os.environ, **wanted})
    except OSError:
        pass
def take(count):
    got = []
    while count:
        got.append(os.read(0, min(count, 65536)))
        count -= len(got[-1])
        if not got[-1]:
            sys.exit('evalcell: its input ended early')
    return b''.join(got)
def part():
    digits = b''
    while digits[-1:] != b'\\n':
        digits += take(1)
    return take(int(digits))
def old():
    import json
    part()
    mark = json.loads(part().decode())['mark']
    hello = {'python': '%d.%d.%d' % sys.version_info[:3], 'machine': os.uname()[4], 'system': '', 'protects': []}
    for frame in ({'hello': hello}, {'done': 0}):
        print(json.dumps(dict(frame, mark=mark)))
if sys.version_info < (3, 11):
    part()
    old()
    sys.exit(0)
import json, types, zlib
def begin():
    made = []
    for name, source in json.loads(zlib.decompress(part())):
        folder, _, last = ('evalcell_guest.' + name).rpartition('.')
        if folder not in sys.modules:
            sys.modules[folder] = types.ModuleType(folder)
        module = types.ModuleType(folder + '.' + last)
        module.__package__, module.__file__ = folder, '/%s/%s.py' % (folder.replace('.', '/'), last)
        sys.modules[module.__name__] = module
        exec(compile(source, module.__file__, 'exec', 0, True), module.__dict__)
        setattr(sys.modules[folder], last, module)
        made.append(module)
    for name in [name for name in sys.modules if name.partition('.')[0] == 'evalcell_guest']:
        del sys.modules[name]
    return made[-2:]
agent, box = begin()
agent.main(part, box.Runtime)
"""
BOOT = _BOOT.replace("WANTED", repr(ENVIRONMENT))
"""
Reads part after part from standard input, each after its length, and no byte more: secrets follow.

Without these variables it starts itself again with them, before it reads anything: the order of sets, the encoding of
files and the threads of numeric libraries, and so results, may depend on them.

The modules get a package of their own, which is removed from sys.modules once they are loaded.
"""

ARGUMENTS = ("-s", "-S", "-B", "-c", BOOT)
"""Not `-I`, which would ignore PYTHONHASHSEED, on which the order of sets depends; nor `-P`, which is new in 3.11."""


@functools.cache
def bundle(language: Language) -> bytes:
    """The compressed modules with their names."""
    sources = [(name, (GUEST / f"{name.replace('.', '/')}.py").read_text("utf-8")) for name in modules(language)]
    return zlib.compress(json.dumps(sources).encode(), 9)
