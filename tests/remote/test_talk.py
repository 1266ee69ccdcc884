"""What is said to a harness, and what of its answer is believed: enemy bytes are never results."""

from __future__ import annotations

import ast
import base64
import itertools
import json
import re
import zlib
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes import Call, Execution, Isolation, Limits, SandboxLostError, Script
from sandboxes.base import Language
from sandboxes.remote import agent_protocol
from sandboxes.remote.agent_protocol import bundle
from sandboxes.remote.agent_protocol import modules as sent

LIMITS = Limits(result=1000, output=500)
HELLO = {
    "python": "3.12.1",
    "machine": "x86_64",
    "system": "Linux 6.1",
    "hash_seed": "0",
    "protects": ["mounts", "pids"],
}


def asked(isolation: Isolation = "call", language: Language = "python", **more: Any) -> agent_protocol.ScriptRequest:
    script = Script("def score(x): ...", language, "score")
    return agent_protocol.ScriptRequest(script=script, limits=LIMITS, isolation=isolation, machine="x86_64", **more)


def listening(count: int = 3) -> agent_protocol.Listener:
    return agent_protocol.command(asked(), [Call(id=100 + n, arguments={"x": n}) for n in range(count)])[1]


def told(how: str = "reply", payload: bytes = b'{"status":"ok","value":1}', **more: Any) -> dict[str, Any]:
    found = {"how": how, "payload": base64.b64encode(payload).decode(), "took": 0.1, "output": "", "said": 0}
    return found | more


def frame(listener: agent_protocol.Listener, **said: Any) -> bytes:
    return json.dumps({**said, "mark": listener.mark}).encode() + b"\n"


def honest(listener: agent_protocol.Listener, count: int = 3) -> list[bytes]:
    rows = [frame(listener, row=n, told=told(payload=b'{"status":"ok","value":%d}' % n)) for n in range(count)]
    return [frame(listener, hello=HELLO), frame(listener, loaded=told()), *rows, frame(listener, done=count)]


def ready(count: int = 3) -> agent_protocol.Listener:
    """One that has heard of the loading."""
    listener = listening(count)
    for line in honest(listener)[:2]:
        listener.feed(line)
    return listener


def parts(command: Any) -> list[bytes]:
    found, rest = [], command.input
    while rest:
        length, _, rest = rest.partition(b"\n")
        found.append(rest[: int(length)])
        rest = rest[int(length) :]
    return found


def test_a_command_holds_all_and_its_secrets_last() -> None:
    calls = [Call(id=7, arguments={"x": "é"}), Call(id=9, arguments={"x": object()})]
    command, listener = agent_protocol.command(asked(variables={"KEY": "a secret"}, packages="/p", network=True), calls)
    modules, settings, last, rows = parts(command)
    assert modules == bundle("python")
    read = json.loads(settings)
    assert (read["variables"], read["packages"], read["isolation"]) == ({"KEY": "a secret"}, "/p", "call")
    assert "/etc/resolv.conf" in read["network"]
    assert json.loads(last) == {"mark": listener.mark, "sizes": [len(rows)]}
    assert json.loads(rows)["arguments"] == {"x": "é"}
    (refused,) = listener.refused
    assert (refused.call, refused.status) == (9, "error")
    assert sum(map(len, command.argv)) < 32 << 10
    assert not [text for text in (*command.argv, *command.env.values()) if "a secret" in text]
    assert listener.mark.encode() not in modules + settings


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_the_harness_imports_nothing_that_is_not_sent_before_it(language: Language) -> None:
    sources = dict(json.loads(zlib.decompress(bundle(language))))
    assert list(sources) == [*sent(language)]
    for place, (name, text) in enumerate(sources.items()):
        assert not re.search(r"^\s*(from|import) sandboxes\b", text, re.MULTILINE)
        sent_before, package = list(sources)[:place], name.rpartition(".")[0]
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.ImportFrom) and statement.level:
                above = [package, ""][statement.level - 1]
                module = ".".join(part for part in (above, statement.module) if part)
                names = [".".join(part for part in (module, alias.name) if part) for alias in statement.names]
                assert module in sent_before or set(names) <= {*sent_before}, statement.lineno


