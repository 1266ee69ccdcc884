"""The steps from guest sources to the three files, and whether they are needed."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import wasmtime

from ..encode import memory_module
from . import guest_cache
from .checks import check_guest, guest_python
from .component import Component
from .errors import GuestBuildError
from .flatten import NamedModule, flatten
from .image import split, without_custom_sections
from .lasting import make_lasting
from .manifest import (
    CODE,
    HARNESS,
    HARNESS_NAME,
    MANIFEST,
    MEMORY,
    SOURCES,
    BuiltFile,
    Manifest,
    input_hash,
    is_current,
    source_files,
)
from .pins import PROJECT, pinned_version
from .tools import BINARYEN_VERSION, BuildTools, find_tools

OUTPUT = PROJECT / "sandboxes" / "wasm" / "_guest"

_WORLD = "evaluator"
_APP = "app"
# gc for constant expressions over globals, which simplify-globals makes plain constants again
_FEATURES = [
    f"--enable-{feature}"
    for feature in (
        "bulk-memory", "extended-const", "gc", "multivalue", "mutable-globals",
        "nontrapping-float-to-int", "reference-types", "sign-ext",
    )
]  # fmt: skip
# Constant table offsets make an instance in 0.03 ms instead of 0.4 ms.
_PASSES = (
    "--remove-unused-module-elements",
    "--simplify-globals",
    "--directize",
    "--remove-unused-module-elements",
)
Report = Callable[[str], None]


def build_guest(output: Path = OUTPUT, *, force: bool = False, report: Report | None = None) -> bool:
    """
    Make `output` hold the guest of the present sources; whether it had to be built, as this machine's cache lacked it.

    Safe when several run at once: one builds, the others wait and find it done. The manifest is written last, so that
    an interrupted build never looks complete. Raises GuestBuildError.
    """
    report = report or _to_stderr
    inputs = input_hash()
    output.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(output / ".lock"):
        if not force and is_current(output, inputs):
            report("guest: up to date")
            return False
        found = None if force else guest_cache.fetch(inputs)
        if found:
            report("guest: as it was built before on this machine")
        files = found or _build(inputs, report)
        guest_cache.put(output, files)
        if not found:
            guest_cache.keep(inputs, files)
    return not found


def _build(inputs: str, report: Report) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="evalcell-guest-") as scratch:
        folder = Path(scratch)
        with _step("find the tools", report):
            tools = find_tools()
        with _step("componentize-py", report):
            component = _componentize(tools, folder)
        with _step("flatten", report):
            modules = flatten(Component.parse(component), _shim())
        with _step("wasm-merge", report):
            linked = merge(tools, modules, folder)
        with _step("split", report):
            halves = split(linked)
        with _step("make objects lasting", report):
            image = bytearray(halves.image)
            lasting = make_lasting(image)
            memory = memory_module(bytes(image))
        with _step("wasm-opt", report):
            code = optimise(tools, halves.code, folder)
        with _step("check", report):
            check_guest(code, memory)
            python = guest_python(halves.image)
    files = {CODE: code, MEMORY: memory}
    manifest = Manifest(
        inputs=inputs,
        python=python,
        componentize_py=pinned_version("componentize-py"),
        binaryen=BINARYEN_VERSION,
        memory_bytes=len(halves.image),
        files={name: BuiltFile.of(content) for name, content in files.items()},
    )
    sizes = ", ".join(f"{name} {len(content) / 1e6:.1f} MB" for name, content in files.items())
    report(f"guest: CPython {python}, {lasting} objects, {sizes}")
    return {**files, MANIFEST: manifest.to_json().encode()}


def _componentize(tools: BuildTools, folder: Path) -> bytes:
    sources = folder / "sources"
    for path in source_files():
        target = sources / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / SOURCES / path, target)
    shutil.copyfile(PROJECT / HARNESS, sources / HARNESS_NAME)
    component = folder / "component.wasm"
    arguments = ["-q", "-d", "world.wit", "-w", _WORLD]
    arguments += ["componentize", "--stub-wasi", "-p", ".", _APP, "-o", str(component)]
    tools.componentize(arguments, sources)
    return component.read_bytes()


def _shim() -> bytes:
    try:
        return bytes(wasmtime.wat2wasm((PROJECT / SOURCES / "shim.wat").read_text()))
    except (OSError, wasmtime.WasmtimeError) as error:
        raise GuestBuildError(f"{SOURCES / 'shim.wat'}: {error}") from None


def merge(tools: BuildTools, modules: list[NamedModule], folder: Path) -> bytes:
    inputs = []
    for module in modules:
        path = folder / f"{module.name}.wasm"
        path.write_bytes(module.data)
        inputs += [str(path), module.name]
    output = folder / "merged.wasm"
    tools.merge([*_FEATURES, "--rename-export-conflicts", *inputs, "-o", str(output)])
    return output.read_bytes()


def optimise(tools: BuildTools, code: bytes, folder: Path) -> bytes:
    before, after = folder / "split.wasm", folder / "optimised.wasm"
    before.write_bytes(code)
    tools.optimise([*_FEATURES, str(before), *_PASSES, "-o", str(after)])
    return without_custom_sections(after.read_bytes())


@contextmanager
def _step(name: str, report: Report) -> Iterator[None]:
    start = time.monotonic()
    yield
    report(f"guest: {name} {time.monotonic() - start:.1f} s")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
