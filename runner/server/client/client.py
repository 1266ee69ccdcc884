"""`Client`, which waits for each answer, and `AsyncClient`, to be awaited."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from runner.engine.reading import Reading
from runner.server.client import evaluating, resources
from runner.server.client import runs as run_operations
from runner.server.client.connection import ServerConnection
from runner.server.client.server import Blocking, Server, each_now, now

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Items: TypeAlias = AsyncGenerator[T, None]


def _blocking(
    operation: Callable[Concatenate[Server, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return now(operation(self._server, *args, **kwargs))

    return _like(operation, method)


def _iterating(operation: Callable[Concatenate[Server, P], Items[T]]) -> Callable[Concatenate[Client, P], Iterator[T]]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return each_now(operation(self._server, *args, **kwargs))

    return _like(operation, method, "Iterator")


def _awaited(
    operation: Callable[Concatenate[Server, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self._server, *args, **kwargs)

    return _like(operation, method)


def _async_iterating(
    operation: Callable[Concatenate[Server, P], Items[T]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        reading = Reading(operation(self._server, *args, **kwargs))
        try:
            while (item := await reading.next()) is not None:
                yield item
        finally:
            await reading.end()

    return _like(operation, method, "AsyncIterator")


def _like(operation: Callable[..., Any], method: F, iterator: str = "") -> F:
    """The method, with the operation's name, words and parameters; its server is the client."""
    functools.update_wrapper(method, operation)
    del method.__dict__["__wrapped__"]
    own = inspect.signature(operation)
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    returned = str(own.return_annotation)
    if iterator:
        returned = f"{iterator}[{returned.removeprefix('AsyncGenerator[').removesuffix(', None]')}]"
    _, *parameters = own.parameters.values()
    method.__dict__["__signature__"] = own.replace(parameters=[me, *parameters], return_annotation=returned)
    return method


class Client:
    """
    A server, `evalcell serve`, by the words of this library. Close it, or use it with `with`.

    Args:
        url: None: EVALCELL_URL, else this machine's server.
        token: None: EVALCELL_TOKEN.
        patience: Seconds in which it tries again what the server says to be passing, and a connection that broke off.
        allow_http: Send the token to another machine without https as well.

    Raises:
        InputError: The `url` is no address.

    Example:
        >>> from evalcell import Client
        >>> with Client() as client:
        ...     report = client.evaluate("exact-match", [{"output": "4", "reference": "4"}])
        >>> report.summary.mean
        1.0
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience: float = 30.0, allow_http: bool = False
    ) -> None:
        self._server = Blocking(ServerConnection(url, token, patience=patience, allow_http=allow_http))

    def close(self) -> None:
        """Close the connections."""
        now(self._server.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    evaluate = _blocking(evaluating.evaluate)
    audit = _blocking(evaluating.audit)
    check = _blocking(resources.check)
    add = _blocking(resources.add)
    evaluator = _blocking(resources.evaluator)
    evaluators = _iterating(resources.evaluators)
    versions = _iterating(resources.versions)
    add_dataset = _blocking(resources.add_dataset)
    datasets = _iterating(resources.datasets)
    run = _blocking(run_operations.run)
    runs = _iterating(run_operations.runs)
    status = _blocking(run_operations.status)
    progress = _iterating(run_operations.progress)
    wait = _blocking(run_operations.wait)
    results = _iterating(run_operations.results)
    worst = _blocking(run_operations.worst)
    report = _blocking(evaluating.report)
    verify = _blocking(run_operations.verify)
    compare = _blocking(run_operations.compare)
    flips = _blocking(run_operations.flips)
    cancel = _blocking(run_operations.cancel)
    resume = _blocking(run_operations.resume)
    delete_run = _blocking(run_operations.delete_run)


class AsyncClient:
    """
    A `Client` to be awaited: `await client.evaluate(…)`, `async for run in client.runs()`.

    Args:
        url, token, patience, allow_http: As in `Client`.

    Raises:
        InputError: The `url` is no address.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience: float = 30.0, allow_http: bool = False
    ) -> None:
        self._server = Server(ServerConnection(url, token, patience=patience, allow_http=allow_http))

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    evaluate = _awaited(evaluating.evaluate)
    audit = _awaited(evaluating.audit)
    check = _awaited(resources.check)
    add = _awaited(resources.add)
    evaluator = _awaited(resources.evaluator)
    evaluators = _async_iterating(resources.evaluators)
    versions = _async_iterating(resources.versions)
    add_dataset = _awaited(resources.add_dataset)
    datasets = _async_iterating(resources.datasets)
    run = _awaited(run_operations.run)
    runs = _async_iterating(run_operations.runs)
    status = _awaited(run_operations.status)
    progress = _async_iterating(run_operations.progress)
    wait = _awaited(run_operations.wait)
    results = _async_iterating(run_operations.results)
    worst = _awaited(run_operations.worst)
    report = _awaited(evaluating.report)
    verify = _awaited(run_operations.verify)
    compare = _awaited(run_operations.compare)
    flips = _awaited(run_operations.flips)
    cancel = _awaited(run_operations.cancel)
    resume = _awaited(run_operations.resume)
    delete_run = _awaited(run_operations.delete_run)
