"""`python -m sandboxes.wasm.build`: build the guest in place, if its sources changed."""

import argparse
import sys
from pathlib import Path

from .errors import GuestBuildError
from .pipeline import OUTPUT, build_guest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sandboxes.wasm.build", description="Build the Wasm guest.")
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder to write to (default: %(default)s)")
    options = parser.parse_args()
    try:
        build_guest(options.output, force=options.force)
    except GuestBuildError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
