"""The caller's variables: the environment, and an env-file over it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import StringIO

from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.regular import read_regular
from sandboxes.words.wording import Message, Setting

LARGEST = 1 << 20
"""Most bytes of an env-file."""
_LOCK = threading.Lock()
_HIDDEN: dict[str, str] = {}


def all_variables(env_file: str | None) -> dict[str, str]:
    """
    Return all variables; those of the file have precedence.

    Raises:
        UnsupportedConfigError: For a file or line that cannot be read.
    """
    more = {} if env_file is None else file_variables(env_file)
    with _LOCK:
        return {**_HIDDEN, **os.environ, **more}


@contextmanager
def hidden_variables(names: Iterable[str]) -> Iterator[None]:
    """Keep variables from the programs that are started meanwhile; `all_variables` has them all the same."""
    with _LOCK:
        hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
        _HIDDEN.update(hidden)
    try:
        yield
    finally:
        with _LOCK:
            os.environ.update(hidden)
            for name in hidden:
                del _HIDDEN[name]


def file_variables(env_file: str) -> dict[str, str]:
    """Return the variables that the file sets. Raises as `all_variables`."""
    from dotenv.parser import parse_stream

    file = Setting("sandbox.env_file", env_file)
    try:
        content = read_regular(env_file, LARGEST + 1)
        if len(content) > LARGEST:
            raise UnsupportedConfigError(Message(file, f" is larger than {LARGEST >> 20} MB; check the path"))
        text = content.decode()
    except OSError as e:
        raise UnsupportedConfigError(Message(file, f" cannot be read ({e.strerror}); check the path")) from None
    except UnicodeDecodeError:
        raise UnsupportedConfigError(Message(file, " is not text in UTF-8; write NAME=value lines")) from None
    every = dict[str, str]()
    for line in parse_stream(StringIO(text)):
        if line.error:  # the message does not repeat its text, which may be a secret
            said = line.original.string  # including blank lines before it
            number = line.original.line + said[: len(said) - len(said.lstrip())].count("\n")
            raise UnsupportedConfigError(Message(file, f": line {number} is not NAME=value; correct it"))
        if line.key is not None and line.value is not None:
            every[line.key] = line.value
    return every


def choose_variables(names: Iterable[str], env_file: str | None = None) -> dict[str, str]:
    """Return the variables of these names. Raises UnsupportedConfigError if one is not set."""
    every, found = all_variables(env_file), {}
    for name in names:
        if name not in every:
            raise UnsupportedConfigError(
                f"the variable {name} is not set, so the script cannot have it; set it, or leave it out"
            )
        found[name] = every[name]
    return found
