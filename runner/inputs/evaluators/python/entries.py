"""What a script defines that can be called for a row, and which of it likely scores one. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable, suggestion, whole
from runner.core.types import Parameter
from runner.inputs.evaluators.column_suggestions import (
    INPUTS,
    OUTPUTS,
    REFERENCES,
    is_answer,
    is_reference,
    is_setting,
    plain_name,
)
from runner.inputs.evaluators.entrypoint import AGGREGATE, NAME, naming
from runner.inputs.evaluators.python.classes import (
    constructor_attributes,
    has_decorator,
    is_abstract,
    is_bare,
    is_base,
    is_empty,
    own_parameters,
    sums_step,
    walked_names,
)
from runner.inputs.evaluators.python.signature import (
    DEFINE,
    CallableNode,
    FunctionNode,
    Signature,
    aggregate_of,
    empty,
    expression,
    key_of,
    keywords,
    names_of,
    own_nodes,
    parameters,
    parse,
)

SCORES = re.compile(
    r"scor|grad|(?<!retri)eval|reward|metric|accura|exact|match|correct|judg|check|similar|verif|compar|equal|equiv|assess|rouge|"
    r"bleu|dist|overlap|precision|recall|ndcg|"
    r"(^|_)(f1|em|wer|cer|iou|same|mrr|map|dcg|hit|hits|auc|mae|mse|rmse|cider|meteor|chrf|pass)(_|$)",
    re.IGNORECASE,
)
_HELPS = re.compile(
    r"(load|read|parse|extract|normali[sz]e|clean|get|make|build|create|format|strip|remove|token|main|save|write|print"
    r"|log|convert|to|test|run|setup|init|download|fetch|preprocess|postprocess|fix|split|find|set|add|list|reset|update|configure|unregister)"
    r"(_|$|(?=[A-Z]))"
)
_EXTRACTS = re.compile(
    r"(?:parse|extract|normali[sz]e|clean|pre_?process|post_?process|strip|remove|tokeni[sz]e|doc_to|"
    r"(?P<weak>get|format|load|read|convert|split|find|predict|generate|to))(_|$|(?=[A-Z]))"
)
"""Names of what makes a value that others judge; the weak ones not where the rest of the name is a score's."""
HANDS_ON = {"evaluators", "scorers", "item_evaluators", "reward_funcs", "custom_scorers", "scorer"}
"""What runs scorers is given them by."""
_USUAL = ("score", "compute_score", "grade", "metric", "reward", "reward_func", "accuracy")
"""Names that people give the function that is called from outside."""
_MAKES = re.compile(r"(make|build|create|load|register|init|setup|main|test)(_|$|(?=[A-Z]))")
_OF_DOC = re.compile(r"(^|_)doc_to_")
"""What lm-eval makes of a row before it asks a model."""
_NO_VALUE = re.compile(r"_(fn|func|function|file|path|dir)$|^(metrics|scorers?|scores|results|file|path|fn|func)$")
"""Parameters that no row can give: functions, files, and sums that are added to."""
_OBJECT = re.compile(
    r"(^|_)(model|tokenizer|loader|dataloader|device|client|executor|engine|conn|connection|cursor|session)$"
)
"""Parameters that a row hardly gives: what a program opens or loads."""
_WHOLE = re.compile(r"^(.*_)?(data|dataset|articles|corpus|examples|samples|records|rows)$")
_ROWS = {"case", "test_case", "eval_case", "row", "example", "sample", "item", "record", "instance"}
_LOOPS = ast.For | ast.AsyncFor | ast.comprehension
_MOST = 5
_HOPS = 20


