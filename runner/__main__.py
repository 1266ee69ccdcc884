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
    from runner.cli import streams

    streams.repair()

    from runner.cli.main import begin

    begin()


if __name__ == "__main__":
    main()
