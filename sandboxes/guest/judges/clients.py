"""
Judges for a script's own clients where no host serves an address: HTTP in the row's own process.

What a client connects to is one end of a pair of sockets, so that nothing of a network is needed. A thread answers from
the replies that the call was given. A request that has none ends the call, with all that are made at the same time; the
host sends them and makes the call again, as it does for `ask`. Nothing in here is trusted: what is granted, paid for
and recorded, the host alone decides.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import os
import selectors
import signal
import socket
import threading
import time
import weakref

from ..foreign.frame import TYPE_CHECKING, find_function, load
from ..python.warm_clients import warm
from .judge import AskSignal, Round, asking, round_of_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_PAUSE = 0.02
"""Seconds in which nothing more may happen before a round ends."""
_PATIENCE = 1.0
"""The same while requests of an earlier round have not come again."""
_MOST = 64
"""Requests of a round, as the host has it; further ones are of the next."""
_LARGEST_HEAD, _LARGEST_BODY = 64 << 10, 8 << 20
_WAITS = b'{"error": {"message": "evalcell: the call is made again, with the reply", "type": "evalcell_again"}}'
_SIGNAL = signal.SIGUSR1


class _Connection:
    """The far end of a client's socket, and what came of its next request."""

    def __init__(self, end: Any, port: int) -> None:
        self.end, self.port, self.data = end, port, bytearray()

    def request(self) -> dict[str, Any] | None:
        """Take the next whole request out; None if there is none yet. Raises ValueError for what is none."""
        head, found, _ = bytes(self.data[:_LARGEST_HEAD]).partition(b"\r\n\r\n")
        if not found:
            if len(self.data) >= _LARGEST_HEAD:
                raise ValueError
            return None
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in lines)]
        last = {name.lower(): value for name, value in headers}
        method, target, _ = line.split(" ")
        file = io.BytesIO(self.data)
        file.seek(len(head) + 4)
        body = _chunks(file) if "transfer-encoding" in last else _part(file, int(last.get("content-length", "0")))
        if body is None:
            return None
        del self.data[: file.tell()]
        try:
            text: Any = body.decode()
        except UnicodeDecodeError:
            text = {"base64": base64.b64encode(body).decode()}
        return {"http": [self.port, f"{method} {target}", text], "headers": headers}


def _part(file: io.BytesIO, size: int) -> bytes | None:
    """Read so many bytes; None if they are not all there yet. Raises ValueError for no such number."""
    if not 0 <= size <= _LARGEST_BODY:
        raise ValueError
    part = file.read(size)
    return part if len(part) == size else None


def _chunks(file: io.BytesIO) -> bytes | None:
    body = bytearray()
    while len(body) <= _LARGEST_BODY:
        line = file.readline()
        part = _part(file, int(line, 16)) if line.endswith(b"\n") else None
        if part is None or len(file.read(2)) < 2:
            return None
        if not part:
            return bytes(body)
        body += part
    raise ValueError