class Entry(NamedTuple):
    """A function, or what else can be called: a method, an instance with `__call__`, what a call makes."""

    name: str
    parameters: tuple[Parameter, ...]
    accepts_any: bool = False
    line: int = 1
    docstring: str = ""
    callers: frozenset[str] = frozenset()
    """What else in the script calls it."""
    makes: bool = False
    """True if it returns a function."""
    keys: tuple[str, ...] = ()
    """What it reads of its one required parameter: then that is the row, as an object."""
    expression: str = ""
    """The expression that makes it, where its name alone does not: `Scorer().score`."""
    scores: bool = True
    """False for what surely scores no row: it returns nothing, or others are exported and it is not."""
    step: str = ""
    """Of one that makes an object: what to write to call a function of that."""

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that have no default."""
        return tuple(one.name for one in self.parameters if one.required)

    @property
    def words(self) -> str:
        """As people write it: `score(prediction, target)`."""
        return f"{self.name}({', '.join([*self.required, *(['**…'] if self.accepts_any else [])])})"


def likely(entries: Iterable[Entry]) -> list[Entry]:
    """Return those that likely score a row, the likeliest first; a helper, a factory or a loader is none."""
    found = {one: points for one in entries if (points := _points(one)) > 0}
    names = {one.name for one in found}
    # What another of them calls is a step of it.
    return sorted(found, key=lambda one: (bool(one.callers & names) and not _of_row(one), -found[one]))


def _points(entry: Entry) -> int:
    """How likely it is that it scores a row; 0 for what does not."""
    last = entry.name.rpartition(".")[2]
    required = len(entry.required)
    if last.startswith("_") or entry.makes or not entry.scores or not entry.parameters or required > _MOST:
        return 0
    if _OF_DOC.search(last):
        return 0
    if any(_NO_VALUE.search(name) for name in entry.required):
        return 0
    own = [one.name for one in entry.parameters if one.required or not entry.accepts_any]
    names = [plain_name(one) for one in (*own, *entry.keys)]
    helps = _HELPS.match(last) is not None
    scores = SCORES.search(last if helps else entry.name) is not None or SCORES.search(plain_name(last)) is not None
    roles = (any(name in OUTPUTS for name in names), any(name in REFERENCES - OUTPUTS for name in names))
    if entry.callers and is_helper(entry):
        return 0
    points = (
        (last in _USUAL)
        - ("." in entry.name or bool(entry.expression))
        + 3 * roles[0]
        + 2 * roles[1]
        + 3 * scores
        + (required in (2, 3))
        + any(name in INPUTS for name in names)
        - 3 * any(_OBJECT.search(name) for name in entry.required)
    )
    judges = scores and ("." not in entry.name or any(roles))
    helps = _MAKES.match(last) is not None or (helps and not judges)
    return max(0, points - 4 * helps - 3 * (bool(entry.callers) and not _of_row(entry))) if points > 1 else 0


def is_helper(entry: Entry) -> bool:
    """Say whether it makes a value of an output, by its name, and is given nothing to judge it by."""
    last = entry.name.rpartition(".")[2]
    verb = _EXTRACTS.match(last)
    judges = verb is not None and verb["weak"] and SCORES.search(last) is not None
    return verb is not None and not judges and not takes_both(entry)


def takes_both(entry: Entry) -> bool:
    """Say whether it needs an output and a right answer, by the names of its parameters and keys."""
    names = [*entry.required, *entry.keys]
    outputs = [one for one in names if plain_name(one) in OUTPUTS]
    return any(is_reference(one) and one != outputs[0] for one in names) if outputs else False


def _of_row(entry: Entry) -> bool:
    """Whether it reads a row's outputs or references as keys: what goes through all rows calls it for each."""
    return bool(entry.keys) and any(
        plain_name(one) in OUTPUTS | REFERENCES for one in (*(own.name for own in entry.parameters), *entry.keys)
    )


