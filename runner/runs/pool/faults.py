"""Exceptions on their way out of a worker, as data."""

from __future__ import annotations

from pydantic import Field, ValidationError

from runner.core.errors import (
    ColumnsError,
    DatasetError,
    EvaluatorError,
    FailedRowsError,
    InputError,
    MappingError,
    NotComparableError,
    OutputError,
    ResumeError,
)
from runner.core.text import printable
from sandboxes.base import LOG, Model
from sandboxes.errors import SandboxError, SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.words.wording import Message, Setting, setting_of

_MESSAGE = 8000  # characters; the longest of ours lists a dataset's columns

_KINDS: dict[str, type[Exception]] = {
    "columns": ColumnsError,
    "mapping": MappingError,
    "evaluator": EvaluatorError,
    "dataset": DatasetError,
    "resume": ResumeError,
    "output": OutputError,
    "input": InputError,
    "failed-rows": FailedRowsError,
    "not-comparable": NotComparableError,
    "unsupported-config": UnsupportedConfigError,
    "sandbox-unavailable": SandboxUnavailableError,
    "sandbox-lost": SandboxLostError,
    "sandbox": SandboxError,
}
"""The most specific first."""


class Fault(Model):
    """An exception: which one, and its words."""

    kind: str = Field(max_length=40)
    message: str = Field(max_length=_MESSAGE)
    paths: dict[str, str] = Field(default_factory=dict)
    values: list[str] = Field(default_factory=list)
    setting: str | None = None

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Return what cannot be told by its kind is a fault of evalcell itself, never the caller's."""
        for kind, known in _KINDS.items():
            if isinstance(error, known):
                message = str(error)[:_MESSAGE]
                if isinstance(error, ColumnsError):
                    return cls(kind=kind, message=message, paths=error.paths, values=list(error.values))
                return cls(kind=kind, message=message, setting=setting_of(error))
        said = printable(f"{type(error).__name__}: {error}", 400)
        return cls(kind="internal", message=f"evalcell failed ({said}); the server's log has more")

    def error(self) -> Exception:
        """Return the exception."""
        kind = _KINDS.get(self.kind, SandboxError)
        if kind is ColumnsError:
            return ColumnsError(self.message, self.paths, tuple(self.values))
        return kind(Message(self.message, settings=[Setting(self.setting)] if self.setting else ()))


def error_of(payload: bytes) -> Exception:
    """Return the exception that a worker sent."""
    try:
        return Fault.model_validate_json(payload).error()
    except ValidationError as e:
        return unreadable(e)


def unreadable(error: Exception) -> SandboxError:
    """Return the error for a reply that is none. The log says why, without values, as they may be of rows."""
    LOG.error("a worker's reply cannot be read: %s", printable(str(error).partition(" [type=")[0], _MESSAGE))
    return SandboxError("the worker's reply cannot be read; see the server's log")