class _Listener:
    """What the clients of one call are connected to."""

    def __init__(self, own: Round, answer: str = "") -> None:
        self._own = own
        self._answer: dict[str, Any] | None = {"text": answer, "base64": False} if answer else None
        """That of all requests."""
        self._lock = threading.Lock()
        self._new: list[_Connection] = []
        self._parked: list[_Connection] = []
        self._wake: Any = None
        self._thread: threading.Thread | None = None
        self.closed = False
        if not answer:  # else no call is ended
            with contextlib.suppress(ValueError):  # in another thread: the call ends once its clients are answered
                signal.signal(_SIGNAL, self._interrupt)

    def connect(self, end: Any, port: int) -> None:
        """Serve the end of a socket. Raises ConnectionRefusedError once the call is to end."""
        with self._lock:
            if self.closed or self._own.ended:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "the call is made again, with the reply")
            if self._wake is None:
                self._wake, woken = socket.socketpair()
                self._thread = threading.Thread(target=self._serve, args=(woken,), daemon=True)
                self._thread.start()
            self._new.append(_Connection(end, port))
        self._wake.send(b"x")

    def close(self) -> None:
        """End what is connected."""
        with self._lock:
            self.closed = True
            if self._wake is not None:
                self._wake.close()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _interrupt(self, *_: object) -> None:
        if self._own.ended and not self.closed:
            raise AskSignal

    def _serve(self, woken: Any) -> None:
        selector, worked = selectors.DefaultSelector(), 0.0
        wakes = _Connection(woken, 0)
        selector.register(woken, selectors.EVENT_READ, wakes)
        while not self.closed:
            pause = _PATIENCE if any(self._own.waiting.values()) else _PAUSE
            ready = selector.select(pause if self._parked else None)
            before, worked = worked, time.process_time()
            if not ready and worked - before < pause / 2:  # else the script is at work, and may ask more
                self._end()
            for key, _ in ready:
                if key.data is wakes:
                    woken.recv(64)
                    while self._new:
                        one = self._new.pop()
                        selector.register(one.end, selectors.EVENT_READ, one)
                elif not self._read(key.data):
                    selector.unregister(key.fileobj)
                    key.data.end.close()
        for key in list(selector.get_map().values()):
            key.data.end.close()
        selector.close()

    def _read(self, one: _Connection) -> bool:
        """Read what a client sent, and answer it; whether it goes on."""
        try:
            data = one.end.recv(1 << 20)
            one.data += data
            while (ask := one.request()) is not None:
                reply = self._answer or self._own.take(ask)
                if reply is not None:
                    text = reply["text"]
                    _send(one, base64.b64decode(text) if reply["base64"] else text.encode())
                elif self._own.ended:
                    _send(one, _answer("503 Service Unavailable", _WAITS))
                else:
                    self._parked.append(one)
                    if len(self._parked) == _MOST:
                        self._end()
        except (OSError, ValueError):
            _send(one, _answer("400 Bad Request", b""))
            return False
        return bool(data)

    def _end(self) -> None:
        """End the call: in the thread of the script, and where that cannot be, by what its clients are answered."""
        parked, self._parked = self._parked, []
        with self._lock:
            if self.closed or not parked:
                return
            self._own.ended = True
            with contextlib.suppress(OSError):
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
        for one in parked:
            _send(one, _answer("503 Service Unavailable", _WAITS))


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}x-should-retry: false\r\n\r\n".encode() + body


def _send(one: _Connection, data: bytes) -> None:
    """Send in a thread of its own what may not fit, as the client may read another reply first."""

    def send() -> None:
        with contextlib.suppress(OSError):
            one.end.sendall(data)

    threading.Thread(target=send, daemon=True).start() if len(data) > 64 << 10 else send()


def _open(ports: Sequence[int]) -> None:
    """Have Python's sockets connect to these ports of the loopback without a network."""
    kind: Any = socket.socket
    begin, connect, tell, own, peer = kind.__init__, kind.connect, kind.setsockopt, kind.getsockname, kind.getpeername
    far: Any = weakref.WeakKeyDictionary()
    """By a client's socket: the other end, and the address to which it is connected."""

    def init(self: Any, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        if fileno is not None or family not in (-1, socket.AF_INET) or type not in (-1, socket.SOCK_STREAM):
            begin(self, family, type, proto, fileno)
            return
        near, other = socket.socketpair()
        begin(self, socket.AF_INET, socket.SOCK_STREAM, max(0, proto), near.detach())
        far[self] = [other, None]

    def to(self: Any, address: Any) -> None:
        if (pair := far.get(self)) is None:
            connect(self, address)
            return
        host, port = address[:2]
        if host not in ("127.0.0.1", "localhost") or port not in ports:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        listener = round_of_call().listener
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        listener.connect(pair[0], port)
        pair[:] = None, ("127.0.0.1", port)

    def to_or_number(self: Any, address: Any) -> int:
        try:
            to(self, address)
        except OSError as error:
            return error.errno or errno.EACCES
        return 0

    def option(self: Any, level: int, *rest: Any) -> None:
        if self not in far or level == socket.SOL_SOCKET:
            tell(self, level, *rest)

    def name(self: Any) -> Any:
        return ("127.0.0.1", 0) if self in far else own(self)

    def peer_name(self: Any) -> Any:
        if (pair := far.get(self)) is None:
            return peer(self)
        if pair[1] is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return pair[1]

    kind.__init__, kind.connect, kind.connect_ex, kind.setsockopt = init, to, to_or_number, option
    kind.getsockname, kind.getpeername = name, peer_name


def wrap(
    source: str, entry: str, variables: dict[str, str], ports: Sequence[int], answer: str, asks: bool
) -> Callable[..., Any]:
    """
    Load the script, whose clients find these variables and ports, and return its function.

    Each client that it has imported asks once, and is answered this.
    """
    os.environ.update(variables)
    _open(ports)
    function = find_function(load(source), entry)
    if not asks:
        return function
    asking(lambda: warm(ports[0]), lambda own: _Listener(own, answer))()
    return asking(function, _Listener)
