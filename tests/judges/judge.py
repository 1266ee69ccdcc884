"""The local judge of these tests, and requests to it."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandboxes.judges.exchange import JudgeRequest
from sandboxes.judges.grant import Host, Judges, Secret

FILE = Path(__file__).parents[3] / "shared/lab/judges/fake_judge.py"
KEY = "sk-proj-Zm9v+/4f7a-2c"
VARIABLE = "OPENAI_API_KEY"


def fake_judge(**options: Any) -> Any:
    """Return a judge, to be entered. Skips the test where there is none."""
    if not FILE.exists():
        pytest.skip("the judge of the tests is not here")
    if (module := sys.modules.get("fake_judge")) is None:
        spec = importlib.util.spec_from_file_location("fake_judge", FILE)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["fake_judge"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.Handler.answer = _with_tools(module.Handler.answer)
    return module.FakeJudge(**options)


def _with_tools(answer: Callable[..., None]) -> Callable[..., None]:
    """What answers a request with tools by a call of the first one, as services do; others as before."""

    def answering(self: Any, kind: str, body: dict[str, Any], model: str, number: int, times: int) -> None:
        if kind != "chat" or not body.get("tools") or body.get("stream"):
            return answer(self, kind, body, model, number, times)
        function = body["tools"][0]["function"]
        fields = function.get("parameters", {}).get("properties", {})
        called = {
            "name": function["name"],
            "arguments": json.dumps({name: _fitting(of) for name, of in fields.items()}),
        }
        call = {"id": f"call-{number}", "type": "function", "function": called}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        made = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model}
        self.send(200, {**made, "choices": [choice], "usage": usage})

    return answering


def _fitting(schema: dict[str, Any]) -> Any:
    """A value that fits a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [_fitting(schema.get("items", {}))]
    if "properties" in schema:
        return {name: _fitting(of) for name, of in schema["properties"].items()}
    return {"number": 0.5, "integer": 1, "boolean": True}.get(schema.get("type", ""), "as asked")


def host_of(judge: Any) -> str:
    return str(judge.url).removesuffix("/v1")


def grant(judge: Any, **settings: Any) -> Judges:
    """Return what allows the judge, with its key."""
    name = host_of(judge)
    secrets = settings.pop("secrets", (Secret(variable=VARIABLE, host=name),))
    return Judges(hosts=(Host(name=name, paths=settings.pop("paths", ())),), secrets=secrets, **settings)


def ask(judge: Any, model: str = "judge", content: str = "is 4 right?", **fields: Any) -> JudgeRequest:
    """Return a request for a chat completion, as a client in a box makes it."""
    row, repeat = fields.pop("row", ""), fields.pop("repeat", 1)
    headers = fields.pop("headers", (("Authorization", f"Bearer evalcell-{VARIABLE}"),))
    body = {"model": model, "messages": [{"role": "user", "content": content}], **fields}
    return JudgeRequest(
        host_of(judge),
        "POST",
        "/v1/chat/completions",
        "",
        (("Content-Type", "application/json"), *headers),
        json.dumps(body).encode(),
        row,
        repeat,
    )


def text_of(body: bytes) -> str:
    return str(json.loads(body)["choices"][0]["message"]["content"])
