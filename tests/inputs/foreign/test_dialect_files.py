"""Scripts of other tools with files of their own: the results of the script alone."""

from __future__ import annotations

import pytest

from runner.inputs.evaluators.load import parse_evaluator
from tests.inputs.foreign import test_javascript_dialects as javascript
from tests.inputs.foreign import test_python_dialects as python
from tests.inputs.foreign.published import Published, scored, short

OF_PYTHON = "\n\nfrom helper import VALUE\nfrom .lib import OTHER\nassert VALUE == OTHER == 1\n"
OF_JAVASCRIPT = '\nif (require("./helper.js").VALUE !== 1) throw new Error("no");\n'
FILES = {
    "python": {"helper.py": "from lib import OTHER\nVALUE = OTHER\n", "lib.py": "OTHER = 1\n"},
    "typescript": {"helper.js": 'module.exports = { VALUE: require("./v.json") };\n', "v.json": "1"},
}


@pytest.mark.parametrize(
    ("every", "language"),
    [
        *((getattr(python, name), "python") for name in ("PROMPTFOO", "LANGSMITH", "LANGFUSE", "BRAINTRUST", "OPENAI")),
        *((getattr(javascript, name), "typescript") for name in ("PROMPTFOO", "LANGFUSE", "LANGSMITH")),
    ],
)
def test_a_published_script_with_files_gives_what_it_gives_alone(every: list[Published], language: str) -> None:
    scripts = []
    for one in (one._replace(language=language) for one in every):
        alone = parse_evaluator(one.text, "s", language=one.language, dialect=one.dialect, entry=one.entry)
        if alone.is_inline:
            continue
        text = one.text + (OF_PYTHON if language == "python" else OF_JAVASCRIPT)
        found = parse_evaluator(
            text, "s", language=one.language, dialect=one.dialect, entry=one.entry, files=FILES[language]
        )
        assert (found.dialect, found.parameters) == (alone.dialect, alone.parameters)
        scripts.append((found, one))
    assert scripts
    for (_, one), results in zip(scripts, scored(scripts, "wasm" if language == "python" else "deno"), strict=True):
        assert [short(result) for result in results] == one.results, one.source
