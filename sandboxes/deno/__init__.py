"""TypeScript in Deno, in a hardened process of this machine."""

import sys

from sandboxes.errors import SandboxUnavailableError

if sys.platform == "win32":
    raise SandboxUnavailableError("the deno sandbox does not run on Windows")

from sandboxes.deno.sandbox import DenoConfig, DenoSandbox

__all__ = ["DenoConfig", "DenoSandbox"]
