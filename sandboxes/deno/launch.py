"""A TypeScript script on its way to Deno: how Deno is started, what it is told, and what is said of what came of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache

from sandboxes.base import MB, Call, Execution, Script
from sandboxes.boxes.launch import GUEST

HEAP = 24
"""MB of V8's heap that are not the script's."""

_INSIDE = GUEST / "deno"
_FLAGS = ("--no-prompt", "--no-config", "--no-check", "--unstable-worker-options")
VARIABLES = {
    "NO_COLOR": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    # Where nothing can be made: no cache, and no storage that outlives a call.
    "DENO_DIR": "/dev/null/deno",
    "HOME": "/nonexistent",
}


CLOSED = """
    _http_agent _http_common _http_outgoing _http_server _stream_duplex _stream_passthrough _stream_readable
    _stream_transform _stream_writable _tls_common _tls_wrap child_process cluster dgram diagnostics_channel dns
    dns/promises domain fs fs/promises http http2 https inspector inspector/promises module net os perf_hooks process
    readline readline/promises repl sea sqlite stream/web sys test test/reporters tls trace_events tty v8 vm wasi
    worker_threads
"""
"""
Modules of Node that no script gets. Some need no permission: net opens descriptors of the process, v8 sets flags of all
its Workers. The rest is pure: assert, buffer, crypto, events, path, stream, timers, url, util, zlib and the like.
"""

_IMPORTS = "data:application/json," + json.dumps(
    {"imports": {f"node:{name}": f"closed:node:{name}" for name in CLOSED.split()}}, separators=(",", ":")
)
OFFLINE = ("--no-remote", "--no-npm", "--no-lock", "--cached-only", f"--import-map={_IMPORTS}")
"""The import map holds for every Worker, and for imports of computed names."""

_CLOSED = re.compile(r'^Unsupported scheme "closed" for module "closed:(node:[\w/]+)"')
_PURE = "modules that only compute are: node:assert, buffer, crypto, events, path, stream, url, util, zlib"
_FOREIGN = re.compile(
    r'^(npm specifiers were|JSR package|A remote specifier was|Requires import access|Import ".*" not a dependency)'
)
_FLAG = re.compile(r", run again with the --allow-\w+ flag|; but --no-\w+ is specified|, but --no-\w+ is specified")
_NO_PACKAGES = "npm packages and other modules are not available to TypeScript evaluators yet; put it into the script"


@cache
def _text(name: str) -> str:
    return (_INSIDE / name).read_text("utf-8")


def arguments(pipes: str, memory: int) -> list[str]:
    """
    How Deno is started: its main module comes as text, for its file may be where its user cannot get.

    `pipes`: the folder with the two ends of the line. `memory`: bytes that the script may use.
    """
    main = base64.b64encode(_text("main.js").encode()).decode()
    heap = memory // MB + HEAP
    return [
        "deno",
        "run",
        *_FLAGS,
        *OFFLINE,
        f"--v8-flags=--single-threaded,--max-old-space-size={heap}",
        f"--allow-read={pipes}/asked",
        f"--allow-write={pipes}/told",
        f"data:application/javascript;base64,{main}",
        pipes,
    ]


def setting(script: Script) -> bytes:
    """What main.js is told first."""
    wanted = {"source": script.source, "entrypoint": script.entrypoint}
    return json.dumps(wanted | {"boot": _text("worker.js"), "seed": 0}).encode()


def seeded(call: Call) -> Call:
    """With a seed that a number of JavaScript can hold."""
    if call.seed is None:
        return call
    digest = hashlib.blake2b(str(call.seed).encode(), digest_size=6).digest()
    return call.model_copy(update={"seed": int.from_bytes(digest, "big")})


def explained(execution: Execution) -> Execution:
    """With a next step where an import failed."""
    error = execution.error
    if error is None or execution.status != "error":
        return execution
    if closed := _CLOSED.search(error.message):
        said = f"{closed[1]} is not available in the sandbox"
        error = error.model_copy(update={"message": said, "traceback": "", "hint": _PURE})
    elif _FOREIGN.search(error.message):
        error = error.model_copy(update={"hint": _NO_PACKAGES})
    told = _FLAG.sub(", which no script may", error.message)
    error = error.model_copy(update={"message": told, "traceback": _FLAG.sub("", error.traceback)})
    return execution.model_copy(update={"error": error})
