"""CPython in a hardened process of this machine, with packages."""

from sandboxes.process.sandbox import ProcessConfig, ProcessSandbox

__all__ = ["ProcessConfig", "ProcessSandbox"]
