"""Exit codes of the commands."""

from __future__ import annotations

import click

DONE, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, INTERRUPTED = 0, 1, 2, 3, 130


class MissingExtra(click.ClickException):
    """A command needs packages that are not installed."""

    exit_code = COULD_NOT_JUDGE


def need_packages(what: str, packages: tuple[str, ...], extra: str) -> None:
    """Raise MissingExtra if one of `packages` is not installed. `what` needs them, and `extra` brings them."""
    from importlib.util import find_spec  # not for a command that only prints its help

    if (missing := next((name for name in packages if find_spec(name) is None), None)) is not None:
        raise MissingExtra(f"{what} needs {missing}; run: pip install 'evalcell[{extra}]'")


def epilog(failed: str) -> str:
    """Return the end of a command's help. `failed`: what 1 stands for."""
    return (
        f"Exit codes: 0 done; 1 {failed}; 2 wrong usage; 3 no verdict, for example because nothing was scored; "
        "130 interrupted."
    )
