"""PostgreSQL for tests: from the system's binaries, in a folder of its own, on a Unix socket alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_USERS = ("postgres", "nobody")
_MISSING = "PostgreSQL is not installed here (Debian's package is `postgresql`)"


def binaries() -> Path | None:
    """The folder with initdb and postgres, the newest version's."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    beside = shutil.which("initdb")
    return Path(beside).resolve().parent if beside else None


@contextmanager
def server() -> Iterator[Callable[[], str]]:
    """A server; each call makes an empty database, and gives its address. Skips where there is none."""
    where = binaries()
    if where is None:
        pytest.skip(_MISSING)
    import psycopg

    owner = _owner()
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as made:  # a socket's path is short
        folder = Path(made)
        if owner is not None:
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            folder.chmod(0o711)
        data = folder / "data"
        options: dict[str, Any] = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
        options_of_initdb = ["-U", "evalcell", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
        initdb = [str(where / "initdb"), "-D", str(data), *options_of_initdb]
        made_data = subprocess.run(initdb, cwd=folder, capture_output=True, text=True, **options)
        assert made_data.returncode == 0, made_data.stderr
        log = (folder / "log").open("wb")
        words = [
            str(where / "postgres"),
            "-D",
            str(data),
            "-k",
            str(folder),
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, **options)
        try:
            admin = f"host={folder} user=evalcell dbname=postgres connect_timeout=5"
            while True:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    with psycopg.connect(admin):
                        break
                except psycopg.OperationalError:
                    time.sleep(0.05)
            numbers = count(1)

            def database() -> str:
                name = f"evalcell_{next(numbers)}"
                with psycopg.connect(admin, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                return f"postgresql://evalcell@/{name}?host={folder}"

            yield database
        finally:
            process.send_signal(signal.SIGINT)  # what is connected is cut off
            process.wait(60)
            log.close()


def _owner() -> pwd.struct_passwd | None:
    """Who runs it: root may not."""
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user here")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Makes an empty database, and gives its address."""
    with server() as database:
        yield database
