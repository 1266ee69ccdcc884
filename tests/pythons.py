"""
Run the tests on each CPython that is installed here, from 3.11 on: `make test-pythons`.

`python -m tests.pythons --newest [PYTEST ARGUMENT ...]` takes the newest one alone, and none where that is this one.
Each has its own virtual environment in .venv/pythons, which is made once for each tests/requirements.txt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "tests" / "requirements.txt"
OLDEST = (3, 11)
MINORS = range(OLDEST[1], 30)
ASK = "import sys; print(sys.implementation.name, *sys.version_info[:3], sys.version_info.releaselevel)"
Version = tuple[int, ...]


def candidates() -> Iterator[Path]:
    """Where interpreters are kept: the PATH, pyenv's folder, uv's own."""
    for minor in MINORS:
        if found := shutil.which(f"python3.{minor}"):
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    for folder in (pyenv / "versions", uv):
        yield from folder.glob("*/bin/python3")


def installed() -> dict[Version, Path]:
    """The newest CPython of each minor version, by version, oldest first."""
    found: dict[Version, tuple[Version, Path]] = {}
    for path in candidates():
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True)  # one of pyenv's shims may fail
        name, *numbers, level = done.stdout.split() if done.returncode == 0 else ("", "")
        version = tuple(map(int, numbers))
        if (name, level) == ("cpython", "final") and version[:2] >= OLDEST:
            found[version[:2]] = max(found.get(version[:2], (version, path)), (version, path))
    return dict(sorted(found.values()))


def environment(version: Version, python: Path) -> Path:
    """The Python of its virtual environment, with all that the tests need."""
    place = ROOT / ".venv" / "pythons" / ".".join(map(str, version))
    made, inner = place / "requirements.txt", place / "bin" / "python"
    if not made.is_file() or made.read_bytes() != LOCK.read_bytes():
        uv: tuple[str | Path, ...] = (sys.executable, "-m", "uv", "--quiet")
        run([*uv, "venv", "--clear", "--python", python, place])
        run([*uv, "pip", "install", "--python", inner, "--require-hashes", "-r", LOCK])
        run([*uv, "pip", "install", "--python", inner, "--no-deps", "--editable", ROOT])
        made.write_bytes(LOCK.read_bytes())
    return inner


def run(command: list[str | Path] | tuple[str | Path, ...]) -> None:
    subprocess.run(command, check=True, cwd=ROOT)


def main(arguments: list[str]) -> int:
    found = installed()
    if newest := arguments[:1] == ["--newest"]:
        arguments = arguments[1:]
        here = sys.version_info[:2]
        found = {version: path for version, path in list(found.items())[-1:] if version[:2] > here}
        if not found:
            print("no newer Python is installed here; the tests ran on this one alone")
    failed = []
    for version, path in found.items():
        name = ".".join(map(str, version))
        print(f"Python {name}, {path}", flush=True)
        inner = environment(version, path)
        run([inner, "-c", "from sandboxes.wasm.native_code import compile_guest; compile_guest(print)"])
        command: list[str | Path] = [
            inner,
            "-m",
            "pytest",
            "-n",
            "3",
            "--dist",
            "loadgroup",
            "--no-loadscope-reorder",
            *arguments,
        ]
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    elif not newest:
        print(f"passed on Python {', '.join('.'.join(map(str, version)) for version in found)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
