"""
The program of a box: `python boot.py MODULE CONTROL LIFE [HOST]`, where all but MODULE are descriptors.

MODULE, of this package, serves the host once the rights are given up. Python is started without the project, so the
package is imported under another name, and removed from sys.modules before a script runs.
"""

from __future__ import annotations

import os
import sys

_PACKAGE = "evalcell_guest"

package = sys.modules[_PACKAGE] = type(sys)(_PACKAGE)
package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
init = __import__(f"{_PACKAGE}.box.init", fromlist=["main"])
server_module = __import__(f"{_PACKAGE}.{sys.argv[1]}", fromlist=["serve"])

for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
    del sys.modules[name]
init.main(*map(int, sys.argv[2:4]), server_module.serve, *map(int, sys.argv[4:]))
