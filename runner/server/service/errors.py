"""What goes wrong, as problems by RFC 9457: one table from our exceptions to stable types."""

from __future__ import annotations

from typing import Any, NamedTuple

from runner.core.errors import (
    ColumnsError,
    DatasetError,
    EvaluatorError,
    InputError,
    MappingError,
    NotComparableError,
    OutputError,
)
from runner.core.text import printable
from runner.inputs.datasets.required_columns import PLACEHOLDER
from runner.results.store.errors import (
    InUseError,
    NameTakenError,
    NotStoredError,
    SegmentError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    VersionConflictError,
)
from runner.runs.pool.types import PoolBusyError, PoolClosedError, WorkerLostError
from runner.server.service.types import ProblemDetails, line
from sandboxes.errors import SandboxError, SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.words.wording import setting_of

TYPES = "/problems/"
"""Where a server explains its types."""


class ErrorKindName(NamedTuple):
    """A type of problem."""

    status: int
    title: str
    about: str
    """What it means, and what to do."""
    retryable: bool = False


KINDS: dict[str, ErrorKindName] = {
    "malformed": ErrorKindName(
        400, "The request cannot be read", "The body is no JSON by RFC 8259, or a header is broken."
    ),
    "unauthorized": ErrorKindName(
        401, "A token is needed", "Send `Authorization: Bearer TOKEN`, or enter it at /login."
    ),
    "forbidden": ErrorKindName(
        403, "The request comes from another site", "Send it from this server's pages or a program."
    ),
    "not-allowed": ErrorKindName(
        403, "This server does not allow it", "Who starts it decides; `evalcell serve --help`."
    ),
    "not-found": ErrorKindName(404, "There is no such thing", "The list of its kind names what there is."),
    "method-not-allowed": ErrorKindName(
        405, "The method is not for this address", "The header `Allow` names those that are."
    ),
    "too-slow": ErrorKindName(408, "The request came too slowly", "Send it again on a better connection.", True),
    "version-conflict": ErrorKindName(
        409, "Somebody else saved a version", "Look at `theirs`, and save with its version."
    ),
    "name-taken": ErrorKindName(409, "The name stands for something else", "Choose another name."),
    "segment": ErrorKindName(409, "Results do not follow each other", "Another process writes to the run; stop it."),
    "in-use": ErrorKindName(409, "Something uses it", "Delete the runs that `runs` names first, or send `force=true`."),
    "run-state": ErrorKindName(409, "The run's state does not allow it", "Look at the run's state."),
    "read-only": ErrorKindName(409, "A results folder is only read", "Change it on the command line that wrote it."),
    "too-large": ErrorKindName(413, "The request is too large", "Send less; `evalcell serve --help` has the limits."),
    "unsupported-media-type": ErrorKindName(415, "The body's type is not understood", "Send `application/json`."),
    "wrong-host": ErrorKindName(421, "The server is not known by this name", "Start it with --allow-host NAME."),
    "invalid-request": ErrorKindName(
        422, "The request is not valid", "`errors` names each place and what is wrong there."
    ),
    "evaluator": ErrorKindName(422, "The script is no evaluator", "Mend what `detail` names."),
    "dataset": ErrorKindName(422, "The dataset cannot be used", "Mend what `detail` names."),
    "columns": ErrorKindName(
        422, "The dataset lacks columns", "Map the parameters in `paths` to columns, give those in `values`."
    ),
    "mapping": ErrorKindName(422, "The evaluator's parameters cannot be filled", "Map them to columns or values."),
    "input": ErrorKindName(422, "Something in the request cannot be used", "Mend what `detail` names."),
    "unsupported-config": ErrorKindName(422, "The sandbox cannot do that", "Choose another, or ask for less."),
    "not-comparable": ErrorKindName(422, "The runs cannot be compared", "Compare runs of one dataset that have rows."),
    "idempotency": ErrorKindName(422, "The key was used for another request", "Choose a new `Idempotency-Key`."),
    "precondition-required": ErrorKindName(
        428, "The version is missing", "Send `If-Match` with the version that you changed."
    ),
    "busy": ErrorKindName(429, "There is no room for more now", "Try again after `Retry-After` seconds.", True),
    "headers-too-large": ErrorKindName(431, "The headers are too large", "Send fewer or shorter headers."),
    "internal": ErrorKindName(500, "The server failed", "Its log says why; nothing was scored by it.", True),
    "store-damaged": ErrorKindName(
        500, "What is stored is damaged or gone", "Do what `detail` says; trying again mends nothing."
    ),
    "sandbox-lost": ErrorKindName(503, "The sandbox was lost", "It was not the script. Try again.", True),
    "sandbox": ErrorKindName(503, "The sandbox failed", "It was not the script. Try again.", True),
    "worker-lost": ErrorKindName(503, "A worker process was lost", "It was not the script. Try again.", True),
    "sandbox-unavailable": ErrorKindName(503, "The sandbox is not available here", "Install what `detail` names."),
    "stopping": ErrorKindName(503, "The server is stopping", "Try again when it is back.", True),
    "store": ErrorKindName(503, "The store cannot be used", "Look at the server's log and its disk.", True),
    "store-full": ErrorKindName(
        507, "A limit of the store is reached", "Delete runs or datasets, or raise the limits."
    ),
    "write": ErrorKindName(507, "There is no room left", "Free room on the server's disk."),
}
"""By slug. A slug, once published, keeps its meaning."""

