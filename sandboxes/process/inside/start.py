"""What a box runs: `python start.py CONTROL LIFE`, two descriptors. The modules lie beside it, as in the project."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [_HERE, os.path.join(_HERE, "..", "..", "inside")]
import guardian  # noqa: E402

del sys.path[:2]
for name in ("answers", "child", "confine", "guardian", "pages", "wire", "zygote"):
    if name in sys.modules:  # a script may want a package of that name
        del sys.modules[name]
guardian.main(int(sys.argv[1]), int(sys.argv[2]))
