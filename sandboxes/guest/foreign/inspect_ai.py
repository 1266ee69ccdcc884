"""Calls Inspect's scorers."""

from __future__ import annotations

import contextlib

from .frame import TYPE_CHECKING, find_function, invalid, is_async, parameters, refuse, words
from .vendor import FactoryCache, by_name, case_words, open_script, plain, row_arguments, text, text_or_none, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words."""
    factory = find_function(open_script(source), entry)
    # What a factory has made, `near_1 = near(1)`, is the scorer: an async function, or an instance with `__call__`.
    scorer = FactoryCache((lambda: factory) if is_async(factory) or not hasattr(factory, "__code__") else factory)
    from inspect_ai.model import ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Target, value_to_float
    from inspect_ai.solver import TaskState

    number, chats = value_to_float(), ".messages" in source
    takes_store = hasattr(factory, "__code__") and "store" in parameters(factory)[0]
    quiet()
    refuse_model()

    async def call(**row: Any) -> Any:
        question, target = text_or_none(row, "input") or "", target_of(row.get("reference"))
        output = row.get("output")
        if isinstance(output, dict) and {"choices", "completion"} <= output.keys():  # as samples of a log have it
            output = ModelOutput.model_validate(output)
        else:
            output = ModelOutput.from_content("evalcell", text_or_none(row, "output") or "")
        columns = dict(row.get("metadata") or {})
        chat, choices = columns.get("messages") if chats else None, columns.get("choices")
        given = row_arguments(row)
        left = columns.get("store") if takes_store else given.pop("store", columns.get("store"))
        state = TaskState(
            model="evalcell",
            sample_id=1,
            epoch=1,
            input=question,
            messages=messages_of(chat) or [ChatMessageUser(content=question), *(one.message for one in output.choices)],
            target=Target(target),
            output=output,
            metadata=columns,
            store={**columns, **object_of(left)},  # what a solver keeps for a scorer is a column here
            choices=choices if isinstance(choices, list) and all(isinstance(one, str) for one in choices) else None,
        )
        with contextlib.suppress(ImportError):  # so that `store()` and `store_as()` are this sample's
            from inspect_ai.util._store import init_subtask_store

            init_subtask_store(state.store)
        made = scorer(given, case_words(row, target="reference"))
        return result(await made(state, Target(target)), number)

    return waiting(call)


def object_of(value: Any) -> dict[str, Any]:
    """Return a column that holds an object, or the JSON of one; an empty one for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def messages_of(chat: Any) -> list[Any]:
    """Return a column of chat messages as Inspect has these, its own or as OpenAI's; none for anything else."""
    if not isinstance(chat, list) or not all(isinstance(one, dict) and "role" in one for one in chat):
        return []
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    kinds: dict[str, Any] = {"system": ChatMessageSystem, "developer": ChatMessageSystem, "user": ChatMessageUser}
    kinds |= {"assistant": ChatMessageAssistant, "tool": ChatMessageTool}
    found = []
    for one in chat:
        kind = kinds.get(one["role"], ChatMessageUser)
        fields = {name: one[name] for name in one if name in kind.model_fields and one[name] is not None}
        fields |= {"role": kind.model_fields["role"].default, "content": one.get("content") or ""}
        if kind is ChatMessageAssistant and one.get("tool_calls"):
            fields["tool_calls"] = [call_of(each, at) for at, each in enumerate(one["tool_calls"])]
        if kind is ChatMessageTool and "name" in one:
            fields.setdefault("function", one["name"])
        found.append(kind(**fields))
    return found


def call_of(call: Any, at: int) -> Any:
    """Return one call of a tool: `{"function": {"name": …, "arguments": "{…}"}}`, or with plain names."""
    import json

    from inspect_ai.tool import ToolCall

    inner = call["function"] if isinstance(call.get("function"), dict) else call
    name = inner.get("name") or inner.get("function") or ""
    given = inner.get("arguments", inner.get("args")) or {}
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            given = json.loads(given)
    return ToolCall(id=str(call.get("id", at)), function=name, arguments=given if isinstance(given, dict) else {})


def quiet() -> None:
    """Inspect warns of each text that is no number; such a text is a label here."""
    import logging

    logging.getLogger("inspect_ai.scorer._metric").setLevel(logging.ERROR)


def refuse_model() -> None:
    """
    Have Inspect's default model refused as what no row has: a scorer may catch its error, and give 0.

    One that the script or its variables name is asked as there.
    """
    import os

    from inspect_ai.model import modelapi

    @modelapi(name="evalcell")
    def none() -> Any:
        refuse(ValueError('no model is set; name one in the script, as get_model("PROVIDER/NAME"), if it must ask one'))

    os.environ.setdefault("INSPECT_EVAL_MODEL", "evalcell/none")


def target_of(reference: Any) -> str | list[str]:
    if reference is None:
        return ""
    if isinstance(reference, list) and all(isinstance(one, str) for one in reference):
        return reference
    return text(reference)


def result(score: Any, number: Callable[[Any], float]) -> Any:
    """Return a score's value in evalcell's words: letters have their numbers, other text is a label."""
    if score is None:
        return None
    value, why = getattr(score, "value", score), getattr(score, "explanation", None)
    if not hasattr(score, "value"):
        return invalid(f"the scorer returned {words(score)}: return a Score, or None")
    if isinstance(value, dict):
        return by_name([(str(name), one(each, why, number)) for name, each in value.items()], one=False)
    if isinstance(value, list | tuple):
        return by_name([(str(at), one(each, why, number)) for at, each in enumerate(value)], one=False)
    if value != value:
        return {"score": None, "explanation": why or getattr(score, "reason", None) or "unscored"}
    return one(value, why, number)


def one(value: Any, why: str | None, number: Callable[[Any], float]) -> dict[str, Any]:
    if isinstance(value, str) and is_number(value, number):
        return {"label": value, "score": number(value), "explanation": why}
    return plain(value, why) or {"score": None, "explanation": why}


def is_number(value: str, number: Callable[[Any], float]) -> bool:
    """Say whether Inspect has a number for the text; it takes any other for 0."""
    if number(value) != 0.0 or value in ("I", "N") or value.lower() in ("no", "false"):
        return True
    try:
        return float(value) == 0.0
    except ValueError:
        return False
