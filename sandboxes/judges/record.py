"""The record of exchanges, a JSON line each, and the replies that come from one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.regular import open_regular
from sandboxes.judges.exchange import JudgeRefused, JudgeReply, JudgeRequest
from sandboxes.words.wording import Message, Setting

VERSION = 1
_LARGEST_LINE = 96 << 20
_OF_THE_KEY = ("anthropic-version", "anthropic-beta", "openai-beta")
_MOST_COUNT = 10**15
"""Of tokens or requests that a line may speak of: files hold them as numbers of 64 bits."""
_NEAREST = 64
"""Recorded requests that a miss is compared with."""

Place = tuple[str, int, str, int]
"""A request's digest, the repeat, the row, and which of its requests with this digest it is."""


class ReplyStore(Protocol):
    """Bytes by key."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...


def digest(request: JudgeRequest) -> str:
    """Return the SHA-256 of what decides about a reply: neither keys, nor what a client says of itself."""
    headers = {name.lower(): value for name, value in request.headers}
    query = urlencode(sorted(parse_qsl(request.query, keep_blank_values=True)))
    parts = [request.method, request.host, request.path, query, _canonical(request.body)]
    parts += [f"{name}:{headers[name]}" for name in _OF_THE_KEY if name in headers]
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(b"%d:%s" % (len(data), data))
    return found.hexdigest()


def _canonical(body: bytes) -> bytes | str:
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return body


class Places:
    """Counts equal requests, so that the second of a row is another sample than the first."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._lock = threading.Lock()

    def next(self, request: JudgeRequest) -> Place:
        """Return the place of a request: with another like it, the next one."""
        key = (digest(request), request.repeat, request.row)
        with self._lock:
            self._counts[key] += 1
            return *key, self._counts[key]

    def forget(self, places: Iterable[Place]) -> None:
        """Begin anew with the requests in these places."""
        with self._lock:
            for key, repeat, row, _ in places:
                self._counts.pop((key, repeat, row), None)


class RecordWriter:
    """
    A file that each exchange is written to as it ends, for its owner alone.

    Args:
        path: The file. What is in it stays only if `more`.

    Raises:
        UnsupportedConfigError: It cannot be written, or it has exchanges that would be mixed with those to come.
    """

    def __init__(self, path: str, more: bool) -> None:
        file = Setting("judges.record", path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError as e:
            raise UnsupportedConfigError(Message(file, f" cannot be written ({e.strerror}); check the path")) from None
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._file)
            raise UnsupportedConfigError(Message(file, " is not a regular file; choose one"))
        if found.st_size and not more:
            os.close(self._file)
            again = Setting("judges.replay", path)
            raise UnsupportedConfigError(
                Message(file, " has exchanges already; choose another file, or answer from it first: ", again)
            )
        os.fchmod(self._file, 0o600)
        os.ftruncate(self._file, _whole_lines(self._file, found.st_size))
        self._lock = threading.Lock()
        self._closed = False

    def failure(self, place: Place, request: JudgeRequest, what: str, used: tuple[int, float] | None = None) -> None:
        """Write what went wrong, for readers, and the tokens and US dollars of a request that was sent for nothing."""
        key, repeat, row, number = place
        line = {"v": VERSION, "failed": what, "key": key, "repeat": repeat, "row": row, "n": number}
        with suppress(JudgeRefused):
            self.write(line | {"host": request.host} | (_used(*used) if used else {}))

    def write(self, line: dict[str, Any]) -> None:
        """Write a line, such as that of `exchange_line`. Raises JudgeRefused if the file takes no more."""
        data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock:
            if self._closed:
                return
            view, before = memoryview(data), os.fstat(self._file).st_size
            try:
                while view:
                    view = view[os.write(self._file, view) :]
            except OSError as e:
                os.ftruncate(self._file, before)
                why = f"the record of what judges answer cannot be written ({e.strerror}); make room for it"
                raise JudgeRefused(why, "closed") from None

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._file)


