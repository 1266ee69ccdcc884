"""What scripts ask by `evalcell_judge`, or return as `{"ask": […]}`: the requests of it, and the answers' texts."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from sandboxes.judges.exchange import JudgeRefused, JudgeReply, JudgeRequest
from sandboxes.judges.grant import PORT, Judges, Role

MOST_ASKS = 64
"""Asks of one round of a row."""
MOST_ROUNDS = 64
"""Rounds of one row."""
ANY = "judge"
"""The role of a judge that was granted without a name: it answers for each name that nobody else has."""
_OWN = ("role", "prompt", "messages", "schema", "model")
_CLOSED = ("stream", "n", "stream_options")
_MAX_TOKENS = 1024
"""Of Anthropic's messages, which want a number; a script may name another."""
_HEAD_CHARACTERS = 64 << 10
_WORDS = 300
_TYPES = ("string", "number", "integer", "boolean", "array", "object")


class AskError(Exception):
    """An ask that cannot be sent, or an answer without a text. The message is for the script's author."""


def asks_of(value: Any) -> list[dict[str, Any]] | None:
    """
    Return the asks that a call returned in place of a result; None if it is a result.

    Raises:
        AskError: It is neither.
    """
    if not (isinstance(value, dict) and value.keys() == {"ask"} and isinstance(value["ask"], list)):
        return None
    asks = value["ask"]
    if not asks or not all(isinstance(one, dict) for one in asks):
        raise AskError('an ask is an object: {"ask": [{"role": "grader", "prompt": "…"}]}')
    if len(asks) > MOST_ASKS:
        raise AskError(f"it asks {len(asks)} judges at once; at most {MOST_ASKS} are possible")
    return asks


def request_of(ask: Mapping[str, Any], judges: Judges, row: str, repeat: int) -> JudgeRequest:
    """
    Return the request that is sent for an ask.

    Args:
        ask: With `role`, `prompt` or `messages`, maybe `schema`; other keys are of the request's body.
        judges: What is granted.
        row, repeat: Which row asks.

    Raises:
        AskError: Nobody grants its role, or it cannot be sent.
    """
    if judges.rounds:
        return _client_request(ask, judges, row, repeat)
    role = _role(ask.get("role", ANY), judges)
    body = {name: ask[name] for name in ask if name not in _OWN}
    if refused := [name for name in _CLOSED if name in body]:
        raise AskError(f"ask: `{refused[0]}` is not possible: an ask has one whole reply; leave it out")
    if (model := role.model or ask.get("model")) is not None:
        body["model"] = model
    elif not role.host.startswith("http:"):
        raise AskError(
            f"ask: nobody names a model for the judge `{_cut(ask.get('role', ANY))}`; grant one by name, as in "
            "grader=openai/MODEL, or give `model` in the ask"
        )
    body["messages"] = _messages(ask)
    if (schema := ask.get("schema")) is not None:
        _add_schema(body, _schema(schema), role)
    if role.style == "anthropic":
        body.setdefault("max_tokens", _MAX_TOKENS)
        if system := [one["content"] for one in body["messages"] if one.get("role") == "system"]:
            body["system"] = "\n\n".join(map(str, system))
            body["messages"] = [one for one in body["messages"] if one.get("role") != "system"]
    try:
        data = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise AskError(f"ask: it cannot be sent as JSON: {error}") from None
    return JudgeRequest(role.host, "POST", role.path, "", _headers(role), data, row, repeat)


def text_of(reply: JudgeReply, style: str = "openai") -> str:
    """
    Return the text that a judge answered.

    Raises:
        AskError: It answered with an error, or without a text.
    """
    if not 200 <= reply.status < 300:
        raise AskError(f"the judge answered {reply.status}: {_error_words(reply.body)}")
    try:
        whole = json.loads(reply.body)
        text = _anthropic_text(whole) if style == "anthropic" else whole["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        text = None
    if not isinstance(text, str):
        raise AskError(f"the judge's answer has no text: {_cut(reply.body.decode('utf-8', 'replace'))}")
    return text


def _anthropic_text(whole: Any) -> str:
    return "".join(part["text"] for part in whole["content"] if part["type"] == "text")


def style_of(ask: Mapping[str, Any], judges: Judges) -> str:
    """Return the form in which the ask's judge answers. Raises AskError as `request_of`."""
    return _role(ask.get("role", ANY), judges).style


def _role(name: Any, judges: Judges) -> Role:
    found = judges.roles.get(name) or judges.roles.get(ANY) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(sorted(judges.roles)) or "none"
        raise AskError(f"ask: there is no judge `{_cut(name)}` (granted: {known}); grant it: {_cut(name)}=openai/MODEL")
    return found


def _headers(role: Role) -> tuple[tuple[str, str], ...]:
    own: list[tuple[str, str]] = [("content-type", "application/json")]
    if role.style == "anthropic":
        own.append(("anthropic-version", "2023-06-01"))
    if role.secret is not None:
        place = f"evalcell-{role.secret}"
        own.append(("x-api-key", place) if role.style == "anthropic" else ("authorization", f"Bearer {place}"))
    return tuple(own)


def _messages(ask: Mapping[str, Any]) -> list[dict[str, Any]]:
    prompt, messages, role = ask.get("prompt"), ask.get("messages"), ask.get("role")
    if prompt is None and messages is None and isinstance(role, str) and any(map(str.isspace, role)):
        prompt = role  # `ask("Is this polite? …")`: no name of a judge has spaces
    if isinstance(prompt, str) and messages is None:
        return [{"role": "user", "content": prompt}]
    if prompt is None and isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages):
        return list(messages)
    raise AskError('ask: give a prompt, which is text, or messages: [{"role": "user", "content": "…"}]')


