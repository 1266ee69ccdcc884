"""
How the Wasm guest is built: guest sources in, `code.wasm`, `memory.wasm` and `guest.json` out.

Imports inside this package are relative, because the hatch hook loads it by path under another name: a build
environment has neither `sandboxes` nor what that depends on. Told whole in docs/building.md.
"""
