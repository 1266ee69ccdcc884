"""The test's side of `driver.py`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DRIVER = "tests.sandboxes.hostile.driver"
PATIENCE = 60.0
"""Seconds for one answer; far more than any takes, so that only a host that hangs exceeds it."""


class HostDied(AssertionError):
    """The process that ran the script ended, or answers no more."""


class Driven:
    """
    One driver process, started when it is first asked and again after it died.

    It works in `folder`, so that files it leaves behind are seen.
    """

    def __init__(
        self,
        folder: Path,
        way: str,
        jobs: int = 1,
        packages: Path | None = None,
        driver: str = DRIVER,
        cache: Path | None = None,
    ) -> None:
        """`way` as the module `driver` says; `packages` for a process; `cache` where it must be one of its own."""
        self.name = f"{way}, {jobs} jobs"
        self._folder = folder
        self._variables = {"EVALCELL_CACHE_DIR": str(cache)} if cache else {}
        shown = [str(packages)] if packages else []
        self._command = (sys.executable, "-m", driver, way, str(jobs), *shown)
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        work = self._folder / "work"
        work.mkdir(exist_ok=True)
        self._errors = self._folder / "stderr"
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(work), **self._variables}
        with self._errors.open("wb") as errors:
            process = subprocess.Popen(
                self._command, cwd=work, env=environment, text=True, stdin=-1, stdout=-1, stderr=errors
            )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(process, self._lines), daemon=True).start()
        return process

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def send(self, request: dict[str, Any]) -> None:
        self._process = self._process or self._start()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # `receive` tells why
            print(json.dumps(request), file=self._process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        """Raises HostDied."""
        try:
            line = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise HostDied(f"the host ({self.name}) hangs{self._end()}") from None
        if not line:
            raise HostDied(f"the host ({self.name}) died{self._end()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.send(request)
        return self.receive()

    def finish(self) -> dict[str, Any]:
        """Ends it in order; what it had left behind when all was closed, and its exit status."""
        if self._process is None:
            return {}
        assert self._process.stdin
        self._process.stdin.close()
        left = self.receive()
        left["status"] = self._process.wait(PATIENCE)
        self._process = None
        return left

    def _end(self) -> str:
        assert self._process
        self._process.kill()
        status, self._process = self._process.wait(), None
        return f": exit status {status}, {self._errors.read_text(errors='replace')[-2000:]}"
