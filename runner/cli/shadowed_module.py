"""What is said where a module of another has the name of one that evalcell needs."""

from __future__ import annotations

import os
import sys


def cannot_import(error: Exception, *, starting: bool) -> str | None:
    """
    Return where another's module has taken the place of one that evalcell needs: that, and what to do.

    While it is starting, whatever stands in the way is in the traceback. Later a fault of ours may be: then only a
    module that has the name of one of Python's counts.
    """
    if not os.path.exists(__file__):
        return "it cannot run from inside a zip file, as its packages have native code; install it, or unpack the file"
    places = [os.path.realpath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    places = [path for path in places if path != ours]
    used = {getattr(module, "__file__", None) or "": name for name, module in list(sys.modules.items())}
    used[str(getattr(error, "filename", ""))] = ""  # of a SyntaxError
    trace = error.__traceback__ if starting else None
    while trace is not None:
        used[trace.tb_frame.f_code.co_filename] = ""
        trace = trace.tb_next
    for file, name in used.items():
        known = not name or name.partition(".")[0] in sys.stdlib_module_names
        if known and any(os.path.realpath(file).startswith(path + os.sep) for path in places):
            said = f"{type(error).__name__}: {error}"
            return (
                f"{file}, found by PYTHONPATH, hides a module that it needs ({said}); run: env -u PYTHONPATH evalcell …"
            )
    return None
