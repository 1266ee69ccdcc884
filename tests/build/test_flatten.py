"""Flattening a component, and linking what comes out of it."""

from pathlib import Path

import pytest
from wasmtime import Engine, Func, Global, Instance, Memory, Module, Store

from sandboxes.wasm.build import pipeline
from sandboxes.wasm.build.checks import check_guest
from sandboxes.wasm.build.component import Component
from sandboxes.wasm.build.errors import GuestBuildError
from sandboxes.wasm.build.flatten import FRONT_PREFIX, flatten
from sandboxes.wasm.build.image import split
from sandboxes.wasm.build.module import Module as Parsed
from sandboxes.wasm.build.tools import find_tools
from sandboxes.wasm.encode import memory_module
from tests.build import guests

MAIN, LIBC, APP = "m0", "m5", "m6"


@pytest.fixture(scope="module")
def modules() -> dict[str, Parsed]:
    flat = flatten(Component.parse(guests.component()), guests.wasm(guests.SHIM))
    return {module.name: Parsed.parse(module.data) for module in flat}


def imports(module: Parsed) -> set[tuple[str, str]]:
    return {(item.module, item.name) for item in module.imports}


def test_modules_keep_their_order(modules: dict[str, Parsed]) -> None:
    assert list(modules) == [MAIN, "m1", "m2", "m3", "m4", LIBC, APP, "shim", "front"]


def test_wasi_calls_go_to_the_shim(modules: dict[str, Parsed]) -> None:
    names = ("wall_now", "wall_resolution", "mono_now", "mono_resolution", "random_bytes", "preopens")
    assert imports(modules[LIBC]) == {("shim", name) for name in names} | {(MAIN, "memory")}


def test_other_imports_go_where_they_really_come_from(modules: dict[str, Parsed]) -> None:
    assert imports(modules[APP]) == {(MAIN, "__stack_pointer"), (LIBC, "tell_time")}


def test_the_shim_allocates_with_the_callers_realloc(modules: dict[str, Parsed]) -> None:
    assert imports(modules["shim"]) == {(MAIN, "memory"), (LIBC, "cabi_realloc")}


def test_the_front_exports_what_the_host_needs(modules: dict[str, Parsed]) -> None:
    front = modules["front"]
    assert {export.name.removeprefix(FRONT_PREFIX) for export in front.exports} == {
        "load", "call", "cabi_post_load", "cabi_post_call", "cabi_realloc",
        "__stack_pointer", "host_wall_s", "host_wall_ns", "host_mono", "host_rng",
    }  # fmt: skip
    assert (APP, "cabi_realloc") in imports(front)


@pytest.mark.slow
def test_the_linked_guest_gets_its_time_from_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    try:
        tools = find_tools()
    except GuestBuildError as error:
        pytest.skip(f"the build's tools are not here: {error}")
    flat = flatten(Component.parse(guests.component()), guests.wasm(guests.SHIM))
    halves = split(pipeline.merge(tools, flat, tmp_path))
    code, memory = pipeline.optimise(tools, halves.code, tmp_path), memory_module(halves.image)
    check_guest(code, memory)

    engine = Engine()
    store = Store(engine)
    linear = Instance(store, Module(engine, memory), []).exports(store)["memory"]
    assert isinstance(linear, Memory)
    exports = Instance(store, Module(engine, code), [linear]).exports(store)
    seconds, call, load, stack = (exports[name] for name in ("host_wall_s", "call", "load", "__stack_pointer"))
    assert isinstance(seconds, Global)
    assert isinstance(call, Func)
    assert isinstance(load, Func)
    assert isinstance(stack, Global)
    seconds.set_value(store, 1_234_567_890_123)
    assert call(store, 0, 0) == 32
    assert int.from_bytes(linear.read(store, 32, 40), "little") == 1_234_567_890_123
    assert linear.read(store, 100, 104) == b"data"
    load(store, 0, 0)
    assert stack.value(store) == 2048
