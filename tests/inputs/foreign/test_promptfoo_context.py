"""What promptfoo's context has, and which columns give it."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.core.types import InputMapping
from runner.inputs.evaluators.inline import read_inline
from runner.inputs.evaluators.load import parse_evaluator

CONTEXT = {
    "python": "def get_assert(output, context):\n    seen = {PATH}\n"
    "    return {'pass': True, 'score': 1, 'reason': str(seen)}\n",
    "typescript": "module.exports = (output, context) => ({ pass: true, score: 1, reason: String({PATH}) });\n",
}
ROUNDS = {"rounds": 3}


@pytest.mark.parametrize("language", CONTEXT)
@pytest.mark.parametrize(
    ("python", "javascript", "row", "seen"),
    [
        (
            "(context.get('metadata') or {}).get('rounds', 0)",
            "context.metadata?.rounds ?? 0",
            {"providerResponse": {"metadata": ROUNDS}},
            "3",
        ),
        ("context['metadata']['rounds']", "context.metadata.rounds", {"metadata": ROUNDS}, "3"),
        ("context['metadata']['rounds']", "context.metadata.rounds", ROUNDS, "3"),
        ("context['metadata']['rounds']", "context.metadata.rounds", {"provider_response": {"metadata": ROUNDS}}, "3"),
        (
            "context['providerResponse']['metadata']['rounds']",
            "context.providerResponse.metadata.rounds",
            {"providerResponse": '{"metadata": {"rounds": 3}}'},
            "3",
        ),
        ("context['logProbs'][0]", "context.logProbs[0]", {"logProbs": [3]}, "3"),
        ("context['trace']['spans'][0]", "context.trace.spans[0]", {"trace": {"spans": [3]}}, "3"),
        ("context['vars']['a']", "context.vars.a", {"vars": {"a": 3}}, "3"),
        ("context['vars']['a']", "context.vars.a", {"test": {"vars": {"a": 3}}}, "3"),
        ("context['test']['vars']['a']", "context.test.vars.a", {"vars": {"a": 3}}, "3"),
        ("context['test']['threshold']", "context.test.threshold", {"test": {"threshold": 3}}, "3"),
        ("context['config']['a']", "context.config.a", {"config": {"a": 3}}, "3"),
        ("context['prompt']", "context.prompt", {"prompt": {"raw": "ask", "label": "x"}}, "ask"),
        ("context['prompt']", "context.prompt", {"prompt": [{"role": "é"}]}, '[{"role":"é"}]'),
    ],
)
def test_a_field_of_the_context_is_the_column_of_its_name(
    language: Any, python: str, javascript: str, row: dict[str, Any], seen: str
) -> None:
    source = CONTEXT[language].replace("{PATH}", python if language == "python" else javascript)
    evaluator = parse_evaluator(source, "script", language=language)
    (result,) = runner.evaluate(evaluator, [{"output": "a"} | row]).results
    assert (result.outcome, result.explanation) == ("scored", seen)


READ = {
    "python": [
        "context.get('logProbs')",
        "(context.get('metadata') or {}).get('rounds')",
        "(context or {})['trace']",
        "context.get('providerResponse', {}).get('cost')",
    ],
    "typescript": [
        "context.logProbs?.[0]",
        "context?.metadata?.rounds",
        "(context as any).trace?.spans",
        "(({ metadata: m = {} }) => 0)(context) || context['metadata']?.['rounds']",
        "context.providerResponse?.cost",
    ],
}


@pytest.mark.parametrize(("language", "read"), [(language, read) for language in READ for read in READ[language]])
@pytest.mark.parametrize("inline", [False, True])
def test_a_field_of_the_context_that_no_column_gives_is_asked_for(language: Any, read: str, inline: bool) -> None:
    source = CONTEXT[language].replace("{PATH}", read)
    evaluator = (
        read_inline(f"({read}) == null" if language == "typescript" else f"({read}) is None", language=language)
        if inline
        else parse_evaluator(source, "script.ts", language=language)
    )
    with pytest.raises(ColumnsError, match="no column for") as caught:
        runner.evaluate(evaluator, [{"output": "a", "other": 1}])
    (name,) = caught.value.paths
    fails = "trace']" in read or (inline and " as " in read)  # an index of nothing; code of a config is JavaScript
    report = runner.evaluate(
        evaluator, [{"output": "a", "other": 1}], mapping=InputMapping(literals={name.partition(".")[0]: None})
    )
    assert [one.outcome for one in report.results] == ["failed" if fails else "scored"]


@pytest.mark.parametrize(
    "body",
    [
        "const { metadata } = context; const calls = metadata?.rounds ?? 0; return calls;",
        "const meta = context.metadata ?? {}; return meta.rounds;",
        "const meta: any = (context as any).metadata;\n  const { rounds = 0 } = meta;\n  return rounds;",
    ],
)
def test_keys_of_the_metadata_are_seen_behind_names(body: str) -> None:
    source = f"export default function judge(output: string, context: any) {{ {body} }}\n"
    evaluator = parse_evaluator(source, "script", language="typescript")
    with pytest.raises(ColumnsError, match="no column for"):
        runner.evaluate(evaluator, [{"output": "a"}])
    rows: list[dict[str, Any]] = [
        {"output": "a", "rounds": 1},
        {"output": "a", "providerResponse": {"metadata": {"rounds": 3}}},
    ]
    assert [one.score for one in runner.evaluate(evaluator, rows[:1]).results] == [1.0]
    assert [one.score for one in runner.evaluate(evaluator, rows[1:]).results] == [3.0]


@pytest.mark.parametrize("language", CONTEXT)
def test_a_response_that_is_no_object_is_refused(language: Any) -> None:
    path = {"python": "context['providerResponse']['cost']", "typescript": "context.providerResponse.cost"}
    evaluator = parse_evaluator(CONTEXT[language].replace("{PATH}", path[language]), "script", language=language)
    (result,) = runner.evaluate(evaluator, [{"output": "a", "providerResponse": "text"}]).results
    assert result.outcome == "failed"
    assert result.error is not None
    assert "promptfoo's is an object" in result.error.message


def test_what_a_comment_says_of_the_context_is_not_read() -> None:
    source = "// context.trace, as promptfoo has it\nmodule.exports = (output, context) => output === 'a';\n"
    evaluator = parse_evaluator(source, "script", language="typescript")
    assert [one.score for one in runner.evaluate(evaluator, [{"output": "a"}]).results] == [1.0]
