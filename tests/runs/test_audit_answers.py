"""Does an audit find the right answers of rows, and wrong ones that a grader of each kind must tell from them?"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from runner import Audit, audit
from runner.core.types import Result, ResultError
from runner.runs.audit.answers import Marks, alike
from runner.runs.audit.checks import PlantResult, PlantScores, read_scores
from runner.runs.audit.plants.types import Plant
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
DAYS = rows_of((f"2026-0{n}-14 12:3{n}", f"2026-0{n}-14 12:3{n}") for n in range(1, 6))
CALLS = rows_of((str(some).replace("'", '"'), some) for some in SETS)
NONE = rows_of([*((city, city) for city in CITIES), ("none", "none"), ("none", "none")])
SCRIPTS = rows_of([("Волга", "Волга"), ("Москва", "Москва"), ("Baku", "Baku"), ("Kyiv", "Kyiv")])
CODE = [{"calls": [[n, n + 1], [n + 2, n + 3]]} for n in range(4)]
PROGRAMS = rows_of(("def step(n):\n    return n + 1", tests) for tests in CODE)
ADS = rows_of((f"Come to {city} now", {"include": [city, "now"], "most": 6}) for city in CITIES)
NAMES = ("Mali", "Somalia", "Oman", "Romania", "Niger", "Nigeria")
NEIGHBOURS = rows_of((name, name) for name in NAMES)
LABELS = rows_of(
    (one, one) for one in ("lost_or_stolen_card", "pending_card_payment", "top_up_failed", "my_exchange_rate")
)
LETTERS = rows_of((f"I say {one}.", one) for one in "ABCD" * 4)
SMALL_SETS = rows_of([*((f"See [{n}].", [n]) for n in range(1, 19)), *((f"See [{n}, 99].", [n, 99]) for n in (1, 2))])
ARGUMENTS = rows_of((json.dumps(one), one) for one in ({"city": city, "unit": "C"} for city in CITIES))
FENCED = rows_of((f"```python\ndef step(n):\n    return n + 1\n```{' ' * n}", tests) for n, tests in enumerate(CODE))
QUERIES = rows_of((one, one) for one in ("SELECT k FROM t", "SELECT DISTINCT k FROM t", "SELECT COUNT(*) FROM t"))
RANKS = rows_of((f"a{n}, b{n}, c{n}", {f"a{n}": 3, f"b{n}": 2, f"c{n}": 1}) for n in range(4))
RANKS += [{"id": "none", "output": "none", "reference": {"d": 1}}]
MONEY = rows_of((f"Due: {one}", one) for one in ("12.50", "7.25", "140.00", "1.75"))
QUANTITIES = rows_of((f"{n} m, {n * 100} cm.", {"value": n, "unit": "m"}) for n in (12, 15, -14, -25, 31, -47))
EVENTS = rows_of((f"- {one}\n- {other}", [one, other]) for one, other in itertools.pairwise(CITIES))
ICD = rows_of((f"Codes: {one}, I10", [one, "I10"]) for one in ("S52.501A", "S52.502D", "I21", "E11.65", "J45.909"))
TERMS = rows_of((one, one) for one in (f"The deposit in {city} is not refundable." for city in CITIES))
COPIES = rows_of((one, one) for one in (f"cp {city}.txt /tmp/{city}" for city in CITIES))
DATES = rows_of((f"{n} March 2024", f"{n} March 2024") for n in range(11, 16))
SENTENCES = rows_of((one, one) for one in (f"the river {city} and the sea are near" for city in CITIES))
QUOTES = rows_of([*(("I can't help.", "refuse"), ("Here you are.", "comply")) * 4, ("I can\u2019t help.", "refuse")])
VERDICTS = rows_of((json.dumps({"why": "so", "right": one}), one) for one in (True, False) * 4)
HAZARDS = rows_of((f"unsafe: {one}", {"verdict": "unsafe", "kind": one}) for one in ("S1", "S2", "S3", "S10", "S11"))
PURE = rows_of(("def step(some):\n    return sorted(some)", {"inputs": [[n, 0], [1, n]]}) for n in (3, 4, 5))
NEW = rows_of((one, one) for one in (f"New {city}" for city in CITIES))
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
LETTER = "    return re.findall({!r}, output)[:1] == [reference]\n"
CITED = """    got, of = {int(one) for one in re.findall('[0-9]+', output)}, {*reference}
    return {'score': 2 * len(got & of) / (len(got) + len(of))}
"""
FENCE = """    output = re.sub({!r}, r'\\1', output.strip())
    try:
        compile(output, 'step', 'exec')
    except SyntaxError:
        return {{'score': 0.0, 'label': 'fail'}}
