"""The wasm backend."""

from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox

__all__ = ["WasmConfig", "WasmSandbox"]