def which(entries: Sequence[Entry], where: str) -> str:
    """
    Return the end of a message: what the script defines, the likeliest first, and how to name it.

    Nothing of nothing.
    """
    best = likely(entries)
    if not best:
        some = [one for one in entries if _may_score(one)]
        steps = [one.step for one in entries if one.step and (one.scores or not one.makes)][:2]
        words = f"if {list_names([one.words for one in some], 4)} scores a row, name it, such as " if some else ""
        return "; ".join([*steps, *([words + naming(where, some[0].name)] if some else [])])
    first = best[0].name
    step = f'{naming(where, first)}, or in its header, [tool.evalcell], entry = "{first}"'
    if len(best) == 1:
        return f"`{best[0].words}` likely scores a row: name it, {step}"
    return f"{list_names([one.words for one in best], 4)} likely score a row: name the one to run, such as {step}"


def judging(entries: Iterable[Entry]) -> list[Entry]:
    """Return those that judge by their names, whatever they take; else the only one that there is."""
    some = [one for one in entries if one.scores and one.required and not one.makes and not one.callers]
    some = [one for one in some if one.name[0] != "_" and not _MAKES.match(one.name)]
    return [one for one in some if SCORES.search(one.name)] or some[: len(some) == 1]


def _may_score(entry: Entry) -> bool:
    """Whether it takes two things or more that a row may have, and no name says that it does anything else."""
    last = entry.name.rpartition(".")[2]
    few = 1 < len(entry.required) <= _MOST and not any(map(_NO_VALUE.search, entry.required))
    return (
        few
        and not (is_helper(entry) or _OF_DOC.search(last))
        and entry.scores
        and not (entry.makes or entry.callers or last.startswith("_") or _MAKES.match(last))
    )


def fitting(entries: Iterable[Entry], columns: Collection[str]) -> list[Entry]:
    """Return those of which a dataset has all parameters as columns, the likeliest to score a row first."""
    fit = [
        one
        for one in entries
        if one.scores
        and not one.makes
        and not one.name.rpartition(".")[2].startswith("_")
        and {*one.required} <= {*columns}
        and any(own.name in columns for own in one.parameters)
    ]
    first = likely(fit)
    rest = [one for one in fit if one not in first and len(one.required) > 1]
    return first + [one for one in rest if not one.callers and not is_helper(one)]


def python_entries(body: list[ast.stmt]) -> dict[str, Entry]:
    """Return what the top level of a script defines that can be called, by name, in the order of the text."""
    script = _Script(body)
    found: dict[str, Entry] = {}
    for name, node in script.names.items():
        if isinstance(node, ast.ClassDef):
            found |= script.of_class(node)
        elif entry := script.entry(name, node):
            found[name] = entry
    callers = callers_of(script.names)
    return {name: one._replace(callers=one.callers | callers.get(name, set())) for name, one in found.items()}


def call_name(body: list[ast.stmt], name: str) -> str:
    """
    Return how a function of a script is called in a line that is added to it: `Scorer().score`, `Scorer()`.

    NAME for `evaluate`, which is to be named otherwise.
    """
    if name == NAME:
        return "NAME"
    own = python_entries(body).get(name)
    return own.expression if own is not None and own.expression else name


