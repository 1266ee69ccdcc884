"""
Build the Wasm guest: guest sources in, `code.wasm`, `memory.wasm` and `guest.json` out. See docs/building.md.

Imports inside this package are relative, because the hatch hook loads it by path under another name: a build
environment has neither `sandboxes` nor its dependencies.
"""
