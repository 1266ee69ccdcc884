"""
What a box runs: `python start.py BACKEND CONTROL LIFE [HOST]`, all but the first descriptors.

The modules lie beside this file and in the backend's folder, laid out as in the project.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.join(_HERE, "..", "..")
_OTHERS = set(sys.modules)

sys.path[:0] = [_HERE, os.path.join(_ROOT, "inside"), os.path.join(_ROOT, sys.argv[1], "inside")]
import guardian  # noqa: E402
import inner  # noqa: E402  (the backend's)

del sys.path[:3]
for name in set(sys.modules) - _OTHERS:
    if os.path.dirname(getattr(sys.modules[name], "__file__", None) or "").endswith("inside"):
        del sys.modules[name]  # a script may want a package of that name
guardian.main(*map(int, sys.argv[2:4]), inner.serve, *map(int, sys.argv[4:]))
