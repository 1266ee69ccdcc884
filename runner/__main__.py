"""The start of the command line. From here on, also during imports, a signal ends it with 130 and no traceback."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def _leave_folder() -> None:
    """
    Import nothing more from the folder that evalcell is called from, here and in what it starts.

    `python -m` looks there first, and so does an empty part of PYTHONPATH, as in `PYTHONPATH=$PYTHONPATH:/lib`.
    """
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [part for part in parts if part]
    if named != parts and "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(named)
    try:
        here = os.getcwd()
    except OSError:
        return  # it was deleted
    if here not in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *map(os.path.abspath, named)):
        first = sys.path[
            : 1 + len(parts)
        ]  # what is installed in this folder, as a project that one works on, comes later
        sys.path[: len(first)] = [path for path in first if path and path != here]


def _refuse_hidden(error: Exception) -> NoReturn:
    """End with what hides a module that is needed; raise the error where nothing does."""
    from runner.cli.shadowed_module import cannot_import

    if "--debug" in sys.argv or (why := cannot_import(error, starting=True)) is None:
        raise error
    sys.stderr.write(f"evalcell: {why}\n")
    sys.exit(3)


try:
    import os

    _leave_folder()  # first: a file of that folder may be named as what is imported next
    import signal
except KeyboardInterrupt:
    sys.exit(130)
except Exception as error:
    _refuse_hidden(error)


def _quit(*_: object) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)


# Nothing has begun yet that would have to be ended. A KeyboardInterrupt could be lost in what imports call.
for _name in ("SIGINT", "SIGTERM", "SIGHUP"):
    _number = getattr(signal, _name, None)  # Windows has no SIGHUP
    if _number is not None and signal.getsignal(_number) is not signal.SIG_IGN:
        signal.signal(_number, _quit)


def main() -> NoReturn:
    """Return the entry point."""
    if sys.version_info < (3, 11):  # noqa: UP036  (a folder of packages is not bound to one Python)
        sys.exit(f"evalcell needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}")
    try:
        from runner.cli import streams

        streams.repair()

        # A plugin of pydantic that is installed here watches other programs, and each command would import it.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        # To look for garbage, of which imports leave none, took a ninth of the time of ten rows, and as much of 10,000.
        gc.disable()
        from runner.cli.main import begin

        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()
        begin()
    except Exception as error:
        _refuse_hidden(error)


if __name__ == "__main__":
    main()
