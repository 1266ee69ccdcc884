"""
The guest: CPython's side of the wasm sandbox. Built into the image, it runs inside WebAssembly and nowhere else.

`load` execs one script, `call` evaluates it once. Both take a JSON object and give one back, whatever the script
does. Nothing here is trusted by the host: a script shares this interpreter and may change any of it, but all it can
spoil is its own reply, and the host checks that.
"""

import gc
import inspect
import json
import linecache
import random
import sys
import traceback
import types

import guest_preload
import guest_quiet
import wit_world
from guest_streams import Flood, Output

SCRIPT = "evaluator.py"
NAME = 200  # characters kept of an exception's class, and of a module's name
MESSAGE = 4000  # characters kept of an exception's text, and of its traceback: what a person reads

# Bound now, so that a script that patches these modules still gets its own reply through.
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(allow_nan=False).encode
_encode_raw = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_encode_repr = json.JSONEncoder(allow_nan=False, skipkeys=True, default=repr).encode
_seed = random.seed
_format = traceback.TracebackException

_output = Output()
_evaluate = None
_spare = bytearray(1 << 20)  # let go of when memory runs out, so that there is some left to say so


class _Refused(Exception):
    """A returned value that is not a result; args are the status and what to tell."""


class WitWorld(wit_world.WitWorld):
    def load(self, request):
        return _reply(_load, _decode(request))

    def call(self, request):
        return _reply(_call, request)


def _reply(step, request):
    _output.begin()
    try:
        value = step(request)
        status = ',"status":"ok","value":' + value
    except BaseException as error:
        status = _failure(error)
    try:
        text, said = _output.end()
        return '{"said":' + str(int(said)) + ',"output":' + _encode(text) + status + "}"
    except BaseException:  # out of memory, or a script that broke the encoder
        return '{"said":0,"output":""' + status + "}"


def _load(request):
    global _evaluate
    _output.limits(request["output"], request["flood"])
    _seed(request["seed"])
    source = request["source"]
    module = types.ModuleType("evaluator")
    module.__file__ = SCRIPT
    sys.modules["evaluator"] = module  # dataclasses and typing look a class's module up here
    sys.argv[:] = [SCRIPT]
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)
    exec(compile(source, SCRIPT, "exec", dont_inherit=True), module.__dict__)
    found = module.__dict__.get("evaluate")
    if not callable(found):
        raise NameError("the script defines no function named evaluate")
    if inspect.iscoroutinefunction(found):
        import guest_loop  # noqa: F401  (now, so that no call pays for it)
    _evaluate = found
    gc.collect()
    gc.freeze()
    return "null"


def _call(request):
    request = _decode(request)
    _output.limits(request["output"], request["flood"])
    _seed(request["seed"])
    value = _evaluate(*request["positional"], **request["arguments"])
    if inspect.isawaitable(value):
        import guest_loop

        value = guest_loop.wait(value)
    return _as_json(value, request["result"])


def _as_json(value, limit):
    try:
        text = _encode(_plain(value))
        # Escapes only lengthen: what is short enough with them is so without.
        size = len(text) if len(text) <= limit else len(_encode_raw(value).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as e:
        raise _Refused("no_result", f"evaluate returned what JSON cannot hold ({type(value).__name__}): {e}") from None
    if size > limit:
        raise _Refused("output", f"evaluate returned {size} bytes of JSON; the limit is {limit}")
    return text


def _plain(value):
    """Refuses dict keys that JSON would turn into text behind the author's back."""
    if type(value) is dict and not all(type(k) is str for k in value):
        raise TypeError("its keys must be text")
    if isinstance(value, tuple | set | frozenset | bytes):
        raise TypeError("return a label, a score or a dict")
    return value


def _failure(error):
    global _spare
    if _out_of_memory(error):
        error.__traceback__ = None  # it holds what filled the memory
        _spare = None
    try:
        if isinstance(error, _Refused):
            status, message = error.args
            report = {"type": "Result", "message": message, "traceback": ""}
        else:
            status = _status_of(error)
            report = {
                "type": _cut(type(error).__name__, NAME),
                "message": _text_of(error),
                "traceback": _traceback_of(error),
            }
        if isinstance(error, ModuleNotFoundError):
            report["missing"] = _cut(str(error.name), NAME)
        return ',"status":"' + status + '","error":' + _encode_repr(report)
    except BaseException as e:
        kind = "memory" if isinstance(e, MemoryError) else "error"
        return (
            ',"status":"' + kind + '","error":{"type":"Exception","message":"its text cannot be shown","traceback":""}'
        )


def _out_of_memory(error):
    """CPython's parser says MemoryError too, of a source that is nested too deeply, but then it says so."""
    return isinstance(error, MemoryError) and not error.args


def _status_of(error):
    if _out_of_memory(error):
        return "memory"
    return "output" if isinstance(error, Flood) else "error"


def _cut(text, most):
    """As str itself cuts: a subclass may give something else, and more of it."""
    return str.__getitem__(text, slice(most))


def _text_of(error):
    try:
        return _cut(str(error), MESSAGE)
    except Exception as e:
        return f"its text cannot be shown: str() raised {type(e).__name__}"


def _traceback_of(error):
    try:
        shown = _format(type(error), error, error.__traceback__, limit=-20, compact=True)
        shown.stack[:] = [f for f in shown.stack if f.filename != __file__]
        return "".join(shown.format())[-MESSAGE:]
    except Exception:
        return ""


_WARM = """
import json, re
from difflib import SequenceMatcher
class Warm: pass
def evaluate(output, reference):
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


def _warm_up():
    """Runs the usual paths until the interpreter has specialised them, so that the snapshot holds them fast."""
    world = WitWorld()
    limits = {"output": 65536, "flood": 1 << 24, "result": 1 << 20, "seed": 1}
    for _ in range(30):
        loaded = world.load(json.dumps({"source": _WARM, **limits}))
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
_evaluate = None
gc.collect()
gc.freeze()
# A call's garbage goes with its snapshot; collecting while it runs would only touch more pages.
gc.set_threshold(50_000, 20, 0)
