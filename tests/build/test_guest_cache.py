"""A guest that was built on this machine is taken for the same inputs, if whole and nobody else made it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandboxes.wasm.build import guest_cache, manifest, pipeline
from sandboxes.wasm.build.errors import GuestBuildError
from sandboxes.wasm.build.manifest import CODE, MANIFEST, MEMORY, BuiltFile, Manifest, input_hash


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise GuestBuildError("something is built")

    monkeypatch.setattr(pipeline, "find_tools", refuse)


def guest(inputs: str) -> dict[str, bytes]:
    contents = {CODE: b"code", MEMORY: b"memory"}
    files = {name: BuiltFile.of(content) for name, content in contents.items()}
    told = Manifest(inputs, "3.14.0", "0.25.1", "132.0.0", 65536, files).to_json().encode()
    return {**contents, MANIFEST: told}


def place(cache: Path) -> Path:
    (found,) = (cache / "build").glob("guest-*")
    return found


def test_another_clone_builds_nothing(cache: Path, no_tools: None, tmp_path: Path) -> None:
    guest_cache.keep(input_hash(), guest(input_hash()))
    assert pipeline.build_guest(tmp_path / "output", report=lambda line: None) is False
    assert {name: (tmp_path / "output" / name).read_bytes() for name in guest("")} == guest(input_hash())
    with pytest.raises(GuestBuildError, match="something is built"):
        pipeline.build_guest(tmp_path / "output", force=True, report=lambda line: None)


def test_what_was_built_is_kept(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_build", lambda inputs, report: guest(inputs))
    assert pipeline.build_guest(tmp_path / "one", report=lambda line: None) is True
    assert pipeline.build_guest(tmp_path / "two", report=lambda line: None) is False
    assert json.loads((tmp_path / "two" / MANIFEST).read_bytes())["inputs"] == input_hash()


@pytest.mark.parametrize("name", [CODE, MEMORY, MANIFEST])
def test_a_damaged_one_is_not_taken(cache: Path, name: str) -> None:
    guest_cache.keep("inputs", guest("inputs"))
    assert guest_cache.fetch("inputs") == guest("inputs")
    (place(cache) / name).write_bytes(b"{}")
    assert guest_cache.fetch("inputs") is None
    (place(cache) / name).unlink()
    assert guest_cache.fetch("inputs") is None


def test_one_of_other_inputs_is_not_taken(cache: Path) -> None:
    guest_cache.keep("inputs", guest("other inputs"))
    assert guest_cache.fetch("inputs") is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no modes of files here")
@pytest.mark.parametrize("above", [0, 1, 2])
def test_one_that_others_may_have_written_is_not_taken(cache: Path, above: int) -> None:
    guest_cache.keep("inputs", guest("inputs"))
    folder = (place(cache), *place(cache).parents)[above]
    folder.chmod(0o777)
    assert guest_cache.fetch("inputs") is None
    folder.chmod(0o755)
    assert guest_cache.fetch("inputs") == guest("inputs")


def test_the_last_few_are_kept(cache: Path) -> None:
    for number in range(guest_cache.MOST + 2):
        guest_cache.keep(f"{number}", guest(f"{number}"))
        os.utime(max((cache / "build").glob("guest-*"), key=lambda path: path.name), (number, number))
    assert [guest_cache.fetch(f"{n}") is None for n in range(guest_cache.MOST + 2)] == [True, True] + [
        False
    ] * guest_cache.MOST


def test_without_a_cache_it_is_built_all_the_same(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file in its place")
    monkeypatch.setattr(pipeline, "_build", lambda inputs, report: guest(inputs))
    assert pipeline.build_guest(tmp_path / "output", report=lambda line: None) is True
    assert manifest.is_current(tmp_path / "output", input_hash())