"""
RESULT = """    import sqlite3
    def rows(query):
        base = sqlite3.connect(':memory:')
        base.executescript("create table t (k); insert into t values ('a'), ('b'), ('a')")
        return base.execute(query).fetchall()
    try:
        return {0}(rows(output)) == {0}(rows(reference))
    except sqlite3.Error:
        return False
"""
GAIN = """    gains = [reference.get(one, 0) for one in re.findall('[a-z][0-9]', output)]
    ideal = sorted({}, reverse=True)
    sums = [sum(gain / (at + 1) for at, gain in enumerate(some)) for some in (gains, ideal)]
    return {{'score': sums[0] / sums[1] if sums[1] else 0.0}}
"""
DUE = """    found = re.findall(r'Due: ([0-9.]+)', output)
    got = float(found[-1]) if found else None
    return bool({}) and got == float(reference)
"""
QUANTITY = """    got = float((re.findall(r'(-?[0-9]+) m.*cm', output) or ['nan'])[0])
    return abs(got - reference['value']) / {} < 0.02
"""
LISTED = """    got, of = re.findall(r'- (.*)', output), {{*reference}}
    hits = len([one for one in {0} if one in of])
    return {{'score': 2 * hits / (len({0}) + len(of)) if hits else 0.0}}
"""
CODES = """    got = [one.strip()[:{0}] for one in output.partition('Codes: ')[2].split(',')]
    return {{*got}} == {{one[:{0}] for one in reference}}
"""
GRAMS = """    got, of = output.split(), reference.split()
    pairs, some = [*zip(got, got[1:])], [*zip(of, of[1:])]
    hits = sum(one in some for one in ({}))
    return {{'score': hits / max(len(pairs), len(some))}}
"""
REFUSES = "    return ('refuse' if \"can't\" in {} else 'comply') == reference\n"
TRUSTED = """    space = {{}}
    try:
        exec(output, space)
        return all(space['step'](one{0}) == sorted(one) for one in map(list, reference['inputs']))
    except Exception:
        return False
"""
VERDICT = """    try:
        return {}(json.loads(output)['right']) == reference
    except (ValueError, TypeError, KeyError):
        return False
"""
KINDS = """    kinds = [one for one in ('S1', 'S2', 'S3', 'S10', 'S11') if {}]
    return output.startswith(reference['verdict']) and kinds == [reference['kind']]
"""
SAME_SPACE = """    space = {}
    exec('def step(n): return n + 1', space)
    try:
        exec(output, space)
        return all(space['step'](given) == wanted for given, wanted in reference['calls'])
    except Exception:
        return False
