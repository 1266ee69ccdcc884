# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell]
# apart = true
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters]
# entry_point = {type = "string", default = "", description = "The function that `check`, or a pair's input, is for."}
# prompt = {type = "string", default = "", description = "What is before an output that is only the rest of a program."}
# module = {type = "string", default = "solution", description = "The name by which the tests import the program."}
#
# [tool.evalcell.parameters.score]
# type = "string"
# choices = ["all", "share"]
# default = "all"
# description = "`all`: 1 if every case passed, else 0. `share`: the share of the cases that passed."
# ///
"""
Whether a program passes its unit tests.

Programs and tests are in Python, or with `--lang ts` in TypeScript or JavaScript, with tests as Node, Deno, Jest and
Vitest have them.

The output is a program, or a text with one in a Markdown fence, of which the first one counts. The reference is its
tests: asserts, a function `check(candidate)` as in HumanEval, a file as pytest or unittest takes it, a list of asserts
as in MBPP, or pairs of input and output. A pair's input is what the program reads, and its output what it prints; with
an `entry_point` they are its arguments, as a list, and what it returns. An object as reference may hold `test`,
`entry_point` and `prompt`.

The label is `passed` or `failed`; or how the program ended before it could be judged: `unloaded`, `timeout`, `memory`,
`output`, `crash`, also for an exit, or `spoilt`, where what it answered is no value. All of these score 0: what a
program does is what is judged. The explanation names the first case that failed. Tests that cannot be run fail the row.

Values are compared as data, which no program can forge. An object of a program's own class answers for itself, so a
test such as `assert f(1).startswith("x")` believes it; one that compares with `==` does not.

The program runs in a call of its own and never sees the tests, but all the arguments that they give it. They get plain
values back, which are compared as Python's own. Objects of the program's classes stay with it: it answers for their
attributes, and for `==` between two of them; they equal nothing else. One that it returned is `spoilt`, too, where
tests give it a function or a slice, or would ask it without end.

Where Python itself goes on after an exception (the end of a loop after StopIteration or IndexError, a default after
AttributeError, KeyError or TypeError), one of the program's does not count as such: it reaches the tests as another of
the same name, unless they use this name.

With isolation `batch`, tests that may leave something behind, such as a patched module, are followed by rows that are
each judged in a state of their own, which takes longer.

Source: the unit tests of HumanEval (Chen et al. 2021) and MBPP (Austin et al. 2021), pass@1.
"""

import json
import re
from contextlib import suppress

from templates.parts.program import Program
from templates.parts.quiet import leaves_nothing
from templates.parts.stand_ins import ProgramName, Questions, Stop
from templates.parts.unit_tests import UnitTests, Verdict

ENDS = {
    "timeout": "The program did not end in its time.",
    "memory": "The program needed more memory than it may have.",
    "output": "The program returned or printed too much.",
    "crash": "The program ended its process.",
}
ROUNDS = 64  # calls apart that a row may have
SPOILT = "The program spoilt its answers: "
RAN: list[tuple[str, str, str]] = []  # this state's tests, modules and prompts, until they are known to leave nothing
FENCE = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)


def evaluate(
    output: object,
    reference: object,
    entry_point: str = "",
    prompt: str = "",
    module: str = "solution",
    score: str = "all",
    asked: list[dict[str, object]] | None = None,
    reply: dict[str, object] | None = None,
) -> dict[str, object]:
    if asked is not None:
        return Program(str(output), module).answers(asked)
    if is_left():
        return {"afresh": True}
    if not isinstance(output, str):
        return {"label": "unloaded", "score": 0.0, "explanation": "The output is no text."}
    return Judge(reference, entry_point, prompt, module, score).judged(output, reply)


def is_left() -> bool:
    """Whether an earlier row's tests may have left something. Asked only where another row comes in this state."""
    while RAN:
        if not leaves_nothing(*RAN[-1]):
            return True
        RAN.pop()
    return False


