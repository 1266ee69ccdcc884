"""A script that looks for files and goes on without them: it sees none of the caller's."""

from __future__ import annotations

from pathlib import Path

import pytest

import runner
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import SandboxConfig

PLAIN = "import glob, os\nfrom os.path import isdir\nfrom pathlib import Path\nHERE = os.path.dirname(__file__)\n\n\n"
READS = "def evaluate(output):\n    try:\n        return len(open('words.txt').read())\n"
SEARCHES = {
    "os.path.isdir": "def evaluate(output):\n    return float(isdir(os.path.join(HERE, output)))\n",
    "os.path.exists": "def evaluate(output):\n    return float(os.path.exists(output))\n",
    "glob.glob": "def evaluate(output):\n    return len(glob.glob(HERE + '/*.txt'))\n",
    "os.walk": "def evaluate(output):\n    return len(list(os.walk(output)))\n",
    ".exists()": "def evaluate(output):\n    return float((Path(__file__).parent / output).exists())\n",
    ".rglob()": (
        "def found():\n    return Path('.').rglob('*')\n\n\ndef evaluate(output):\n    return len(list(found()))\n"
    ),
    "open": READS + "    except OSError:\n        return 0.0\n",
}
OTHERS = {
    "a file that must be there": READS + "    except OSError:\n        raise\n",
    "only when it is started by itself": (
        "def evaluate(output):\n    return 1.0\n\n\nif __name__ == '__main__':\n    print(os.listdir('.'))\n"
    ),
    "a function that no row reaches": (
        "def files():\n    return os.listdir('.')\n\n\ndef evaluate(output):\n    return 1.0\n"
    ),
    "files of its own": (
        "import tempfile\n\n\ndef evaluate(output):\n    return float(os.path.exists(tempfile.gettempdir()))\n"
    ),
}


@pytest.mark.parametrize("call", SEARCHES)
def test_a_search_for_files_is_said(call: str) -> None:
    evaluator = parse_evaluator(PLAIN + SEARCHES[call], "script")
    (note,) = runner.evaluate(evaluator, [{"output": "a"}]).notes
    line = next(
        at
        for at, text in enumerate(evaluator.source.splitlines(), 1)
        if call.strip(".()") + "(" in text or (call == "os.path.isdir" and "isdir(" in text)
    )
    assert note.startswith(f"line {line} looks for files, by `{call}`, and a script sees none of yours")


@pytest.mark.parametrize("script", OTHERS)
def test_no_other_script_is_told_so(script: str) -> None:
    assert not runner.evaluate(parse_evaluator(PLAIN + OTHERS[script], "script"), [{"output": "a"}]).notes


def test_a_script_of_another_tool_is_told_so() -> None:
    source = PLAIN + "def get_assert(output, context):\n    return os.path.isfile(output)\n"
    (note,) = runner.evaluate(parse_evaluator(source, "script"), [{"output": "a"}]).notes
    assert "line 8 looks for files, by `os.path.isfile`" in note


def test_a_run_with_files_is_not_told_so(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("ab", "utf-8")
    source = PLAIN + "def evaluate(output):\n    return float(os.path.exists(os.environ['WORDS']))\n"
    box = SandboxConfig(backend="process", files={"WORDS": str(tmp_path / "words.txt")})
    report = runner.evaluate(parse_evaluator(source, "script"), [{"output": "a"}], sandbox=box)
    assert [one.score for one in report.results] == [1.0]
    assert not report.notes
