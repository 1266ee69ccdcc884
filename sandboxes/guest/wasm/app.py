"""
CPython's side of the wasm sandbox: built into the image, it runs inside WebAssembly and nowhere else.

The modules of this folder have bare names there, as componentize-py takes a folder of modules and no package; so has
`guest.harness`, which the image holds as `guest_harness`.

`load` executes one script, `call` calls its function once. Both take and return a JSON object, whatever the script
does. The host trusts nothing here: a script shares this interpreter and may change any of it, but it can spoil only its
own reply, which the host checks.
"""

from __future__ import annotations

import builtins
import gc
import inspect
import json
import linecache
import os
import random
import sys

import guest_harness
import guest_memory
import guest_preload
import guest_quiet
import wit_world
from guest_streams import Flood, Output

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

__builtins__ = dict(vars(builtins))  # our own, as a script may change those that it shares with its packages

# Bound now, so that a script that patches these modules still gets its own reply through.
_scan = json.JSONDecoder().scan_once  # the C function
_generator = random._inst
_seed, _random = super(random.Random, _generator).seed, os.urandom  # the C functions

guest_harness.hidden_files.add(__file__)
_output = Output()
_function: Any = None
_spare: bytearray | None = bytearray(1 << 20)  # released when memory runs out, so that some is left to report it


class WitWorld(wit_world.WitWorld):
    def load(self, request: str) -> str:
        return _reply(_load, request)

    def call(self, request: str) -> str:
        return _reply(_call, request)


def _reply(step: Callable[[dict[str, Any]], str], request: str) -> str:
    def tried() -> str:
        global _spare
        try:
            return step(_scan(request, 0)[0])
        except MemoryError:
            _spare = None
            raise

    _output.begin()
    reply = guest_harness.reply_of(tried, Flood)
    try:
        text, said = _output.end()
        if not said:  # as most calls
            return '{"said":0,"output":"",' + reply + "}"
        return '{"said":' + str(int(said)) + ',"output":' + guest_harness.encode(text) + "," + reply + "}"
    except BaseException:  # out of memory, or the script broke the encoder
        return '{"said":0,"output":"",' + reply + "}"


def _load(request: dict[str, Any]) -> str:
    global _function
    guest_memory.report()
    _output.limits(request["output"], request["flood"])
    _repeat(request["seed"])
    _function = guest_harness.load(request["source"], request["entrypoint"], request.get("files"))
    if inspect.iscoroutinefunction(_function.body):
        import guest_loop  # noqa: F401  (now, so that no call pays for it)

        gc.collect()
        gc.freeze()
    guest_memory.fill(1 << 20)
    return "null"


def _call(request: dict[str, Any]) -> str:
    _output.limits(request["output"], request["flood"])
    seed = request["seed"]
    _repeat(int.from_bytes(_random(8)) if seed is None else seed)  # all that the host gives is 8 bytes
    return guest_harness.call(_function, request["positional"], request["arguments"], request["result"], _wait)


def _repeat(seed: int) -> None:
    """What `random.seed` does with a whole number, which takes a third less time than to ask it what that is."""
    _seed(seed)
    _generator.gauss_next = None


def _wait(awaitable: Awaitable[Any]) -> Any:
    import guest_loop

    return guest_loop.wait(awaitable)


_WARM = """
import json, re
from difflib import SequenceMatcher
class Warm: pass
def warm(output, reference):
    print("x")
    try:
        a = json.loads(output) if isinstance(output, str) else output
    except (TypeError, ValueError) as exc:
        return {"label": "invalid", "score": None, "explanation": f"x {exc}"}
    if reference == "raise":
        raise ValueError(output) from KeyError(output)
    def d(a, b):
        return sum(d(a.get(k), b.get(k)) for k in set(a) | set(b)) if isinstance(a, dict) else 0
    return {"label": "match", "score": float(d(a, a)), "explanation": f"{len(re.findall('a', str(a)))}"}
"""


def _warm_up() -> None:
    """Run the usual paths until the interpreter has specialised them, so that the snapshot has the fast versions."""
    world = WitWorld()
    limits = {"output": 65536, "flood": 1 << 24, "result": 1 << 20, "seed": 1}
    for _ in range(30):
        loaded = world.load(json.dumps({"source": _WARM, "entrypoint": "warm", **limits}))
        arguments = {"output": '{"a":[1,2.5,null,true],"b":{}}', "reference": "x"}
        called = world.call(json.dumps({"positional": [], "arguments": arguments, **limits}))
        raising = {"output": "[]", "reference": "raise"}
        world.call(json.dumps({"positional": [], "arguments": raising, **limits}))
    assert '"status":"ok"' in loaded, loaded
    assert '"score": 0.0' in called, called
    sys.modules.pop("evaluator", None)
    linecache.clearcache()


guest_preload.close_file_system()
guest_quiet.install()
_warm_up()
_function = None
gc.collect()
guest_memory.tell()
guest_memory.fill(1 << 23)
gc.freeze()
# A call's garbage disappears with its snapshot; collecting it would only touch more pages.
gc.set_threshold(50_000, 20, 0)
