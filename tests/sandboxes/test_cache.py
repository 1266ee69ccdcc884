"""The cache folder: what is in it may be somebody else's work, and is native code."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import wasmtime

from sandboxes.cache import cache_dir, content, get_or_build, identity, keep, private_dir
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.ledger import state_dir
from sandboxes.wasm import native_code
from sandboxes.wasm.engine import Engine, Loadable, configure
from sandboxes.wasm.native_code import PARTS, compile_part, guest_module
from tests.disks import needs_mounts, read_only

MB = 1 << 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Builder:
    def __init__(self, content: bytes = b"built") -> None:
        self.content, self.times = content, 0

    def __call__(self) -> bytes:
        self.times += 1
        return self.content


def test_it_is_built_once_and_found_again(cache: Path) -> None:
    build = Builder()
    first = get_or_build("thing", "key", ".bin", build)
    assert (first.read_bytes(), build.times) == (b"built", 1)
    assert get_or_build("thing", "key", ".bin", build) == first
    assert build.times == 1


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_it_makes_is_the_owners_alone(cache: Path) -> None:
    path = get_or_build("thing", "key", ".bin", Builder())
    assert [mode(p) for p in (cache, path.parent, path)] == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("through", ["itself", "a link"])
def test_a_folder_that_was_there_keeps_its_mode(
    cache: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    cache.chmod(0o755)
    if through == "a link":
        (tmp_path / "link").symlink_to(cache)
        monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "link"))
    get_or_build("thing", "key", ".bin", Builder())
    assert mode(cache) == 0o755


@pytest.mark.parametrize("writable", [0o770, 0o757])
def test_a_folder_that_others_may_write_to_is_refused_and_left_as_it_is(cache: Path, writable: int) -> None:
    cache.mkdir()
    cache.chmod(writable)
    with pytest.raises(SandboxUnavailableError, match=r"others may write to .*run: chmod go-w .*or set EVALCELL_CACHE"):
        get_or_build("thing", "key", ".bin", Builder())
    assert (mode(cache), list(cache.iterdir())) == (writable, [])


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no users")
def test_in_a_folder_that_all_share_it_is_one_of_the_users_own(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777)
    path = get_or_build("thing", "key", ".bin", Builder())
    own = cache / f"evalcell-{os.getuid()}"
    assert (path.parent.parent, cache_dir()) == (own, own)
    assert (mode(cache), mode(own)) == (0o1777, 0o700)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act for somebody else")
def test_a_link_that_somebody_else_has_put_there_is_not_followed(cache: Path, tmp_path: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777)
    (tmp_path / "mine").mkdir(mode=0o700)
    link = cache / f"evalcell-{os.getuid()}"
    link.symlink_to(tmp_path / "mine")
    os.lchown(link, 12345, 12345)
    with pytest.raises(SandboxUnavailableError, match="belongs to another user"):
        get_or_build("thing", "key", ".bin", Builder())
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_folder_in_a_files_place_makes_way(cache: Path) -> None:
    build = Builder()
    path = get_or_build("thing", "key", ".bin", build)
    for _ in range(2):
        path.unlink()
        (path / "below").mkdir(parents=True)
        assert get_or_build("thing", "key", ".bin", build).read_bytes() == b"built"
    assert build.times == 3


READS = """
import asyncio, sys
from sandboxes.cache import get_or_build
from sandboxes.errors import SandboxUnavailableError
def build(): return b"built"
print(get_or_build("thing", "key", ".bin", build).read_bytes())
try: get_or_build("thing", "another", ".bin", build)
except SandboxUnavailableError as e: print(e)
"""


@needs_mounts
def test_on_a_read_only_disk_what_is_there_is_used_and_what_is_not_is_told(cache: Path) -> None:
    get_or_build("thing", "key", ".bin", Builder())
    found, missing = read_only(cache, [sys.executable, "-c", READS]).splitlines()
    assert found == "b'built'"
    assert missing.startswith(
        f"cannot write to {cache}/thing (Read-only file system); run the same command once where the cache"
    )


@needs_mounts
def test_on_a_read_only_disk_what_is_damaged_is_not_given(cache: Path) -> None:
    get_or_build("thing", "key", ".bin", Builder()).write_bytes(b"other")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        read_only(cache, [sys.executable, "-c", READS])
    assert f"cannot write to {cache}/thing (Read-only file system)" in raised.value.stderr


AS_ANOTHER = """
import asyncio, os, sandboxes.cache, sandboxes.errors
from filelock import FileLock  # now: the interpreter may lie where others cannot read
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act for somebody else")
def test_what_root_has_baked_in_serves_others_who_may_only_read(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    place = open_folder / "baked"
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(place))
    get_or_build("thing", "key", ".bin", Builder())
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    done = subprocess.run([sys.executable, "-c", AS_ANOTHER + READS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, missing = done.stdout.splitlines()
    assert found == "b'built'"
    assert missing.startswith(
        f"cannot write to {place}/thing (Permission denied); run the same command once where the cache"
    )


def test_another_key_is_another_file(cache: Path) -> None:
    one, other = (get_or_build("thing", key, ".bin", Builder(key.encode())) for key in ("a", "b"))
    assert (one.read_bytes(), other.read_bytes()) == (b"a", b"b")


@pytest.mark.parametrize("damage", ["content", "truncated", "group-writable", "link", "foreign name"])
def test_a_damaged_or_foreign_file_is_rebuilt_never_given(cache: Path, tmp_path: Path, damage: str) -> None:
    build = Builder()
    path = get_or_build("thing", "key", ".bin", build)
    if damage == "content":
        path.write_bytes(b"BUILT")
    elif damage == "truncated":
        path.write_bytes(b"")
    elif damage == "group-writable":
        path.chmod(0o620)
    elif damage == "link":
        path.unlink()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_bytes(b"built")
        path.symlink_to(elsewhere)
    else:
        path.rename(path.with_name(f"key-{'0' * 64}.bin"))
    again = get_or_build("thing", "key", ".bin", build)
    assert build.times == 2
    assert (again.read_bytes(), again.is_symlink(), stat.S_IMODE(again.stat().st_mode)) == (b"built", False, 0o600)
    assert len(list(again.parent.glob("*.bin"))) == 1


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can make somebody else's folder")
def test_somebody_elses_folder_or_file_is_not_used(cache: Path) -> None:
    build = Builder()
    path = get_or_build("thing", "key", ".bin", build)
    os.chown(path, 12345, 12345)
    assert get_or_build("thing", "key", ".bin", build).stat().st_uid == 0
    assert build.times == 2
    os.chown(cache, 12345, 12345)
    with pytest.raises(SandboxUnavailableError, match="belongs to another user; set EVALCELL_CACHE_DIR"):
        get_or_build("thing", "key", ".bin", build)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no users")
@pytest.mark.parametrize(
    ("mode", "refused"), [(0o777, True), (0o770, True), (0o757, True), (0o1777, False), (0o755, False)]
)
@pytest.mark.parametrize("variable", ["EVALCELL_CACHE_DIR", "EVALCELL_STATE_DIR"])
def test_a_folder_above_that_others_may_write_to_is_refused(
    tmp_path: Path, mode: int, refused: bool, variable: str
) -> None:
    above = tmp_path / "above"
    (above / "between" / "cache").mkdir(parents=True, mode=0o700)
    above.chmod(mode)
    if os.getuid() == 0:
        os.chown(above, 0, 12345)  # a group of others
    elif mode == 0o770:
        pytest.skip("the group may be this user's own")
    if not refused:
        assert private_dir(above / "between" / "cache", variable).is_dir()
        return
    for place in (above / "between" / "cache", above / "new" / "cache"):
        with pytest.raises(SandboxUnavailableError, match=f"others may write to {above}, who could .*set {variable}"):
            private_dir(place, variable)
    assert not (above / "new").exists()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can make somebody else's folder")
@pytest.mark.parametrize("through", ["itself", "a link in it", "a link to it"])
def test_a_folder_in_somebody_elses_is_refused(tmp_path: Path, through: str) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    (theirs / "cache").mkdir(parents=True)
    mine.mkdir()
    (theirs / "link").symlink_to(mine)
    (mine / "link").symlink_to(theirs)
    os.chown(theirs, 12345, 12345)
    path = {"itself": theirs / "cache", "a link in it": theirs / "link" / "x", "a link to it": mine / "link" / "cache"}
    with pytest.raises(SandboxUnavailableError, match=f"{theirs} belongs to another user"):
        private_dir(path[through])


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no users")
def test_folders_that_it_makes_are_closed_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_dir(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert {mode(tmp_path / one) for one in ("a", "a/b", "a/b/c")} == {0o700}


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has others' homes")
def test_root_with_the_home_of_somebody_else_takes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVALCELL_CACHE_DIR", "EVALCELL_STATE_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "alice"
    (home / ".cache" / "evalcell").mkdir(parents=True)  # which an earlier sudo made
    monkeypatch.setenv("HOME", str(home))
    assert cache_dir() == home / ".cache" / "evalcell"
    os.chown(home, 12345, 12345)
    own = Path("~root").expanduser()
    assert (cache_dir(), state_dir()) == (own / ".cache" / "evalcell", own / ".local" / "state" / "evalcell")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    with pytest.raises(SandboxUnavailableError, match=f"{home} belongs to another user"):
        private_dir(home / ".cache" / "evalcell" / "new")


def test_what_is_exchanged_after_its_check_is_not_loaded(cache: Path) -> None:
    """By a file of ours, as somebody can who may rename one: another user's is refused by its owner."""
    paths = [compile_part(part, print) for part in PARTS]
    foreign = wasmtime.Module(wasmtime.Engine(configure()), '(module (memory (export "memory") 1))').serialize()
    for path in paths:
        known = [Loadable(one, identity(one)) for one in paths]
        kept = path.with_name("kept")
        path.rename(kept)
        path.write_bytes(foreign)
        path.chmod(0o600)
        for given in (known, [Loadable(one) for one in paths]):
            with pytest.raises(SandboxUnavailableError, match=f"{path} was exchanged after it was checked"):
                Engine(*given)
        path.unlink()
        path.symlink_to(kept)
        with pytest.raises(SandboxUnavailableError, match="was exchanged"):
            Engine(*known)
        path.unlink()
        path.write_bytes(kept.read_bytes())  # the same once more, as another process may have built it
        path.chmod(0o600)
        assert Engine(*known).code is not None
        path.chmod(0o666)
        with pytest.raises(SandboxUnavailableError, match="others can have written it"):
            Engine(*known)
        kept.rename(path)


def test_what_is_small_is_checked_as_it_is_read(cache: Path) -> None:
    path = get_or_build("thing", "key", ".bin", Builder())
    assert content(path) == b"built"
    path.write_bytes(b"other")
    with pytest.raises(SandboxUnavailableError, match="was changed since it was checked"):
        content(path)


def test_what_cannot_be_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailableError, match=r"cannot use .*file.*set EVALCELL_CACHE_DIR"):
        private_dir(tmp_path / "file" / "cache")


def test_a_build_that_failed_or_was_killed_leaves_nothing(cache: Path) -> None:
    def fails() -> bytes:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        get_or_build("thing", "key", ".bin", fails)
    folder = cache / "thing"
    (folder / ".unfinished-key-abc").write_bytes(b"half")
    (folder / ".unfinished-other-abc").write_bytes(b"half")  # which another process builds at this moment
    get_or_build("thing", "key", ".bin", Builder())
    assert [p.name for p in folder.iterdir() if p.name.startswith(".unfinished")] == [".unfinished-other-abc"]


def test_what_no_run_has_wanted_for_a_month_is_deleted_at_the_next_build(cache: Path) -> None:
    old, used = (get_or_build("thing", key, ".bin", Builder()) for key in ("old", "used"))
    for path in (old, used):
        os.utime(path, (0, 0))
    get_or_build("thing", "used", ".bin", Builder())
    get_or_build("thing", "new", ".bin", Builder())
    assert (old.exists(), used.exists()) == (False, True)


BUILD_SLOWLY = """
import sys, time
from sandboxes.cache import get_or_build
def build():
    print("building", flush=True)
    time.sleep(0.5)
    return b"built"
print(get_or_build("thing", "key", ".bin", build).read_bytes())
"""


@pytest.mark.rotating("long tests", "wasm")
def test_two_processes_that_miss_it_at_once_build_it_once(cache: Path) -> None:
    command = [sys.executable, "-c", BUILD_SLOWLY]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [b.communicate(timeout=60)[0] for b in builders]
    assert [text.count("b'built'") for text in said] == [1, 1, 1]
    assert sum(text.count("building") for text in said) == 1


@pytest.mark.rotating("long tests", "wasm")
def test_a_file_of_another_wasmtime_is_rebuilt(cache: Path) -> None:
    """Its digest is right and it is ours, but the engine refuses it."""
    told: list[str] = []
    right = compile_part("memory", told.append)
    key = right.name.rpartition("-")[0]
    right.unlink()
    wrong = keep(right.parent, key, ".cwasm", b"not native code of this wasmtime")
    found = compile_part("memory", told.append, tried=True)
    assert found != wrong
    assert not wrong.exists()
    assert found.stat().st_size > MB
    assert told == []  # only the long compilation is announced


@pytest.mark.parametrize("part", PARTS)
def test_a_guest_that_is_damaged_is_not_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """It is still a module; so only its digest tells."""
    damaged = guest_module(f"{part}.wasm") + b"\0\1\0"  # a section of its own, without a name
    monkeypatch.setattr(native_code, "guest_module", lambda name: damaged)
    with pytest.raises(SandboxUnavailableError, match=rf"{part}.wasm is damaged; reinstall evalcell"):
        compile_part(part, print)
    assert not list(cache.rglob("*.cwasm"))


@pytest.mark.parametrize("manifest", [b"", b"[]", b'{"files": {}}', b'{"files": {"memory.wasm": null}}'])
def test_a_manifest_that_is_damaged_is_one_line(monkeypatch: pytest.MonkeyPatch, manifest: bytes) -> None:
    monkeypatch.setattr(native_code, "guest_file", lambda name: manifest)
    with pytest.raises(SandboxUnavailableError, match=r"manifest is damaged .*; reinstall evalcell"):
        compile_part("memory", print)


def test_where_it_is_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EVALCELL_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir().name == "evalcell"
