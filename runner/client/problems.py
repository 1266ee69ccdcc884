"""A server's problem as the exception that the function of the same name raises on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner import errors
from runner.client.steps import as_object
from runner.errors import ServerError
from runner.output.files import WriteError
from runner.store import errors as store_errors
from runner.text import printable
from sandboxes import errors as sandbox_errors
from sandboxes.remote.http import retry_after

MOST = 64 << 10
"""Bytes of a problem that are read."""

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


def problem(status: int, headers: Mapping[str, str], body: bytes, where: str) -> ServerError:
    """A reply with a status of 300 or more."""
    told = as_object(body)
    type_ = told.get("type")
    slug = type_.rstrip("/").rpartition("/")[2][:100] if isinstance(type_, str) else ""
    # How a request without a token is mended is told to whoever sends requests by hand.
    detail = "" if status == 401 else _words(told.get("detail")) or _words(told.get("title"))
    retryable = told.get("retryable")
    return ServerError(
        detail or _unknown(status, where),
        status=status,
        type=slug,
        retryable=retryable if isinstance(retryable, bool) else status in PASSING,
        after=retry_after(headers),
        problem=told,
    )


def as_ours(error: Exception) -> Exception:
    """The exception of this machine for what a server said; any other error as it is."""
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


def _unknown(status: int, where: str) -> str:
    if status in (401, 403):
        return f"{where} did not let us in ({status}); set EVALCELL_TOKEN to its token"
    if 300 <= status < 400:
        return f"{where} sends us elsewhere ({status}); give the address that it has now"
    return f"{where} answered {status}, and not as evalcell does; is this its address?"
