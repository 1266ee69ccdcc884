"""A server as a user starts it, with a state folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

_START = 90


class Served:
    """`evalcell serve` on a port of this machine; to be closed."""

    def __init__(self, state: Path, *arguments: str) -> None:
        self._state = state
        self._arguments = arguments
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers."""
        command = [sys.executable, "-m", "runner", "serve", "--port", str(self.port), *self._arguments]
        environment = os.environ | {"EVALCELL_STATE_DIR": str(self._state)}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://[^ ]+?:(\d+)/", line)
        assert found, f"the server said {line!r}"
        self.port = int(found[1])

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._process.pid

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """SIGKILL, as a machine that fails."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Stop it as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_START)
            except subprocess.TimeoutExpired:
                self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self, run: str, seconds: float = 120) -> None:
        """Until the run is over, as its events say."""
        with httpx.stream("GET", f"{self.url}/v1/runs/{run}/events", timeout=seconds) as events:
            for line in events.iter_lines():
                if line.startswith("data:") and any(
                    f'"{state}"' in line for state in ("finished", "failed", "cancelled")
                ):
                    return

    def post(self, path: str, **more: Any) -> dict[str, object]:
        """What the server replies; it must not refuse."""
        reply = httpx.post(f"{self.url}{path}", timeout=60, **more)
        assert reply.is_success, reply.text
        found: dict[str, object] = reply.json()
        return found
