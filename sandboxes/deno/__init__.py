"""TypeScript in Deno, in a hardened process of this machine."""

from sandboxes.deno.sandbox import DenoConfig, DenoSandbox

__all__ = ["DenoConfig", "DenoSandbox"]
