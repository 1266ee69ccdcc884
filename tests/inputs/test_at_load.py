"""Scripts that train, download or call `main` when they are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

import runner
from runner import SandboxConfig
from runner.core.errors import EvaluatorError
from runner.engine.request import RunRequest, prepare
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.python.at_load import download_notes, main_hint

REWARD = "def reward_len(completions, **kwargs):\n    return [-abs(2 - len(one)) for one in completions]\n"
TRAINING = f"""from datasets import load_dataset
from trl import GRPOTrainer

dataset = load_dataset("trl-lib/tldr", split="train")

{REWARD}

trainer = GRPOTrainer(model="m", reward_funcs=reward_len, train_dataset=dataset)
trainer.train()
"""
SCORE = "def evaluate(output):\n    return float(len(output))\n"


@pytest.mark.parametrize("network", [False, True])
def test_a_training_script_is_refused_before_it_runs(tmp_path: Path, network: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    with pytest.raises(EvaluatorError) as told:
        prepare(RunRequest(evaluator=str(path), sandbox=SandboxConfig(network=network)))
    assert f"{path}:10: this line makes a `GRPOTrainer` whenever the script is loaded" in str(told.value)
    assert "copy `reward_len`, with what it uses, into a file of its own" in str(told.value)
    assert 'below `if __name__ == "__main__":`' in str(told.value)
    path.write_text(REWARD)  # as it says
    assert [one.score for one in runner.evaluate(path, [{"output": "ab"}]).results] == [0.0]


@pytest.mark.parametrize(
    "line",
    [
        'from datasets import load_dataset\ndata = load_dataset("squad")',
        'from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained("gpt2")',
        'import evaluate as _e, evaluate\nrouge = evaluate.load("rouge")',
        'with open("x") as f:\n    m = hf_hub_download("a/b", "c")',
    ],
)
def test_a_download_at_load_is_refused_where_there_is_no_network(line: str) -> None:
    if "evaluate.load" in line:
        source = f"{line}\ndef score(prediction, target):\n    return 1.0\n"
        evaluator = parse_evaluator(source, "s", "s.py", entry="score")
    else:
        evaluator = parse_evaluator(f"{line}\n{SCORE}", "s", "s.py")
    with pytest.raises(EvaluatorError, match=r"s:2: this line downloads by `.*no network unless .*network=True"):
        prepare(RunRequest(evaluator="s"), evaluator=evaluator)
    prepare(RunRequest(evaluator="s", sandbox=SandboxConfig(network=True)), evaluator=evaluator)


@pytest.mark.parametrize(
    "lines",
    [
        'if __name__ == "__main__":\n    GRPOTrainer().train()\n    load_dataset("a")',
        'try:\n    tok = AutoTokenizer.from_pretrained("a")\nexcept Exception:\n    tok = None',
        'def load():\n    return load_dataset("a")',
        'def load_dataset(name):\n    return [name]\nrows = load_dataset("a")',
        "class RewardTrainer:\n    pass\nown = RewardTrainer()",
        "load = lambda: load_dataset('a')",
    ],
)
def test_what_does_not_surely_happen_is_let_be(lines: str) -> None:
    evaluator = parse_evaluator(f"{lines}\n{SCORE}", "s", "s.py")
    prepare(RunRequest(evaluator="s"), evaluator=evaluator)


@pytest.mark.parametrize("line", ["main()", "print(main())", "import sys; sys.exit(main())"])
def test_a_call_of_main_that_fails_at_load_is_named(line: str) -> None:
    source = f'def main():\n    return open("preds.jsonl").read()\n{SCORE}{line}\n'
    (result,) = runner.evaluate(parse_evaluator(source, "s"), [{"output": "a"}]).results
    assert result.error is not None
    assert "the script does not load: FileNotFoundError" in result.error.message
    assert result.error.message.endswith(
        '; line 5 calls `main` whenever the script is loaded: put it below `if __name__ == "__main__":`'
    )


def test_an_error_elsewhere_is_not_put_on_main() -> None:
    source = f"def main():\n    return 1\nmain()\n1 / 0\n{SCORE}"
    (result,) = runner.evaluate(parse_evaluator(source, "s"), [{"output": "a"}]).results
    assert result.error is not None
    assert result.error.message == "the script does not load: ZeroDivisionError: division by zero (line 4)"


def test_an_experiment_that_is_run_at_load_is_named() -> None:
    source = f"import os\nkey = os.environ['NO_SUCH_KEY']\n{SCORE}from langsmith import evaluate\n"
    source += "evaluate(str, data='rows', evaluators=[score])\n"
    hint = main_hint(source, "line 2, in <module>")
    assert "runs an experiment whenever the script is loaded: copy the evaluator, with what it uses" in hint
    assert main_hint(f"{SCORE}if __name__ == '__main__':\n    evaluate(str, evaluators=[score])\n", "") == ""


@pytest.mark.parametrize(
    "line",
    [
        "evaluate.load('bleu')",
        "datasets.load_metric('bleu')",
        "load_dataset('squad')",
        "nltk.download('punkt')",
        "AutoTokenizer.from_pretrained('gpt2')",
    ],
)
def test_a_download_in_a_function_is_told_before_it_runs(line: str) -> None:
    name = line.partition("(")[0]
    source = f"def load():\n    return {line}\n\n\ndef score(prediction, target):\n    return load()\n"
    evaluator = parse_evaluator(source, "s", "s.py", entry="score")
    (note,) = download_notes(evaluator)
    assert note.startswith(f"line 2 downloads by `{name}`, and a script has no network unless ")
    row = {"prediction": "a", "target": "a"}
    remarks = prepare(RunRequest(evaluator="s"), evaluator=evaluator).column_notes(Lookahead(cases_from_rows([row])))
    assert note in remarks
    opened = prepare(RunRequest(evaluator="s", sandbox=SandboxConfig(network=True)), evaluator=evaluator)
    assert note not in opened.column_notes(Lookahead(cases_from_rows([row])))


@pytest.mark.parametrize("line", ["load_dataset('./d')", "AutoTokenizer.from_pretrained('/m')", "own_load('a')"])
def test_what_is_no_download_is_not_told(line: str) -> None:
    source = f"def own_load(name):\n    return name\n\n\ndef evaluate(output):\n    return {line}\n"
    assert download_notes(parse_evaluator(source, "s", "s.py")) == []
