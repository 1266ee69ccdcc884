"""Find the host's files that a Python needs: its standard library and the shared libraries that it and wheels use."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxes.base import Model
from sandboxes.cache import content, get_or_build
from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor import shortage
from sandboxes.words.wording import Message, Setting

_FORM = 2
"""To be raised with every change of View, since old ones are in the cache."""

_SECONDS = 60
_HIDDEN = ("site-packages", "dist-packages")

# What a manylinux wheel may use of the host (PEP 513 and its successors), and what the C library loads late.
_LIBRARIES = """
    libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 librt.so.1 libpthread.so.0 libutil.so.1 libresolv.so.2 libanl.so.1
    libnsl.so.1 libcrypt.so.1 libgcc_s.so.1 libstdc++.so.6 libatomic.so.1 libz.so.1 libexpat.so.1
    libX11.so.6 libXext.so.6 libXrender.so.1 libICE.so.6 libSM.so.6 libGL.so.1
    libglib-2.0.so.0 libgthread-2.0.so.0 libgobject-2.0.so.0
    libnss_files.so.2 libnss_dns.so.2
"""

# Modules whose libraries no script without a terminal needs, and which would slow down every start.
_LEFT_OUT = ("_test", "_ctypes_test", "_xx", "xx", "_tkinter", "_curses", "readline", "nis", "ossaudiodev")

NETWORK = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    # Certificates: Debian, Fedora, Alpine, openSUSE, Arch. Some first folders have links into the second.
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/ca-bundle.pem",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/cert.pem",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
    "/var/lib/ca-certificates",
)

_PROBE = r"""
import ctypes, importlib.machinery, importlib.util, json, os, sys, sysconfig
wanted, left_out = (argument.split() for argument in sys.argv[1:])
folders = [p for p in sys.path if os.path.isdir(p)]
for folder in folders:
    for name in sorted(os.listdir(folder)):
        ending = next((s for s in importlib.machinery.EXTENSION_SUFFIXES if name.endswith(s)), None)
        module = name.partition(".")[0]
        if ending and not module.startswith(tuple(left_out)):
            try:
                __import__(module)
            except Exception:
                pass
for name in wanted:
    try:
        ctypes.CDLL(name)
    except OSError:
        pass

class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]

loaded = []
def note(info, size, data):
    loaded.append(os.fsdecode(info.contents.name))
    return 0

ctypes.CDLL(None).dl_iterate_phdr(
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)(note), None
)
zones = next((z for z in (sysconfig.get_config_var("TZPATH") or "").split(os.pathsep) if os.path.isdir(z)), None)
print(json.dumps({"path": sys.path, "version": sys.version, "loaded": loaded, "zones": zones}))
"""


class View(Model):
    """
    Everything of the host that one Python needs, and nothing else. All paths are absolute.

    The Python is started as `python`, and as a program that finds its folders where they are on the host.
    """

    python: str
    """The interpreter, with links resolved."""
    version: str
    folders: tuple[str, ...]
    """The standard library and the time zones, to be read."""
    hidden: tuple[str, ...] = ()
    """Folders below `folders` that must be hidden: the packages installed for this Python."""
    entries: tuple[str, ...] = ()
    """
    The content of `folders` without `hidden`, one by one, for rules that can only add.

    Importing lists a folder first, so `folders` must be listed too. With Landlock that applies to all below: the names
    of hidden packages can be listed, but their files cannot be read.
    """
    libraries: dict[str, str] = Field(default_factory=dict)
    """Shared libraries, including the loader of programs: the path where they are looked for -> the file."""

    def refuse_below(self, folder: str) -> None:
        """Raise SandboxUnavailableError if a folder that a script has to itself would hide this Python."""
        for path in self.folders:
            if path.startswith(f"{folder}/"):
                raise SandboxUnavailableError(
                    Message(
                        f"this Python is below {folder} ({path}), where each script has a folder of its own; "
                        "install Python and evalcell elsewhere, or choose ",
                        Setting("sandbox.backend", "wasm"),
                    )
                )


def view(python: Path | None = None) -> View:
    """
    Return the view of an interpreter, found by running it once and kept in the cache folder.

    By default of the one that runs this, outside any virtual environment.

    Raises:
        SandboxUnavailableError: If it does not run.
    """
    path = os.path.realpath(python or base_python())
    kept = get_or_build("process", _key(path), ".json", lambda: _find_view(path).model_dump_json().encode())
    return View.model_validate_json(content(kept))


def base_python() -> Path:
    """Return the interpreter that runs this, outside any virtual environment, with links resolved."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def for_network() -> dict[str, str]:
    """
    Return files to resolve names and check certificates: the path where they are looked for -> the file or folder.
    """
    return {path: os.path.realpath(path) for path in NETWORK if os.path.exists(path)}


