"""Run unit tests against stand-ins of a program, statement by statement, and count what holds."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType, ModuleType
from typing import Any

from templates.parts.pytest_part import SkippedError, found_tests, pytest_part
from templates.parts.stand_ins import ProgramName, Questions, Stop

FILE = "tests.py"
_TESTS = ("def test", "class Test", "async def test")
FAILURE = 600
"""Characters of how a test failed."""


class Verdict:
    """How many cases held and failed, and how the first one failed."""

    def __init__(self, questions: Questions, every: bool) -> None:
        self._questions = questions
        self._every = every
        self.held = self.failed = 0
        self.first = ""

    def hold(self) -> None:
        """Count a case, if what it saw was so."""
        self.held += not self._questions.missing

    def fail(self, what: str, error: BaseException) -> None:
        """Count a case that failed. Raises Stop if no other one counts any more."""
        if isinstance(error, Stop):
            raise error
        if self._questions.missing:
            return
        self.failed += 1
        if self.failed == 1:
            notes = "".join(getattr(error, "__notes__", ()))
            said = f"{type(error).__name__}: {error}{notes}" if str(error) else type(error).__name__
            why = "" if type(error) is AssertionError and not str(error) else said
            self.first = "; ".join(part for part in (what, self._questions.last, why) if part)[:FAILURE]
        if self.over:
            raise Stop

    @property
    def over(self) -> bool:
        """Whether no other case counts any more."""
        return self.failed > 0 and not self._every


class UnitTests:
    """
    Tests as a text: asserts, a function `check` as in HumanEval, or test functions and classes as pytest finds them.

    Raises ValueError for a text that is no Python.
    """

    def __init__(self, text: str, module: str, entry_point: str, prompt: str) -> None:
        self._module = module
        self._entry = entry_point
        self._prompt = prompt
        self.text = text
        self._code = self._compiled(text)
        self.stopped = False
        """Whether a made-up answer may be why something was raised, so that less was asked than can be."""

    def _compiled(self, source: Any) -> CodeType:
        try:
            return compile(source, FILE, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
            raise ValueError(f"the tests are no Python: {getattr(error, 'msg', error)}{line}") from None

    def run(self, questions: Questions, verdict: Verdict, stepwise: bool) -> None:
        """
        Run them as far as the answers are known, and further with made-up ones. Raises nothing of the tests'.

        `stepwise`: what one statement raises does not keep those after it from running, and each assert is a case.
        """
        questions.names = self._used
        # What ends a thread is seen by nobody else.
        threading.excepthook = lambda end: self._failed("a thread", end.exc_value or end.exc_type(), questions, verdict)
        names = self._names(questions)
        finds = self.text.startswith(_TESTS) or any(f"\n{start}" in self.text for start in _TESTS)
        try:
            if stepwise:
                names.update(_evalcell_stepped=self._stepped(questions, verdict), _evalcell_held=verdict.hold)
                tree = ast.parse(self.text)
                tree.body = _block(tree.body, counted=not finds)
                exec(self._compiled(ast.fix_missing_locations(tree)), names)
            else:
                exec(self._code, names)
            if self._entry and "check" in names:
                names["check"](ProgramName(questions, self._entry))
            elif finds:
                self._each(names, questions, verdict)
        except Stop:
            pass
        except BaseException as error:
            self._failed(self._place(error), error, questions, verdict)
        finally:
            threading.excepthook = threading.__excepthook__

    def _used(self) -> set[str]:
        """The names in the tests, and those that a prompt catches, whose functions tests may call."""
        caught = re.findall(r"^\s*except\b.*", self._prompt, re.MULTILINE)
        used = [getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(ast.parse(self.text))]
        return {*used, *re.findall(r"\w+", " ".join(caught))}

    def _failed(self, what: str, error: BaseException, questions: Questions, verdict: Verdict) -> None:
        self.stopped |= questions.missing
        with suppress(Stop):
            verdict.fail(what, error)

    def _place(self, error: BaseException) -> str:
        """The line of the tests where it was raised."""
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
        return self._shown(line) if line else "the tests raised"

    def _shown(self, line: int) -> str:
        return f"line {line}: {self.text.split(chr(10))[line - 1].strip()[:200]}"

    def _each(self, names: dict[str, Any], questions: Questions, verdict: Verdict) -> None:
        for name, test in found_tests(names):
            try:
                test()
            except SkippedError:
                continue
            except Stop:
                return
            except BaseException as error:
                self._failed(f"{name}, {self._place(error)}", error, questions, verdict)
                if verdict.over:
                    return
            else:
                verdict.hold()

    def _stepped(self, questions: Questions, verdict: Verdict) -> Callable[[int, bool], None]:
        calls = {}  # by line: the functions whose value is not used there
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                name = getattr(node.value.func, "id", getattr(node.value.func, "attr", ""))
                calls.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name))

        def stepped(line: int, raises: bool) -> None:
            error = sys.exception()
            assert error is not None
            if isinstance(error, Stop) or ((raises or _is_used(calls, sys._getframe(1))) and not questions.missing):
                raise error
            if not questions.missing:
                verdict.fail(self._shown(line), error)

        return stepped

    def _names(self, questions: Questions) -> dict[str, Any]:
        if "except" in self.text or "aises" in self.text:
            for name in _caught(ast.parse(self.text)):
                if not hasattr(builtins, name):
                    questions.errors[name] = type(name, (Exception,), {})
        names = _Names(questions, self._prompt, self._entry)
        for name in [name for name, found in sys.modules.items() if type(found) is _Whole]:  # an earlier row's program
            del sys.modules[name]
        sys.modules["pytest"] = pytest_part()
        sys.modules[self._module] = _Whole(self._module, names)
        return {"__name__": "tests", "__builtins__": names}


def _is_used(calls: dict[int, str], function: FrameType) -> bool:
    """Whether tests use what this function returns, such as a helper in an assert: it must not seem to return None."""
    frame = function.f_back
    while frame is not None and frame.f_code.co_filename != FILE:
        frame = frame.f_back
    return frame is not None and calls.get(frame.f_lineno) not in (function.f_code.co_name, "run")


class _Names(dict[str, Any]):
    """The built-in names; any other that tests use and do not define is the prompt's, a module's, or the program's."""

    def __init__(self, questions: Questions, prompt: str, entry_point: str) -> None:
        super().__init__(vars(builtins))
        self._questions = questions
        self._text = prompt
        self._prompt: dict[str, Any] | None = None if prompt else {}
        self._entry = entry_point

    def of_program(self, name: str) -> Any:
        """What stands for a name of the program."""
        return self._questions.errors.get(name) or ProgramName(self._questions, name)

    def __missing__(self, name: str) -> Any:
        if name != self._entry:
            if self._prompt is None:
                self._prompt = {"__name__": "prompt"}
                # It is the beginning of a program, which need not stand alone.
                with suppress(Exception):
                    exec(compile(self._text, "prompt.py", "exec", dont_inherit=True), self._prompt)
            if name in self._prompt:
                return self._prompt[name]
            if name in sys.stdlib_module_names:
                return importlib.import_module(name)
        return self.of_program(name)


