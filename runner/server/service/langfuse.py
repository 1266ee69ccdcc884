"""Langfuse's code evaluators: what its server asks an executor to run, and what it wants to hear."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError

from runner.core.types import Result
from runner.inputs.evaluators.foreign.guest import guest_text, python_part
from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError
from runner.server.service.service import Service
from runner.server.service.types import EvaluateRequest
from sandboxes.base import Language, Limits

SOURCE, PAYLOAD, RESULT = 256 << 10, 5632 << 10, 256 << 10
"""Bytes, as Langfuse has them."""

Code = Literal[
    "INVALID_RESULT",
    "INVALID_SOURCE",
    "PAYLOAD_TOO_LARGE",
    "RESULT_TOO_LARGE",
    "SOURCE_TOO_LARGE",
    "TIMEOUT",
    "UNSUPPORTED_RUNTIME",
    "USER_CODE_ERROR",
]

_HELD = 8 * 60_000
"""Characters that the outputs of an executor hold together; what is longer was cut off."""
_FOLDER = files("runner.server.service") / "langfuse_executor"
_LANGUAGES: dict[str, Language] = {"PYTHON": "python", "TYPESCRIPT": "typescript"}
_KINDS: dict[str, Code] = {"timeout": "TIMEOUT", "output": "RESULT_TOO_LARGE", "invalid_result": "INVALID_RESULT"}


class _Known(BaseModel):
    """What is read of a request; Langfuse may send more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LangfuseRuntime(_Known):
    """The language of the script."""

    language: str


class LangfuseSource(_Known):
    """The script."""

    source: str


class ExecuteRequest(_Known):
    """One evaluation, as Langfuse's dispatcher `external` sends it."""

    runtime: LangfuseRuntime
    code: LangfuseSource
    payload: dict[str, Any]


class ExecuteError(BaseModel):
    """Why there are no scores, in Langfuse's words."""

    code: Code
    message: str


class ExecuteReply(BaseModel):
    """The scores, or why there are none."""

    scores: list[dict[str, Any]] | None = Field(default=None)
    error: ExecuteError | None = None


async def execute(service: Service, request: ExecuteRequest, size: int) -> ExecuteReply:
    """
    Run the evaluator once; the request had `size` bytes.

    Raises what `Service.evaluate` does, but for what is wrong with the script.
    """
    language = _LANGUAGES.get(request.runtime.language)
    if language is None:
        return _error("UNSUPPORTED_RUNTIME", f"the language {request.runtime.language[:40]!r} is not known")
    if len(request.code.source.encode("utf-8", "replace")) > SOURCE:
        return _error("SOURCE_TOO_LARGE", f"the source is larger than {SOURCE:,} bytes")
    if size > PAYLOAD and await call_in_thread(_size, request.payload) > PAYLOAD:
        return _error("PAYLOAD_TOO_LARGE", f"the payload is larger than {PAYLOAD:,} bytes")
    wanted = EvaluateRequest(
        source=script(request.code.source, language),
        language=language,
        rows=[{"output": request.payload}],
        limits=Limits(result=2 << 20),
    )
    try:
        reply = await service.evaluate(wanted)
    except ServiceError as error:
        if error.kind == "evaluator":
            return _error("INVALID_SOURCE", str(error))
        raise
    return langfuse_reply(reply.results[0].result)


def _size(payload: dict[str, Any]) -> int:
    """The bytes of it as JSON. Part by part: others go on meanwhile, which they could not while one call of C lasts."""
    parts = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(payload)
    return sum(len(part.encode("utf-8", "replace")) for part in parts)


def script(source: str, language: Language) -> str:
    """Return the evaluator's text as data in a script that calls it as Langfuse does."""
    text = (_FOLDER / ("executor.py" if language == "python" else "executor.ts")).read_text("utf-8")
    if language == "python":
        return text.replace('SOURCE, FOREIGN = "", ""', f"SOURCE, FOREIGN = {source!r}, {python_part('langfuse')!r}", 1)
    text = text.replace('const SOURCE = "";', f"const SOURCE = {json.dumps(source)};", 1)
    return text + guest_text("frame.js") + guest_text("langfuse.js")


def langfuse_reply(result: Result) -> ExecuteReply:
    """
    Return what became of the call, as Langfuse wants to hear it.

    Raises:
        ServiceError: If that was no doing of the script.
    """
    if result.outcome == "lost":
        raise ServiceError("sandbox-lost", result.error.message if result.error else "the sandbox was lost")
    if result.outcome == "failed" and result.error is not None:
        message = result.error.message
        code = _KINDS.get(result.error.kind, "USER_CODE_ERROR")
        if "does not load" in message or message.startswith("SyntaxError"):
            code = "INVALID_SOURCE"
        return _error(code, message)
    text = "".join((result.outputs[name].explanation or "")[1:] for name in sorted(result.outputs))
    large = _error("RESULT_TOO_LARGE", f"the result is larger than {RESULT:,} bytes")
    if len(text) >= _HELD:
        return large
    try:
        told = json.loads(text)
        if "unloaded" in told:
            return _error("INVALID_SOURCE", str(told["unloaded"])[:1000])
        if "invalid" in told:
            return _error("INVALID_RESULT", str(told["invalid"])[:1000])
        if len(json.dumps(told["scores"]).encode()) > RESULT:
            return large
        reply = ExecuteReply(scores=[dict(one) for one in told["scores"]])
        reply.model_dump_json()  # the server could not answer otherwise
        return reply
    except (RecursionError, PydanticSerializationError):
        return _error("INVALID_RESULT", "the scores cannot be written as JSON: too deeply nested, or no valid text")
    except (ValueError, TypeError, KeyError, AttributeError):
        return _error("INVALID_RESULT", "the script changed what its result is told by")


def _error(code: Code, message: str) -> ExecuteReply:
    return ExecuteReply(error=ExecuteError(code=code, message=message))
