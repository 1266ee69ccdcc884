"""A lock to a folder, by the real uv: whole or not at all, and none of its code run."""

from __future__ import annotations

import asyncio
import os
import shutil
import site
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import Lock, install, read_lock, tool_process
from sandboxes.packages.installation import _set_modes
from tests.disks import needs_mounts, read_only
from tests.packages.conftest import BASE, Packages

pytestmark = pytest.mark.rotating("packages", "packages")

ROOT = Path(__file__).parents[2]

INSTALL = """
import asyncio, sys
from pathlib import Path
from sandboxes.packages import install, read_lock

async def main():
    lock = read_lock(Path(sys.argv[1]).read_text(), "lock.txt")
    say = lambda line: print(line, flush=True)
    print(await install(lock, Path(sys.argv[2]), say=say, deadline=asyncio.get_running_loop().time() + 60), flush=True)

asyncio.run(main())
sys.stdin.read()
"""


@pytest.fixture
def lock(packages: Packages) -> Lock:
    return packages.resolve("tiny")


def other(lock: Lock, tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that installs the lock, and uses it until its input is closed."""
    file = tmp_path / "lock.txt"
    file.write_text(lock.text)
    command = [sys.executable, "-c", INSTALL, str(file), str(BASE)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_packages_can_be_imported_from_a_plain_folder(packages: Packages, lock: Lock) -> None:
    folder = packages.install(lock)
    code = f"import sys; sys.path.append({str(folder)!r}); import tiny, small; print(tiny.version, small.version)"
    said = subprocess.run([BASE, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "1.0 1.2\n"
    assert packages.left() == []


def test_a_warm_hit_starts_nothing_and_says_nothing(
    packages: Packages, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packages.install(lock)
    packages.said.clear()
    monkeypatch.delattr(tool_process, "run")
    assert packages.install(lock) == folder
    assert packages.said == []


@pytest.mark.parametrize("mask", [0o077, 0o000])
def test_all_may_read_and_only_the_owner_write(packages: Packages, lock: Lock, mask: int) -> None:
    before = os.umask(mask)
    try:
        folder = packages.install(lock)
    finally:
        os.umask(before)
    paths = [folder.parent, *folder.parent.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o644}


def test_nothing_shares_its_content_with_another_file(packages: Packages, lock: Lock) -> None:
    folder = packages.install(lock)
    assert {path.stat().st_nlink for path in folder.parent.rglob("*") if path.is_file()} == {1}


def test_no_code_of_a_package_runs_when_it_is_installed(packages: Packages, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    line = f"import os; open({str(ran)!r}, 'a').close()"
    packages.add("evil", "1.0", {"evil.pth": line + "\n", "sitecustomize.py": line, "compileall.py": line})
    folder = packages.install(packages.resolve("evil"))
    assert list(folder.glob("__pycache__/evil.*.pyc"))
    assert not ran.exists()
    path = list(sys.path)
    site.addsitedir(str(folder))  # and it would have
    sys.path[:] = path
    assert ran.exists()


def test_what_does_not_compile_stays_as_it_is(packages: Packages) -> None:
    packages.add("broken", "1.0", {"broken_too.py": "def (\n", "deep.py": "(" * 5_000, "bytes.py": "x = '\x00'\n"})
    folder = packages.install(packages.resolve("broken"))
    compiled = {path.name.partition(".")[0] for path in folder.rglob("*.pyc")}
    assert compiled == {"broken"}


def test_the_compiled_files_name_no_folder_of_the_user(packages: Packages, lock: Lock) -> None:
    folder = packages.install(lock)
    (compiled,) = folder.glob("__pycache__/tiny.*.pyc")
    assert b"/packages/tiny.py" in compiled.read_bytes()
    assert os.fsencode(packages.cache) not in compiled.read_bytes()


def test_two_builders_at_once_make_one(packages: Packages, lock: Lock, tmp_path: Path) -> None:
    both = [other(lock, tmp_path) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0, 0]
    assert len({text.splitlines()[-1] for text in said}) == 1
    assert sum("installing" in text for text in said) == 1
    assert packages.left() == []


@pytest.mark.parametrize("same", [True, False])
def test_a_killed_builder_leaves_no_process_and_the_next_one_clears_up(
    packages: Packages, silent_index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    lock = packages.resolve("tiny")
    links = os.environ["UV_FIND_LINKS"]
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    monkeypatch.delenv("UV_FIND_LINKS")
    builder = other(lock, tmp_path)
    _wait(lambda: any("uv" in line for line in packages.left() if "install" in line and "--offline" not in line))
    builder.kill()
    builder.communicate()
    _wait(lambda: not any("uv" in line for line in packages.left() if "install" in line))
    assert [line for line in packages.left() if ".unfinished-" in line]
    monkeypatch.setenv("UV_FIND_LINKS", links)
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "index").as_uri())
    packages.install(lock if same else packages.resolve("small"))
    assert packages.left() == []


async def test_cancelling_leaves_nothing(
    packages: Packages, lock: Lock, silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    monkeypatch.delenv("UV_FIND_LINKS")

    end = asyncio.get_running_loop().time() + 60
    task = asyncio.create_task(install(lock, BASE, say=packages.said.append, deadline=end))
    while not any("uv" in line for line in packages.left() if "install" in line and "--offline" not in line):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert packages.left() == []
    assert not list((packages.cache / "packages").glob("*/"))


def test_the_deadline_is_kept_and_named(
    packages: Packages, lock: Lock, silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    monkeypatch.delenv("UV_FIND_LINKS")
    with pytest.raises(SandboxUnavailableError, match=r"SandboxConfig\(install_timeout=…\)"):
        packages.install(lock, seconds=1)
    assert packages.left() == []


def test_a_deadline_in_the_past_starts_nothing_that_stays(packages: Packages, lock: Lock) -> None:
    with pytest.raises(SandboxUnavailableError, match=r"SandboxConfig\(install_timeout=…\)"):
        packages.install(lock, seconds=-1)
    assert packages.left() == []


def test_files_that_are_not_those_of_the_lock_are_refused(packages: Packages, lock: Lock) -> None:
    wanted = lock.text.rpartition("sha256:")[2].strip()
    lock = read_lock(lock.text.replace(wanted, "0" * 64), "lock.txt")
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.install(lock)
    assert "Hash mismatch for `tiny==1.0`" in str(caught.value)
    assert "leave the lock out" in str(caught.value)
    assert not list((packages.cache / "packages").glob("*/"))


def test_a_lock_whose_files_are_gone_says_so(packages: Packages) -> None:
    lock = read_lock(f"tiny==7.0 --hash=sha256:{'0' * 64}", "lock.txt")
    with pytest.raises(UnsupportedConfigError, match="there is no version of tiny==7"):
        packages.install(lock)


def test_a_package_s_link_is_never_followed(packages: Packages, tmp_path: Path) -> None:
    made = packages.add("linked", "1.0")
    info = zipfile.ZipInfo("secret")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr(info, "/etc/hostname")
    folder = packages.install(packages.resolve("linked"))
    assert not (folder / "secret").is_symlink()
    assert (folder / "secret").read_text() == "/etc/hostname"
    (folder / "secret").unlink()
    (folder / "secret").symlink_to("/etc/hostname")
    with pytest.raises(UnsupportedConfigError, match="secret is a link"):
        _set_modes(folder)


@pytest.mark.parametrize("damage", ["marker gone", "other marker", "writable by all", "no folder", "a link"])
def test_a_damaged_folder_is_made_anew(packages: Packages, lock: Lock, tmp_path: Path, damage: str) -> None:
    folder = packages.install(lock)
    place = folder.parent
    (folder / "tiny.py").write_text("version = 'changed'")
    if damage == "marker gone":
        (place / "complete.json").unlink()
    elif damage == "other marker":
        (place / "complete.json").write_text((place / "complete.json").read_text().replace(lock.digest, "0" * 64))
    elif damage == "writable by all":
        place.chmod(0o777)
    elif damage == "no folder":
        folder.rename(tmp_path / "away")
    else:
        place.rename(tmp_path / "away")
        place.symlink_to(tmp_path / "away")
    assert packages.install(lock) == folder
    assert (folder / "tiny.py").read_text() == "version = '1.0'\n"
    assert not place.is_symlink()


@pytest.mark.parametrize("damage", ["truncated", "changed", "lacking", "more"])
def test_packages_that_are_not_as_they_were_installed_are_installed_anew(
    packages: Packages, lock: Lock, damage: str
) -> None:
    folder = packages.install(lock)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (compiled,) = (folder / "__pycache__").glob("tiny.*.pyc")
    if damage == "truncated":
        os.truncate(compiled, 20)
    elif damage == "changed":
        compiled.write_bytes(bytes(len(before[compiled])))
        os.utime(compiled, (0, 0))
    elif damage == "lacking":
        compiled.unlink()
    else:
        (folder / "more.py").write_text("")
    assert packages.install(lock) == folder
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_copy_with_other_times_is_as_good(packages: Packages, lock: Lock) -> None:
    folder = packages.install(lock)
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    packages.said.clear()
    before = folder.parent.stat().st_ino
    assert packages.install(lock) == folder
    assert (packages.said, folder.parent.stat().st_ino) == ([], before)


@needs_mounts
def test_a_read_only_cache_serves_what_it_holds(packages: Packages, lock: Lock, tmp_path: Path) -> None:
    folder = packages.install(lock)
    file = tmp_path / "lock.txt"
    file.write_text(lock.text)
    command = [sys.executable, "-c", INSTALL, str(file), str(BASE)]
    assert read_only(packages.cache, command) == f"{folder}\n"
    os.truncate(folder / "tiny.py", 0)
    with pytest.raises(subprocess.CalledProcessError) as raised:
        read_only(packages.cache, command)
    assert "(Read-only file system); run the same command once where the cache is writable" in raised.value.stderr


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can make somebody else's folder")
def test_somebody_else_s_folder_is_made_anew(packages: Packages, lock: Lock) -> None:
    folder = packages.install(lock)
    os.chown(folder.parent, 65534, 65534)
    assert packages.install(lock).parent.stat().st_uid == 0


def test_what_uv_has_kept_needs_no_network(
    packages: Packages, lock: Lock, silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = packages.install(lock)
    shutil.rmtree(folder.parent)
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    assert packages.install(lock, seconds=10) == folder


def test_what_nobody_wanted_for_long_goes_when_something_new_comes(packages: Packages, lock: Lock) -> None:
    old = packages.cache / "packages" / "old"
    (old / "site").mkdir(parents=True)
    (old / "complete.json").write_text("{}")
    long_ago = time.time() - 31 * 86_400
    os.utime(old / "complete.json", (long_ago, long_ago))
    packages.install(lock)
    assert not old.exists()


def _wait(until: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
