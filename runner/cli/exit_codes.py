"""Exit codes of the commands."""

from __future__ import annotations

import click

DONE, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, INTERRUPTED = 0, 1, 2, 3, 130


class MissingExtra(click.ClickException):
    """A command needs packages that are not installed."""

    exit_code = COULD_NOT_JUDGE


def epilog(failed: str) -> str:
    """The end of a command's help. `failed`: what 1 stands for."""
    return (
        f"Exit codes: 0 done; 1 {failed}; 2 wrong usage; 3 no verdict, for example because nothing was scored; "
        "130 interrupted."
    )
