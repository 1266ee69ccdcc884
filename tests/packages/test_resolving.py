"""Requirements to a lock, by the real uv."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import Lock, find_uv, interpreter_facts, resolve, tool_process
from sandboxes.packages.resolution import interpreter
from tests.packages.conftest import BASE, Packages, run

pytestmark = pytest.mark.rotating("packages", "packages")


def test_a_set_with_all_that_it_needs_is_locked_by_hash(packages: Packages) -> None:
    lock = packages.resolve("tiny")
    assert lock.packages == (("small", "1.2"), ("tiny", "1.0"))
    assert lock.text.count("--hash=sha256:") == 2
    assert "file:" not in lock.text
    assert packages.said[0].startswith("packages: resolving tiny for CPython 3.")
    assert packages.said[1].startswith("packages: tiny 1.0 and 1 more, resolved in ")


def test_it_is_remembered_for_this_index_until_it_is_forgotten(
    packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = packages.resolve("tiny", "small")
    packages.add("tiny", "2.0")
    packages.said.clear()
    with monkeypatch.context() as nothing:
        nothing.delattr(tool_process, "run")
        again = packages.resolve("small", "tiny")
    assert again == first
    (line,) = packages.said
    assert line.startswith("packages: small 1.2, tiny 1.0, as resolved on 20")
    assert line.endswith("; 'evalcell cache prune --all' resolves again")


def test_other_settings_of_the_user_resolve_anew(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    packages.resolve("tiny")
    monkeypatch.setenv("UV_RESOLUTION", "lowest")
    packages.add("small", "1.0")
    assert packages.resolve("tiny").packages == (("small", "1.0"), ("tiny", "1.0"))


def test_a_damaged_memory_is_not_believed(packages: Packages) -> None:
    first = packages.resolve("tiny")
    (kept,) = (packages.cache / "locks").glob("*.json")
    kept.write_text(kept.read_text().replace("1.2", "9.9"))
    assert packages.resolve("tiny") == first
    assert "resolving" in packages.said[-2]


def test_no_network_is_needed_for_what_is_remembered(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    first = packages.resolve("tiny")
    folder = packages.install(first)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "uv", None)  # not even uv
    assert packages.resolve("tiny") == first
    assert packages.install(first) == folder


def test_without_uv_the_command_that_installs_it_is_named(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'evalcell\[process\]'"):
        packages.resolve("tiny")


def test_no_packages_for_this_python_is_a_lock_too(packages: Packages) -> None:
    lock = packages.resolve("tiny; python_version < '3'")
    assert lock.packages == ()
    assert list(packages.install(lock).iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("tiny==9",), "there is no version of tiny==9"),
        (("nosuchthing",), "nosuchthing was not found"),
        (("clash", "small>=1"), "you require small>=1"),
        (("windows",), "win_amd64"),
        (("hidden",), "URL dependencies must be expressed"),
    ],
)
def test_an_unresolvable_set_says_why(packages: Packages, asked: tuple[str, ...], reason: str) -> None:
    packages.add("clash", "1.0", requires=("small<1",))
    packages.add("windows", "1.0").rename(packages.wheels / "windows-1.0-py3-none-win_amd64.whl")
    packages.add("hidden", "1.0", requires=("other @ http://127.0.0.1:9/other-1.0-py3-none-any.whl",))
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.resolve(*asked)
    message = str(caught.value)
    assert reason in message
    assert message.startswith(f"packages: {', '.join(asked)} for CPython 3.")
    assert "change the versions that you ask for" in message
    assert message.isprintable()
    assert len(message) < 800
    for noise in ("://", "127.0.0.1", "error:", "cause:", "hint:"):
        assert noise not in message
    assert packages.left() == []


def test_a_package_that_is_source_alone_is_built_by_the_user(packages: Packages) -> None:
    with tarfile.open(packages.wheels / "raw-1.0.tar.gz", "w:gz") as archive:
        for name in ("PKG-INFO", "setup.py"):
            data = b"Metadata-Version: 2.1\nName: raw\nVersion: 1.0\n" if name == "PKG-INFO" else b""
            part = tarfile.TarInfo(f"raw-1.0/{name}")
            part.size = len(data)
            archive.addfile(part, io.BytesIO(data))
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.resolve("tiny", "raw>=1")
    message = str(caught.value)
    assert "build a wheel with `pip wheel --no-deps 'raw>=1' -w wheels`" in message
    assert message.endswith("and run it again with UV_FIND_LINKS=wheels")
    assert "another Python" not in message
    packages.add("raw", "1.0")  # as built
    assert ("raw", "1.0") in packages.resolve("tiny", "raw>=1").packages


@pytest.mark.parametrize(
    ("asked", "step"),
    [
        ("scikit_lern>=1", "did you mean scikit-learn? If not, change the versions that you ask for"),
        ("sklaern", "did you mean scikit-learn? If not, "),
        ("levenstein[x]", "did you mean Levenshtein? If not, "),
        ("nunpy", "did you mean numpy? If not, "),
        ("sentence_transformer", "did you mean sentence-transformers? If not, "),
        ("rapidfuzz", "check its name, change the versions"),
        ("nosuchthing", "check its name, change the versions"),
    ],
)
def test_a_name_that_no_index_has_may_be_a_slip(packages: Packages, asked: str, step: str) -> None:
    with pytest.raises(UnsupportedConfigError) as caught:
        packages.resolve(asked)
    assert f"; {step}" in str(caught.value)


@pytest.mark.parametrize("line", ["-r /etc/hostname", "./wheels/tiny", "tiny @ file:///etc/hostname"])
def test_nothing_but_requirements_reaches_uv(packages: Packages, line: str) -> None:
    with pytest.raises(UnsupportedConfigError):
        packages.resolve(line)
    assert packages.said == []


def test_without_an_index_nothing_is_known(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://somebody:secret@127.0.0.1:9/simple")
    with pytest.raises(SandboxUnavailableError) as caught:
        packages.resolve("tiny")
    message = str(caught.value)
    assert "the package index cannot be reached" in message
    assert "Connection refused" in message
    assert "SandboxConfig(lock=…)" in message
    assert "secret" not in message
    assert "127.0.0.1" not in message


def test_offline_by_the_user_s_own_wish_is_no_fault_of_the_packages(
    packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    with pytest.raises(SandboxUnavailableError, match="network was disabled"):
        packages.resolve("nosuchthing")


def test_the_deadline_is_kept_and_named(packages: Packages, silent_index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)
    begun = time.monotonic()
    with pytest.raises(SandboxUnavailableError, match=r"SandboxConfig\(install_timeout=…\)"):
        packages.resolve("tiny", seconds=1)
    assert time.monotonic() - begun < 60, "the index is silent for ever"
    assert packages.left() == []


async def test_cancelling_leaves_nothing(
    packages: Packages, silent_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", silent_index)

    end = asyncio.get_running_loop().time() + 60
    task = asyncio.create_task(resolve(("tiny",), BASE, say=packages.said.append, deadline=end))
    while not any("uv" in line for line in packages.left()):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert packages.left() == []


def test_no_folder_s_configuration_counts(packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uv.toml").write_text('find-links = ["/nonexistent"]\n')
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\nindex-url = 'http://127.0.0.1:9/simple'\n")
    monkeypatch.chdir(tmp_path)  # the cache is below it as well
    assert packages.resolve("tiny").packages


def test_the_user_s_own_configuration_counts(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_FIND_LINKS")
    place = Path(os.environ["HOME"]) / ".config" / "uv" / "uv.toml"
    place.parent.mkdir(parents=True)
    place.write_text(f"find-links = [{str(packages.wheels)!r}]\n")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert packages.resolve("tiny").packages


def test_a_relative_folder_of_wheels_is_that_of_the_user(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(packages.wheels.parent)
    monkeypatch.setenv("UV_FIND_LINKS", "wheels")
    assert packages.resolve("tiny").packages


def test_who_only_told_pip_where_packages_are_is_heard(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", os.environ["UV_DEFAULT_INDEX"])
    monkeypatch.setenv("PIP_FIND_LINKS", f"/nonexistent {packages.wheels}")
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    monkeypatch.delenv("UV_FIND_LINKS")
    assert packages.resolve("tiny").packages


def test_two_that_ask_at_once_resolve_once(packages: Packages) -> None:
    async def main() -> tuple[Lock, Lock]:
        end = asyncio.get_running_loop().time() + 60
        one, other = (resolve(("tiny",), BASE, say=packages.said.append, deadline=end) for _ in range(2))
        return await asyncio.gather(one, other)

    one, other = run(main())
    assert one == other
    assert sum("resolving" in line for line in packages.said) == 1


def test_a_python_is_asked_what_it_is() -> None:
    told = subprocess.run(
        [BASE, "-I", "-S", interpreter_facts.__file__], capture_output=True, text=True, check=True
    ).stdout
    own = run(interpreter(BASE, 0))  # this very one: no process, so no time
    assert told.strip() == json.dumps(own.facts)


async def test_what_is_no_python_is_told() -> None:
    with pytest.raises(SandboxUnavailableError, match="/bin/echo is not a Python"):
        await interpreter(Path("/bin/echo"), asyncio.get_running_loop().time() + 10)


async def test_the_real_index(cache: Path) -> None:
    """With this machine's own settings; the only test that leaves it."""
    said: list[str] = []

    try:
        find_uv()
        end = asyncio.get_running_loop().time() + 30
        lock = await resolve(("idna>=3",), BASE, say=said.append, deadline=end)
    except SandboxUnavailableError as e:
        pytest.skip(f"no index can be reached: {e}")
    ((name, _),) = lock.packages
    assert name == "idna"
    assert "://" not in lock.text
