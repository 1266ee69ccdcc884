"""
TRL's own `GRPOTrainer._calculate_rewards`, over tensors of numpy.

The trainer cannot be imported without PyTorch and CUDA, which are 3 GB; the method is read from the installed package,
and of PyTorch it needs a table of numbers alone. A row is called alone, as one that raises would end its whole batch.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import importlib.util
import inspect
import logging
import math
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
from lines import Row, Said, abstained, failed, main, scored


class Tensor(numpy.ndarray[Any, Any]):
    def all(self, *_: Any, **named: Any) -> Any:
        return numpy.all(numpy.asarray(self), axis=named["dim"]).view(Tensor)

    def nonzero(self, *_: Any, **_named: Any) -> Any:
        return numpy.nonzero(numpy.asarray(self))


def tensor(values: list[Any], dtype: Any, device: Any) -> Tensor:
    for value in values:
        if not isinstance(value, bool | int | float | numpy.number):
            raise TypeError(f"new(): invalid data type {type(value).__name__!r}")
    return numpy.array(values, dtype=numpy.float64).view(Tensor)


def zeros(rows: int, columns: int, device: Any) -> Tensor:
    return numpy.zeros((rows, columns)).view(Tensor)


TORCH = SimpleNamespace(zeros=zeros, tensor=tensor, isnan=numpy.isnan, nan=math.nan, float32=None)


def definition(file: str, name: str) -> ast.FunctionDef:
    """A function of the package's text, as it stands there."""
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.submodule_search_locations
    source = (Path(spec.submodule_search_locations[0]) / "trainer" / file).read_text("utf-8")
    (found,) = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name)
    found.decorator_list = []
    return found


def trainer_class() -> Any:
    trainer = ast.ClassDef("Trainer", [], [], [definition("grpo_trainer.py", "_calculate_rewards")], [])
    names: dict[str, Any] = {
        "torch": TORCH,
        "nn": SimpleNamespace(Module=type("Module", (), {})),
        "Callable": Callable,
        "functools": functools,
        "inspect": inspect,
        "asyncio": asyncio,
        "logger": logging.getLogger("trl"),
        "gather": lambda values: values,
        "profiling_context": lambda *_: contextlib.nullcontext(),
    }
    whole = ast.Module([definition("utils.py", "is_async_callable"), trainer], [])
    exec(compile(ast.fix_missing_locations(whole), "trl", "exec"), names)
    return names["Trainer"]


def judge(function: Any, rows: list[Row], given: Row) -> Iterable[Said]:
    trainer = trainer_class()()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    vars(trainer).update(
        accelerator=SimpleNamespace(device=None),
        reward_funcs=[function],
        reward_processing_classes=[None],
        reward_func_names=["reward"],
        state=None,
        environments=None,
        async_loop=loop,
        _log_completion_extra=None,
        _log_metric=None,
    )
    yield from rewards(trainer, rows)


def rewards(trainer: Any, rows: list[Row]) -> Iterable[Said]:
    """What a trainer with one reward function makes of each row, alone."""
    for row in rows:
        own = row.get("metadata", {})
        inputs = [{**own, "metadata": own, "reference": row.get("reference"), "prompt": row.get("input")}]
        try:
            found = trainer._calculate_rewards(inputs, [row.get("input")], [row.get("output")], [[]])
        except Exception as error:
            yield failed(error)
            continue
        value = float(found[0, 0])
        yield abstained() if math.isnan(value) else scored({"": (None, value, None)})


if __name__ == "__main__":
    main(judge)