class _Whole(ModuleType):
    """The program as a module."""

    __all__: tuple[str, ...] = ()

    def __init__(self, name: str, names: _Names) -> None:
        super().__init__(name)
        self._evalcell_names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._evalcell_names.of_program(name)


def _caught(tree: ast.Module) -> set[str]:
    """The names of classes that the tests catch, or expect with `raises`."""
    found: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            found.append(node.type)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "aises" in node.func.attr:
            found += node.args[:1]
    inner = [one for each in found for one in (each.elts if isinstance(each, ast.Tuple) else [each])]
    names = {
        one.id if isinstance(one, ast.Name) else one.attr for one in inner if isinstance(one, ast.Name | ast.Attribute)
    }
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return names - defined


_WHOLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


def _block(body: list[ast.stmt], counted: bool, raises: bool = False) -> list[ast.stmt]:
    """
    The statements, each of which goes on to the next one where an answer is not known yet.

    `counted`: each assert is a case. `raises`: what fails is raised, for the statements around may catch it.
    """
    return [_step(node, counted, raises) for node in body]


def _step(node: ast.stmt, counted: bool, raises: bool) -> ast.stmt:
    caught = isinstance(node, ast.Try | ast.With)
    deeper = (raises or caught) and not isinstance(node, ast.FunctionDef)
    for inner in [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
        for field in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(inner, field, None), list):
                setattr(inner, field, _block(block, counted, deeper))
    if isinstance(node, _WHOLE):
        return node
    # Where each test is a case, what fails ends it.
    stepped = _call("_evalcell_stepped", node.lineno, raises or not counted)
    handler = ast.ExceptHandler(type=None, name=None, body=[stepped])
    held = [_call("_evalcell_held")] if counted and not raises and isinstance(node, ast.Assert) else []
    return ast.copy_location(ast.Try(body=[node], handlers=[handler], orelse=held, finalbody=[]), node)


def _call(name: str, *values: int) -> ast.stmt:
    arguments: list[ast.expr] = [ast.Constant(value) for value in values]
    return ast.Expr(ast.Call(func=ast.Name(name, ast.Load()), args=arguments, keywords=[]))
