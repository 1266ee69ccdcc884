"""The caller's variables: the environment, and an env-file over it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from sandboxes.errors import UnsupportedConfigError

LARGEST = 1 << 20
"""Bytes of an env-file."""


def values(env_file: str | None) -> dict[str, str]:
    """
    All variables, those of the file first.

    Raises UnsupportedConfigError for a file, or a line of it, that cannot be read.
    """
    if env_file is None:
        return dict(os.environ)
    from dotenv.parser import parse_stream

    try:
        with Path(env_file).open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UnsupportedConfigError(
                f"the env-file {env_file} is larger than {LARGEST >> 20} MB; is it the right file?"
            )
        text = content.decode()
    except OSError as e:
        raise UnsupportedConfigError(f"the env-file {env_file} cannot be read ({e.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise UnsupportedConfigError(f"the env-file {env_file} is not text in UTF-8; write NAME=value lines") from None
    every = dict(os.environ)
    for line in parse_stream(StringIO(text)):
        if line.error:  # its text may be a secret, and is not repeated
            said = line.original.string  # with the blank lines before it
            number = line.original.line + said[: len(said) - len(said.lstrip())].count("\n")
            raise UnsupportedConfigError(f"the env-file {env_file}: line {number} is not NAME=value; mend it")
        if line.key is not None and line.value is not None:
            every[line.key] = line.value
    return every


def chosen(names: Iterable[str], env_file: str | None = None) -> dict[str, str]:
    """The variables of these names. Raises UnsupportedConfigError for one that is not set."""
    every, found = values(env_file), {}
    for name in names:
        if name not in every:
            raise UnsupportedConfigError(
                f"there is no variable {name} here that the script could be given; set it, or leave it out"
            )
        found[name] = every[name]
    return found
