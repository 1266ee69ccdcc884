"""docs/reference/http.md, from the OpenAPI document of the server: `make reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runner.pool.pool import Pool
from runner.server.app import create_app
from runner.service.errors import KINDS
from runner.service.service import Service
from runner.store import open_store

PAGE = Path(__file__).parent / "reference" / "http.md"
_HEAD = """\
# HTTP

What `evalcell serve` answers below `/v1`. `make reference` makes this page from the server's own `/openapi.json`
(OpenAPI 3.1), which has the shape of every body too. [A server](../how-to/server.md) says how to start one and who
may enter.

- **Lists** are pages, `{"items": […], "next": …}`: `?after=` takes the `next` of the page before, `?count=` how many.
- **A failure** is `application/problem+json` by RFC 9457: a `type` that keeps its meaning, `detail` with the next
  step, and `retryable`.
- **`Idempotency-Key`** on a request that makes something: sent again with the same key, it gets the reply that it
  got, for a day.
- **A new version** needs `If-Match` with the version that was edited; the reply's `ETag` is the next.
- **Events** are server-sent. `progress` has the rows `first` to `rows` that are new, and its id is `rows`; `state`
  tells the run's state, and how it ended is always told last. Come back with `Last-Event-ID`, and nothing is missed
  or doubled; rows are fetched by range.
- **From a browser** a request that changes something must come from the server's own pages, or have the header
  `X-Evalcell: 1`.
"""
_ALWAYS = frozenset({400, 401, 403, 408, 413, 422, 500})
"""Statuses that any address may reply with."""


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.sqlite", Path(folder)) as store:
        return create_app(Service(store, Pool())).openapi()


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_operations(document()), *_problems()))


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


def _kind(schema: dict[str, Any], otherwise: str = "any") -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema]
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