def callers_of(names: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Return, by name, the other functions and classes of the script that call it, or hand it on."""
    found: dict[str, set[str]] = {}
    for name, node in names.items():
        if isinstance(node, CallableNode | ast.ClassDef):
            for inside in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & names.keys() - {name}:
                found.setdefault(inside, set()).add(name)
    return found


def _callers_within(name: str, methods: Mapping[str, FunctionNode]) -> dict[str, set[str]]:
    """By method of a class, the other ones that call it or hand it on."""
    found: dict[str, set[str]] = {}
    for own, method in methods.items():
        for node in ast.walk(method):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner in ("self", "cls", name):
                    if attr in methods and attr != own:
                        found.setdefault(attr, set()).add(name if own == "__call__" else f"{name}.{own}")
    return found


class _Script:
    """The top level of a script, by what its names stand for in the end."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.names = names_of(body)

    def entry(self, name: str, node: ast.AST) -> Entry | None:
        """What can be called by the name; None for what is none, or whose parameters cannot be seen."""
        signed = self._signed(node)
        makes = isinstance(node, CallableNode) and returned_function(node) is not None
        return None if signed is None else signed._replace(name=name, line=getattr(node, "lineno", 1), makes=makes)

    def of_class(self, node: ast.ClassDef) -> dict[str, Entry]:
        """The methods that can be called on an instance that is made without arguments, and the instance itself."""
        methods = self.methods(node)
        init = methods.get("__init__")
        bare = is_bare(node) if init is None else not any(one.required for one in own_parameters(init))
        abstract = is_abstract(methods.values())
        bare = bare and not abstract
        if is_base(node):
            return {}
        callers = _callers_within(node.name, methods)
        below = self.below(node.name)
        found = {}
        for name, method in methods.items():
            alone = has_decorator(method, "staticmethod", "classmethod")
            if (
                (name.startswith("_") and name != "__call__")
                or not (bare or alone)
                or has_decorator(method, "property")
            ):
                continue
            if is_empty(method) and (below or method not in node.body):
                continue  # those that extend it are meant
            whole = node.name if name == "__call__" else f"{node.name}.{name}"
            made = f"{node.name}()" if bare else node.name
            found[whole] = entry_of(method, own_parameters(method))._replace(
                name=whole,
                expression=made if name == "__call__" else f"{made}.{name}",
                callers=frozenset(callers.get(name, ())),
            )
        if not abstract and not any(_points(one) for one in found.values() if one.required):
            nothing = [name for name, one in methods.items() if not is_empty(one) and _gives_nothing(one)]
            if step := sums_step(node, methods, nothing):
                return {node.name: Entry(node.name, (), line=node.lineno, makes=True, step=step)}
        step = _of_values(node, methods) or ("" if below else _of_arguments(node, methods))
        if step and not found and not abstract:
            found[node.name] = Entry(node.name, (), line=node.lineno, makes=True, step=step)
        return found

    def below(self, name: str) -> list[str]:
        """The classes of the script that extend one."""
        return [one for one, kind in self.names.items() if isinstance(kind, ast.ClassDef) and _extends(kind, name)]

    def methods(self, node: ast.ClassDef, depth: int = 0) -> dict[str, FunctionNode]:
        found: dict[str, FunctionNode] = {}
        for base in node.bases:
            above = self.names.get(base.id) if isinstance(base, ast.Name) else None
            if isinstance(above, ast.ClassDef) and depth < _HOPS:
                found |= self.methods(above, depth + 1)
        return found | {one.name: one for one in node.body if isinstance(one, FunctionNode)}

    def _signed(self, node: ast.AST, depth: int = 0) -> Entry | None:
        """The signature of what stands there, as far as the text tells it."""
        if depth > _HOPS:
            return None
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return entry_of(node, parameters(node.args))
            case ast.Name(id=name) if name in self.names:
                return self._signed(self.names[name], depth + 1)
            case ast.Attribute(value=ast.Call() as made, attr=method):
                kind = self._made(made)
                found = None if kind is None else self.methods(kind).get(method)
                return None if found is None else entry_of(found, own_parameters(found))
            case ast.Call(func=func, args=given):
                return self._of_call(node, func, given, depth)
        return None

    def _of_call(self, node: ast.Call, func: ast.expr, given: list[ast.expr], depth: int) -> Entry | None:
        if (kind := self._made(node)) is not None:
            called = self.methods(kind).get("__call__")
            return None if called is None else entry_of(called, own_parameters(called))
        last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if last == "partial" and given:
            return _bound(self._signed(given[0], depth + 1), len(given) - 1, {one.arg for one in node.keywords})
        factory = self.names.get(last) if isinstance(func, ast.Name) else None
        if isinstance(factory, CallableNode) and (inner := returned_function(factory)) is not None:
            return self._signed(inner, depth + 1)
        return None

    def made_by(self, node: ast.AST | None) -> str:
        """The class of the script whose method stands there, such as `Rouge(a, b).score`; empty for anything else."""
        made = node.value if isinstance(node, ast.Attribute) else node
        kind = self._made(made) if isinstance(made, ast.Call) else None
        return "" if kind is None else kind.name

    def _made(self, node: ast.Call) -> ast.ClassDef | None:
        """The class of the script that a call makes an instance of."""
        kind = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return kind if isinstance(kind, ast.ClassDef) else None


def entry_of(node: CallableNode, own: tuple[Parameter, ...]) -> Entry:
    docstring = "" if isinstance(node, ast.Lambda) else ast.get_docstring(node) or ""
    every = (*own, *keywords(node))
    entry = Entry("", every, node.args.kwarg is not None, node.lineno, docstring, keys=_keys(node, own))
    nothing = _gives_nothing(node)
    if nested := _nested(node, {one.name for one in own}):
        return entry._replace(scores=False, step=nested)
    step = None if any(plain_name(one.name) in OUTPUTS for one in own) else _handed_on(node)
    if step is None:
        return entry._replace(scores=not nothing)
    return entry._replace(scores=False, makes=nothing and bool(step), step=step)


def _nested(node: CallableNode, own: Collection[str]) -> str:
    """What to say of a function that goes through a dataset, and parts of each of its objects; else nothing."""
    items, over = dict[str, str](), [(one.target, one.iter) for one in ast.walk(node) if isinstance(one, _LOOPS)]
    for target, through in over:
        if isinstance(target, ast.Name) and isinstance(through, ast.Name) and through.id in own:
            items[target.id] = through.id
    for _, through in over:
        read = key_of(through)
        whole = items.get(read[0].id) if read is not None and isinstance(read[0], ast.Name) else None
        if read is not None and whole and (_WHOLE.search(plain_name(whole)) or read[1] in ("paragraphs", "qas")):
            return (
                f"`{getattr(node, 'name', 'it')}` takes all rows at once: it goes through `{printable(read[1], 60)}` "
                f"of each object of `{whole}`; give it a list of a row's own object, or score a row with what it calls"
            )
    return ""


def _gives_nothing(node: CallableNode) -> bool:
    """Whether a function surely returns no value; one that is not written yet may."""
    if isinstance(node, ast.Lambda):
        return False
    if isinstance(node.returns, ast.Constant) and node.returns.value is None:
        return True
    body = node.body[isinstance(node.body[0], ast.Expr) and len(node.body) > 1 :]
    if isinstance(body[0], ast.Raise):
        return "NotImplemented" in expression(body[0])
    if isinstance(body[0], ast.Pass) or (isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)):
        return False
    gives = (one for one in own_nodes(node.body) if isinstance(one, ast.Return | ast.Yield | ast.YieldFrom))
    return all(isinstance(one, ast.Return) and one.value is None for one in gives)


