"""Starts a Python process that imports a module of this package, and as little as can be besides."""

from __future__ import annotations

from pathlib import Path

FOLDERS = (str(Path(__file__).parents[1]), str(Path(__file__).parent))
"""The first arguments of the process."""

_BOOT = """
import gc, sys
gc.disable()  # what is imported is no garbage, and to look for it takes long
for name, folder in ("sandboxes", sys.argv[1]), ("sandboxes.wasm", sys.argv[2]):
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = [folder]
from MODULE import main
gc.freeze()
gc.enable()
main(*sys.argv[3:])
"""


def boot(module: str) -> str:
    """
    The program to pass with `-P -c`: it calls the module's `main` with the arguments after `FOLDERS`.

    It starts without the packages' own modules, whose imports take far longer than all that a worker needs. `-P`: a
    module in the folder that evalcell is called from must not be taken for one of ours.
    """
    return _BOOT.replace("MODULE", module)
