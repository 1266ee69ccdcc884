"""The docstrings of the public names: their form, and examples that run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import runner
import sandboxes
from runner.core.settings import SETTINGS, parameter
from tests.server.http.live import live

ROOT = Path(__file__).parents[1]
API = {name: getattr(package, name) for package in (sandboxes, runner) for name in package.__all__}
EXAMPLES = (
    *("evaluate", "stream", "evaluate_all", "compare_runs", "compare_datasets", "write_report", "check_examples"),
    *("parity", "read_evaluator", "reward", "RowScorer", "Sandbox", "Client"),
)
"""What people call first. Each has an example."""
NO_VERB = re.compile(
    r"(A|About|All|An|And|Another|Any|As|At|Both|But|By|Each|Every|For|From|How|If|In|It|Its|No|None|Nothing|Of|On|One|Only|Several|So|Some|Such|That|The|"
    r"Their|These|They|This|Those|To|True|False|Two|What|When|Where|Whether|Which|Who|Whose|Why|With|Without|\W.*)",
)
ENDS_IN_S = frozenset({"Access", "Address", "Compress", "Express", "Guess", "Pass", "Press", "Process", "Suppress"})
SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)


def is_imperative(text: str) -> bool:
    """Say whether a text begins as "Return the rows" does, and not as "Returns the rows" or "The rows"."""
    word = text.split()[0] if text.strip() else ""
    return not NO_VERB.fullmatch(word) and (not word.endswith("s") or word in ENDS_IN_S)


def section(docstring: str, title: str) -> str:
    parts = SECTION.split(docstring)
    return next((text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == title), "")


def names_of(docstring: str) -> list[str]:
    """Return the names that stand in Args, in their order."""
    heads = re.findall(r"^    ([\w*]+(?:, [\w*]+)*): ", section(docstring, "Args"), flags=re.MULTILINE)
    return [name.strip("*") for head in heads for name in head.split(", ")]


def api_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of the API, and the methods that its classes have themselves."""
    for name, value in API.items():
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for own, member in vars(value).items():
                if not own.startswith("_"):
                    member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                    if inspect.isfunction(member):
                        yield f"{name}.{own}", member


def check_arguments(parameters: list[str], docstring: str) -> bool:
    """Say whether Args has each parameter once; one alone may have none, and the settings of a run may be one entry."""
    names, own = names_of(docstring), [name for name in parameters if name not in ("self", "cls")]
    if not names:
        return len(own) <= 1
    if "settings" in names:
        own = [name for name in own if name in names or name not in set(map(parameter, SETTINGS)) - {"settings"}]
        own += ["settings"] if "settings" not in own else []
    return sorted(names) == sorted(own)


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in api_functions()])
def test_a_function_of_the_api_says_what_it_does_and_takes(name: str, function: Callable[..., Any]) -> None:
    docstring = inspect.getdoc(function) or ""
    assert is_imperative(docstring)
    assert docstring.partition("\n\n")[0].endswith((".", "?"))
    assert check_arguments(list(inspect.signature(function).parameters), docstring), names_of(docstring)


@pytest.mark.parametrize("name", [name for name, value in API.items() if inspect.isclass(value)])
def test_a_class_of_the_api_says_what_it_is_and_takes(name: str) -> None:
    docstring = inspect.getdoc(API[name]) or ""
    assert docstring.partition("\n\n")[0].endswith(".")
    made = vars(API[name]).get("__init__")
    if made is not None and not issubclass(API[name], BaseException):
        assert check_arguments(list(inspect.signature(made).parameters), docstring), names_of(docstring)


def functions(path: Path) -> Iterator[tuple[bool, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of a module, and whether each is public: of the top level, or a method of such a class."""
    tree = ast.parse(path.read_bytes())
    places: list[ast.Module | ast.ClassDef] = [
        tree,
        *(node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")),
    ]
    public = {id(node) for place in places for node in place.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            yield id(node) in public and not node.name.startswith("_") and not is_property, node


MODULES = sorted(path for top in ("evalcell", "runner", "sandboxes") for path in (ROOT / top).rglob("*.py"))
MODULES += [ROOT / "templates" / "__init__.py", ROOT / "templates" / "assembly.py"]


def test_a_docstring_of_a_function_says_do_this_and_not_does_this() -> None:
    """Of private functions and properties, which may begin with a noun, only that none begins with "Returns"."""
    third_person = re.compile(r"(Raise|Return|Give|Make|Take|Tell|Say|Read|Write|Run|Wait|End|Add|Put|Begin|Yield)s ")
    wrong = []
    for path in MODULES:
        for is_public, node in functions(path):
            docstring = ast.get_docstring(node) or ""
            if third_person.match(docstring) or (is_public and docstring and not is_imperative(docstring)):
                wrong.append(f"{path.relative_to(ROOT)}: {node.name}: {docstring.splitlines()[0]}")
    assert wrong == [], "\n".join(wrong)


def test_args_name_what_a_function_takes() -> None:
    wrong = []
    for path in MODULES:
        for _, node in functions(path):
            docstring, every = ast.get_docstring(node) or "", node.args
            taken = [*every.posonlyargs, *every.args, every.vararg, *every.kwonlyargs, every.kwarg]
            own = [one.arg for one in taken if one is not None and one.arg not in ("self", "cls", "server")]
            if names_of(docstring) and "{settings}" not in docstring and sorted(names_of(docstring)) != sorted(own):
                wrong.append(f"{path.relative_to(ROOT)}: {node.name}: {names_of(docstring)}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.rotating("examples of docstrings", "doors")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_does_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(API[name]) or "", {}, name, None, 0)
    assert example.examples
    assert name in section(inspect.getdoc(API[name]) or "", "Example") or name == "Sandbox"
    told: list[str] = []
    with ExitStack() as stack:
        if name == "Client":
            monkeypatch.setenv("EVALCELL_URL", stack.enter_context(live(tmp_path)).url)
        failures, _ = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not failures, "".join(told)
