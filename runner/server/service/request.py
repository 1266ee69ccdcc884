"""A run that is kept, as a request to the pool."""

from __future__ import annotations

from pathlib import Path

from runner.core.types import Evaluator
from runner.engine.request import RunRequest, prepare
from runner.inputs.evaluators.resolve import STORED
from runner.results.output.manifest import command
from runner.results.store.store import Store
from runner.results.store.types import RunSpec
from runner.runs.run import Run
from runner.server.service.part import parsed_version
from sandboxes.base import SandboxConfig


def job_of(store: Store, id: str) -> RunRequest:
    """The request of a run, with its script inside and its dataset's path. Raises NotStoredError and StoreError."""
    spec = store.spec(id)
    version, dataset = store.script(id), store.dataset_of(id)
    script = parsed_version(version)
    config = spec.sandbox if isinstance(spec.sandbox, SandboxConfig) else SandboxConfig()
    return request_of(spec, script, config, store.dataset_path(dataset))


def request_of(spec: RunSpec, evaluator: Evaluator, config: SandboxConfig, path: Path) -> RunRequest:
    """What the run asks."""
    return RunRequest(
        evaluator=evaluator,
        dataset=str(path),
        sandbox=config,
        limits=spec.limits,
        mapping=spec.mapping,
        seed=spec.seed,
        repeat=spec.repeat,
        cache=spec.cache,
        keep=spec.keep,
        limit=spec.limit,
        require=spec.require,
        gates=spec.gates,
        max_failed=spec.max_failed,
        max_abstained=spec.max_abstained,
    )


def checked(request: RunRequest, reference: str, dataset: str) -> str:
    """
    Check that a run can begin, and give the command that would do the same. Nothing is run.

    Raises what `runner.evaluate` does before its first row. Blocks.
    """
    evaluator = request.evaluator
    assert isinstance(evaluator, Evaluator)
    named = request.model_copy(update={"evaluator": reference, "dataset": STORED + dataset})
    prepared = prepare(named, evaluator=evaluator, stored=request.dataset)
    Run(prepared)  # its gates
    with prepared.open():
        pass  # its columns
    return command(prepared, None)
