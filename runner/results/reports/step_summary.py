"""The summary of a GitHub Actions step: Markdown that is appended to the file that `GITHUB_STEP_SUMMARY` names."""

from __future__ import annotations

import os
import stat

from runner.core.text import printable, whole, why

VARIABLE = "GITHUB_STEP_SUMMARY"
"""The variable that has the file's path."""
MOST = 1 << 20
"""Bytes of a step's summary; GitHub drops a longer one as a whole."""


def append_step_summary(path: str, text: str) -> str | None:
    """Append it, if the file then is no larger than GitHub takes. Return what prevents it, if something does."""
    data = whole(text).encode() + b"\n"
    named = f"{VARIABLE} {printable(whole(path))}"
    try:
        # A FIFO that nobody reads must not hold the run up.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        file = os.open(path, flags, 0o644)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                return f"{named} is no regular file, so nothing was appended; unset the variable"
            if about.st_size + len(data) > MOST:
                return f"{named} would be larger than the {MOST >> 20} MB that GitHub takes, so nothing was appended"
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        return f"{named} cannot be written ({why(error)}); unset the variable, or free some room"
    return None
