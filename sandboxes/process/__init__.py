"""CPython in a hardened process of this machine, with packages."""

import sys

from sandboxes.errors import SandboxUnavailableError

if sys.platform == "win32":
    raise SandboxUnavailableError("the process sandbox does not run on Windows; choose the wasm sandbox")

from sandboxes.process.sandbox import ProcessConfig, ProcessSandbox

__all__ = ["ProcessConfig", "ProcessSandbox"]