def test_a_script_that_loads_before_each_row_is_waited_for() -> None:
    calls, patience = [Call(id=1)], {}
    for language in get_args(Language):
        listener = agent_protocol.command(asked(language=language), calls)[1]
        for line in honest(listener, 1)[:2]:
            listener.feed(line)
        patience[language] = listener.patience()
    assert patience["typescript"] == patience["python"] + LIMITS.load_timeout


def test_each_command_has_its_own_mark() -> None:
    assert len({agent_protocol.hello()[1].mark for _ in range(10)}) == 10


@given(st.lists(st.integers(0, 2000), max_size=12))
def test_it_does_not_matter_how_the_bytes_are_cut(cuts: list[int]) -> None:
    listener = listening()
    whole = b"".join(honest(listener))
    found: list[Execution] = []
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for first, last in itertools.pairwise(places):
        assert not listener.finished
        found += listener.feed(whole[first:last])
    assert [(e.call, e.status, e.value) for e in found] == [(100, "ok", 0), (101, "ok", 1), (102, "ok", 2)]
    assert listener.finished
    assert listener.loaded is not None
    assert listener.greeting is not None
    assert listener.greeting.protects == ("mounts", "pids")
    with pytest.raises(agent_protocol.UnclearError, match="after its last message"):
        listener.feed(b"x")


def test_a_row_that_the_machine_ended_has_no_execution_and_the_others_have() -> None:
    listener = listening()
    hello, loaded, first, _, last, done = honest(listener)
    lost = frame(listener, row=1, told=told("lost", b"it ran out of memory"))
    found = [e for line in (hello, loaded, first, lost, last, done) for e in listener.feed(line)]
    assert [(e.call, e.value) for e in found] == [(100, 0), (102, 2)]
    assert (listener.lost, listener.finished) == ("it ran out of memory", True)
    for again in (lost, frame(ready(), row=0, told=told("lost", b""))):
        with pytest.raises(agent_protocol.UnclearError):
            ready().feed(again)


def test_a_script_that_the_machine_cannot_load_loses_the_machine() -> None:
    listener = listening()
    listener.feed(honest(listener)[0])
    with pytest.raises(agent_protocol.UnclearError, match="ran out of memory"):
        listener.feed(frame(listener, loaded=told("lost", b"it ran out of memory")))


def test_an_unclear_answer_is_a_lost_machine() -> None:
    assert issubclass(agent_protocol.UnclearError, SandboxLostError)