def exchange_line(
    place: Place, request: JudgeRequest, reply: JudgeReply, chunks: list[bytes] | None, tokens: int
) -> dict[str, Any]:
    """Return the line of an exchange; `chunks`: the parts of a stream as they came; `tokens`: used, or reserved."""
    key, repeat, row, number = place
    types = dict(reply.headers).get("content-type", "")
    line = {"v": VERSION, "key": key, "repeat": repeat, "row": row, "n": number, "host": request.host}
    line |= {"method": request.method, "path": request.path, "query": request.query}
    line |= _named("request", request.body) | {"status": reply.status, "type": types}
    line |= _chunks(chunks) if chunks is not None else _named("reply", reply.body)
    line |= {"usage": reply.usage, "ms": round(reply.milliseconds), "tries": reply.tries}
    return line | _used(tokens, reply.usd)


class KeptReplies:
    """
    Replies of earlier runs, also of other scripts: whoever asks the same, for the same row, is answered by them.

    Args:
        store: Keeps bytes by key, and may have been changed by anybody. For one thread.
    """

    def __init__(self, store: ReplyStore) -> None:
        self._store = store

    def get(self, place: Place) -> tuple[JudgeReply, list[bytes] | None, dict[str, Any]] | None:
        """Return a reply, its parts if it was a stream, and its line; None where there is none."""
        try:
            line = _read(self._store.get(_key(place)) or b"")
            return *_reply(line), line
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def put(self, place: Place, line: dict[str, Any]) -> None:
        """Keep an exchange, of which nothing is used the next time."""
        self._store.put(_key(place), json.dumps(line | {"used": {}}).encode())


def _key(place: Place) -> bytes:
    return hashlib.sha256(json.dumps(["judge", *place]).encode()).digest()


def _whole_lines(file: int, size: int) -> int:
    """The bytes up to the last line's end: what follows was being written when its run was killed."""
    while size and (part := os.pread(file, min(size, 1 << 16), max(0, size - (1 << 16)))):
        if (at := part.rfind(b"\n")) >= 0:
            return size - len(part) + at + 1
        size -= len(part)
    return 0


def _used(tokens: int, usd: float) -> dict[str, Any]:
    return {"used": {"requests": 1, "tokens": tokens, "usd": usd}}


def _named(name: str, data: bytes) -> dict[str, Any]:
    """A body as JSON, else as text, else as Base64; so that the same bytes come back."""
    try:
        text = data.decode()
        value = json.loads(text)
        if json.dumps(value).encode() == data:
            return {name: value}
    except (ValueError, RecursionError):
        pass
    else:
        return {f"{name}_text": text}
    try:
        return {f"{name}_text": data.decode()}
    except ValueError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _chunks(chunks: list[bytes]) -> dict[str, Any]:
    try:
        return {"chunks": [chunk.decode() for chunk in chunks]}
    except ValueError:
        return {"chunks_base64": [base64.b64encode(chunk).decode() for chunk in chunks]}


