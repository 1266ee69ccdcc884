"""The guest as a wheel has it, by xz: unpacked where it is compiled, never beyond what its manifest says."""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.wasm import native_code
from sandboxes.wasm.compiler import native
from sandboxes.wasm.native_code import compile_part, guest_module

MB = 1 << 20
WHOLE = bytes(range(256)) * 4096


DAMAGED: dict[str, Callable[[], bytes]] = {
    "cut": lambda: lzma.compress(WHOLE)[:-400],
    "short": lambda: lzma.compress(WHOLE[:-1]),
    "endless": lambda: lzma.compress(bytes(64 * MB)),  # no more of it is unpacked than the module has
    "greedy": lambda: lzma.compress(WHOLE, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 512 * MB}]),
    "other": lambda: b"not xz",
    "empty": lambda: b"",
}
"""Made where they are tried: each worker of a run reads this file."""


@pytest.mark.rotating("long tests", "wasm", "wheel")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_packed_guest_that_is_damaged_is_one_line(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native_code, "GUEST", tmp_path)
    files = {"memory.wasm": {"sha256": hashlib.sha256(WHOLE).hexdigest(), "size": len(WHOLE)}}
    (tmp_path / "guest.json").write_text(json.dumps({"files": files}))
    (tmp_path / "memory.wasm.xz").write_bytes(lzma.compress(WHOLE))
    assert guest_module("memory.wasm") == WHOLE
    (tmp_path / "memory.wasm.xz").write_bytes(DAMAGED[damage]())
    with pytest.raises(SandboxUnavailableError, match=r"memory.wasm is damaged; reinstall evalcell"):
        compile_part("memory", print)
    (tmp_path / "memory.wasm.xz").unlink()
    with pytest.raises(SandboxUnavailableError, match="has not been built"):
        compile_part("memory", print)


def test_a_python_without_xz_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "GUEST", tmp_path)
    (tmp_path / "memory.wasm.xz").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(SandboxUnavailableError, match=r"no module lzma.*liblzma"):
        guest_module("memory.wasm")


def test_a_compiler_that_cannot_be_given_its_module_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(SandboxUnavailableError, match="cannot be compiled"):
        native("a module", WHOLE)