@given(st.binary(min_size=1, max_size=200))
def test_noise_is_never_a_result(noise: bytes) -> None:
    for listener in (listening(), ready()):
        with pytest.raises(agent_protocol.UnclearError):
            listener.feed(noise.replace(b"\n", b"") + b"?\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(["hello", "loading", "loaded", "row", "told", "done", "failed", "x"])


@given(st.dictionaries(WORDS, JSON | st.just(told()) | st.just(HELLO), max_size=3), st.booleans())
def test_words_out_of_turn_are_unclear(said: dict[str, Any], greet: bool) -> None:
    """Whatever a harness that was taken over says: no execution comes of it but for a row that was asked for."""
    listener = ready() if greet else listening()
    try:
        found = listener.feed(frame(listener, **said))
    except agent_protocol.UnclearError:
        return
    assert [e.call for e in found] == ([] if "told" not in said else [100 + said["row"]])


@given(st.dictionaries(st.sampled_from(sorted(told())), JSON, min_size=1))
def test_a_row_with_odd_fields_is_checked(fields: dict[str, Any]) -> None:
    listener = ready()
    try:
        (found,) = listener.feed(frame(listener, row=0, told=told() | fields))
    except agent_protocol.UnclearError:
        return
    assert found.call == 100
    assert found.duration >= 0
    assert len(found.output) <= LIMITS.output


BAD = {
    "no-mark": lambda x: b'{"done":3}\n',
    "another-mark": lambda x: b'{"done":3,"mark":"%s"}\n' % (b"0" * 32),
    "a-mark-that-is-no-text": lambda x: b'{"done":3,"mark":["0"]}\n',
    "done-too-soon": lambda x: frame(x, done=3),
    "a-row-twice": lambda x: frame(x, row=1, told=told()) * 2,
    "a-row-beyond": lambda x: frame(x, row=3, told=told()),
    "a-row-below": lambda x: frame(x, row=-1, told=told()),
    "a-row-that-is-true": lambda x: frame(x, row=True, told=told()),
    "hello-again": lambda x: frame(x, hello=HELLO),
    "loaded-again": lambda x: frame(x, loaded=told()),
    "a-row-while-loading": lambda x: frame(x, loading=True) + frame(x, row=0, told=told()),
    "more-than-a-word": lambda x: frame(x, row=0, told=told(), done=3),
    "an-unknown-end": lambda x: frame(x, row=0, told=told("no such")),
    "an-endless-time": lambda x: frame(x, row=0, told=told(took=float("inf"))),
    "too-much-output": lambda x: frame(x, row=0, told=told(output=base64.b64encode(b"x" * 501).decode(), said=501)),
    "less-said-than-shown": lambda x: frame(x, row=0, told=told(output="eHh4", said=2)),
    "no-base64": lambda x: frame(x, row=0, told=told() | {"payload": "eHh4?"}),
    "a-line-without-end": lambda x: b"x" * (1 << 20),
    "its-own-failure": lambda x: frame(x, failed="no room"),
    "deep": lambda x: b"[" * 60000 + b"\n",
}


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
def test_what_no_honest_harness_says_is_unclear(said: Any) -> None:
    listener = ready()
    with pytest.raises(agent_protocol.UnclearError):
        listener.feed(said(listener))


@pytest.mark.parametrize(
    "change", [{"python": "3.12\x1b[2J"}, {"system": "x" * 200}, {"protects": ["x"] * 40}, {"x": 1}]
)
def test_a_greeting_is_checked(change: dict[str, Any]) -> None:
    _, listener = agent_protocol.hello()
    with pytest.raises(agent_protocol.UnclearError):
        listener.feed(frame(listener, hello=HELLO | change))


def test_a_machine_of_another_kind_is_none_to_talk_to() -> None:
    listener = listening()
    with pytest.raises(agent_protocol.UnclearError, match="aarch64, not x86_64"):
        listener.feed(frame(listener, hello=HELLO | {"machine": "aarch64"}))


def test_where_loading_failed_each_row_repeats_it() -> None:
    listener = listening()
    failed = b'{"status":"error","error":{"type":"E","message":"no","traceback":""}}'
    found = listener.feed(frame(listener, hello=HELLO) + frame(listener, loaded=told(payload=failed)))
    assert [(e.call, e.status) for e in found] == [(100, "error"), (101, "error"), (102, "error")]
    assert listener.feed(frame(listener, done=3)) == []
    assert listener.finished


def test_loading_again_takes_the_rows_that_are_left() -> None:
    listener = ready()
    assert [e.call for e in listener.feed(frame(listener, row=0, told=told("ended", b"")))] == [100]
    waited = listener.patience()
    listener.feed(frame(listener, loading=True))
    assert listener.patience() > waited
    found = listener.feed(frame(listener, loaded=told("timeout", b"")))
    assert [(e.call, e.status) for e in found] == [(101, "timeout"), (102, "timeout")]
    assert listener.loaded is not None
    assert listener.loaded.status == "ok"


def test_how_a_child_ended_is_said_in_words() -> None:
    listener = ready()
    (found,) = listener.feed(frame(listener, row=2, told=told("ended", b"it was killed by SIGKILL")))
    assert found.error is not None
    assert (found.status, found.error.message) == ("crash", "its process has ended: it was killed by SIGKILL")


def test_it_waits_for_as_long_as_the_script_may_take() -> None:
    limits = Limits(timeout=100, load_timeout=1000)
    command, listener = agent_protocol.command(asked().model_copy(update={"limits": limits}), [Call(id=1), Call(id=2)])
    assert listener.patience() < 60
    listener.feed(frame(listener, hello=HELLO))
    assert 1000 < listener.patience() < 1060
    listener.feed(frame(listener, loaded=told()))
    assert 100 < listener.patience() < 160
    assert command.timeout > 2 * 1100
