"""The start of the command line. From here on, also during imports, a signal ends it with 130 and no traceback."""

from __future__ import annotations

import sys

try:
    import os
    import signal
except KeyboardInterrupt:
    sys.exit(130)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


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
    """The entry point."""
    if sys.version_info < (3, 11):  # noqa: UP036  (a folder of packages is not bound to one Python)
        sys.exit(f"evalcell needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}")
    try:
        from runner.cli import garbage

        garbage.collect_rarely()
        from runner.cli import streams

        streams.repair()

        from runner.cli.main import begin

        begin()
    except Exception as error:
        if "--debug" in sys.argv or (why := _cannot_import(error)) is None:
            raise
        sys.stderr.write(f"evalcell: {why}\n")
        sys.exit(3)


def _cannot_import(error: Exception) -> str | None:
    """Where another's module has taken the place of one that evalcell needs: that, and what to do."""
    if not os.path.exists(__file__):
        return "it cannot run from inside a zip file, as its packages have native code; install it, or unpack the file"
    places = [os.path.realpath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    places = [path for path in places if path != os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]
    used = {getattr(module, "__file__", None) or "": name for name, module in list(sys.modules.items())}
    used[str(getattr(error, "filename", ""))] = ""  # of a SyntaxError
    trace = error.__traceback__
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


if __name__ == "__main__":
    main()
