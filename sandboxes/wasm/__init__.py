"""The wasm backend."""
