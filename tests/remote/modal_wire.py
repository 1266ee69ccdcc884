"""gRPC for the local Modal: services out of plain methods, what a server is told to do wrong, and its tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import secrets
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from grpclib import GRPCError, Status
from grpclib.const import Handler
from grpclib.server import Stream
from modal_proto import api_pb2

from tests.remote.faults import Cut, Fail, Front
from tests.remote.machine import MachineGone

logging.getLogger("grpclib.server").setLevel(logging.CRITICAL)  # it tells of each request that was cut

_STATUS = {
    400: Status.INVALID_ARGUMENT,
    401: Status.UNAUTHENTICATED,
    403: Status.PERMISSION_DENIED,
    404: Status.NOT_FOUND,
    409: Status.FAILED_PRECONDITION,
    429: Status.RESOURCE_EXHAUSTED,
    500: Status.INTERNAL,
    501: Status.UNIMPLEMENTED,
    504: Status.DEADLINE_EXCEEDED,
}


class Service:
    """
    Methods that are named as the remote calls are: `async def Name(request, metadata)`, or an async generator.

    Calls that the service has no method for are answered with UNIMPLEMENTED, as are those that Modal does not know.
    """

    base: type
    """The class made from the protobufs, which knows the messages."""
    ops: Mapping[str, str]
    """The names under which calls are counted and told to fail; a call that is not here is no business of tests."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def admit(self, name: str, request: Any, metadata: Mapping[str, str]) -> None:
        """Raises GRPCError for who may not ask."""
        raise NotImplementedError

    def __mapping__(self) -> dict[str, Handler]:
        none = dict.fromkeys(getattr(self.base, "__abstractmethods__", ()), _unimplemented)
        every: dict[str, Handler] = type("Every", (self.base,), none)().__mapping__()
        return {
            path: handler._replace(func=self._handled(name, handler))
            for path, handler in every.items()
            if hasattr(self, name := path.rpartition("/")[2])
        }

    def _handled(self, name: str, handler: Handler) -> Callable[[Stream[Any, Any]], Awaitable[None]]:
        method = getattr(self, name)
        op = self.ops.get(name, name)

        async def handled(stream: Stream[Any, Any]) -> None:
            try:
                request = await stream.recv_message()
                metadata = {key: str(value) for key, value in (stream.metadata or {}).items()}
                if handler.cardinality.server_streaming:
                    await self.front.operation(op)
                    self.admit(name, request, metadata)
                    async for message in method(request, metadata):
                        await stream.send_message(message)
                    await self.front.done(op)
                else:
                    # As at Modal, what was asked is done also when nobody waits for the answer any more.
                    doing = asyncio.ensure_future(self._do(op, name, request, metadata))
                    doing.add_done_callback(lambda done: done.cancelled() or done.exception())
                    await stream.send_message(await asyncio.shield(doing))
            except Fail as e:
                if e.kind != "garbage":
                    raise _failure(e) from e
                await _send_garbage(stream)
            except Cut:
                cut(stream)
            except MachineGone as e:
                raise GRPCError(Status.NOT_FOUND, f"Sandbox has already shut down: {e}") from e

        return handled

    async def _do(self, op: str, name: str, request: Any, metadata: Mapping[str, str]) -> Any:
        await self.front.operation(op)
        self.admit(name, request, metadata)
        answer = await getattr(self, name)(request, metadata)
        await self.front.done(op)
        return answer


async def _unimplemented(self: object, stream: object) -> None:
    raise GRPCError(Status.UNIMPLEMENTED)


def _failure(fail: Fail) -> GRPCError:
    if fail.kind == "rate":
        details = [api_pb2.RPCRetryPolicy(retry_after_secs=fail.after)] if fail.after is not None else None
        return GRPCError(Status.RESOURCE_EXHAUSTED, "Sandbox creation rate limit exceeded", details)
    if fail.kind == "full":
        return GRPCError(Status.RESOURCE_EXHAUSTED, "Your workspace has reached its limit of running containers")
    return GRPCError(_STATUS.get(fail.status, Status.UNAVAILABLE), fail.text)


async def _send_garbage(stream: Stream[Any, Any]) -> None:
    """A message whose bytes are no protobuf."""
    await stream.send_initial_metadata()
    await stream._stream.send_data(struct.pack(">?I", False, 4) + b"\xff" * 4)
    stream._send_message_done = True
    await stream.send_trailing_metadata()


def cut(stream: Stream[Any, Any]) -> None:
    """The whole connection breaks off, with all other calls on it."""
    stream._stream._transport.abort()


class Tokens:
    """Short-lived JWTs, as Modal gives them to clients that have shown their credentials."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(self, subject: str, seconds: float) -> str:
        head = _text({"alg": "HS256", "typ": "JWT"})
        body = _text({"sub": subject, "exp": int(time.time() + seconds)})
        return f"{head}.{body}.{self._sign(f'{head}.{body}')}"

    def subject(self, token: str) -> str:
        """Whose it is. Raises GRPCError for one that was not issued here, or is too old."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature, self._sign(signed)):
            raise GRPCError(Status.UNAUTHENTICATED, "the token is not valid")
        body = signed.partition(".")[2]
        said = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if said["exp"] <= time.time():
            raise GRPCError(Status.UNAUTHENTICATED, "the token has expired")
        return str(said["sub"])

    def _sign(self, text: str) -> str:
        return _base64(hmac.digest(self._key, text.encode(), hashlib.sha256))


def _text(document: dict[str, Any]) -> str:
    return _base64(json.dumps(document).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
