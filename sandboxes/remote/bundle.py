"""What is sent to a machine before anything else: the harness, and a few words of Python that read it."""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path

from sandboxes.base import Language
from sandboxes.boxes.launch import VARIABLES

_SANDBOXES = Path(__file__).parents[1]

_FIRST = (
    "boxes/inside/confine",
    "boxes/inside/ends",
    "boxes/inside/wire",
    "boxes/inside/guardian",
    "boxes/inbox",
    "boxes/pipes",
    "boxes/tree",
    "boxes/doubt",
    "boxes/shortage",
    "boxes/timing",
)
_INNER: dict[Language, tuple[str, ...]] = {
    "python": (
        "inside/answers",
        "process/inside/pages",
        "process/inside/leftovers",
        "process/inside/child",
        "process/inside/inner",
    ),
    "typescript": ("deno/line", "deno/threads", "deno/inside/inner"),
}
_BOX = (
    "remote/inside/ports",
    "remote/inside/frames",
    "remote/inside/needs",
    "remote/inside/weigh",
    "remote/inside/sweep",
    "remote/inside/walls",
    "remote/inside/spawner",
    "remote/inside/channel",
    "remote/inside/box",
)
_HOLDER: dict[Language, tuple[str, ...]] = {
    "python": ("remote/inside/attempt", "remote/inside/holder"),
    "typescript": ("remote/inside/deno/holder",),
}


def modules(language: Language) -> tuple[str, ...]:
    """For scripts of a language; each imports only what stands above it, and the standard library."""
    return (*_FIRST, *_INNER[language], *_BOX, *_HOLDER[language], "remote/inside/harness")


ENVIRONMENT = VARIABLES | {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
"""What Python is started with. They are no secrets, and stand in its arguments too: a service may drop variables."""

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
        made.append(types.ModuleType(name))
        made[-1].__file__ = '/evalcell/inside/%s.py' % name
        sys.modules[name] = made[-1]
        exec(compile(source, made[-1].__file__, 'exec', 0, True), made[-1].__dict__)
    for module in made:
        del sys.modules[module.__name__]
    return made[-1]
begin().main(part)
"""
BOOT = _BOOT.replace("WANTED", repr(ENVIRONMENT))
"""
Reads part after part from standard input, each after its length, and not a byte ahead: what follows are secrets.

Where it was not started with the variables it begins anew with them, once, before it has read anything: the order of
sets, the encoding of files and the threads of numeric libraries depend on them, and so may results.

The modules are taken out of sight once they are there, for a script may want a package of such a name.
"""

ARGUMENTS = ("-s", "-S", "-B", "-c", BOOT)
"""
Not `-I`, which would ignore PYTHONHASHSEED, on which the order of sets depends; nor `-P`, which only Python 3.11 knows.
"""


@functools.cache
def bundle(language: Language) -> bytes:
    """The modules, compressed."""
    sources = [(name.rpartition("/")[2], _source(_SANDBOXES / f"{name}.py")) for name in modules(language)]
    return zlib.compress(json.dumps(sources).encode(), 9)


def _source(path: Path) -> str:
    """There are no packages on the machine."""
    text = path.read_text("utf-8").replace("from sandboxes.boxes.inside import ", "import ")
    return text.replace("from sandboxes.boxes.pipes import ", "from pipes import ")
