"""
Ask judges from a script: `from evalcell_judge import ask`, and `aask` where others wait at the same time.

An ask ends the call. The host asks the judge and makes the call again with the reply, so that nothing waits in here:
what a script does before an ask, it does again. In the second round each ask of the first one must come again.
"""

from __future__ import annotations

import json
import sys

from ..foreign.frame import TYPE_CHECKING, find_function, is_async, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REPLIES = "evalcell_replies"
"""The argument by which a call is given what came of the asks before."""
_OTHERWISE = (
    "the script asked something else the second time, so that no reply fits: the call is made again after each ask, "
    "and must ask the same again; take what changes, such as the time, out of its prompts"
)
_NOBODY = "aggregate cannot ask a judge: ask for each row, and count the results here"


class AskSignal(SystemExit):
    """Ends a call that waits for a judge. `except Exception` does not catch it, and it leaves any event loop."""


class JudgeAnswer:
    """What a judge answered."""

    def __init__(self, text: str, usage: dict[str, int] | None) -> None:
        self.text = text
        self.usage = usage
        """Tokens: `{"input": 12, "output": 34}`; None where the judge says nothing of them."""

    @property
    def json(self) -> Any:
        """The JSON in the text, without what stands around it. Raises ValueError if there is none."""
        text = self.text.strip()
        for part in (
            text,
            text.partition("```json")[2].partition("```")[0],
            _between(text, "{}"),
            _between(text, "[]"),
        ):
            try:
                return json.loads(part)
            except (ValueError, RecursionError):
                continue
        raise ValueError(f"the judge's reply is no JSON: {text[:200]!r}")

    def __repr__(self) -> str:
        return f"JudgeAnswer(text={self.text!r}, usage={self.usage!r})"


def _between(text: str, ends: str) -> str:
    return text[max(0, text.find(ends[0])) : text.rfind(ends[1]) + 1]


class Round:
    """One call: the replies that it was given, and what it asks beyond them."""

    def __init__(self, replies: list[dict[str, Any]]) -> None:
        self.waiting: dict[str, list[dict[str, Any]]] = {}
        for one in replies:
            self.waiting.setdefault(_key(one["ask"]), []).append(one)
        self.asks: list[dict[str, Any]] = []
        self.ended = self.watched = False
        self.listener: Any = None
        """What clients are connected to, where they ask."""

    def take(self, ask: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply, or None, and the ask is one of the next round."""
        found = self.waiting.get(_key(ask))
        if found:
            return found.pop(0)
        if not self.ended:
            self.asks.append(ask)
        return None

    def result(self, value: Any) -> Any:
        """Return what the call asks, else its value. Raises RuntimeError if it left a reply without its ask."""
        if any(self.waiting.values()):
            raise RuntimeError(_OTHERWISE)
        return {"ask": self.asks} if self.asks else value


_round: Round | None = None


def ask(role: str = "judge", prompt: Any = None, **body: Any) -> JudgeAnswer:
    """
    Ask a judge, and wait for its reply.

    `role` is the name that the caller grants a judge by, and `prompt` a text, or a list of messages; a text alone is
    the prompt of the judge that answers for all. The rest is of the request: `temperature=0`, or
    `schema={"score": "number"}` for a reply that is JSON.
    """
    reply = round_of_call().take(_request(role, prompt, body))
    if reply is None:
        raise AskSignal
    return JudgeAnswer(reply["text"], reply["usage"])


async def aask(role: str = "judge", prompt: Any = None, **body: Any) -> JudgeAnswer:
    """Ask a judge, as `ask` does, while other tasks go on: all that they ask meanwhile is asked at once."""
    own = round_of_call()
    reply = own.take(_request(role, prompt, body))
    if reply is None:
        import asyncio

        loop = asyncio.get_running_loop()
        if not own.watched:
            own.watched = True
            loop.call_soon(_end_once_idle, loop, own)
        await loop.create_future()
        raise AskSignal
    return JudgeAnswer(reply["text"], reply["usage"])


def round_of_call() -> Round:
    """Return that of the call that goes on. Raises RuntimeError if none does."""
    if _round is None:
        raise RuntimeError(_NOBODY)
    return _round


def _end_once_idle(loop: Any, own: Round, rounds: int = 0) -> None:
    """End the call when every task waits; a loop of another kind, which does not say so, gets some rounds."""
    if getattr(loop, "_ready", rounds < 8):
        loop.call_soon(_end_once_idle, loop, own, rounds + 1)
        return
    own.ended = True
    raise AskSignal


def _request(role: str, prompt: Any, body: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(role, str):
        raise TypeError(f"ask: the role must be text, not {type(role).__name__}")
    name = "prompt" if isinstance(prompt, str) else "messages"
    return {"role": role, **({} if prompt is None else {name: prompt}), **body}


def _key(ask: dict[str, Any]) -> str:
    return json.dumps(ask.get("http", ask), sort_keys=True)


def wrap(source: str, entry: str, asks: bool = True) -> Callable[..., Any]:
    """Load the script, and return its function: called again with each reply, or without any judge."""
    sys.modules["evalcell_judge"] = sys.modules[__name__]
    function = find_function(load(source), entry)
    return asking(function) if asks else function


def asking(function: Callable[..., Any], listen: Callable[[Round], Any] | None = None) -> Callable[..., Any]:
    """Return what is called with the replies so far; `listen` gives what clients of a call are connected to."""
    if is_async(function):
        import asyncio  # noqa: F401  (once here, rather than in every call)

    def call(*positional: Any, **row: Any) -> Any:
        global _round
        _round = own = Round(row.pop(REPLIES, []))
        value = None
        try:
            own.listener = listen(own) if listen else None
            try:
                value = function(*positional, **row)
                if hasattr(type(value), "__await__"):
                    value = _awaited(value)
            finally:
                if own.listener is not None:
                    own.listener.close()
        except MemoryError:
            raise
        except (AskSignal, Exception):  # what became of the end of the call in the script's hands
            if not own.asks:
                raise
        finally:
            _round = None
        return own.result(value)

    return call


def _awaited(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())
