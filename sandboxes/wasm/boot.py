"""Starts a Python process that imports a module of this package, and as little as can be besides."""

from __future__ import annotations

from pathlib import Path

from sandboxes.own_python import command_of

_FOLDERS = (str(Path(__file__).parents[1]), str(Path(__file__).parent))

_BOOT = """
import gc
gc.disable()  # what is imported is no garbage, and to look for it takes long
for name, folder in ("sandboxes", sys.argv[1]), ("sandboxes.wasm", sys.argv[2]):
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = [folder]
from MODULE import main
gc.freeze()
gc.enable()
main(requests, replies, *sys.argv[3:])
"""


def boot(module: str, *arguments: str) -> list[str]:
    """
    What starts a process that calls the module's `main` as `module_command` does.

    It starts without the packages' own modules, whose imports take far longer than all that a worker needs.
    """
    return [*command_of(_BOOT.replace("MODULE", module)), *_FOLDERS, *arguments]