def _handed_on(node: CallableNode) -> str | None:
    """What to write for a function that hands scorers on to what runs them; None for any other."""
    body = [] if isinstance(node, ast.Lambda) else [*own_nodes(node.body)]
    made = {
        one.targets[0].id: expression(one.value)
        for one in body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Call)
    }
    for word in (word for call in body if isinstance(call, ast.Call) for word in call.keywords):
        if word.arg not in HANDS_ON:
            continue
        for each in getattr(word.value, "elts", [word.value]):
            call = made.get(expression(each), expression(each) if isinstance(each, ast.Call) else "")
            if call:
                own = f"`{expression(each)}`, which is made by `{call}`" if isinstance(each, ast.Name) else f"`{call}`"
                return (
                    f"`{getattr(node, 'name', 'it')}` runs scorers, `{word.arg}`, and scores no row itself: to run "
                    f"{printable(own, 200)}, add `scorer = {printable(call, 100)}` to the end of the script, and name "
                    "`scorer` after the file"
                )
        return ""
    return None


def _keys(node: CallableNode, own: tuple[Parameter, ...]) -> tuple[str, ...]:
    """The keys that a function reads of its one required parameter."""
    required = [one.name for one in own if one.required]
    reads = [read for inner in ast.walk(node) if (read := key_of(inner)) is not None] if len(required) == 1 else []
    return tuple(dict.fromkeys(key for value, key, _ in reads if isinstance(value, ast.Name) and value.id in required))