def reachable(path: str, uid: int = 65519, gid: int | None = None) -> bool:
    """
    Say whether a user of no other group may enter all folders above `path` and read it; for a folder, list and enter
    it.

    Access control lists are ignored. By default for a user that owns nothing.
    """
    gid = uid if gid is None else gid
    whole = Path(os.path.realpath(path))
    try:
        folder = whole.is_dir()
        above = all(_allows(parent, 0o1, uid, gid) for parent in whole.parents)
        return above and _allows(whole, 0o5 if folder else 0o4, uid, gid)
    except OSError:
        return False


def _allows(path: Path, wanted: int, uid: int, gid: int) -> bool:
    found = path.stat()
    shift = 6 if found.st_uid == uid else 3 if found.st_gid == gid else 0
    return stat.S_IMODE(found.st_mode) >> shift & wanted == wanted


def _key(path: str) -> str:
    """A key that changes with the interpreter, and with the installed libraries."""
    parts: list[object] = [_FORM, path, sys.version]
    for file in (path, "/etc/ld.so.cache"):
        try:
            found = os.stat(file)
            parts.append((found.st_mtime_ns, found.st_size))
        except OSError:
            parts.append(None)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _find_view(python: str) -> View:
    told = _probe(python)
    folders = _outermost([os.path.realpath(p) for p in told["path"] if os.path.isdir(p)])
    zones = [os.path.realpath(told["zones"])] if told["zones"] else []
    hidden = [os.path.join(f, name) for f in folders for name in _HIDDEN if os.path.isdir(os.path.join(f, name))]
    zipped = [p for p in told["path"] if os.path.isfile(p)]
    return View(
        python=python,
        version=told["version"],
        folders=tuple(folders + zones),
        hidden=tuple(hidden),
        entries=(*_entries(folders), *zones, *zipped, *_existing("/etc/ld.so.cache")),
        libraries=_libraries(told["loaded"], folders) | {p: os.path.realpath(p) for p in zipped},
    )


def _probe(python: str) -> dict[str, Any]:
    command = [python, "-I", "-S", "-B", "-c", _PROBE, _LIBRARIES, " ".join(_LEFT_OUT)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, env={}, cwd="/", check=True)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as e:
        said = e.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {e.returncode}"]
        raise SandboxUnavailableError(f"{python} did not report its files: {said[-1]}; try another Python") from e
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as e:
        if short := shortage.why(e):
            raise SandboxUnavailableError(f"{python} cannot be started: {short}") from e
        raise SandboxUnavailableError(f"{python} did not report its files ({e}); try another Python") from e
    return told


def _outermost(folders: list[str]) -> list[str]:
    kept = dict.fromkeys(folders)
    return [f for f in kept if not any(f.startswith(other + os.sep) for other in kept)]


def _entries(folders: list[str]) -> list[str]:
    """The content of the folders, without what is hidden and links that lead out of them."""
    entries: list[str] = []
    for folder in folders:
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            leads = os.path.realpath(entry.path)
            if entry.name not in _HIDDEN and leads.startswith(folder + os.sep):
                entries.append(leads)
    return list(dict.fromkeys(entries))


def _libraries(loaded: list[str], folders: list[str]) -> dict[str, str]:
    """The libraries by the names under which the loader found them, where it will look again."""
    files = {_name(p): os.path.realpath(p) for p in loaded if os.path.isabs(p) and os.path.isfile(p)}
    files = {p: real for p, real in files.items() if not any(real.startswith(f + os.sep) for f in folders)}
    c_library = next((p for p in files if os.path.basename(p).startswith("libc.")), None)
    if c_library is None:
        return files
    # Files in odd places were found by the loader's cache, or beside the interpreter ($ORIGIN), whose path the kernel
    # gives only in /proc. A box without either looks beside the C library.
    beside = os.path.dirname(c_library)
    return {os.path.join(beside, os.path.basename(p)): real for p, real in files.items() if not is_loader(p)} | files


def is_loader(path: str) -> bool:
    return os.path.basename(path).startswith("ld-")


def _name(path: str) -> str:
    """The path without `..`, as folders above may be missing in the box."""
    if os.pardir not in path.split(os.sep):
        return path
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _existing(*paths: str) -> list[str]:
    return [p for p in paths if os.path.exists(p)]
