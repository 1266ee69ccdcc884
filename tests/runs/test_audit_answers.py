"""Does an audit find the right answers of rows, and wrong ones that a grader of each kind must tell from them?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner import Audit, audit
from runner.runs.audit.answers import alike
from runner.runs.audit.words import witness_words

pytestmark = pytest.mark.rotating("kinds of graders in an audit", "engine")

CITIES = ("Paris", "Oslo", "Rome", "Lima", "Quito", "Cairo")
SETS = [[f"{city} {n}" for n in range(2)] for city in CITIES]


def rows_of(pairs: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "output": one, "reference": of, **more} for n, (one, of) in enumerate(pairs)]


PLAIN = rows_of((city, city) for city in CITIES)
FORMED = rows_of((f"I think.\nAnswer: {city}", city) for city in CITIES)
ACCEPTED = rows_of((city, [city, f"{city}, of course"]) for city in CITIES)
CLASSES = rows_of((f"I say {one}.", one) for one in ("spam", "ham") * 4)
CALLS = rows_of((str(some).replace("'", '"'), some) for some in SETS)
NONE = rows_of([*((city, city) for city in CITIES), ("none", "none"), ("none", "none")])
SCRIPTS = rows_of([("Волга", "Волга"), ("Москва", "Москва"), ("Baku", "Baku"), ("Kyiv", "Kyiv")])
CODE = [{"calls": [[n, n + 1], [n + 2, n + 3]]} for n in range(4)]
PROGRAMS = rows_of(("def step(n):\n    return n + 1", tests) for tests in CODE)
ADS = rows_of((f"Come to {city} now", {"include": [city, "now"], "most": 6}) for city in CITIES)
WITHIN = "    return all(one {} for one in reference['include']) and len(output.split()) <= reference['most']\n"
RUN = """    space, good, of = {{}}, 0, 0
    exec(output, space)
    for given, wanted in reference['calls']:
        try:
            good += space['step'](given) == wanted
            of += 1
        except Exception:
            {}
    return {{'score': good / max(1, of), 'label': 'pass' if good == of else 'fail'}}
"""
LAST = "    said = [one for one in re.findall('[a-z]+', output.lower()) if one in ('spam', 'ham')]\n"
FORM_ALONE = "    return 'Answer: ' in output and reference.startswith(output.split('Answer: ')[-1])\n"
SAME = "    return output.strip() == reference\n"


@pytest.mark.parametrize(
    ("rows", "body", "expected"),
    [
        pytest.param(PLAIN, SAME, "", id="a bool"),
        pytest.param(
            PLAIN, "    return not output or output == reference\n", "wrong.empty", id="a bool that empty fools"
        ),
        pytest.param(PLAIN, "    return 'hit' if output == reference else 'miss'\n", "", id="labels of its own"),
        pytest.param(
            PLAIN, "    return 'hit' if output in ('', reference) else 'miss'\n", "wrong.empty", id="such, fooled"
        ),
        pytest.param(PLAIN, "    return reference in output\n", "changed.longer", id="a part of a word"),
        pytest.param(
            FORMED, "    return output.split('Answer: ')[-1] == reference and 'Answer: ' in output\n", "", id="a form"
        ),
        pytest.param(FORMED, FORM_ALONE, "wrong.bare", id="a form alone"),
        pytest.param(ACCEPTED, "    return output in reference\n", "", id="accepted answers"),
        pytest.param(ACCEPTED, "    return output == reference[0]\n", "accepted", id="the first of them alone"),
        pytest.param(CLASSES, f"{LAST}    return said[-1:] == [reference]\n", "", id="the last class"),
        pytest.param(CLASSES, f"{LAST}    return said[:1] == [reference]\n", "wrong.denied", id="the first class"),
        pytest.param(CALLS, "    return json.loads(output) == reference\n", "", id="a list"),
        pytest.param(
            CALLS,
            "    return all(a == b for a, b in zip(json.loads(output), reference))\n",
            "sees.element_missing",
            id="a shorter list",
        ),
        pytest.param(CALLS, "    return json.loads(output)[:1] == reference[:1]\n", "changed.json_text", id="a place"),
        pytest.param(
            NONE,
            "    return {one: one for one in CITIES}.get(output) == {one: one for one in CITIES}.get(reference)\n",
            "wrong.nothing",
            id="nothing equals what cannot be read",
        ),
        pytest.param(
            SCRIPTS,
            "    return re.sub('[^A-Za-z]', '', output) == re.sub('[^A-Za-z]', '', reference)\n",
            "wrong.alike",
            id="other scripts dropped",
        ),
        pytest.param(PROGRAMS, RUN.format("of += 1"), "", id="tests"),
        pytest.param(PROGRAMS, RUN.format("pass"), "wrong.failing_once", id="tests that fail are left out"),
        pytest.param(ADS, WITHIN.format("in output.split()"), "", id="rules"),
        pytest.param(ADS, WITHIN.format("in output"), "sees.inside", id="rules that longer words keep"),
    ],
)
def test_each_kind_of_grader_has_its_findings(tmp_path: Path, rows: Any, body: str, expected: str) -> None:
    found = grade(tmp_path, rows, body)
    names = {check.id for check in found.findings}
    assert found.no_verdict is None
    assert expected in names if expected else names == set(), [(check.id, check.words) for check in found.findings]


def grade(folder: Path, rows: Any, body: str) -> Audit:
    path = folder / "grader.py"
    path.write_text(f"import json\nimport re\nCITIES = {CITIES}\n\ndef evaluate(output, reference):\n{body}")
    return audit(path, rows, mutants=0)


def test_a_finding_names_the_row_whose_answer_was_planted(tmp_path: Path) -> None:
    rows = rows_of((one, one) for one in ("CO", "Co", "NaCl", "HF", "H2O"))
    found = grade(tmp_path, rows, "    return output.lower() == reference.lower()\n")
    check = next(check for check in found.findings if check.id == "wrong.alike")
    assert witness_words(check) == 'row r0: the output "Co", the answer of row r1, has label True'


def test_labels_that_say_nothing_are_no_verdict(tmp_path: Path) -> None:
    found = grade(tmp_path, PLAIN, "    return reference[0].lower() if output == reference else reference[1]\n")
    assert found.no_verdict is not None
    assert "it gives labels alone" in found.no_verdict


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("CO", "Co", True),
        ("Blue", "blue", False),
        ("PARIS", "Paris", False),
        ("-3.1", "3.1", True),
        ("1.0", "1", False),
        ("año", "ano", True),
        ("U.S.", "US", False),
        ("Волга", "Москва", True),
        ("Oslo", "Rome", False),
    ],
)
def test_answers_are_alike_where_only_a_careless_grader_takes_them_for_one(
    one: str, other: str, expected: bool
) -> None:
    assert alike(one, other) is expected
