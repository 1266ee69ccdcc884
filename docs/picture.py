"""A picture of a real run, for the README: `make picture`."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

WIDTH = 84
COMMAND = ("evalcell", "run", "json-similarity", "demo", "-j", "2", "--worst", "2")


def recorded(command: tuple[str, ...]) -> str:
    """What the command writes to a terminal on its standard output, colours included."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    program = Path(sys.executable).with_name(command[0])
    child = subprocess.Popen([str(program), *command[1:]], stdout=theirs, stderr=subprocess.DEVNULL, env=env)
    os.close(theirs)
    said = bytearray()
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:
        pass  # Linux says so when the other end is closed
    if child.wait():
        sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    return said.decode().replace("\r\n", "\n")


def main(path: str) -> None:
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"\x1b[1m$ {' '.join(COMMAND)}\x1b[0m\n" + recorded(COMMAND)))
    picture = console.export_svg(title="evalcell", theme=DIMMED_MONOKAI)
    # The reader's own monospaced font will do: a picture should not fetch anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).replace("Fira Code, ", "")
    Path(path).write_text(picture)


if __name__ == "__main__":
    main(sys.argv[1])
