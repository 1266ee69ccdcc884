"""
A container engine on this machine: Podman with runc, as root. No registry is asked.

Its image is made of the Python that runs the tests, with the shared libraries that it and usual packages need. Where
there is no such engine, tests skip with the reason.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sandboxes import Sandbox
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.docker.sandbox import DockerSandbox
from sandboxes.remote.retry import Pauses

QUICK = Pauses(first=0.05, longest=0.5, total=20)
RUNTIME = "runc"
"""crun, Podman's usual one, refuses machines with both versions of control groups."""

_SKIPPED = ("test", "tests", "idlelib", "tkinter", "turtledemo", "site-packages", "__pycache__", "ensurepip", "lib2to3")
_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")


def podman(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["podman", "--runtime", RUNTIME, *words], capture_output=True, timeout=300, **options)


@functools.cache
def missing() -> str:
    """Why there is no engine here; empty where there is."""
    if not sys.platform.startswith("linux") or os.getuid():
        return "containers are tried by root on Linux"
    if not (shutil.which("podman") and shutil.which(RUNTIME)):
        return "podman and runc are needed: apt install podman runc"
    try:
        done = podman("run", *_LIMITS, "--rm", "--network", "none", _image(), "python3", "-c", "print(6 * 7)")
    except (OSError, subprocess.SubprocessError) as e:
        return f"podman does not work here: {e}"
    works = done.returncode == 0 and done.stdout.strip() == b"42"
    return "" if works else f"podman does not work here: {done.stderr.decode(errors='replace')[-300:]}"


_LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")


def image(python: str = sys.executable) -> str:
    """The name of the tests' image, which has this Python. Only where nothing is `missing`."""
    return _image(python)


@functools.cache
def _image(python: str = sys.executable) -> str:
    digest = hashlib.sha256(f"{_ask(python, 'sys.version')} {_ask(python, 'sys.base_prefix')}".encode()).hexdigest()[
        :12
    ]
    name = f"localhost/evalcell-tests:{digest}"
    if podman("image", "exists", name).returncode:
        with tempfile.TemporaryFile() as packed:
            with tarfile.open(fileobj=packed, mode="w", dereference=False) as tar:
                _pack(tar, python)
            packed.seek(0)
            podman("import", "-", name, stdin=packed, check=True)
    return name


def _ask(python: str, expression: str) -> str:
    done = subprocess.run([python, "-I", "-c", f"import os, sys; print({expression})"], capture_output=True, check=True)
    return done.stdout.decode().strip()


def _pack(tar: tarfile.TarFile, executable: str) -> None:
    prefix = Path(_ask(executable, "sys.base_prefix")).resolve()
    python = Path(executable).resolve()
    library = Path(_ask(executable, "os.__file__")).resolve().parent
    for folder in ("tmp", "etc", "usr/bin", "opt", "evalcell", "home", "root", "var", "var/tmp", "proc", "sys", "dev"):
        _folder(tar, folder)
    _add(tar, python, python)
    _link(tar, "usr/bin/python3", python)
    for path in sorted(library.rglob("*")):
        if not set(path.relative_to(library).parts) & set(_SKIPPED) and path.is_file():
            _add(tar, path, path)
    objects = [python, *library.glob("lib-dynload/*.so"), *(prefix / "lib").glob("libpython*.so*")]
    for place in sorted(set(_needed(objects))):
        _add(tar, Path(place).resolve(), Path(place))
    _folder(tar, f"{library}/site-packages".lstrip("/"))


def _needed(objects: list[Path]) -> Iterator[str]:
    """The shared libraries of files, and those that packages take for granted."""
    for one in objects:
        told = subprocess.run(["ldd", str(one)], capture_output=True, check=False).stdout.decode()
        yield from re.findall(r"(/\S+) \(0x", told)
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, check=False).stdout.decode()
    for name in _LIBRARIES:
        if found := re.search(rf"{re.escape(name)} .*=> (/\S+)", known):
            yield found[1]


_made: set[str] = set()


def _folder(tar: tarfile.TarFile, path: str) -> None:
    about = tarfile.TarInfo(path)
    about.type, about.mode = tarfile.DIRTYPE, 0o1777 if path.endswith("tmp") else 0o755
    tar.addfile(about)


def _link(tar: tarfile.TarFile, path: str, target: Path) -> None:
    about = tarfile.TarInfo(path)
    about.type, about.linkname = tarfile.SYMTYPE, str(target)
    tar.addfile(about)


def _add(tar: tarfile.TarFile, source: Path, place: Path) -> None:
    content = source.read_bytes()
    about = tarfile.TarInfo(str(place).lstrip("/"))
    about.size, about.mode = len(content), 0o755
    tar.addfile(about, io.BytesIO(content))


@functools.cache
def socket() -> str:
    """The socket of an engine with Docker's API, which is started once, and ends with the tests."""
    path = _own_folder() / "engine.sock"
    service = start_service(path)
    _at_exit(partial(_end, service))
    return str(path)


def start_service(path: Path) -> subprocess.Popen[bytes]:
    """Start another engine with Docker's API at a socket; whoever asks ends it, or half an hour of silence."""
    words = ["podman", "--runtime", RUNTIME, "system", "service", "--time", "1800", f"unix://{path}"]
    service = subprocess.Popen(words, stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
    for _ in range(600):
        if path.exists():
            break
        time.sleep(0.05)
    return service


@functools.cache
def _own_folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="evalcell-containers-"))
    _at_exit(partial(shutil.rmtree, made, ignore_errors=True))
    return made


def _end(service: subprocess.Popen[bytes]) -> None:
    service.kill()
    service.wait()


def _at_exit(do: Any) -> None:
    own = os.getpid()
    atexit.register(lambda: do() if os.getpid() == own else None)


def env_file(path: str | None = None) -> str:
    """A file that says where the engine is."""
    place = path or socket()
    file = _own_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:8]}.env"
    file.write_text(f"DOCKER_HOST=unix://{place}\n")
    return str(file)


def config(by: str = "api", **options: Any) -> RemoteConfig:
    """For a sandbox on this engine, by its API or by its program."""
    os.environ.setdefault("EVALCELL_STATE_DIR", str(_own_folder() / "state"))
    reach = {"env_file": env_file()} if by == "api" else {"engine": "podman", "runtime": RUNTIME}
    asked: dict[str, Any] = {"backend": "docker", "image": image(), "jobs": 2, "pauses": QUICK, **reach}
    return RemoteConfig(**asked | options)


def sandbox(by: str = "api", **options: Any) -> Sandbox:
    return DockerSandbox(config(by, **options))


def containers_of(pid: int | None = None) -> list[str]:
    """Names of containers that a process has made, this one or another, and that are there, running or not."""
    labels = ("--filter", "label=evalcell.owner=evalcell", "--filter", f"label=evalcell.pid={pid or os.getpid()}")
    return podman("ps", "--all", "--format", "{{.Names}}", *labels).stdout.decode().split()
