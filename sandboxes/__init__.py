"""Sandboxes run programs. They know nothing of evaluators."""

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