_BY_STATUS = {
    400: "malformed",
    401: "unauthorized",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    413: "too-large",
    415: "unsupported-media-type",
    431: "headers-too-large",
}


class ServiceError(Exception):
    """A request that cannot be met, and why. `kind` is one of `KINDS`; `more` are other fields of the problem."""

    def __init__(
        self, kind: str, detail: str, *, retry_after: float | None = None, status: int | None = None, **more: Any
    ) -> None:
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.more = more
        self.status = KINDS[kind].status if status is None else status
        """The HTTP status; a caller that goes by statuses alone may need another one than the kind's."""
        super().__init__(detail)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return KINDS[self.kind].retryable

    def problem(self, instance: str = "") -> ProblemDetails:
        """Return the problem as JSON."""
        kind = KINDS[self.kind]
        return ProblemDetails(
            type=TYPES + self.kind,
            title=kind.title,
            status=self.status,
            detail=self.detail,
            retryable=kind.retryable,
            instance=instance,
            **self.more,
        )


def of_status(status: int, detail: str) -> ServiceError:
    """Return the problem of a bare HTTP status."""
    kind = _BY_STATUS.get(status, "internal" if status >= 500 else "malformed")
    return ServiceError(kind, detail)


_TABLE: tuple[tuple[type[BaseException], str], ...] = (
    (NotStoredError, "not-found"),
    (NameTakenError, "name-taken"),
    (SegmentError, "segment"),
    (StoreFullError, "store-full"),
    (StoreDamagedError, "store-damaged"),
    (StoreError, "store"),
    (PoolClosedError, "stopping"),
    (WorkerLostError, "worker-lost"),
    (EvaluatorError, "evaluator"),
    (DatasetError, "dataset"),
    (MappingError, "mapping"),
    (OutputError, "write"),
    (InputError, "input"),
    (NotComparableError, "not-comparable"),
    (UnsupportedConfigError, "unsupported-config"),
    (SandboxUnavailableError, "sandbox-unavailable"),
    (SandboxLostError, "sandbox-lost"),
    (SandboxError, "sandbox"),
)


def translate_error(error: Exception) -> ServiceError | None:
    """Return what one of our exceptions means to who asked. None: it is a fault of ours, for the log alone."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, PoolBusyError):
        return ServiceError("busy", line(error), retry_after=error.retry_after)
    if isinstance(error, VersionConflictError):
        return ServiceError("version-conflict", line(error), yours=error.yours.version, theirs=error.theirs.version)
    if isinstance(error, InUseError):
        return ServiceError("in-use", line(error), runs=error.runs)
    if isinstance(error, ColumnsError):
        why = words(error)
        return ServiceError("columns", f"{why}; {_step(error)}", why=why, paths=error.paths, values=error.values)
    for kind, slug in _TABLE:
        if isinstance(error, kind):
            return ServiceError(slug, words(error), setting=setting_of(error))
    return None


def problem_or_raise(error: Exception) -> ServiceError:
    """Translate as `translated` does. Raises a fault of ours again."""
    if (found := translate_error(error)) is None:
        raise error
    return found


def _step(error: ColumnsError) -> str:
    """How to map the parameters; each door has its own form for it."""
    known = {name: path for name, path in error.paths.items() if path != PLACEHOLDER}
    steps = [f"map {' and '.join(f'`{name}` to `{path}`' for name, path in known.items())}"] if known else []
    steps += [f"map `{name}` to a column" for name in error.paths if name not in known]
    steps += [f"give `{name}` a value" for name in error.values]
    return printable(", and ".join(steps) + (", if these columns are the right ones" if known else ""), 600)


def words(error: Exception) -> str:
    """Return the message; that of a script may have its line, and a caret under it."""
    return "\n".join(printable(one, 600) for one in str(error).splitlines()[:6])
