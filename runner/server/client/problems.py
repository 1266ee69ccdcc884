"""A server's problem as the exception that the function of the same name raises on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from runner.core import errors
from runner.core.errors import ServerError
from runner.core.text import printable
from runner.results.output.files import WriteError
from runner.results.store import errors as store_errors
from runner.server.client.requests import as_object
from sandboxes import errors as sandbox_errors
from sandboxes.remote.http import retry_after

MOST = 64 << 10
"""Bytes of a problem that are read."""

_ADDRESS = re.compile(r"`GET /v1/(evaluators|datasets|runs)`")
"""Steps that a method of the client takes."""
_LONGEST = 2000
_LINES = 12
PASSING = (408, 425, 429, 502, 503, 504)
"""Statuses after which the same request may succeed, from whatever stands between, too."""

_CLASSES: dict[str, Callable[[str], Exception]] = {
    "input": errors.InputError,
    "invalid-request": errors.InputError,
    "not-found": store_errors.NotStoredError,
    "name-taken": store_errors.NameTakenError,
    "store": store_errors.StoreError,
    "store-damaged": store_errors.StoreDamagedError,
    "store-full": store_errors.StoreFullError,
    "worker-lost": sandbox_errors.SandboxLostError,
    "evaluator": errors.EvaluatorError,
    "dataset": errors.DatasetError,
    "examples": errors.ExamplesError,
    "mapping": errors.MappingError,
    "output": errors.OutputError,
    "resume": errors.ResumeError,
    "not-comparable": errors.NotComparableError,
    "requirement": errors.RequirementError,
    "write": WriteError,
    "unsupported-config": sandbox_errors.UnsupportedConfigError,
    "sandbox": sandbox_errors.SandboxError,
    "sandbox-unavailable": sandbox_errors.SandboxUnavailableError,
    "sandbox-lost": sandbox_errors.SandboxLostError,
}
"""By the last word of a problem's `type`."""


_OF_ANOTHER = {
    400: "it could not read the request; if it speaks TLS, begin the address with https://",
    403: "its own rules refuse this (nginx: allow, deny, limit_except); the token has no part in it",
    404: "it has nothing there; is the address right, with the path below which it serves evalcell?",
    405: "it does not take this method; let it pass on GET, POST, PUT and DELETE",
    407: "a proxy on the way wants a login; write it into HTTP_PROXY, or the server's name into NO_PROXY",
    413: "it takes no request of this size; raise its limit (nginx: client_max_body_size 2g)",
    414: "the address is too long for it; raise its limit (nginx: large_client_header_buffers)",
    429: "it takes no more requests for now; ask less often, or raise its limit (nginx: limit_req)",
    431: "the headers are too long for it; is the token right?",
    500: "its log says why",
    502: "it does not reach evalcell; see whether `evalcell serve` runs there, and where it passes requests to "
    "(nginx: proxy_pass)",
    503: "what it should pass requests to is down or busy; see whether `evalcell serve` runs there",
    504: "evalcell took longer than it waits; raise its limit (nginx: proxy_read_timeout 1h)",
}
"""What a status says of a server that is not evalcell, or of a proxy before it, and the next step."""


def problem(status: int, headers: Mapping[str, str], body: bytes, where: str) -> ServerError:
    """Return a reply with a status of 300 or more."""
    told = as_object(body)
    type_ = told.get("type")
    slug = type_.rstrip("/").rpartition("/")[2][:100] if isinstance(type_, str) else ""
    # How a request without a token is mended is told to whoever sends requests by hand.
    detail = "" if status == 401 else _words(told.get("detail")) or _words(told.get("title"))
    detail = _ADDRESS.sub(r"`client.\1()`", detail)
    retryable = told.get("retryable")
    return ServerError(
        detail or _unknown(status, headers, slug, where),
        status=status,
        type=slug,
        retryable=retryable if isinstance(retryable, bool) else status in PASSING,
        after=retry_after(headers),
        problem=told,
    )


def as_ours(error: Exception) -> Exception:
    """Return the exception of this machine for what a server said; any other error as it is."""
    if not isinstance(error, ServerError):
        return error
    detail, told = str(error), error.problem
    if error.type == "columns":
        why = _words(told.get("why")) or detail  # the step is the caller's own: the whole call
        return errors.ColumnsError(why, _texts(told.get("paths")), tuple(_texts(told.get("values"))))
    if error.type == "in-use":
        return store_errors.InUseError(detail, tuple(_texts(told.get("runs"))))
    return _CLASSES[error.type](detail) if error.type in _CLASSES else error


def _words(found: object) -> str:
    """A message, whose lines are those of a server that may be anybody."""
    lines = found[:_LONGEST].split("\n")[:_LINES] if isinstance(found, str) else []
    return "\n".join(printable(line, 600) for line in lines).strip()


def _texts(found: Any) -> dict[str, str]:
    """Names with their texts, or names alone."""
    if isinstance(found, list):
        return {name: "" for name in found[:100] if isinstance(name, str)}
    pairs = list(found.items())[:100] if isinstance(found, dict) else []
    return {name: text for name, text in pairs if isinstance(text, str)}


def _unknown(status: int, headers: Mapping[str, str], slug: str, where: str) -> str:
    if slug == "unauthorized" or (
        status == 401 and not headers.get("www-authenticate", "").lower().startswith("basic")
    ):
        return f"{where} did not let us in ({status}); set EVALCELL_TOKEN to its token"
    try:
        name = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        name = f"{status}"
    return f"{where}: {sender(headers)} answered {name}, and not evalcell: {_cause(status, headers)}"


def sender(headers: Mapping[str, str]) -> str:
    """Return the name of whoever sent a reply, as it says: `nginx`, not its version."""
    return printable(headers.get("server", "").partition("/")[0].strip(), 40) or "something else"


def _cause(status: int, headers: Mapping[str, str]) -> str:
    if status == 401:
        return "it wants a password of its own, which leaves no room for the token; let it ask for none below /v1"
    if 300 <= status < 400:
        there = printable(headers.get("location", "").partition("?")[0], 200)
        return f"it sends us to {there or 'no other address'}; give the address that the server has now"
    return _OF_ANOTHER.get(status) or (_OF_ANOTHER[502] if status > 504 else "is this the address of evalcell?")
