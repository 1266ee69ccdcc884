"""Import and call Modal's SDK, which is not installed with evalcell, and map its failures."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import re
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import provider as base
from sandboxes.remote.provider import GoneError, ProviderError, RefusedError, UnreachableError
from sandboxes.words.text import clean

HOW = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET to a token from modal.com/settings/tokens, here or in an env-file"

Kind = type[ProviderError]


async def next_item(items: Any) -> Any:
    """Return the next item, or None at the end."""
    try:
        return await anext(items, None)
    except Exception as e:
        raise _map_error(e) from None


@asynccontextmanager
async def mapped_errors(seconds: float, *, missing: Kind = GoneError, sent: bool = True) -> AsyncIterator[None]:
    """Turn what the SDK raises into a ProviderError; `missing` if something does not exist."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except Exception as e:
        judged = _map_error(e, missing)
        if isinstance(judged, UnreachableError):
            judged.sent = sent
        raise judged from None


class AlreadyExistsError(RefusedError):
    """A machine with this name exists."""


def _map_error(error: Exception, missing: Kind = GoneError) -> ProviderError:
    of = sdk().exception
    said = f"Modal: {clean(' '.join(str(error).split()), 300) or 'no answer in time'}"
    match error:
        case ProviderError():
            return error
        case of.AlreadyExistsError():
            return AlreadyExistsError(said)
        case of.AuthError() | of.PermissionDeniedError():
            return RefusedError(f"{said}; {HOW}")
        case of.ResourceExhaustedError():
            after = [getattr(one, "retry_after_secs", None) for one in getattr(error, "_grpc_details", None) or ()]
            rate = bool(after) or "rate" in said.lower().split()
            return base.BusyError(said, *after[:1]) if rate else base.FullError(said)
        case of.NotFoundError() | of.ConflictError() | of.ClientClosed():  # ConflictError is a subclass of InvalidError
            return missing(said)
        case of.ImageBuildError():  # its reason is at the end
            return RefusedError(f"Modal could not build the image: {clean(' '.join(str(error).split())[-400:])}")
        case of.InvalidError() | of.UnimplementedError() | of.VersionError():
            return RefusedError(said)
    return UnreachableError(said)


@contextmanager
def file(text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as temporary:
        temporary.write(text)
        temporary.flush()
        yield temporary.name


# At debug level it logs every header, including the credentials.
logging.getLogger("hpack").setLevel(logging.INFO)


def sdk() -> Any:
    """Return the SDK, kept from reading ~/.modal.toml. Raises SandboxUnavailableError if it is not installed."""
    if "modal" not in sys.modules:
        kept = {name: os.environ.pop(name, None) for name in ("MODAL_CONFIG_PATH", "MODAL_PROFILE")}
        # By default it retries for ever when the service asks it to wait.
        with file('[default]\nmax_throttle_wait = "0"\n') as os.environ["MODAL_CONFIG_PATH"]:
            try:
                importlib.import_module("modal")
            except ImportError as e:
                why = f"Modal's SDK cannot be used ({e}); run: pip install 'evalcell[modal]'"
                raise SandboxUnavailableError(why) from None
            finally:
                del os.environ["MODAL_CONFIG_PATH"]
                os.environ.update({name: value for name, value in kept.items() if value is not None})
    return sys.modules["modal"]


_LONGEST = 1 + 32 + 1 + 3 + 1


class ExitCodeFilter:
    """Remove the code from the end of a command's stdout, holding back no more than what may be the code."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._held = b""
        self.code: int | None = None
        """Known after `rest`. None: the command did not get so far."""

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the arguments that run the command, print its exit code, and exit with it."""
        telling = r'"$@"; code=$?; printf "\036%s %d\n" "$0" "$code"; exit "$code"'
        return ("/bin/sh", "-c", telling, self._mark, *argv)

    def without(self, piece: bytes) -> bytes:
        """Return the output that is certainly the command's own."""
        held = self._held + piece
        at = held.rfind(b"\x1e", max(0, len(held) - _LONGEST))
        own, self._held = (held, b"") if at < 0 else (held[:at], held[at:])
        return own

    def rest(self) -> bytes:
        """Return, at the end, what was held back, unless it is the code."""
        found = re.fullmatch(rb"\x1e%s (\d{1,3})\n" % self._mark.encode(), self._held)
        held, self._held = self._held, b""
        if not found:
            return held
        self.code = int(found[1])
        return b""