def _schema(short: Any) -> dict[str, Any]:
    """A JSON schema; of `{"score": "number", "label": ["yes", "no"]}` the one that it stands for."""
    if not isinstance(short, dict):
        raise AskError('ask: a schema is an object, such as {"score": "number", "label": ["yes", "no"]}')
    if isinstance(short.get("properties"), dict):
        return short
    return {
        "type": "object",
        "properties": {name: _kind(kind) for name, kind in short.items()},
        "required": [*short],
        "additionalProperties": False,
    }


def _kind(kind: Any) -> Any:
    if isinstance(kind, list):
        return {"type": "string", "enum": kind}
    if isinstance(kind, dict):
        return kind
    if kind not in _TYPES:
        raise AskError(f"ask: a schema's type is one of {', '.join(_TYPES)}, or a list of texts; not {_cut(kind)}")
    return {"type": kind}


def _add_schema(body: dict[str, Any], schema: dict[str, Any], role: Role) -> None:
    if role.style == "openai":
        form = {"name": "reply", "schema": schema, "strict": schema.get("additionalProperties") is False}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    else:
        words = f"Reply with JSON alone, of this schema: {json.dumps(schema, ensure_ascii=False)}"
        body["messages"] = [{"role": "system", "content": words}, *body["messages"]]


def _error_words(body: bytes) -> str:
    try:
        found = json.loads(body)["error"]
        return _cut(found["message"] if isinstance(found, dict) else found)
    except (ValueError, RecursionError, LookupError, TypeError):
        return _cut(body.decode("utf-8", "replace")) or "without a reason"


def _cut(value: Any, most: int = _WORDS) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _client_request(ask: Mapping[str, Any], judges: Judges, row: str, repeat: int) -> JudgeRequest:
    """The request of a script's client, as `guest.judges.clients` says it; `Broker.exchange` checks what is in it."""
    try:
        (port, line, text), headers = ask["http"], [(name, value) for name, value in ask["headers"]]
        body = text.encode() if isinstance(text, str) else base64.b64decode(text["base64"], validate=True)
        method, target = line.split(" ")
        path, _, query = target.partition("?")
        plain = all(isinstance(one, str) for pair in headers for one in pair) and len(str(headers)) <= _HEAD_CHARACTERS
        if type(port) is not int or not 0 <= port - PORT < len(judges.hosts) or not plain:
            raise ValueError
    except (LookupError, TypeError, ValueError, AttributeError):
        raise AskError("what a client of the script asked is no request; the script changed it on its way") from None
    return JudgeRequest(judges.hosts[port - PORT].name, method, path, query, tuple(headers), body, row, repeat)


def refusal(ask: Mapping[str, Any], refused: JudgeRefused) -> dict[str, Any]:
    """
    Return what a client is answered in place of a request that may not be sent.

    Raises:
        JudgeRefused: It is another reason, or no client asks.
    """
    from sandboxes.judges.door import failure_response  # here: most scripts ask by `evalcell_judge`

    if refused.lost or "http" not in ask:
        raise refused
    return _client_answer(ask, failure_response(refused), None)


def _client_answer(ask: Mapping[str, Any], data: bytes, usage: dict[str, int] | None) -> dict[str, Any]:
    try:
        text, coded = data.decode(), False
    except UnicodeDecodeError:
        text, coded = base64.b64encode(data).decode(), True
    return {"ask": {"http": ask["http"]}, "text": text, "base64": coded, "usage": usage}


def answer(ask: Mapping[str, Any], reply: JudgeReply, judges: Judges) -> dict[str, Any]:
    """Return what a script is given for an ask. Raises AskError as `text_of`."""
    if judges.rounds:
        from sandboxes.judges.door import response

        return _client_answer(ask, response(reply), reply.usage)
    return {"ask": ask, "text": text_of(reply, style_of(ask, judges)), "usage": reply.usage}
