"""
Build the Wasm guest: guest sources in, `code.wasm`, `memory.wasm` and `guest.json` out. See docs/building.md.

Imports inside this package are relative, and nothing else of `sandboxes` is imported but `encode`: a build
environment lacks the project's dependencies, so the hatch hook has empty packages around this one.
"""
