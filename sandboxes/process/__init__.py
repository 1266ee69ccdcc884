"""CPython in a hardened process of this machine, with packages."""

import sys

from sandboxes.errors import SandboxUnavailableError

if sys.platform == "win32":
    raise SandboxUnavailableError("the process sandbox does not run on Windows; use --sandbox wasm")

from sandboxes.process.sandbox import ProcessConfig, ProcessSandbox

__all__ = ["ProcessConfig", "ProcessSandbox"]
