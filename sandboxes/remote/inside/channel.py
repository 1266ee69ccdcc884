"""The harness's end of the socket to a box: messages out, messages in; whoever answers may be the script by now."""

import contextlib
import socket

import wire
from ports import now

_PATIENCE = 10.0
"""Seconds in which a box takes what is said to it."""

_CHUNK = 1 << 18


class Broken(Exception):
    """The box did not start, or does not answer."""


class Channel:
    """The socket to a box."""

    def __init__(self, ports):
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ports = ports
        self._inbox = bytearray()
        self.longest = 1 << 16
        """Bytes that may come in one message, besides its head."""
        self.gone = self.spoilt = False
        ports.add_reader(self._ours.fileno(), self._readable)

    def say(self, message, parts=(), fds=()):
        """Raises Broken when the box does not take it."""
        if self.gone:
            raise Broken("it has ended")
        data = memoryview(wire.pack(message, parts))
        taken, until = [], now() + _PATIENCE

        def write():
            with contextlib.suppress(BlockingIOError):
                some = data[sum(taken) :]
                taken.append(socket.send_fds(self._ours, [some], fds if not taken else ()))

        try:
            write()
            self._ports.add_writer(self._ours.fileno(), write)
            while sum(taken) < len(data) and not self.gone and now() < until:
                self._ports.wait(until)
        except OSError as e:
            raise Broken(f"it has ended ({e.strerror})") from e
        finally:
            self._ports.remove_writer(self._ours.fileno())
        if sum(taken) < len(data):
            raise Broken("it does not listen")

    def message(self):
        """The next message that has come, with its parts; or None."""
        try:
            return wire.first(self._inbox, self.longest)
        except (ValueError, RecursionError):
            self.spoilt = True
            self._give_up()
            return None

    def heard(self, seconds):
        """The next message, waiting for it. Raises Broken."""
        until = now() + seconds
        while (found := self.message()) is None:
            if self.gone or now() > until:
                raise Broken("it has ended" if self.gone else "it does not answer")
            self._ports.wait(until)
        return found

    def _readable(self):
        try:
            got = self._ours.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self._inbox += got
        self.spoilt = len(self._inbox) > self.longest + 2 * _CHUNK
        if not got or self.spoilt:
            self._give_up()

    def _give_up(self):
        if not self.gone:
            self._ports.remove_reader(self._ours.fileno())
            self._ports.remove_writer(self._ours.fileno())
            self.gone = True

    def close(self):
        self._give_up()
        self._ours.close()
