"""A run as a request: JSON holds all of it, and what is prepared from it is what was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import InputError, InputMapping, evaluate
from runner.engine.arguments import make_request
from runner.engine.request import RunRequest, prepare
from sandboxes import Limits, SandboxConfig, UnsupportedConfigError

SCRIPT = "def evaluate(output, by=1):\n    return len(output) * by\n"


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "length.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_request_is_the_same_after_a_way_through_json(script: str) -> None:
    every = RunRequest(
        evaluator=script,
        dataset="data.jsonl",
        language="python",
        sandbox=SandboxConfig(backend="process", packages=("numpy==2.1.0",), env=("TOKEN",)),
        limits=Limits(timeout=2.5),
        mapping=InputMapping(paths={"output": "$.metadata.a"}, literals={"by": [1, None]}),
        seed=7,
        limit=10,
        gates=("mean<0.5", "failed>0"),
        max_failed="5%",
    )
    for request in (every, RunRequest(evaluator=script), RunRequest(evaluator=prepare(every).evaluator)):
        again = RunRequest.model_validate_json(request.model_dump_json())
        assert again == request
        assert again.sandbox.model_fields_set == request.sandbox.model_fields_set


def test_a_backend_that_was_not_set_is_chosen_after_json_too(script: str) -> None:
    for config, chosen in ((SandboxConfig(), "wasm"), (SandboxConfig(network=True), "process")):
        request = RunRequest.model_validate_json(RunRequest(evaluator=script, sandbox=config).model_dump_json())
        assert prepare(request).sandbox.name == chosen
    with pytest.raises(UnsupportedConfigError, match="wasm"):
        prepare(RunRequest(evaluator=script, sandbox=SandboxConfig(backend="wasm", network=True)))


def test_what_a_run_reads_is_known_before_it_reads(script: str, tmp_path: Path) -> None:
    files = {"MODEL": str(tmp_path / "model.json")}
    (tmp_path / "model.json").write_text("{}")
    request = RunRequest(evaluator=script, dataset="data.jsonl", sandbox=SandboxConfig(files=files))
    assert prepare(request).inputs == [script, "data.jsonl", files["MODEL"]]
    assert prepare(RunRequest(evaluator="contains", dataset="-", mapping=WORDS)).inputs == []


WORDS = InputMapping(literals={"words": "the"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limit": 0}, "`limit`: "),
        ({"seed": "x"}, "`seed`: "),
        ({"gates": ("mean <",)}, "mean <"),
        ({"limits": 3}, "`limits` must be such as"),
    ],
)
def test_what_is_no_request_is_refused_by_its_field(given: dict[str, object], words: str, script: str) -> None:
    with pytest.raises(InputError) as refused:
        evaluate(script, [], **given)  # type: ignore[arg-type]
    assert words in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_rows_are_handed_over_beside_the_request(script: str) -> None:
    request, rows = make_request(script, [{"output": "a"}])
    assert request.dataset is None
    assert rows == [{"output": "a"}]


def test_python_has_the_results_files_and_gates_of_the_command_line(script: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    rows = [{"id": name, "output": name} for name in ("a", "bb", "ccc")]
    report = evaluate(script, rows, output=f"{folder}/", gates=["mean<3", "max>9"], max_failed="0", limit=2, seed=3)
    verdicts = {gate.gate: gate.verdict for gate in report.summary.gates}
    assert verdicts == {"max-failed 0": "passed", "mean<3": "failed", "max>9": "passed"}
    kept = [json.loads(line)["id"] for line in (folder / "results.jsonl").read_text().splitlines()]
    assert kept == ["a", "bb"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["state"], manifest["seed"], manifest["dataset"]["limit"]) == ("finished", 3, 2)
    assert manifest["summary"]["rows"] == 2
    assert manifest["command"].endswith("--limit 2 --seed 3 --fail-if 'mean<3' --fail-if 'max>9' --max-failed 0")


def test_a_run_from_python_that_fails_says_so_in_its_manifest(script: str, tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"output": "a"}
        raise ZeroDivisionError("of the caller")

    with pytest.raises(ZeroDivisionError):
        evaluate(script, rows(), output=tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["state"], manifest["error"]) == ("failed", "of the caller")