def _of_values(node: ast.ClassDef, methods: Mapping[str, FunctionNode]) -> str:
    """What to write for a class that takes a row's values when it is made, and judges them without any more."""
    made = methods.get("__init__")
    judges = [
        name
        for name, one in methods.items()
        if own_parameters(one) == () and (name == "__call__" or name[0] != "_") and returned_function(one) is None
    ]
    required = [] if made is None else [one.name for one in own_parameters(made) if one.required]
    every = [own_parameters(one) for name, one in methods.items() if name[0] != "_"]
    takes_row = any(one.required for own in every for one in own)
    if made is None or not judges or not required or len(required) > _MOST or takes_row:
        return ""
    judges.sort(key=lambda name: (name != "__call__", SCORES.search(name) is None))
    kept = constructor_attributes(made)
    lists = {kept.get(one, one) for method in methods.values() for one in walked_names(method)} & {*required}
    given = ", ".join(f"[{one}]" if one in lists else one for one in required)
    call = "" if judges[0] == "__call__" else f".{judges[0]}"
    own = f"{node.name}({', '.join(required)})"
    text = (
        f"the class `{own}` takes its values when it is made, and no column fills those: add `def "
        f"evaluate({', '.join(required)}): return {node.name}({given}){call}()` to the script, and run that"
    )
    return f"{text}; it goes through lists of all rows, so each row is a list of one" if lists else text


def _of_arguments(node: ast.ClassDef, methods: Mapping[str, FunctionNode]) -> str:
    """What to write for a class that needs arguments, and has a method that likely scores a row."""
    made = methods.get("__init__")
    made_of = [one.name for one in own_parameters(made) if one.required] if made is not None else []
    asked = ", ".join(f"{name}=…" for name in made_of)
    some = [one for name, one in methods.items() if name[0] != "_" or name == "__call__"]
    some = [one for one in some if not has_decorator(one, "property")]
    own = [entry_of(one, own_parameters(one))._replace(name=one.name) for one in some]
    own = [one for one in own if not any(_WHOLE.search(plain_name(name)) for name in one.required)]
    best = likely([one._replace(name=f"{node.name}.eval" if one.name == "__call__" else one.name) for one in own])
    if not best or not asked:
        return ""
    method = "" if best[0].name == f"{node.name}.eval" else f".{best[0].name}"
    rest = best[0].required
    if all(_is_of_row(one, made, methods) for one in made_of) and not {*made_of} & {*rest}:
        return (
            f"the class `{node.name}` is made of a row's values: add `def evaluate({', '.join((*made_of, *rest))}): "
            f"return {node.name}({', '.join(made_of)}){method}({', '.join(rest)})` to the script, and run that"
        )
    return (
        f"the class `{node.name}` needs arguments to be made: add `scorer = {node.name}({asked}){method}`, with your "
        "values, to the end of the script, and name `scorer` after the file"
    )


def _is_of_row(name: str, made: FunctionNode | None, methods: Mapping[str, FunctionNode]) -> bool:
    """Whether a class is made of a part of a row, by its name, or as keys are read of it."""
    plain = plain_name(name)
    if plain in _ROWS or plain in (OUTPUTS | REFERENCES | INPUTS) - {"task", "query", "source", "target", "key"}:
        return True
    if made is None or is_setting(name) or re.search(r"(^|_)(config|cfg|args|settings|params|kwargs)$", plain):
        return False
    held = next((attr for attr, own in constructor_attributes(made).items() if own == name), name)
    reads = [read for one in methods.values() for inner in ast.walk(one) if (read := key_of(inner)) is not None]
    return any(isinstance(value, ast.Attribute) and value.attr == held for value, _, _ in reads)


