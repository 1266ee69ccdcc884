"""Scripts that ask judges: whether one does, and the program by which it can."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping

from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import CODE
from sandboxes.base import Script
from sandboxes.judges.grant import PORT, Judges

MODULE = "evalcell_judge"
"""What a script imports to ask."""
ASKING = {"python": f"`from {MODULE} import ask`", "typescript": f'`import {{ ask }} from "{MODULE}"`'}
"""How a script begins to ask, by its language."""
PLAIN = "replies"
"""The parameter of a function that returns its asks itself, and is given what came of them."""
REPLIES = "evalcell_replies"
"""The argument of a program that asks by the module, as `sandboxes.guest.judges.judge` has it."""
_JUDGED = re.compile(r'^\s*\{(?s:.*)"type"\s*:\s*"(?:score|label)_model"')
_FILE = f"{MODULE}.js"
_ENTRY = "evalcellAsking"
_BROUGHT = re.compile(rf"""(\b(?:from|import)\s*\(?\s*["']){MODULE}(["'])""")


def replies_name(evaluator: Evaluator) -> str | None:
    """Return the argument by which the evaluator is given replies; None if it asks no judge."""
    told = "ask" in evaluator.source or evaluator.files or _is_judged_grader(evaluator)
    if not evaluator.evaluates or not told:
        return None  # as of most
    if imports_judge(evaluator):
        return REPLIES
    plain = next((one for one in evaluator.parameters if one.name == PLAIN), None)
    mapped = {*evaluator.mapping.paths, *evaluator.mapping.literals}
    if plain is None or plain.required or plain.positional_only or PLAIN in mapped or '"ask"' not in _quoted(evaluator):
        return None
    return PLAIN


def _quoted(evaluator: Evaluator) -> str:
    return re.sub(r"\bask\s*:", '"ask":', evaluator.source.replace("'ask'", '"ask"'))


def imports_judge(evaluator: Evaluator) -> bool:
    """Say whether the script, or a file of it, imports the module by which it asks, or is a grader that does."""
    if _is_judged_grader(evaluator):
        return True
    if evaluator.language == "python":
        files = [text for name, text in evaluator.files.items() if name.endswith(".py")]
        return any(_imports(text) for text in (evaluator.source, *files))
    files = [text for name, text in evaluator.files.items() if name.endswith(CODE)]
    return any(_BROUGHT.search(text) for text in (evaluator.source, *files))


def _is_judged_grader(evaluator: Evaluator) -> bool:
    """Whether it is a JSON grader of OpenAI's, and it or a part of it asks a model."""
    return evaluator.dialect == "openai" and evaluator.language == "python" and bool(_JUDGED.search(evaluator.source))


def _imports(source: str) -> bool:
    if MODULE not in source:  # as of most
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(one.name == MODULE for one in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == MODULE and not node.level:
            return True
    return False


def with_asks(script: Script, evaluator: Evaluator, asks: bool) -> Script:
    """
    Return what is loaded of an evaluator that imports the module; `asks` is False where nobody answers.

    Args:
        script: Its program as it is without.
        evaluator: As above.
        asks: As above.
    """
    from runner.inputs.evaluators.foreign.guest import python_program  # here: few scripts ask

    author = evaluator.source if script.author is None else script.author
    if script.language == "python":
        return script._replace(
            source=python_program("judges/judge", script.entrypoint, script.source, asks=asks), author=author
        )
    name, known = json.dumps(script.entrypoint), json.dumps(asks)
    start = f"import {{ asking as evalcell$asking }} from {json.dumps(MODULE)};"
    end = f"export const {_ENTRY} = evalcell$asking(() => import(import.meta.url), {name}, {known});"
    return Script(f"{script.source}\n;{start}{end}\n", "typescript", _ENTRY, author)


def with_clients(script: Script, judges: Judges | None, asks: bool = True) -> Script:
    """
    Return what is loaded of a program whose own clients ask in `rounds`; any other is as it was.

    Args:
        script: The program.
        judges: What is granted.
        asks: Whether anybody answers.
    """
    if judges is None or not judges.rounds:
        return script
    from runner.inputs.evaluators.foreign.guest import python_program  # here: few scripts ask
    from sandboxes.judges.door import WARM, response

    ports = [PORT + at for at in range(len(judges.hosts))]
    given = {"variables": judges.box_variables(), "ports": ports, "answer": response(WARM).decode(), "asks": asks}
    parts = ("python/warm_clients", "judges/judge")
    source = python_program("judges/clients", script.entrypoint, script.source, *parts, **given)
    return script._replace(source=source, author=script.source if script.author is None else script.author)


def with_module(source: str, files: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a TypeScript program and its files, with the module as one of these."""
    from runner.inputs.evaluators.foreign.guest import guest_text

    def local(text: str, name: str) -> str:
        return _BROUGHT.sub(lambda found: f"{found[1]}{'../' * name.count('/') or './'}{_FILE}{found[2]}", text)

    made = {name: local(text, name) if name.endswith(CODE) else text for name, text in files.items()}
    return local(source, ""), {**made, _FILE: guest_text("judges/judge.js")}