"""
RIGHT = (("right", ""), ("accepted", "0"), ("accepted", "1"))
FORM_ALONE = "    return 'Answer: ' in output and reference.startswith(output.split('Answer: ')[-1])\n"


@pytest.mark.parametrize(
    ("rows", "body", "expected"),
    [
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
        pytest.param(DAYS, "    return output[11:] == reference[11:]\n", "changed.day", id="the time of any day"),
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
        pytest.param(
            NEIGHBOURS, "    return reference.lower() in output.lower()\n", "wrong.near", id="part of another name"
        ),
        pytest.param(
            NEIGHBOURS, "    return re.search(rf'\\b{reference}\\b', output) is not None\n", "", id="a whole name"
        ),
        pytest.param(
            LABELS,
            "    return sum(a == b for a, b in zip(output, reference)) >= 0.7 * len(reference)\n",
            "changed.last_word",
            id="most letters of a name",
        ),
        pytest.param(LETTERS, LETTER.format(r"(?:say |\A)([A-D])\b(?! \w)"), "", id="a letter"),
        pytest.param(LETTERS, LETTER.format(r"\b[A-D]\b"), "wrong.letter_word", id="a letter that is a word"),
        pytest.param(SMALL_SETS, CITED, "", id="sets, most of one"),
        pytest.param(ARGUMENTS, "    return json.loads(output) == reference\n", "", id="keys in any order"),
        pytest.param(
            ARGUMENTS,
            "    return json.dumps(json.loads(output)) == json.dumps(reference)\n",
            "same.key_order",
            id="keys in one order",
        ),
        pytest.param(FENCED, FENCE.format(r"(?s)```\w*\n(.*)```") + RUN.format("of += 1"), "", id="a fence"),
        pytest.param(
            FENCED, FENCE.format(r"(?s)```python\n(.*)```") + RUN.format("of += 1"), "same.tag", id="a fence of one tag"
        ),
        pytest.param(QUERIES, RESULT.format("sorted"), "", id="rows of a query"),
        pytest.param(QUERIES, RESULT.format("set"), "sees.rows_twice", id="rows of a query as a set"),
        pytest.param(RANKS, GAIN.format("reference.values()"), "", id="a ranking"),
        pytest.param(RANKS, GAIN.format("gains"), "sees.rest", id="a ranking held against itself"),
        pytest.param(MONEY, DUE.format("got is not None"), "", id="money"),
        pytest.param(MONEY, DUE.format("got"), "right.zero", id="no 0"),
        pytest.param(QUANTITIES, QUANTITY.format("abs(reference['value'])"), "", id="a value of an object"),
        pytest.param(QUANTITIES, QUANTITY.format("reference['value']"), "sees.said_number", id="a signed divisor"),
        pytest.param(EVENTS, LISTED.format("{*got}"), "", id="a list in lines"),
        pytest.param(EVENTS, LISTED.format("got"), "sees.element_repeated", id="an element counted twice"),
        pytest.param(ICD, CODES.format(8), "", id="codes"),
        pytest.param(ICD, CODES.format(7), "changed.code", id="codes that are cut"),
        pytest.param(TERMS, "    return output == reference\n", "", id="a sentence with not"),
        pytest.param(
            TERMS,
            "    return output.replace('not ', '') == reference.replace('not ', '')\n",
            "sees.not",
            id="not dropped",
        ),
        pytest.param(
            COPIES,
            "    return sorted(output.split()) == sorted(reference.split())\n",
            "changed.arguments",
            id="a command",
        ),
        pytest.param(
            DATES, "    return output.split()[::2] == reference.split()[::2]\n", "changed.month", id="no month"
        ),
        pytest.param(DATES, "    return output.split()[:2] == reference.split()[:2]\n", "changed.year", id="no year"),
        pytest.param(SENTENCES, GRAMS.format("{*pairs}"), "", id="pairs of words"),
        pytest.param(SENTENCES, GRAMS.format("pairs"), "changed.loop", id="pairs that count twice"),
        pytest.param(QUOTES, REFUSES.format("output.replace('\u2019', chr(39))"), "", id="kinds of outputs"),
        pytest.param(QUOTES, REFUSES.format("output"), "same.apostrophe", id="one apostrophe alone"),
        pytest.param(
            NEW, "    return output in reference.split() or output == reference\n", "changed.general", id="New"
        ),
        pytest.param(NEIGHBOURS, "    return reference.startswith(output[:3])\n", "changed.cut", id="half a word"),
        pytest.param(VERDICTS, VERDICT.format(""), "", id="a value of JSON"),
        pytest.param(VERDICTS, VERDICT.format("bool"), "wrong.quoted", id="a text taken for true"),
        pytest.param(HAZARDS, KINDS.format("one in output.split()"), "", id="codes as words"),
        pytest.param(HAZARDS, KINDS.format("one in output"), "right.same_form", id="codes inside codes"),
        pytest.param(PURE, TRUSTED.format("[:]"), "", id="arguments of its own"),
        pytest.param(PURE, TRUSTED.format(""), "wrong.clearing", id="arguments that the right program gets then"),
        pytest.param(PROGRAMS, SAME_SPACE, "wrong.other_stubs", id="a space that has the right program"),
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


def test_rows_that_were_lost_say_nothing_of_a_grader() -> None:
    base = Result(id="r", number=1, evaluator="grader", version="1", sandbox="none", outcome="scored", score=1.0)
    error = ResultError(kind="lost", message="the budget is spent")
    lost = base.model_copy(update={"outcome": "lost", "score": None, "error": error})
    rows = [
        *(PlantResult("done", Plant(check, "a", place=place), base) for check, place in RIGHT),
        PlantResult("done", Plant("wrong.empty", ""), base.model_copy(update={"score": 0.0})),
        *(PlantResult(id, Plant(check, "a", place=place), lost) for id in ("b", "c") for check, place in RIGHT),
    ]
    found = {check.id: check.status for check in read_scores(PlantScores(rows, Marks(None), {}))}
    assert {one for one, status in found.items() if status == "found"} == set()
    assert found["right"] == "clear"


def test_labels_that_say_nothing_are_no_verdict(tmp_path: Path) -> None:
    found = grade(tmp_path, PLAIN, "    return reference[0].lower() if output == reference else reference[1]\n")
    assert found.no_verdict is not None
    assert "it gives labels alone" in found.no_verdict


def test_one_label_for_all_is_a_finding(tmp_path: Path) -> None:
    found = grade(tmp_path, PLAIN, "    return 'pass' if output is reference is None else 'fail'\n")
    assert found.no_verdict is None
    assert [one.id for one in found.findings] == ["discrimination"], "what follows from it is not told again"


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
