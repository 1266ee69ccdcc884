"""The token: from EVALCELL_TOKEN, or made at the first start and kept where only its owner reads it."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from runner.core.errors import InputError
from runner.core.text import printable
from sandboxes.cache import private_dir
from sandboxes.host.owner import is_ours
from sandboxes.remote.ledger import VARIABLE as STATE

VARIABLE = "EVALCELL_TOKEN"
LANGFUSE = "EVALCELL_LANGFUSE_SECRET"
SHORTEST = 16
_LONGEST = 1000


def from_environment() -> str | None:
    """
    Return the token of the environment, which is taken out of it: no process that is started later has it.

    Raises:
        InputError: For one that could be guessed.
    """
    token = os.environ.pop(VARIABLE, "").strip()
    if not token:
        return None
    if not SHORTEST <= len(token) <= _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{VARIABLE} must be {SHORTEST} to {_LONGEST:,} letters, digits or signs without spaces; "
            "leave it out, and one is made"
        )
    return token


def langfuse_secret() -> str | None:
    """Return the secret of Langfuse's signatures; it is taken out of the environment. Raises InputError."""
    secret = os.environ.pop(LANGFUSE, "").strip()
    if secret and len(secret) < SHORTEST:
        raise InputError(
            f"{LANGFUSE} must have {SHORTEST} characters at least; take the signing secret of your Langfuse"
        )
    return secret or None


def load_or_create_token(folder: Path) -> tuple[str, bool]:
    """
    Return the token of this folder, and whether it was made just now.

    Raises:
        InputError: For a file that others can read, and where none can be kept.
        SandboxUnavailableError: For a folder that others can write to.
    """
    path = folder / "token"
    shown = printable(str(path))
    try:
        private_dir(folder, STATE)
        token = secrets.token_urlsafe(32)
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(token + "\n")
        return token, True
    except FileExistsError:
        pass
    except OSError as error:
        raise InputError(f"{shown} cannot be written ({error.strerror}); set {VARIABLE} instead") from None
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if not is_ours(about):
                raise InputError(f"{shown} belongs to another user; delete it, and a new token is made")
            if os.name == "posix" and stat.S_IMODE(about.st_mode) & 0o077:
                raise InputError(f"{shown} can be read by others; delete it, and a new token is made")
            found = file.read(_LONGEST + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise InputError(f"{shown} cannot be read ({error.strerror}); set {VARIABLE} instead") from None
    if not SHORTEST <= len(found) <= _LONGEST or not found.isprintable():
        raise InputError(f"{shown} holds no token; delete it, and a new one is made")
    return found, False
