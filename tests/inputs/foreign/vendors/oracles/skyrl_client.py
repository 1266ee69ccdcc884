"""SkyRL's own client, from its source: whether each program ran, what it hears, and its tries, one a line."""

from __future__ import annotations

import json
import sys
from typing import Any

import requests

sys.path.insert(0, sys.argv[1])
from coder1 import sandboxfusion_exec

post, address = requests.post, sys.argv[2]
tries: list[float] = []


def to_the_server(url: str, *, timeout: float, **more: Any) -> requests.Response:
    """The port of the client's address is fixed, and may be in use here."""
    tries.append(timeout)
    assert url == "http://evalcell:8080/run_code"
    return post(address, timeout=timeout, **more)


requests.post = to_the_server  # type: ignore[assignment]
for line in sys.stdin:
    code, stdin, seconds = json.loads(line)
    found = sandboxfusion_exec.code_exec_sandboxfusion(code, stdin, seconds, sandbox_servers="evalcell")
    print(json.dumps([*found, tries]), flush=True)
    tries.clear()