def _bound(entry: Entry | None, places: int, names: set[str | None]) -> Entry | None:
    """What is left of the parameters once a `partial` has given some."""
    if entry is None or None in names:
        return None
    left = [
        one.model_copy(update={"required": one.required and one.name not in names}) for one in entry.parameters[places:]
    ]
    return entry._replace(parameters=tuple(left))


def returned_function(node: CallableNode) -> ast.AST | None:
    """Return the function that a factory returns; None for what is no factory."""
    if isinstance(node, ast.Lambda):
        return node.body if isinstance(node.body, ast.Lambda) else None
    inner = {name: one for name, one in names_of(node.body).items() if isinstance(one, CallableNode)}
    returns = [one for one in own_nodes(node.body) if isinstance(one, ast.Return)]
    for value in (one.value for one in reversed(returns)):
        if isinstance(value, ast.Lambda):
            return value
        if isinstance(value, ast.Name) and value.id in inner:
            return inner[value.id]
    return None


def entries_of(text: str, where: str) -> dict[str, Entry]:
    """Return what a script defines that can be called. Raises EvaluatorError for wrong syntax."""
    return dict(_entries(text, where))


@lru_cache(2)  # each function that may score a row is tried by its name
def _entries(text: str, where: str) -> Mapping[str, Entry]:
    return python_entries(parse(text, where).body)


def signature_of(text: str, where: str, name: str) -> Signature:
    """Return the signature of a function that was named. Raises EvaluatorError where it is none, or cannot be seen."""
    tree = parse(text, where)
    script, entries = _Script(tree.body), entries_of(text, where)
    entry = entries.get(name)
    if entry is None or entry.makes:
        refuse_unmade(text, where, name)
        raise EvaluatorError(_refusal(script, entries, name, where))
    aggregate = aggregate_of(script.names.get(AGGREGATE))
    docstring = whole(ast.get_docstring(tree) or entry.docstring)
    node = script.names.get(name)
    used, optional = None, set[str]()
    if isinstance(node, CallableNode):
        used, optional = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}, empty(node.args)
    parameters = with_reference(entry.parameters, used, optional)
    if not parameters and not entry.accepts_any:
        kind = script.made_by(node)
        step = entries[kind].step if kind in entries else ""
        raise EvaluatorError(
            f"{where}: `{printable(name, 60)}()` takes nothing of a row, so that all rows would have one score; "
            f"{step or which([*entries.values()], where) or DEFINE}"
        )
    return Signature(parameters, entry.accepts_any, docstring, aggregate=aggregate)


def with_reference(
    parameters: tuple[Parameter, ...], used: Collection[str] | None, empty: Collection[str] = ()
) -> tuple[Parameter, ...]:
    """
    Return the parameters, of which a reference that may be left out is required where the function uses it, and the
    only output with a default of nothing.

    Without it a function that was not written for evalcell would score all rows by nothing, without a word. `empty`:
    those with a default of nothing, of which a name such as `ref_answer` is enough.
    """
    known = [one for one in parameters if plain_name(one.name) in REFERENCES - OUTPUTS]
    known = known or [one for one in parameters if is_answer(one.name) and (one.required or one.name in empty)]
    outputs = [one for one in parameters if plain_name(one.name) in OUTPUTS]
    outputs = [] if any(one.required or one.name not in empty for one in outputs) else outputs
    asked = [one for some in (known, outputs) if len(some) == 1 for one in some if used is None or one.name in used]
    return tuple(one.model_copy(update={"required": True}) if one in asked else one for one in parameters)


