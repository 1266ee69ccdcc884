"""The PEP 723 header of a script."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import EvaluatorError
from runner.core.types import Categorical, Continuous, Freeform
from runner.inputs.evaluators.header import MAX_HEADER, _blocks, read_header
from tests.inputs.parsing import GOOD, parsed, refusal


def header(text: str) -> str:
    lines = "".join(f"# {line}\n" if line else "#\n" for line in text.split("\n"))
    return f"# /// script\n{lines}# ///\ndef evaluate(output, gold=None): pass\n"


def test_header() -> None:
    evaluator = parsed(
        header(
            'requires-python = ">=3.11"\n'
            'dependencies = ["numpy>=2", "x[a] ; python_version > \'3\'"]\n'
            "\n"
            "[tool.evalcell]\n"
            'output = {kind = "continuous", lower_bound = 0, direction = "minimize", threshold = 1.5}\n'
            'mapping.gold = "metadata.gold"\n'
            "mapping.output = {literal = [1, {a = 2}]}\n"
            "[tool.other]\n"
            "anything = true"
        )
    )
    assert evaluator.requires_python == ">=3.11"
    assert evaluator.packages == ("numpy>=2", 'x[a]; python_version > "3"')
    assert evaluator.outputs == {"": Continuous(lower_bound=0, direction="minimize", threshold=1.5)}
    assert evaluator.mapping.paths == {"gold": "metadata.gold"}
    assert evaluator.mapping.literals == {"output": [1, {"a": 2}]}
    plain = parsed(GOOD)
    assert (plain.outputs, plain.packages, plain.requires_python) == ({}, (), None)


def test_header_with_several_outputs() -> None:
    evaluator = parsed(
        header(
            "[tool.evalcell.outputs.verdict]\n"
            'kind = "categorical"\n'
            "labels = {good = 1, bad = 0}\n"
            "[tool.evalcell.outputs]\n"
            'tone = {kind = "categorical", labels = ["calm", "rude"], direction = "none"}\n'
            'note = {kind = "freeform"}\n'
            "[tool.evalcell.mapping]\n"
            'gold = {path = "reference"}'
        )
    )
    assert evaluator.outputs == {
        "verdict": Categorical(labels={"good": 1.0, "bad": 0.0}),
        "tone": Categorical(labels={"calm": None, "rude": None}, direction="none"),
        "note": Freeform(),
    }
    assert evaluator.mapping.paths == {"gold": "reference"}


OUTPUT = "[tool.evalcell]\noutput = {kind = "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "dependecies = []",
            "x.py:2: the header has the unknown key 'dependecies' (did you mean `dependencies`?)",
        ),
        ("[tool.evalcell]\n\noutptu = 1", "x.py:4: [tool.evalcell] has the unknown key 'outptu'"),
        ("\na = ]", "x.py:3: the header is not TOML: Invalid value"),
        ("a = " + "[" * 9000, "x.py:1: the header is nested too deeply"),
        ("a = 1\n" * (MAX_HEADER // 4), "longer than 16 KB"),
        ('requires-python = "new"', "x.py:2: 'new' is not a version specifier"),
        ("requires-python = 3", "x.py:2: `requires-python` must be text"),
        ('dependencies = "numpy"', "x.py:2: `dependencies` must be a list"),
        ('dependencies = ["a",\n"--index-url=b"]', "'--index-url=b' is not a requirement"),
        ("dependencies = [1]", "`dependencies` must be text"),
        ("tool = 1", "`tool.evalcell` must be a table"),
        ("[tool]\nevalcell = 1", "`tool.evalcell` must be a table"),
        ("[tool.evalcell]\ndescription = 1", "x.py:3: `description` must be text"),
        (OUTPUT + '"score"}', "x.py:3: `output` must be a table with kind ="),
        ("[tool.evalcell]\noutput = 1", "x.py:3: `output` must be a table with kind ="),
        (
            OUTPUT + '"continuous", lower_bound = nan}',
            "x.py:3: `output`: lower_bound: Input should be a finite number",
        ),
        (
            OUTPUT + '"continuous", lower_bound = 1, upper_bound = 0}',
            "`output`: lower_bound 1.0 is not below",
        ),
        (
            OUTPUT + '"continuous", lower_bound = "0"}',
            "`output`: lower_bound: Input should be a valid number",
        ),
        (
            OUTPUT + '"continuous", lower_bound = ' + "9" * 400 + "}",
            "lower_bound: Input should be a valid number",
        ),
        (OUTPUT + '"continuous", bound = 1}', "`output`: bound: an unknown key"),
        (OUTPUT + '"categorical"}', "`output`: labels: missing"),
        (OUTPUT + '"categorical", labels = {}}', "`output`: labels: "),
        (OUTPUT + '"categorical", labels = {a = true}}', "`output`: labels.a: "),
        (OUTPUT + '"categorical", labels = {a = inf}}', "`output`: labels.a: "),
        (OUTPUT + '"categorical", labels = [1]}', "`output`: labels: "),
        (OUTPUT + '"freeform"}\noutputs.a = {kind = "freeform"}', "x.py:4: give `output` for one output or"),
        ('[tool.evalcell]\noutputs." " = {kind = "freeform"}', "must have a name of 1 to 100 characters"),
        ("[tool.evalcell]\noutputs = 1", "`outputs` must be a table"),
        ("[tool.evalcell]\nmapping = 1", "`mapping` must be a table"),
        ("[tool.evalcell]\nmapping.gold = 1", 'x.py:3: `mapping.gold` must be "PATH", {path = "PATH"} or'),
        ('[tool.evalcell]\nmapping.gold = {path = "a", literal = 1}', "`mapping.gold` must be"),
        ('[tool.evalcell]\nmapping.gold = "a["', "x.py:3: `mapping.gold`: $.a[ is not an RFC 9535 path"),
        (
            "[tool.evalcell]\nmapping.gold = {literal = 2024-01-01}",
            "`mapping.gold`: datetime.date(2024, 1, 1) is not",
        ),
        ("[tool.evalcell]\nmapping.gold = {literal = nan}", "`mapping.gold`: nan is not a JSON value"),
        (
            '[tool.evalcell]\nmapping.gol = "input"',
            "the header maps `gol`, which is not a parameter of evaluate(output, gold)",
        ),
        (
            "[tool.evalcell.mapping]\n" + "\n".join(f'a{n} = "input"' for n in range(65)),
            "`mapping` must be a table of at most 64",
        ),
        (
            "[tool.evalcell.outputs]\n" + "\n".join(f'a{n} = {{kind = "freeform"}}' for n in range(65)),
            "`outputs` must be a table of at most 64",
        ),
    ],
)
def test_header_refused(text: str, message: str) -> None:
    said = refusal(header(text))
    assert message in said
    assert "\n" not in said


def test_two_headers_are_refused() -> None:
    block = '# /// script\n# requires-python = ">=3.11"\n# ///\n'
    assert refusal(block + "\n" + block + GOOD).startswith("x.py:5: a second `# /// script` block; keep that of line 1")
    other = block.replace("script", "other")
    assert parsed(block + "\n" + other + other + GOOD).requires_python == ">=3.11"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("# /// script \n# dependencies = ['a']\n# ///\n", "x.py:1:", "nothing else; this is '# /// script '"),
        ("#\n# /// script\t\n# [tool.evalcell]\n# ///\n", "x.py:2:", "'# /// script\\t'"),
        ("# /// script\n# dependencies = ['a']\n# /// \n", "x.py:3:", "ends with `# ///` and nothing else"),
        ("# /// script\n# dependencies = ['a']\n\n# ///\n", "x.py:1:", "has no end"),
        ("# /// script\n#dependencies = ['a']\n# ///\n", "x.py:2:", "begin with `# `"),
        ("#/// script\n# dependencies = ['a']\n# ///\n", "x.py:1:", "begins with `# /// script`"),
        ("# ///\u00a0script\n# dependencies = ['a']\n# ///\n", "x.py:1:", "'# ///\\xa0script'"),
        ("# /// Script\n# dependencies = ['a']\n# ///\n", "x.py:1:", "'# /// Script'"),
        ("// /// script\n// dependencies = ['a']\n// ///\n", "x.py:1:", "begins with `# /// script`"),
    ],
)
def test_what_was_meant_as_a_header_is_not_ignored(text: str, place: str, words: str) -> None:
    said = refusal(text + GOOD)
    assert said.startswith(place)
    assert words in said
    assert "\n" not in said


def test_a_header_of_typescript_that_is_almost_one_is_not_ignored() -> None:
    with pytest.raises(EvaluatorError, match=r"^x.ts:1: a header begins with `// /// script`"):
        read_header("// /// script \n// [tool.evalcell]\n// ///\n", "x.ts", "typescript")


def test_a_comment_that_only_speaks_of_headers_is_no_header() -> None:
    assert parsed("# // script\n# This is the script of the day.\n" + GOOD).packages == ()


LINES = st.sampled_from(["# /// script", "# /// x", "# ///", "#", "# a = 1", "#b", "", "def f(): 0", "# /// "])


@given(st.lists(LINES, max_size=12))
def test_blocks_are_those_of_the_standard(lines: list[str]) -> None:
    source = "\n".join(lines)
    reference = r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$"
    expected = [
        (
            match["type"],
            source[: match.start()].count("\n") + 1,
            "".join(
                line[2:] if line.startswith("# ") else line[1:] for line in match["content"].splitlines(keepends=True)
            ).removesuffix("\n"),
        )
        for match in re.finditer(reference, source)
    ]
    assert list(_blocks(lines)) == expected


@pytest.mark.rotating("long tests", "scripts")
def test_hostile_headers_are_quick() -> None:
    for text in ("# /// script\n" * 20_000, "# /// script\n# " + "a." * 8000 + "a = 1\n# ///\n"):
        assert refusal(text)
