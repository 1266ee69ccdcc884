"""Sandboxes run programs. They know nothing of evaluators."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxes.base import (
        Call,
        Capabilities,
        Execution,
        Isolation,
        Limits,
        Problem,
        Program,
        Sandbox,
        SandboxConfig,
        Script,
        ScriptError,
        Status,
    )
    from sandboxes.errors import SandboxError, SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
    from sandboxes.registry import backends, create, find

__all__ = [
    "Call",
    "Capabilities",
    "Execution",
    "Isolation",
    "Limits",
    "Problem",
    "Program",
    "Sandbox",
    "SandboxConfig",
    "SandboxError",
    "SandboxLostError",
    "SandboxUnavailableError",
    "Script",
    "ScriptError",
    "Status",
    "UnsupportedConfigError",
    "backends",
    "create",
    "find",
]

_HOMES = ("sandboxes.base", "sandboxes.errors", "sandboxes.registry")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a worker of the wasm sandbox does without nearly all of them."""
    from importlib import import_module

    for home in _HOMES if name in __all__ else ():
        if hasattr(module := import_module(home), name):
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