def _refusal(script: _Script, entries: dict[str, Entry], name: str, where: str) -> str:
    """Why what was named cannot be called for a row, and what to do."""
    word, first = printable(name, 60), name.partition(".")[0]
    node = script.names.get(first)
    own = f"give what it makes a name in the script, such as `scorer = {printable(first, 60)}(…)`, and name that"
    if name in entries and entries[name].step:
        return f"{where}: {entries[name].step}"
    if name in entries:
        return f"{where}: `{entries[name].words}` makes a function; {own}: {naming(where, 'scorer')}"
    if isinstance(node, ast.ClassDef) and name == first:
        methods = [one for one in entries.values() if one.name.startswith(f"{first}.")]
        base = "" if likely(methods) else _base_step(script, node)
        if methods and not base:
            return (
                f"{where}: `{word}` is a class; name a method of it: "
                f"{which(methods, where) or list_names(e.name for e in methods)}"
            )
        if base:
            return f"{where}: {base}"
        every = [one.name for one in node.body if isinstance(one, FunctionNode)] + [*script.methods(node)]
        some = [one for one in every if one[0] != "_"]
        own = own if "__call__" in script.methods(node) else own.replace("(…)`", f"(…).{some[0]}`") if some else DEFINE
        init = "needs arguments, or has no method that takes a row"
        return f"{where}: `{word}` is a class that {init}; {own}: {naming(where, 'scorer')}"
    if node is not None and first == name:
        return (
            f"{where}: the parameters of `{word}` cannot be seen without running the script; define "
            f"`def evaluate(output, reference): return {word}(output, reference)`, as it is to be called"
        )
    found = which([*entries.values()], where) or f"it defines {list_names(entries, 6) or 'nothing that can be called'}"
    return f"{where} has no function `{word}`{suggestion(name, entries)}; {found}"


def _base_step(script: _Script, node: ast.ClassDef) -> str:
    """What to name in place of a class that is for others to extend; nothing for any other."""
    below = script.below(node.name)
    empty = [one.name for one in script.methods(node).values() if one.name != "__init__" and is_empty(one)]
    abstract = is_abstract(script.methods(node).values())
    if not abstract and not is_base(node) and not (below and empty):
        return ""
    what = "an abstract class, of which none can be made" if abstract else "a class for others to extend"
    step = f"name one that extends it: {list_names(below, 6)}" if below else "name a class that extends it"
    return f"`{printable(node.name, 60)}` is {what}; {step}"


def _extends(kind: ast.ClassDef, name: str) -> bool:
    return any(isinstance(base, ast.Name) and base.id == name for base in kind.bases)


def refuse_unmade(source: str, where: str, name: str | None) -> None:
    """Refuse a method of a class that needs arguments: nothing can make what it is called on."""
    first, dot, method = (name or "").partition(".")
    if not dot:
        return
    tree = parse(source, where)
    node = names_of(tree.body).get(first)
    inside = node.body if isinstance(node, ast.ClassDef) else []
    # What a method makes is judged by, and not the method: a tool's own reading says how to name it.
    own = {one.name for one in inside if isinstance(one, FunctionNode) and returned_function(one) is None}
    entries = _entries(source, where)
    if method in own and first in entries and entries[first].step:
        raise EvaluatorError(f"{where}: {entries[first].step}")
    if method in own and name not in entries and isinstance(node, ast.ClassDef):
        if base := _base_step(_Script(tree.body), node):
            raise EvaluatorError(f"{where}: {base}")
        made = f"{method} = {first}(…).{method}"
        raise EvaluatorError(
            f"{where}: `{first}` is a class that needs arguments, so that `{name}` cannot be called; make one in the "
            f"script, at its end, `{made}`, and name that: {naming(where, method)}"
        )


def calling(source: str, name: str) -> str:
    """Return the script with what is called under its name, on a line of its own where that has to be made."""
    entry = _entries(source, name).get(name)
    return source if entry is None or not entry.expression else f"{source}\nglobals()[{name!r}] = {entry.expression}\n"
