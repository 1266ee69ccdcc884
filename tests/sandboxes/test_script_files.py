"""A script with files of its own: the same in every sandbox as the script with all of it in one file."""

from __future__ import annotations

import pytest

from sandboxes import Execution, Script
from tests.sandboxes.backends import BACKENDS, PLAYS, Backend, calls
from tests.sandboxes.shared import evaluate

PYTHON = [one for one in BACKENDS if one.language == "python" and PLAYS not in one.gaps.values()]
NORM = "def norm(text):\n    return text.strip().lower()\n"
FILES = (
    ("helper.py", f"from .words import WORDS\n\n\n{NORM}"),
    ("utils/__init__.py", ""),
    ("utils/text.py", "from . import deep\n\n\ndef fail():\n    raise ValueError(deep.WHY)\n"),
    ("utils/deep.py", "WHY = 'deep'\n"),
    ("words.py", "WORDS = ['a', 'b']\n"),
    ("lists/words.txt", "a\nb\n"),
)
FOUR = """
import os
import pathlib
import helper_ as helper
from .words import WORDS
import utils.text

LINES = open(os.path.join(os.path.dirname(__file__), "lists/words.txt")).read().split()
count = 0

def evaluate(output):
    global count
    count += 1
    if output == "fail":
        utils.text.fail()
    there = [path.name for path in (pathlib.Path(__file__).resolve().parent / "lists").iterdir()]
    return [helper.norm(output), WORDS, LINES, there, os.path.exists("lists/no.txt"), count]
"""
ONE = f"""
{NORM}
WORDS, count = ["a", "b"], 0

def evaluate(output):
    global count
    count += 1
    return [norm(output), WORDS, ["a", "b"], ["words.txt"], False, count]
"""


def script(backend: Backend, source: str, *files: tuple[str, str]) -> Script:
    return backend.script(source)._replace(files=files)


def values(executions: list[Execution]) -> list[object]:
    return [one.value if one.error is None else one.error.message for one in sorted(executions, key=lambda o: o.call)]


FOUR_FILES = (("helper_.py", "from words import WORDS\n" + NORM), *FILES[1:])


@pytest.mark.parametrize("chosen", PYTHON, ids=lambda one: one.id, indirect=True)
def test_a_script_in_four_files_gives_what_one_file_gives(backend: Backend) -> None:
    batch = calls(3, output=" A ")
    one = values(evaluate(backend, script(backend, ONE), batch))
    assert values(evaluate(backend, script(backend, FOUR, *FOUR_FILES), batch)) == one
    assert one[0] == ["a", ["a", "b"], ["a", "b"], ["words.txt"], False, 1]


@pytest.mark.parametrize("chosen", PYTHON, ids=lambda one: one.id, indirect=True)
def test_a_traceback_shows_the_file_s_own_name_and_lines(backend: Backend) -> None:
    (execution,) = evaluate(backend, script(backend, FOUR, *FOUR_FILES), calls(1, output="fail"))
    assert execution.error is not None
    assert 'File "utils/text.py", line 5, in fail\n    raise ValueError(deep.WHY)\n' in execution.error.traceback
    assert "importlib" not in execution.error.traceback
    assert execution.error.traceback.count("File ") == 2


@pytest.mark.parametrize("chosen", PYTHON[:4:3], ids=lambda one: one.id, indirect=True)
def test_names_of_python_s_own_modules_and_of_ours_hide_nothing(backend: Backend) -> None:
    files = [(f"{name}.py", "VALUE = 'own'\n") for name in ("json", "harness", "guest_harness", "app", "evaluator_")]
    source = (
        "import json, harness, guest_harness, app\nfrom .json import VALUE\n"
        "def evaluate(output): return [json.dumps(1), VALUE, harness.VALUE, guest_harness.VALUE, app.VALUE]\n"
    )
    assert values(evaluate(backend, script(backend, source, *files), calls(1, output=""))) == [["1", *["own"] * 4]]
    source = "import evaluator\ndef evaluate(output): return [evaluator.VALUE, __name__]\n"
    own = script(backend, source, ("evaluator.py", "VALUE = 'own'\n"))
    assert values(evaluate(backend, own, calls(1, output=""))) == [["own", "evaluator_"]]


@pytest.mark.parametrize("chosen", PYTHON[:4:3], ids=lambda one: one.id, indirect=True)
def test_a_loop_of_imports_ends_as_in_python(backend: Backend) -> None:
    files = (("one.py", "import two\nVALUE = 1\n"), ("two.py", "import one\nVALUE = 2\n"))
    source = "import one, two\ndef evaluate(output): return one.VALUE + two.VALUE + two.one.VALUE\n"
    assert values(evaluate(backend, script(backend, source, *files), calls(1, output=""))) == [4]
    broken = (("one.py", "from two import VALUE\n"), ("two.py", "from one import VALUE\n"))
    (execution,) = evaluate(backend, script(backend, source, *broken), calls(1, output=""))
    assert execution.error is not None
    assert execution.error.type == "ImportError"


@pytest.mark.parametrize("chosen", PYTHON[:4:3], ids=lambda one: one.id, indirect=True)
def test_the_files_are_there_to_be_read_and_for_nothing_else(backend: Backend) -> None:
    source = """
def tried(call):
    try:
        return call()
    except OSError:
        return "refused"

def evaluate(output):
    return [
        tried(lambda: open("words.txt", "rb").read().decode()),
        tried(lambda: open("../words.txt").read()),
        tried(lambda: open("/etc/../words.txt/../../etc/shadow").read()),
        tried(lambda: open("no.txt").read()),
        tried(lambda: open("lists/../words.txt").read()),
    ]
"""
    (value,) = values(evaluate(backend, script(backend, source, ("words.txt", "a")), calls(1, output="")))
    assert value == ["a", "refused", "refused", "refused", "a"]


@pytest.mark.parametrize("chosen", PYTHON[3:5], ids=lambda one: one.id, indirect=True)
def test_what_a_file_reaches_counts_as_what_the_script_reaches(backend: Backend) -> None:
    from sandboxes.reach import reach

    frames = ("helper.py", "import sys\ndef frames(): return sys._getframe()\n")
    assert reach(script(backend, "import helper\n", frames), "call") == "_getframe"
    assert reach(script(backend, "import helper\n", ("words.txt", "sys._getframe()")), "call") == ""
