"""The vendors' own packages, each in an environment of its own, made once for its list and kept in the clone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

HERE = Path(__file__).parent
KEPT = HERE.parents[3] / ".venv-vendors"
TIME = 600
"""Seconds for an environment to be made, and for an oracle to answer."""


class UnavailableError(Exception):
    """An environment that cannot be made here, so that its tests are skipped; its message says why."""


class OracleError(Exception):
    """An oracle that ended without its lines; its message has what it said."""


@cache
def python(vendor: str) -> Path:
    """The interpreter of a vendor's environment. Raises UnavailableError."""
    listed = HERE / "lists" / f"{vendor}.txt"
    folder = _folder(vendor, listed.read_bytes() + sys.version.encode())
    uv = [str(Path(sys.executable).with_name("uv"))]
    made = folder / "bin" / "python"

    def make() -> None:
        _run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
        install = [*uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--compile-bytecode"]
        _run([*install, "--python", str(made), "--requirements", str(listed)])

    _once(folder, make)
    return made


def packages(vendor: str) -> Path:
    """Where a vendor's packages are installed. Raises UnavailableError."""
    (found,) = python(vendor).parents[1].glob("lib/python3.*/site-packages")
    return found


@cache
def node(vendor: str) -> Path:
    """The folder with a vendor's modules, and the Node that they need, `bin/node`. Raises UnavailableError."""
    listed = HERE / "lists" / f"{vendor}.json"
    folder = _folder(vendor, listed.read_bytes())

    def make() -> None:
        if shutil.which("npm") is None:
            raise UnavailableError("there is no npm")
        folder.mkdir(parents=True)
        shutil.copy(listed, folder / "package.json")
        _run(["npm", "install", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-package-lock"],
             cwd=folder)  # fmt: skip
        (found,) = folder.glob("node_modules/node-linux-*/bin/node")
        (folder / "bin").mkdir()
        (folder / "bin" / "node").symlink_to(found)

    _once(folder, make)
    return folder


def clone(repository: str) -> Path:
    """
    A clone of a repository, `owner/name`, that was made before: nothing is fetched here.

    `EVALCELL_VENDOR_CLONES` names the folder of the clones, each `owner+name/repo` or `owner+name`. Raises
    UnavailableError.
    """
    folder = Path(os.environ.get("EVALCELL_VENDOR_CLONES") or "/nowhere") / repository.replace("/", "+")
    for found in (folder / "repo", folder):
        if found.is_dir():
            return found
    raise UnavailableError(f"EVALCELL_VENDOR_CLONES names no folder with a clone of {repository}")


def say(program: Sequence[str | Path], script: Path, entry: str, rows: Path, given: dict[str, Any]) -> list[Any]:
    """The lines of an oracle, which has no network. Raises OracleError."""
    command = oracle_command(program, script, entry, rows, given)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME, env=variables())
    if done.returncode:
        raise OracleError(done.stderr[-4000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def oracle_command(
    program: Sequence[str | Path], script: Path, entry: str, rows: Path, given: dict[str, Any]
) -> list[str]:
    """What starts an oracle, without a network; oracles/lines.py says what it is given."""
    return [*_offline(), *map(str, program), str(script), entry, str(rows), json.dumps(given)]


def variables() -> dict[str, str]:
    """The environment of an oracle."""
    home = KEPT / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


@cache
def _offline() -> tuple[str, ...]:
    command = ("unshare", "--map-root-user", "--net")
    if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
        return command
    return ()


def _folder(vendor: str, key: bytes) -> Path:
    return KEPT / f"{vendor}-{hashlib.sha256(key).hexdigest()[:12]}"


def _once(folder: Path, make: Any) -> None:
    KEPT.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if (folder / ".ready").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        make()
        (folder / ".ready").touch()


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME, cwd=cwd)
    if done.returncode:
        raise UnavailableError(f"{command[0]}: {done.stderr.strip()[-500:]}")
