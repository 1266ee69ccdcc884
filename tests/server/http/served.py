"""A server as a user starts it: a process of its own, with a state folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from runner.results.store.types import OVER

PATIENCE = 90.0


class Served:
    """
    `evalcell serve` on a port of this machine, with these words and variables; to be closed.

    `before` is a command that starts it.
    """

    def __init__(self, state: Path, *words: str, before: Sequence[str] = (), **variables: str) -> None:
        self._command = [*before, sys.executable, "-m", "runner", "serve", *words]
        self._environment = os.environ | {"EVALCELL_STATE_DIR": str(state)} | variables
        self._port = "0"
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers."""
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115, it outlasts the call
        self.printed: list[str] = []
        self.process = subprocess.Popen(
            [*self._command, "--port", self._port],
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=self._environment,
        )
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.printed.append(line)
            if found := re.search(r"http://\S+:(\d+)/", line):
                self.url, self._port = found[0].rstrip("/"), found[1]
                return
        raise AssertionError(self.end())

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self.process.pid

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE)

    def kill(self) -> None:
        """SIGKILL, as a machine that fails."""
        self.process.kill()
        self._ended()

    def end(self) -> tuple[int, str]:
        """Its exit code after SIGTERM, and what it said. Safe twice."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self._ended()
        return self.process.returncode, "".join(self.printed)

    def _ended(self) -> None:
        try:
            rest = self.process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        except ValueError:
            return  # it was read to its end before
        self._said.seek(0)
        self.printed += [rest, self._said.read()]
        self._said.close()

    def wait(self, run: str, seconds: float = 120) -> None:
        """Until the run is over, as its events say."""
        with httpx.stream("GET", f"{self.url}/v1/runs/{run}/events", timeout=seconds) as events:
            for line in events.iter_lines():
                if line.startswith("data:") and any(f'"{state}"' in line for state in OVER):
                    return

    def post(self, path: str, **more: Any) -> dict[str, object]:
        """What the server replies; it must not refuse."""
        reply = httpx.post(f"{self.url}{path}", timeout=PATIENCE, **more)
        assert reply.is_success, reply.text
        found: dict[str, object] = reply.json()
        return found