class Replay:
    """
    The replies of a record. It never opens a socket, and reads the file as text that anybody may have written.

    Raises:
        UnsupportedConfigError: The file cannot be read, or a line is no exchange.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        file = Setting("judges.replay", path)
        try:
            self._file = open_regular(path)
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or str(e)
            raise UnsupportedConfigError(Message(file, f" cannot be read ({why}); check the path")) from None
        self._lock = threading.Lock()
        self._lines: dict[Place, tuple[int, int]] = {}
        self._any: dict[tuple[str, int], list[Place]] = {}
        self.sha256 = hashlib.sha256()
        self.used = (0, 0, 0.0)
        """Requests, tokens and US dollars, as its lines say."""
        at = 0
        for number, line in enumerate(iter(lambda: self._file.readline(_LARGEST_LINE + 1), b""), 1):
            self.sha256.update(line)
            if len(line) > _LARGEST_LINE:
                self.close()
                raise UnsupportedConfigError(Message(file, f": line {number} is larger than 96 MB; delete it"))
            if line.endswith(b"\n") and line.strip():  # one that is cut was being written when its run was killed
                try:
                    self._add(_read(line), (at, len(line)))
                except (ValueError, TypeError, KeyError, RecursionError):
                    self.close()
                    raise UnsupportedConfigError(
                        Message(file, f": line {number} is no exchange as evalcell records them; delete the line")
                    ) from None
            at += len(line)

    def _add(self, line: dict[str, Any], where: tuple[int, int]) -> None:
        used = line.get("used", {})
        if not isinstance(used, dict):
            raise TypeError
        requests, tokens, usd = used.get("requests", 0), used.get("tokens", 0), used.get("usd", 0.0)
        if not (_is_count(requests) and _is_count(tokens) and type(usd) in (int, float) and 0 <= usd < 1e12):
            raise TypeError
        self.used = (self.used[0] + requests, self.used[1] + tokens, self.used[2] + float(usd))
        if "failed" in line:
            return
        place = (line["key"], line["repeat"], line["row"], line["n"])
        if not (type(place[0]) is str and type(place[1]) is int and type(place[2]) is str and type(place[3]) is int):
            raise TypeError
        _reply(line)
        if place not in self._lines:
            self._any.setdefault(place[:2], []).append(place)
        self._lines[place] = where

    def get(self, place: Place) -> tuple[JudgeReply, list[bytes] | None] | None:
        """Return the recorded reply, and its parts if it was a stream; None where there is none."""
        where = self._lines.get(place)
        if where is None and not place[2]:  # the row is not known: then the order of requests decides
            others = self._any.get(place[:2], [])
            where = self._lines[others[place[3] - 1]] if place[3] <= len(others) else None
        if where is None:
            return None
        return _reply(self._line(where))

    def nearest(self, request: JudgeRequest) -> str:
        """Say, for a request without a reply, what the most similar one was and where the two part."""
        if not self._lines:
            return "there are no exchanges in it"
        text = _text(_canonical(request.body))
        best = ("", "", -1)
        candidates = [place for place in self._lines if place[2] == request.row] or [*self._lines]
        for place in candidates[:_NEAREST]:
            line = self._line(self._lines[place])
            try:
                other = _text(_canonical(_bytes(line, "request")))
            except (ValueError, TypeError, KeyError, RecursionError):  # replies alone were checked
                continue
            same = _same(text, other)
            if line.get("host") == request.host and line.get("path") == request.path and same > best[2]:
                best = (place[2], other, same)
        row, other, same = best
        if same < 0:
            return f"no request to {request.host}{request.path} is in it"
        if text == other:
            return f"the same request of row {row!r} is in it, but not once more, or not for this repeat or row"
        return f"the nearest one, of row {row!r}, has {other[same : same + 40]!r} for {text[same : same + 40]!r}"

    def _line(self, where: tuple[int, int]) -> dict[str, Any]:
        with self._lock:
            return _read(os.pread(self._file.fileno(), where[1], where[0]))

    def close(self) -> None:
        self._file.close()


def _same(one: str, other: str) -> int:
    """How many characters are the same at the beginning."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _read(line: bytes) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise ValueError
    return value


def _bytes(line: dict[str, Any], name: str) -> bytes:
    if f"{name}_text" in line:
        return str(line[f"{name}_text"]).encode()
    if f"{name}_base64" in line:
        return base64.b64decode(line[f"{name}_base64"], validate=True)
    return json.dumps(line[name]).encode()


def _reply(line: dict[str, Any]) -> tuple[JudgeReply, list[bytes] | None]:
    chunks: list[bytes] | None = None
    if "chunks" in line:
        chunks = [_plain(chunk) for chunk in line["chunks"]]
    elif "chunks_base64" in line:
        chunks = [base64.b64decode(chunk, validate=True) for chunk in line["chunks_base64"]]
    body = b"".join(chunks) if chunks is not None else _bytes(line, "reply")
    status, types, usage = line["status"], line["type"], line["usage"]
    if type(status) is not int or not 200 <= status < 300 or not _is_header(types):
        raise ValueError
    if usage is not None and not (isinstance(usage, dict) and all(map(_is_count, usage.values()))):
        raise ValueError
    return JudgeReply(status, (("content-type", types),), body, usage, 0.0, 0, True), chunks


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_COUNT


def _plain(chunk: Any) -> bytes:
    if not isinstance(chunk, str):
        raise TypeError
    return chunk.encode()


def _is_header(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 256 and value.isascii() and (value.isprintable() or not value)
