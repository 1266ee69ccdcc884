"""What the host makes of a reply, and of a call that gave none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes import Call, Execution, Limits, protocol
from sandboxes.protocol import (
    DEATHS,
    Death,
    Raw,
    call_request,
    load_request,
    longest,
)
from sandboxes.words.hints import BOX, WASM, Place, module_step
from tests.scripts import python

LIMITS = Limits(timeout=2, load_timeout=3, memory=64 << 20, output=100, result=1000)


def raw(reply: Any, **more: Any) -> Raw:
    return Raw(7, "reply", json.dumps(reply).encode(), 0.5, **more)


def execution(raw: Raw, limits: Limits, **more: Any) -> Execution:
    return protocol.execution(raw, limits, "score", **more)


def test_a_request_carries_what_the_script_needs() -> None:
    request = call_request(Call(id=7, arguments={"x": "é"}, positional=(1, None), seed=5), LIMITS)
    assert isinstance(request, bytes)
    assert json.loads(request) == {
        "positional": [1, None],
        "arguments": {"x": "é"},
        "seed": 5,
        "output": 100,
        "flood": LIMITS.flood,
        "result": 1000,
    }
    loaded = json.loads(load_request(python("def …", "score"), LIMITS))
    assert (loaded["source"], loaded["entrypoint"]) == ("def …", "score")


def test_arguments_that_are_no_json_are_the_calls_own_failure() -> None:
    found = call_request(Call(id=7, arguments={"x": {1, 2}}), LIMITS)
    assert isinstance(found, Execution)
    assert (found.call, found.status) == (7, "error")
    assert found.error
    assert "cannot be sent as JSON" in found.error.message


TEXT = st.text(st.characters(), max_size=3) | st.just("\ud800")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(TEXT, JSON, max_size=3), st.integers(0, 1 << 63), st.none() | JSON)
def test_every_request_says_what_json_says_of_its_call(arguments: dict[str, Any], seed: int, first: Any) -> None:
    positional = () if first is None else (first,)
    request = call_request(Call(id=7, arguments=arguments, positional=positional, seed=seed), LIMITS)
    assert isinstance(request, bytes)
    wanted = {"positional": positional, "arguments": arguments, "seed": seed}
    wanted |= {"output": 100, "flood": LIMITS.flood, "result": 1000}
    assert json.dumps(json.loads(request)) == json.dumps(wanted)  # NaN is not NaN


SAID = JSON | st.sampled_from([0, 1, 100, 101, LIMITS.flood + 1, "x" * 101])
REPLIES = JSON | st.fixed_dictionaries(
    {"status": st.just("ok") | JSON}, optional={"value": JSON | st.just("x" * 1001), "output": SAID, "said": SAID}
)
CAUGHT = st.none() | st.tuples(st.sampled_from([b"", b"x", b"x" * 100]), st.sampled_from([0, 1, 101, LIMITS.flood + 1]))


@given(REPLIES, CAUGHT)
def test_a_plain_reply_is_read_as_any_other(reply: Any, caught: tuple[bytes, int] | None) -> None:
    """The short way for a value without output leads to what the long way gives."""
    came = raw(reply) if caught is None else raw(reply, output=caught[0], printed_size=caught[1])
    found = execution(came, LIMITS)
    try:
        wanted = protocol._read_reply(came, protocol._read(came.payload.decode()), LIMITS, BOX)
    except ValueError:
        assert found.status == "no_result"
    else:
        short, long = (json.dumps(each.model_dump(), sort_keys=True) for each in (found, wanted))
        assert short == long


def test_a_value_is_told() -> None:
    found = execution(raw({"status": "ok", "value": {"score": 1.5}, "output": "said", "said": 4}), LIMITS)
    assert found == Execution(call=7, status="ok", value={"score": 1.5}, output="said", duration=0.5)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_a_reply_is_utf_8_and_no_other_encoding_is_guessed(encoding: str) -> None:
    payload = '{"status":"ok","value":"é"}'.encode(encoding)
    assert execution(Raw(7, "reply", payload, 0.5), LIMITS).status == "no_result"


def test_what_the_host_caught_counts_and_not_what_the_reply_says() -> None:
    reply = {"status": "ok", "value": 1, "output": "FORGED", "said": 1 << 40}
    found = execution(raw(reply, output=b"printed", printed_size=7), LIMITS)
    assert (found.status, found.output, found.truncated) == ("ok", "printed", False)
    found = execution(raw(reply, output=b"printed", printed_size=8), LIMITS)
    assert (found.status, found.output, found.truncated) == ("ok", "printed", False)
    found = execution(raw(reply, output=b"x" * 100, printed_size=101), LIMITS)
    assert (found.output, found.truncated) == ("x" * 100, True)
    assert execution(raw(reply, output=b"x", printed_size=LIMITS.flood + 1), LIMITS).status == "output"


@pytest.mark.parametrize(
    ("output", "said", "shown"),
    [
        (b"\xa9 and on", 200, " and on"),
        (b"\x9f\x98\x80 and on", 200, " and on"),
        (b"\xa9 all", 5, "\ufffd all"),
        (b"\xff\x00ok", 4, "\ufffd\x00ok"),
        ("é".encode() * 60, 120, "é" * 50),
        (b"\xff" * 100, 100, "\ufffd" * 33),
        (b"", 0, ""),
    ],
)
def test_caught_output_is_text_and_no_longer_than_asked(output: bytes, said: int, shown: str) -> None:
    for how, payload in (("reply", b'{"status":"ok","value":1}'), ("timeout", b""), ("memory", b"")):
        found = execution(Raw(7, how, payload, 0.5, output, said), LIMITS)
        assert found.output == shown
        assert len(found.output.encode()) <= LIMITS.output
        assert found.truncated is (said > 100 or shown == "\ufffd" * 33)


def test_no_output_is_kept_where_none_is_wanted() -> None:
    none = LIMITS.model_copy(update={"output": 0})
    found = execution(Raw(7, "timeout", b"", 0.5, b"printed", 7), none)
    assert (found.output, found.truncated) == ("", True)


@pytest.mark.parametrize(
    ("how", "payload", "status", "message"),
    [
        ("timeout", b"", "timeout", "longer than 2 s"),
        ("memory", b"", "memory", "more than 64 MB; raise Limits(memory=…)"),
        ("too_much", b"", "output", "more than 1 KB"),
        ("flood", b"", "output", "it printed more than 1 MB; print less"),
        ("gone", b"it was killed by SIGSEGV {memory}", "crash", "over: it was killed by SIGSEGV {memory}"),
        ("gone", b"\xff\n", "crash", "over: \ufffd"),
        ("gone", b"", "crash", "over: without a reason"),
    ],
)
def test_a_call_without_a_reply_is_told_in_the_backends_words(
    how: str, payload: bytes, status: str, message: str
) -> None:
    own = DEATHS | {"gone": Death("crash", "Crash", "over: {why}")}
    found = execution(Raw(7, how, payload, 0.5, b"last words", 10), LIMITS, deaths=own)
    assert (found.call, found.status, found.output, found.duration) == (7, status, "last words", 0.5)
    assert found.error
    assert message in found.error.message


def test_loading_has_words_of_its_own() -> None:
    found = execution(Raw(7, "timeout", b"", 3.0), LIMITS, loading=True)
    assert found.error
    assert "loading took longer than 3 s" in found.error.message


def test_a_value_that_is_too_large_is_refused_whatever_the_guest_says() -> None:
    found = execution(raw({"status": "ok", "value": "x" * 999}), LIMITS)
    assert (found.status, found.value) == ("output", None)
    assert execution(raw({"status": "ok", "value": "x" * 998}), LIMITS).status == "ok"
    assert longest(LIMITS) > 6 * 1000


def missing(module: Any, place: Place = BOX) -> str | None:
    error = {"type": "ModuleNotFoundError", "message": "No module", "traceback": "", "missing": module}
    found = execution(raw({"status": "error", "error": error}), LIMITS, place=place)
    assert found.error
    return found.error.hint


@pytest.mark.parametrize("name", [None, 1, "", "a b", "a..b", "x;y", "a\x1b[2J", "x" * 201, ["sklearn"], "--with"])
def test_what_is_no_modules_name_has_no_package(name: Any) -> None:
    assert missing(name) is None


def test_the_package_that_would_bring_the_module_is_named() -> None:
    assert missing("sklearn.metrics") == missing("sklearn")
    assert str(missing("sklearn")).startswith('add `dependencies = ["scikit-learn"]` to the script\'s header, or give ')
    assert (module_step("multiprocessing.pool"), module_step("_ctypes")) == (None, None)


def test_the_wasm_sandbox_names_what_would_bring_the_module() -> None:
    for module, step in (
        ("sklearn", 'add `dependencies = ["scikit-learn"]`'),
        ("_ctypes", "choose the process sandbox"),
    ):
        assert step in str(missing(module, WASM))


def test_a_copy_of_limits_has_a_bound_of_its_own() -> None:
    limits = Limits(output=64 * 1024)
    assert limits.flood == 16 << 20
    assert limits.model_copy(update={"output": 1 << 20}).flood == 256 << 20
    assert Limits(**dict(limits)) == limits


def test_the_limit_of_loading_is_named_with_what_raises_it() -> None:
    for limits, told in (
        (LIMITS.model_copy(update={"load_timeout": 3.0}), "raise load_timeout, or"),
        (LIMITS.model_copy(update={"timeout": 10.0, "load_timeout": 30.0}), "raise the timeout past 30 s, or"),
        (LIMITS.model_copy(update={"timeout": 60.0, "load_timeout": 60.0}), "raise the timeout past 60 s, or"),
    ):
        found = execution(Raw(7, "timeout", b"", 3.0), limits, loading=True)
        assert found.error
        assert told in found.error.message
