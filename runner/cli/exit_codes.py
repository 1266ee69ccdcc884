"""Exit codes of the commands."""

from __future__ import annotations

import click

DONE, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, INTERRUPTED = 0, 1, 2, 3, 130


class MissingExtra(click.ClickException):
    """A command needs packages that are not installed."""

    exit_code = COULD_NOT_JUDGE
