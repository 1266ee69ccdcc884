"""The header of a script as a form, and back."""

from __future__ import annotations

import pytest

import templates
from runner.core.errors import InputError
from runner.core.types import Categorical
from runner.inputs.evaluators.header import read_header
from runner.server.http.web import forms, header_form
from sandboxes.base import Language

BODY = "def evaluate(output):\n    return 1\n"
FULL = {
    "h_description": 'Says "how much"',
    "h_packages": "numpy>=2\nrapidfuzz",
    "h_kind": "continuous",
    "h_lower": "0",
    "h_upper": "1.5",
    "h_direction": "minimize",
    "h_threshold": "0.25",
    "h_mapping": 'output = metadata.answer\nmode := "strict"\nn := 3',
    "h_parameters": 'n = {type = "integer", default = 3, minimum = 0}',
}


def test_a_form_becomes_a_header_and_the_same_form_again() -> None:
    made = header_form.with_fields(BODY, "python", FULL)
    assert made.endswith(BODY)
    header = read_header(made, "x")
    assert (header.packages, header.description) == (("numpy>=2", "rapidfuzz"), 'Says "how much"')
    assert header.mapping.literals == {"mode": "strict", "n": 3}
    fields = header_form.as_fields(made, "python")
    assert {name: fields[name] for name in FULL if name != "h_parameters"} == {
        name: value for name, value in FULL.items() if name != "h_parameters"
    }
    assert header_form.with_fields(made, "python", fields) == made


@pytest.mark.parametrize("name", templates.names())
def test_a_template_keeps_what_its_header_says(name: str) -> None:
    for language in templates.languages(name):
        source = templates.source(name, language)
        made = header_form.with_fields(source, language, header_form.as_fields(source, language))
        assert read_header(made, "x", language) == read_header(source, "x", language)


def test_an_empty_form_takes_the_header_out() -> None:
    assert header_form.with_fields(header_form.with_fields(BODY, "python", FULL), "python", {}) == BODY


def test_what_the_form_does_not_have_stays() -> None:
    source = (
        '# /// script\n# requires-python = ">=3.11"\n# [tool.evalcell.outputs.a]\n# kind = "freeform"\n'
        f'# [tool.evalcell.outputs."b c"]\n# kind = "categorical"\n# labels = ["x", "y"]\n# ///\n{BODY}'
    )
    made = header_form.with_fields(source, "python", {"h_kind": "continuous", "h_description": "new"})
    header = read_header(made, "x")
    assert (header.requires_python, set(header.outputs), header.description) == (">=3.11", {"a", "b c"}, "new")


def test_a_script_of_typescript_has_its_comments() -> None:
    language: Language = "typescript"
    made = header_form.with_fields("export {};\n", language, {"h_description": "x"})
    assert made.startswith("// /// script\n// [tool.evalcell]\n")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("h_lower", "much", "must be a number"),
        ("h_packages", "not a package!", "requirement"),
        ("h_mapping", "output", "parameter = column"),
        ("h_parameters", "n = ", "not TOML"),
        ("h_labels", "good = 1\npoor", "each label a score"),
    ],
)
def test_what_is_wrong_is_named(field: str, value: str, said: str) -> None:
    kind = "categorical" if field == "h_labels" else "continuous"
    with pytest.raises(InputError, match=said):
        header_form.with_fields(BODY, "python", {"h_kind": kind, field: value})


def test_labels_are_read_with_scores_or_without() -> None:
    for text, labels in (("good = 1\npoor = 0.5", {"good": 1.0, "poor": 0.5}), ("a\nb", {"a": None, "b": None})):
        made = header_form.with_fields(BODY, "python", {"h_kind": "categorical", "h_labels": text})
        output = read_header(made, "x").outputs[""]
        assert isinstance(output, Categorical)
        assert output.labels == labels
        assert header_form.as_fields(made, "python")["h_labels"] == text


def test_rows_are_objects_one_a_line() -> None:
    assert forms.rows('{"a": 1}\n\n{"a": 2}\n{"a": 3}', 2) == [{"a": 1}, {"a": 2}]
    for text, said in (("[1]", "row 1 must be a JSON object"), ('{"a": 1}\n{', "row 2 is not JSON")):
        with pytest.raises(InputError, match=said):
            forms.rows(text, 5)
