"""`evalcell cache`: what is kept, and making room without taking anything from a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxes.packages import CacheEntry, Lock, entries, prune
from sandboxes.packages.locking import exclusive, use
from tests.disks import needs_mounts, read_only
from tests.packages.conftest import Packages
from tests.packages.test_installing import other

pytestmark = pytest.mark.rotating("packages", "packages")

LONG_AGO = time.time() - 10 * 86_400

HOLD = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def installed(packages: Packages, tmp_path: Path) -> Packages:
    """By another process, which has ended."""
    finish(other(packages.resolve("tiny"), tmp_path))
    return packages


def finish(process: subprocess.Popen[str]) -> None:
    assert process.communicate(timeout=60)
    assert process.returncode == 0


def kinds(found: tuple[CacheEntry, ...] | list[CacheEntry]) -> list[str]:
    return sorted(entry.kind for entry in found)


def test_an_empty_cache_holds_nothing(cache: Path) -> None:
    assert entries() == []
    assert prune().removed == ()


def test_each_thing_is_listed_with_size_use_and_content(installed: Packages) -> None:
    found = {entry.kind: entry for entry in entries()}
    assert sorted(found) == ["downloads", "locks", "packages"]
    assert found["packages"].holds == "small 1.2, tiny 1.0"
    assert found["locks"].holds.startswith("tiny 1.0 and 1 more, resolved on 20")
    assert all(entry.bytes > 0 and abs(time.time() - entry.used) < 60 for entry in found.values())
    place = found["packages"].path
    real = sum(p.stat().st_size for p in place.rglob("*") if p.is_file() and p.name != "complete.json")
    assert found["packages"].bytes == real


def test_other_kinds_are_listed_and_pruned_too(cache: Path) -> None:
    for folder in ("wasm", "views"):
        (cache / folder).mkdir(parents=True)
        (cache / folder / f"key-{'0' * 64}.bin").write_bytes(b"12345")
        (cache / folder / "key.lock").touch()
    assert [(entry.kind, entry.bytes) for entry in entries()] == [("views", 5), ("wasm", 5)]
    assert kinds(prune().removed) == ["views", "wasm"]
    assert entries() == []


def test_pruning_all_removes_all_and_the_next_run_resolves_anew(installed: Packages) -> None:
    installed.add("tiny", "2.0")
    assert kinds(prune().removed) == ["downloads", "locks", "packages"]
    assert entries() == []
    lock = installed.resolve("tiny")
    assert lock.packages == (("tiny", "2.0"),)
    assert installed.install(lock).is_dir()


def test_only_what_was_not_wanted_for_so_long_goes(installed: Packages) -> None:
    place = next(entry.path for entry in entries() if entry.kind == "packages")
    os.utime(place / "complete.json", (LONG_AGO, LONG_AGO))
    assert kinds(prune(unused_for=5 * 86_400).removed) == ["packages"]
    assert kinds(entries()) == ["downloads", "locks"]


def test_wanting_it_keeps_it(packages: Packages) -> None:
    lock = packages.resolve("tiny")
    marker = packages.install(lock).parent / "complete.json"
    os.utime(marker, (LONG_AGO, LONG_AGO))
    packages.install(lock)
    assert time.time() - marker.stat().st_mtime < 60


def test_what_a_run_uses_stays_and_is_told(packages: Packages, tmp_path: Path) -> None:
    lock = packages.resolve("tiny")
    run = other(lock, tmp_path)
    assert run.stdout is not None
    lines = iter(run.stdout.readline, "")
    folder = Path(next(line for line in lines if line.startswith("/")).strip())
    done = prune()
    assert [why for _, why in done.skipped] == ["a run is using it"]
    assert (folder / "tiny.py").is_file()
    finish(run)
    assert kinds(prune().removed) == ["packages"]
    assert not folder.exists()


def test_what_is_being_built_stays_and_is_told(installed: Packages) -> None:
    place = next(entry.path for entry in entries() if entry.kind == "packages")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, f"{place}.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as builder:
        assert builder.stdout is not None
        builder.stdout.readline()
        assert [why for _, why in prune().skipped] == ["another evalcell is building it"]
        builder.communicate()
    assert place.is_dir()


def test_a_file_half_written_is_left_alone_while_it_is_young(cache: Path) -> None:
    place = cache / "locks" / ".unfinished-abc"
    place.parent.mkdir(parents=True)
    place.touch()
    assert [why for _, why in prune().skipped] == ["another evalcell may be writing it"]
    os.utime(place, (LONG_AGO, LONG_AGO))
    assert [entry.holds for entry in prune().removed] == ["unfinished work"]
    assert not place.exists()


@needs_mounts
def test_what_cannot_be_deleted_stays_and_is_told(installed: Packages) -> None:
    code = "from sandboxes.packages import prune; done = prune(); print(done.removed, {why for _, why in done.skipped})"
    assert read_only(installed.cache, [sys.executable, "-c", code]) == "() {'it cannot be deleted'}\n"


def test_who_comes_while_it_is_deleted_does_not_use_it(packages: Packages) -> None:
    marker = packages.cache / "marker"
    packages.cache.mkdir()
    marker.touch()
    with exclusive(marker) as free:
        assert free
        assert not use(marker)
    assert use(marker)
    with exclusive(marker) as free:
        assert not free
    marker.unlink()
    assert not use(marker)


def test_strange_content_is_listed_not_believed(packages: Packages, tmp_path: Path) -> None:
    lock = packages.resolve("tiny")
    assert isinstance(lock, Lock)
    (packages.cache / "packages" / "strange").mkdir(parents=True)
    (packages.cache / "locks" / "strange.json").write_text("[1]")
    (packages.cache / "link").symlink_to(tmp_path)
    assert {entry.holds for entry in entries() if entry.name.startswith("strange")} == {
        "damaged packages",
        "a damaged lock",
    }
    assert kinds(prune().removed) == ["downloads", "locks", "locks", "packages"]
    assert tmp_path.exists()
