"""Small guests in text form: what the build reads and makes, a thousand times smaller."""

from wasmtime import wat2wasm

IMPORT = '(import "env" "memory" (memory 1))'
FIVE_GLOBALS = """
  (global (export "__stack_pointer") (mut i32) (i32.const 1024))
  (global (export "host_wall_s") (mut i64) (i64.const 0))
  (global (export "host_wall_ns") (mut i32) (i32.const 0))
  (global (export "host_mono") (mut i64) (i64.const 0))
  (global (export "host_rng") (mut i64) (i64.const 0))
"""
FIVE_FUNCTIONS = """
  (func (export "load") (param i32 i32) (result i32) (i32.const 8))
  (func (export "call") (param i32 i32) (result i32) (i32.const 8))
  (func (export "cabi_post_load") (param i32))
  (func (export "cabi_post_call") (param i32))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
"""


def code(
    extra: str = "", imports: str = IMPORT, globals_: str = FIVE_GLOBALS, functions: str = FIVE_FUNCTIONS
) -> bytes:
    """A `code.wasm` that passes every check, unless an argument spoils it."""
    return wasm(f"(module {imports} (table 1 funcref) {globals_} {functions} {extra})")


def memory(extra: str = '(data (i32.const 16) "hello")', declared: str = '(memory (export "memory") 1)') -> bytes:
    """A `memory.wasm` that passes every check, unless an argument spoils it."""
    return wasm(f"(module {declared} {extra})")


def wasm(text: str) -> bytes:
    return bytes(wat2wasm(text))


SHIM = """
(module
  (import "anything" "memory" (memory 0))
  (import "anything" "cabi_realloc" (func (param i32 i32 i32 i32) (result i32)))
  (global $s (export "host_wall_s") (mut i64) (i64.const 0))
  (global (export "host_wall_ns") (mut i32) (i32.const 0))
  (global (export "host_mono") (mut i64) (i64.const 0))
  (global $rng (export "host_rng") (mut i64) (i64.const 0))
  (func (export "wall_now") (param i32) (i64.store (local.get 0) (global.get $s)))
  (func (export "wall_resolution") (param i32))
  (func (export "mono_now") (result i64) (i64.const 7))
  (func (export "mono_resolution") (result i64) (i64.const 1))
  (func (export "random_bytes") (param i64 i32) (i64.store (local.get 1) (global.get $rng)))
  (func (export "preopens") (param i32)))
"""
REALLOC = '(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))'
LIFT_OPTIONS = '(memory $memory) (realloc (core func $realloc)) (post-return (core func $app "cabi_post_{0}"))'
STRING_TO_STRING = '(param "request" string) (result string)'

_WASI = """
  (core module $wall
    (func (export "now") (param i32) unreachable)
    (func (export "resolution") (param i32) unreachable))
  (core module $mono
    (func (export "now") (result i64) unreachable)
    (func (export "resolution") (result i64) unreachable))
  (core module $random (func (export "get-random-bytes") (param i64 i32) unreachable))
  (core module $preopens (func (export "get-directories") (param i32) unreachable))
  (core instance $wall (instantiate $wall))
  (core instance $mono (instantiate $mono))
  (core instance $random (instantiate $random))
  (core instance $preopens (instantiate $preopens))
"""
PREOPENS_IMPORT = '(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func (param i32)))'


def component(
    extra: str = "",
    *,
    lifted: tuple[str, ...] = ("load", "call"),
    signature: str = STRING_TO_STRING,
    options: str = LIFT_OPTIONS,
    libc_realloc: str = REALLOC,
    preopens: str = PREOPENS_IMPORT,
) -> bytes:
    """
    A component laid out as componentize-py lays it out: a module with the memory, WASI stubs, a libc, an app.

    The app's `call` has the libc store the time at address 32 and returns 32.
    """
    lifts = " ".join(
        f'(func ${name} {signature} (canon lift (core func $app "{name}") {options.format(name)}))'
        f'(export "{name}" (func ${name}))'
        for name in lifted
    )
    return wasm(f"""
    (component
      (core module $main
        (memory (export "memory") 1)
        (data (i32.const 100) "data")
        (global (export "__stack_pointer") (mut i32) (i32.const 1024)))
      (core instance $main (instantiate $main))
      {_WASI}
      (core module $libc
        (import "wasi:clocks/wall-clock@0.2.0" "now" (func $now (param i32)))
        (import "wasi:clocks/wall-clock@0.2.0" "resolution" (func (param i32)))
        (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func (result i64)))
        (import "wasi:clocks/monotonic-clock@0.2.0" "resolution" (func (result i64)))
        (import "wasi:random/random@0.2.0" "get-random-bytes" (func (param i64 i32)))
        {preopens}
        (import "env" "memory" (memory 1))
        {libc_realloc}
        (func (export "tell_time") (param i32) (call $now (local.get 0))))
      (core instance $libc (instantiate $libc
        (with "wasi:clocks/wall-clock@0.2.0" (instance $wall))
        (with "wasi:clocks/monotonic-clock@0.2.0" (instance $mono))
        (with "wasi:random/random@0.2.0" (instance $random))
        (with "wasi:filesystem/preopens@0.2.0" (instance $preopens))
        (with "env" (instance $main))))
      (core module $app
        (import "env" "__stack_pointer" (global $stack (mut i32)))
        (import "libc" "tell_time" (func $tell_time (param i32)))
        (func (export "load") (param i32 i32) (result i32) (global.set $stack (i32.const 2048)) (i32.const 8))
        (func (export "call") (param i32 i32) (result i32) (call $tell_time (i32.const 32)) (i32.const 32))
        (func (export "cabi_post_load") (param i32))
        (func (export "cabi_post_call") (param i32))
        {REALLOC})
      (alias core export $main "__stack_pointer" (core global $stack))
      (core instance $gathered (export "__stack_pointer" (global $stack)))
      (core instance $app (instantiate $app
        (with "env" (instance $gathered)) (with "libc" (instance $libc))))
      (alias core export $main "memory" (core memory $memory))
      (alias core export $app "cabi_realloc" (core func $realloc))
      {lifts}
      {extra})
    """)
