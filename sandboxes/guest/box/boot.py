"""
What a box runs: `python boot.py MODULE CONTROL LIFE [HOST]`, all but the first descriptors.

MODULE, of this package, is what serves the host once the doors are closed. Python is started without the project
around it, so the package is imported under a name of its own, and forgotten again before a script runs.
"""

from __future__ import annotations

import os
import sys

_PACKAGE = "evalcell_guest"

package = sys.modules[_PACKAGE] = type(sys)(_PACKAGE)
package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
init = __import__(f"{_PACKAGE}.box.init", fromlist=["main"])
served = __import__(f"{_PACKAGE}.{sys.argv[1]}", fromlist=["serve"])

for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
    del sys.modules[name]
init.main(*map(int, sys.argv[2:4]), served.serve, *map(int, sys.argv[4:]))