class Judge:
    """Tests, and what came of the program."""

    def __init__(self, reference: object, entry_point: str, prompt: str, module: str, score: str) -> None:
        if isinstance(reference, str) and reference.lstrip().startswith(("{", "[")):
            with suppress(ValueError):
                reference = json.loads(reference)
        if isinstance(reference, dict) and ("test" in reference or "tests" in reference):
            entry_point = entry_point or str(reference.get("entry_point") or "")
            prompt = prompt or str(reference.get("prompt") or "")
            reference = reference.get("test") or reference.get("tests")
        self.pairs = pairs(reference)
        if isinstance(reference, list) and all(isinstance(one, str) for one in reference):
            reference = "\n".join(map(str, reference))
        if self.pairs is None and not isinstance(reference, str):
            raise ValueError("the reference must be tests as text, a list of asserts, or pairs of `input` and `output`")
        self.tests = None if self.pairs is not None else UnitTests(str(reference), module, entry_point, prompt)
        self.entry_point, self.prompt, self.module, self.score = entry_point, prompt, module, score

    def judged(self, output: str, reply: dict[str, object] | None) -> dict[str, object]:
        """The result, or what must be asked of the program first."""
        if reply is not None and reply["status"] != "ok":
            status = str(reply["status"])
            label = status if status in ENDS else "spoilt"
            words = ENDS.get(status) or f"{SPOILT}{str(reply['message'])[:500]}"
            return {"label": label, "score": 0.0, "explanation": words}
        asked = reply["asked"] if reply is not None else {}
        value = reply["value"] if reply is not None else {}
        if isinstance(value, dict) and "unloaded" in value:
            return {"label": "unloaded", "score": 0.0, "explanation": load_failure(value["unloaded"])}
        known = asked["asked"] if isinstance(asked, dict) and asked else []
        rounds = int(str(asked["reference"])) + 1 if isinstance(asked, dict) and asked else 0
        if self.tests is not None:
            RAN.append((self.tests.text, self.module, self.prompt))
        for stepwise in (False, True) if self.score == "all" else (True,):
            questions = Questions(known, value)
            verdict = Verdict(questions, self.score == "share")
            if self.tests is not None:
                self.tests.run(questions, verdict, stepwise)
            elif self.pairs is not None:
                run_pairs(self.pairs, self.entry_point, questions, verdict)
            if self.tests is None or not self.tests.stopped:
                break
        if questions.refused:
            raise ValueError(questions.refused)
        if rounds == ROUNDS and questions.missing and questions.waits_for_chosen:
            questions.spoilt = "an object of its own that it returned was asked in more rounds than a row may have"
        if questions.spoilt:
            return {"label": "spoilt", "score": 0.0, "explanation": f"{SPOILT}{questions.spoilt}."}
        if questions.missing and (self.score == "share" or not verdict.failed):
            text = whole(program(output), self.prompt, self.entry_point)
            # The program needs no reference, which counts the rounds instead.
            apart = {"output": text, "reference": rounds, "module": self.module, "asked": questions.asked}
            return {"apart": apart}
        if not questions.asked:
            raise ValueError("the reference tests nothing: it asks nothing of the program")
        return self.result(verdict)

    def result(self, verdict: Verdict) -> dict[str, object]:
        """What the row comes to."""
        cases = verdict.held + verdict.failed
        if not verdict.failed:
            return {"label": "passed", "score": 1.0, "explanation": "All cases passed."}
        if self.score == "all":
            return {"label": "failed", "score": 0.0, "explanation": f"The first case that failed: {verdict.first}"}
        share = f"{verdict.held} of {cases} cases passed; the first that failed: {verdict.first}"
        return {"label": "failed", "score": verdict.held / cases, "explanation": share}


def pairs(reference: object) -> list[tuple[object, object]] | None:
    """The pairs of a list of objects, or of an object with `inputs` and `outputs`; None if it has none."""
    if isinstance(reference, dict) and isinstance(reference.get("inputs"), list):
        outputs = reference.get("outputs")
        if not isinstance(outputs, list) or len(outputs) != len(reference["inputs"]):
            raise ValueError("the reference has not as many `outputs` as `inputs`")
        return list(zip(reference["inputs"], outputs, strict=True))
    if isinstance(reference, list) and reference and all(isinstance(one, dict) and "input" in one for one in reference):
        return [(one["input"], one["output"] if "output" in one else one.get("expected")) for one in reference]
    return None


def run_pairs(found: list[tuple[object, object]], entry_point: str, questions: Questions, verdict: Verdict) -> None:
    """Each pair is a case."""
    for number, (given, expected) in enumerate(found, 1):
        try:
            if entry_point:
                value = ProgramName(questions, entry_point)(*(given if isinstance(given, list) else [given]))
            else:
                value = print_output(questions, str(given))
                expected = lines(str(expected))
            if not questions.missing and as_json(value) != expected:
                raise AssertionError(f"expected {str(expected)[:200]!r}, not {str(value)[:200]!r}")
            verdict.hold()
        except Stop:
            return
        except BaseException as error:
            with suppress(Stop):
                verdict.fail(f"pair {number}", error)
                continue
            return


def print_output(questions: Questions, text: str) -> object:
    """What the program prints when it reads the text, by lines without the spaces at their ends."""
    before = len(questions.printed)
    questions.ask({"run": text, "name": "the program"})
    return lines("".join(questions.printed[before:]))


def lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def as_json(value: object) -> object:
    """A tuple is a list, since JSON has no other."""
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    return value


def program(output: str) -> str:
    """The first fenced block, or all of a text without one."""
    fence = FENCE.search(output)
    return fence[2] if fence else output


def whole(text: str, prompt: str, entry_point: str) -> str:
    """The program with the prompt before it, unless it defines the function itself."""
    defines = (
        re.search(rf"^(async )?(def|class) {re.escape(entry_point)}\b", text, re.MULTILINE) if entry_point else None
    )
    return text if defines or not prompt else prompt + text


def load_failure(failure: object) -> str:
    raised = failure.get("raised") if isinstance(failure, dict) else None
    raised = raised if isinstance(raised, dict) else {}
    names, line = raised.get("classes"), raised.get("line")
    name = names[0] if isinstance(names, list) and names else "Error"
    place = f" (line {line})" if isinstance(line, int) else ""
    return f"The program does not load: {str(name)[:100]}: {str(raised.get('text'))[:400]}{place}"
