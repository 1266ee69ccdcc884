"""
Failures of ours or of a provider. What a *script* does wrong is never raised: it is an `Execution`.

    Exception
      SandboxError                 ours or the provider's                          exit 3
        SandboxUnavailableError    cannot start here; says what to install or set
        SandboxLostError           died during a run; the engine retries it once
      ValueError
        UnsupportedConfigError     the config asks for what a backend cannot do    exit 2

Every message names the next step.
"""


class SandboxError(Exception):
    """The sandbox itself failed; this says nothing about the script."""


class SandboxUnavailableError(SandboxError):
    """The sandbox cannot start on this machine."""


class SandboxLostError(SandboxError):
    """The sandbox died during a run; calls without an execution may be run again."""


class UnsupportedConfigError(ValueError):
    """The config asks for something that the backend cannot do."""
