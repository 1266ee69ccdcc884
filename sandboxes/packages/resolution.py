"""Resolve requirements to a lock, and cache it, so that the next run needs no network."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from sandboxes.base import Model
from sandboxes.cache import cache_dir, content, disk_errors, find_file, keep, private_dir
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import interpreter_facts, tool_process
from sandboxes.packages.import_names import likely_package
from sandboxes.packages.lock import read_lock
from sandboxes.packages.lock_text import Lock
from sandboxes.packages.locking import Say, work_folder
from sandboxes.packages.npm.requirement import is_npm
from sandboxes.packages.requirement import name_of, normalize_requirements
from sandboxes.packages.settings import python_variables
from sandboxes.packages.uv import WHEELS, failure, reason, run_uv, timeout_error, user_settings
from sandboxes.packages.wheels import direct_wheel, fetch_wheels
from sandboxes.words.wording import Setting

LOCKS = "locks"
SUFFIX = ".json"

_SCHEMA = 1
_SOURCE = re.compile(r"Wheels are required for `([\w.-]+)`")
_UNKNOWN = re.compile(r"\b([a-z0-9][a-z0-9._-]*) was not found in the |no versions of ([a-z0-9][a-z0-9._-]*)\[")


class CachedResolution(Model):
    """A resolution as the cache keeps it."""

    resolved: str
    """The day, as YYYY-MM-DD."""
    requirements: tuple[str, ...]
    text: str


class RemotePython(NamedTuple):
    """A CPython on another machine with Linux and glibc, which packages are for."""

    version: str
    """`3.13` or `3.13.2`."""
    machine: str
    """As `uname -m` prints it."""


class Interpreter(NamedTuple):
    """A Python which packages are for."""

    path: Path
    facts: dict[str, str]
    remote: RemotePython | None = None

    @property
    def name(self) -> str:
        """Such as 'CPython 3.11.7'."""
        return self.facts["name"]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name it to uv."""
        here = ("--python", str(self.path))
        if self.remote is None:
            return here
        version, machine = self.remote
        return (*here, "--python-version", version, "--python-platform", f"{machine}-unknown-linux-gnu")

    def key(self, *parts: object) -> str:
        """Return a cache key for what depends on this Python and on `parts`, which are JSON values."""
        text = json.dumps([_SCHEMA, self.facts, *parts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


async def interpreter(python: Path | RemotePython, deadline: float) -> Interpreter:
    """Ask `python` for its properties. Raises SandboxUnavailableError if it does not run, TimeoutError if too late."""
    own = interpreter_facts.facts()
    if isinstance(python, RemotePython):
        name = f"CPython {python.version} on a Linux machine ({python.machine})"
        return Interpreter(Path(own["path"]), {"name": name}, python)
    if python.resolve() == Path(own["path"]):
        return Interpreter(python, own)
    command = [str(python), "-I", "-S", str(Path(interpreter_facts.__file__))]
    try:
        done = await tool_process.run(
            command, cwd=Path(interpreter_facts.__file__).parent, variables=python_variables(), deadline=deadline
        )
        found = json.loads(done.output.splitlines()[-1])  # a wrapper may say more
        return Interpreter(python, {str(name): str(value) for name, value in found.items()})
    except TimeoutError:
        raise
    except (OSError, ValueError, AttributeError, IndexError) as e:
        raise SandboxUnavailableError(f"packages: {python} is not a Python that works here; use another") from e


async def resolve(requirements: tuple[str, ...], python: Path | RemotePython, *, say: Say, deadline: float) -> Lock:
    """
    Find the wheels that satisfy the requirements, or take those found the last time.

    Args:
        requirements: As pip has them, in their normal form.
        python: The Python of the scripts.
        say: Called with lines for the user.
        deadline: In the event loop's time, in seconds.

    Raises:
        UnsupportedConfigError: No set of wheels satisfies them.
        SandboxUnavailableError: That cannot be found out here or in time.
    """
    wanted = normalize_requirements(requirements)
    if strange := next((one for one in wanted if is_npm(one)), None):
        raise UnsupportedConfigError(
            f"packages: '{strange}' is a package of npm, and the script is Python; leave it out"
        )
    folder = private_dir(private_dir(cache_dir()) / LOCKS)
    what = f"resolving {few(wanted)}"
    try:
        target = await interpreter(python, deadline)
        user = user_settings()
        key = target.key(sorted(wanted), user.choice)
        wheels = await fetch_wheels(wanted, say=say, deadline=deadline)
        if lock := cached_lock(folder, key, wanted, say):
            return lock
        for note in user.notes:
            say(f"packages: {note}")
        with disk_errors(folder):
            async with work_folder(folder, key, say=say, deadline=deadline) as work:
                return cached_lock(folder, key, wanted, say) or await _resolve(
                    wanted, wheels, target, work, key, say, deadline
                )
    except TimeoutError:
        raise timeout_error(what) from None


async def _resolve(
    wanted: tuple[str, ...],
    wheels: Mapping[str, Path],
    target: Interpreter,
    work: Path,
    key: str,
    say: Say,
    deadline: float,
) -> Lock:
    say(f"packages: resolving {few(wanted)} for {target.name}")
    start = time.monotonic()
    (work / "requirements.in").write_text("".join(f"{_pinned(one)}\n" for one in wanted), encoding="utf-8")
    command = [
        *("pip", "compile", "requirements.in", *target.options, *WHEELS, "--generate-hashes"),
        *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-build-options"),
        *("--no-emit-index-annotation", "--no-sources"),
    ]
    done = await run_uv(command, work=work, deadline=deadline, resolving=True, wheels=wheels.values())
    if done.code != 0:
        raise failure(
            done,
            f"{few(wanted)} for {target.name}",
            _build_step(wanted, done.errors)
            or f"{_likely(done.errors)}change the versions that you ask for, or run evalcell with another Python",
            f"no earlier resolution of them is in the cache: connect once, or set {Setting('sandbox.lock')}",
        )
    try:
        lock = read_lock(done.output.decode(), "packages, as uv resolved them")
    except UnicodeDecodeError as e:
        raise SandboxUnavailableError(f"packages: uv's output is not UTF-8 ({e}); reinstall uv") from e
    _refuse_lacking(wanted, lock)
    lock = _with_wheels(lock, wheels)
    kept = CachedResolution(resolved=date.today().isoformat(), requirements=wanted, text=lock.text)
    keep(work.parent, key, SUFFIX, kept.model_dump_json().encode())
    say(f"packages: {name_packages(lock.packages, wanted)}, resolved in {time.monotonic() - start:.1f} s")
    return lock


def _pinned(requirement: str) -> str:
    wheel = direct_wheel(requirement)
    return requirement if wheel is None else wheel.pinned


def _with_wheels(lock: Lock, wheels: Iterable[str]) -> Lock:
    """The lock with no other file of a package than the one that was named by its place."""
    text = lock.text
    for wheel in filter(None, map(direct_wheel, wheels)):
        entry = rf"(?m)^({re.escape(wheel.name)}==[^ \n]+)((?: \\\n    --hash=sha256:[0-9a-f]{{64}})+)$"
        found = re.search(entry, text)
        if found is None or wheel.digest not in found[2]:
            raise UnsupportedConfigError(
                f"packages: the index has another {wheel.name} {wheel.version} than {wheel.file}, and that one was "
                "taken; give the wheel a version that the index has not"
            )
        text = text.replace(found[0], f"{found[1]} \\\n    --hash=sha256:{wheel.digest}")
    return read_lock(text, "packages, as uv resolved them")


def _build_step(wanted: tuple[str, ...], errors: str) -> str:
    """What to do for packages that the index has as source alone: no version and no Python has a wheel of it."""
    text = " ".join(errors.split())
    names = dict.fromkeys(name.lower() for name in _SOURCE.findall(text))
    if not names or "only found wheels" in text or "in the cache" in text:
        return ""
    asked = {name_of(one): one for one in wanted}
    words = " ".join(shlex.quote(asked.get(name, name)) for name in names)
    which = f"{'it' if len(names) < 2 else 'these'}"
    return (
        f"the index has {which} as source alone, which evalcell does not build: build a wheel with "
        f"`pip wheel --no-deps {words} -w wheels`, which runs the package's own setup here, and run it again with "
        "UV_FIND_LINKS=wheels"
    )


def _likely(errors: str) -> str:
    """What is meant by a name that no index has, as the begin of the next step."""
    found = _UNKNOWN.search(reason(errors))
    if found is None:
        return ""
    name = found[1] or found[2]
    near = likely_package(name)
    return f"did you mean {near}? If not, " if near and near.lower() != name else "check its name, "


def _refuse_lacking(wanted: tuple[str, ...], lock: Lock) -> None:
    """What is asked for without a condition is in the lock, unless an override of the user's takes it out."""
    names = {name for name, _ in lock.packages}
    for one in wanted:
        if ";" not in one and name_of(one) not in names:
            raise UnsupportedConfigError(
                f"packages: {one} is left out by your own settings of uv; "
                "look at `override-dependencies` in uv.toml and at UV_OVERRIDE"
            )


def cached_lock(folder: Path, key: str, requirements: tuple[str, ...], say: Say) -> Lock | None:
    """Return the lock of an earlier resolution, if it is there."""
    path = find_file(folder, key, SUFFIX)
    if path is None:
        return None
    try:
        found = CachedResolution.model_validate_json(content(path))
        lock = read_lock(found.text, str(path))
    except (SandboxUnavailableError, ValidationError, UnsupportedConfigError):
        return None  # of an earlier version, or just deleted
    names = name_packages(lock.packages, requirements)
    say(f"packages: {names}, as resolved on {found.resolved}; 'evalcell cache prune --all' resolves again")
    return lock


def name_packages(packages: tuple[tuple[str, str], ...], first: tuple[str, ...] = (), most: int = 3) -> str:
    """Name packages, as in 'scikit-learn 1.7.2 and 4 more', beginning with those that the requirements `first` name."""
    asked = {name_of(one) for one in first}
    ordered = sorted(packages, key=lambda package: package[0] not in asked)
    show = ordered[: max(1, min(most, len(asked & {name for name, _ in packages}) or most))]
    more = f" and {len(ordered) - len(show)} more" if len(ordered) > len(show) else ""
    return ", ".join(f"{name} {version}" for name, version in show) + more if show else "nothing to install"


def few(requirements: tuple[str, ...], most: int = 5) -> str:
    """Return the first of the requirements in words."""
    more = f" and {len(requirements) - most} more" if len(requirements) > most else ""
    return ", ".join(requirements[:most]) + more
