"""docs/reference/http.md, from the OpenAPI document of the server: `make reference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runner.results.store import open_store
from runner.runs.pool.pool import WorkerPool
from runner.server.http.app import create_app
from runner.server.service.errors import KINDS
from runner.server.service.service import Service

PAGE = Path(__file__).parent / "reference" / "http.md"
_HEAD = """\
# HTTP

What `evalcell serve` answers below `/v1`. `make reference` makes this page from the server's own `/openapi.json`
(OpenAPI 3.1), which has the shape of every reply too. [A server](../how-to/server.md) says how to start one and who
may enter.

```
curl http://127.0.0.1:8000/v1/evaluate --json '{"evaluator": "json-distance", "dataset": "demo", "count": 2}'

curl http://127.0.0.1:8000/v1/evaluators \\
  --json '{"name": "polite", "source": "def evaluate(output): return float(\\"please\\" in output)"}'
curl 'http://127.0.0.1:8000/v1/datasets?name=replies.jsonl' --data-binary @replies.jsonl
curl http://127.0.0.1:8000/v1/runs \\
  --json '{"evaluator": "polite", "dataset": "replies", "mapping": {"paths": {"output": "answer"}}}'

curl --no-buffer http://127.0.0.1:8000/v1/runs/ID/events
curl 'http://127.0.0.1:8000/v1/runs/ID/results?order=worst&count=10'
```

`mapping` is for columns whose names are not those of the parameters, as `answer` here. Where a token is needed, add
`--oauth2-bearer "$EVALCELL_TOKEN"`.

- **Lists** are pages, `{"items": […], "next": …}`: `?after=` takes the `next` of the page before, `?count=` how many.
- **A failure** is `application/problem+json` by RFC 9457: a `type` that keeps its meaning, `detail` with the next
  step, and `retryable`.
- **`Idempotency-Key`** on a request that makes something: sent again with the same key, it gets the reply that it
  got, for a day.
- **A new version** needs `If-Match` with the version that was edited; the reply's `ETag` is the next.
- **Events** are server-sent. `progress` has the rows `first` to `rows` that are new, and its id is `rows`; `state`
  tells the run's state, and how it ended is always told last. Come back with `Last-Event-ID`, and nothing is missed
  or doubled; rows are fetched by range.
- **From a browser** a request that changes something must come from the server's own pages. A program that sends the
  browser's cookie and not the token adds the header `X-Evalcell: 1`.
"""
_ALWAYS = frozenset({400, 401, 403, 408, 413, 422, 500})
"""Statuses that any address may reply with."""


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.sqlite", Path(folder)) as store:
        return create_app(Service(store, WorkerPool())).openapi()


def page() -> str:
    """The whole page."""
    found = document()
    return "\n".join((_HEAD, *_operations(found), *_bodies(found), *_problems()))


def _operations(found: dict[str, Any]) -> Iterator[str]:
    tags: dict[str, list[str]] = {}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    for tag, sections in tags.items():
        yield f"## {tag.capitalize()}\n"
        yield from sections


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    lines = [f"### `{method.upper()} {path}`\n", operation["description"].strip(), ""]
    rows = [
        f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} |"
        for one in operation.get("parameters", ())
        if one["in"] != "path"
    ]
    if rows:
        lines += ["| parameter | in | value |", "|---|---|---|", *rows, ""]
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body: {_kind(body['schema'], f'`{media}`')}.", ""]
    replies = []
    for status, reply in sorted(operation["responses"].items()):
        if int(status) in _ALWAYS:
            continue
        schemas = [_kind(one.get("schema", {}), "") for one in reply.get("content", {}).values()]
        shown = schemas[0] if int(status) < 400 and schemas and "string" not in schemas[0] else ""
        replies.append(f"{status} {shown or reply['description']}".strip())
    return "\n".join([*lines, f"Replies: {'; '.join(replies)}.", ""])


def _bodies(found: dict[str, Any]) -> Iterator[str]:
    """What is sent, field by field, with what it holds in its turn."""
    schemas = found["components"]["schemas"]
    bodies = [
        body["schema"]
        for methods in found["paths"].values()
        for operation in methods.values()
        for body in operation.get("requestBody", {}).get("content", {}).values()
    ]
    left = [name for body in bodies for name in _named(body)]
    seen: dict[str, None] = {}
    while left:
        if (name := left.pop(0)) not in seen:
            seen[name] = None
            left += _named(schemas[name])
    yield "## Bodies\n"
    for name in seen:
        schema = schemas[name]
        yield f"### {_short(name)}\n"
        yield from ([schema["description"].strip(), ""] if schema.get("description") else ())
        yield "| field | value | default |"
        yield "|---|---|---|"
        for field, value in schema.get("properties", {}).items():
            default = "needed" if field in schema.get("required", ()) else _default(value.get("default"))
            yield f"| `{field}` | {_kind(value)} | {default} |"
        yield ""


def _named(schema: Any) -> list[str]:
    """The schemas that this one names."""
    if isinstance(schema, list):
        return [name for one in schema for name in _named(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
    return own + [name for key, one in schema.items() if key != "default" for name in _named(one)]


def _default(value: Any) -> str:
    return "" if value in (None, "") or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _short(name: str) -> str:
    """A schema's name without the module that tells it from another one."""
    last = name.rpartition("__")[2]
    return f"page of {last[5:-1]}" if last.startswith("Page_") else last


def _kind(schema: dict[str, Any], otherwise: str = "any") -> str:
    if "$ref" in schema:
        return f"`{_short(schema['$ref'].rpartition('/')[2])}`"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    bounds = [f"{word} {schema[key]:,.0f}" for key, word in _BOUNDS.items() if key in schema]
    return ", ".join([schema.get("type", otherwise), *bounds])


_BOUNDS = {"minimum": "from", "maximum": "to", "maxLength": "at most"}


def _problems() -> Iterator[str]:
    yield "## Problems\n"
    yield "The server explains each at its `type`, `/problems/…`.\n"
    yield "| type | status | may be sent again | what it means | what to do |"
    yield "|---|---|---|---|---|"
    for name, kind in KINDS.items():
        again = "yes" if kind.retryable else "no"
        yield f"| `{name}` | {kind.status} | {again} | {kind.title} | {kind.about} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"made {PAGE}", file=sys.stderr)
