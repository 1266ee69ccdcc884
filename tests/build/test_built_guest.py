"""The guest in the tree, as built: the checks hold of the very files that are shipped."""

import json

import pytest
from wasmtime import Config, Engine, Func, Global, Instance, Memory, Module, Store

from sandboxes.wasm.build.checks import check_guest, guest_python
from sandboxes.wasm.build.manifest import CODE, MANIFEST, MEMORY, BuiltFile
from sandboxes.wasm.build.module import Module as Parsed
from sandboxes.wasm.build.pins import pinned_version
from sandboxes.wasm.build.pipeline import OUTPUT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (OUTPUT / MANIFEST).is_file(), reason="the guest is not built: pip install -e ."),
]


def test_every_check_holds() -> None:
    check_guest((OUTPUT / CODE).read_bytes(), (OUTPUT / MEMORY).read_bytes())


def test_the_manifest_describes_the_files() -> None:
    manifest = json.loads((OUTPUT / MANIFEST).read_text())
    for name in (CODE, MEMORY):
        built = BuiltFile.of((OUTPUT / name).read_bytes())
        assert manifest["files"][name] == {"sha256": built.sha256, "size": built.size}
    memory = Parsed.parse((OUTPUT / MEMORY).read_bytes())
    assert manifest["memory_bytes"] == memory.memories[0].minimum * 65536
    assert manifest["python"] == guest_python((OUTPUT / MEMORY).read_bytes())
    assert manifest["componentize_py"] == pinned_version("componentize-py")


def test_it_carries_no_names() -> None:
    code = Parsed.parse((OUTPUT / CODE).read_bytes())
    assert all(part.id != 0 for part in code.sections)


def test_it_runs() -> None:
    config = Config()
    config.cranelift_opt_level = "none"
    engine = Engine(config)
    store = Store(engine)
    memory = Instance(store, Module(engine, (OUTPUT / MEMORY).read_bytes()), []).exports(store)["memory"]
    assert isinstance(memory, Memory)
    size = memory.data_len(store)
    exports = Instance(store, Module(engine, (OUTPUT / CODE).read_bytes()), [memory]).exports(store)
    realloc, stack = exports["cabi_realloc"], exports["__stack_pointer"]
    assert isinstance(realloc, Func)
    assert isinstance(stack, Global)
    before = stack.value(store)
    address = realloc(store, 0, 0, 1, 1000)
    assert 0 < address < size - 1000
    assert stack.value(store) == before
