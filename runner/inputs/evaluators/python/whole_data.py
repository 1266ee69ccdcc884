"""Functions in Python that take what no row has: a data frame, the name of a file, or all rows as one object."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from runner.core.errors import EvaluatorError, ListsError
from runner.core.text import list_names
from runner.core.types import Parameter
from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES, plain_name
from runner.inputs.evaluators.foreign.evidence import holders
from runner.inputs.evaluators.foreign.module import ScriptModule, read_python
from runner.inputs.evaluators.python.entries import call_name
from runner.inputs.evaluators.python.returns import tuple_place
from runner.inputs.evaluators.python.row_function import renaming
from runner.inputs.evaluators.python.signature import FunctionNode, annotations_of, expression, key_of
from sandboxes.words.wording import Setting

_FRAME = re.compile(r"(Optional\[)?([\w.]+\.)?(DataFrame|GeoDataFrame|LazyFrame)\b")
_NAMED = re.compile(r"(^|_)(df|dataframe|data_frame)(_|$)")
_COLUMN = re.compile(r"(^|_)(col|column|field|key)(_|$)")
_OF_FRAMES = {
    *("apply", "iterrows", "itertuples", "groupby", "loc", "iloc", "merge", "sort_values", "drop_duplicates"),
    *("dropna", "fillna", "astype", "reset_index", "set_index", "to_numpy", "iter_rows", "with_columns", "applymap"),
    *("value_counts", "explode", "pivot_table", "rename", "query", "assign", "columns"),
}
"""What data frames alone have, but `columns`: that counts beside others of them."""
_READERS = {
    *("open", "read_csv", "read_json", "read_table", "read_excel", "read_parquet", "read_jsonl", "load_jsonl"),
    *("Image.open", "np.load", "numpy.load", "np.loadtxt", "joblib.load", "jsonlines.open", "gzip.open", "codecs.open"),
    *("os.listdir", "os.walk", "glob.glob", "io.open"),
}
_OF_PATHS = {"open", "read_text", "read_bytes", "iterdir", "glob", "rglob"}
_CHECKS = {"exists", "isfile", "is_file", "isinstance", "hasattr", "type"}


def refuse_whole(text: str, where: str, name: str, own: Sequence[Parameter]) -> None:
    """Raise EvaluatorError for a function that takes what no row can give, with the lines that call it for a row."""
    required = [one.name for one in own if one.required]
    if not required:
        return
    module = read_python(text, where)
    if module.definition(name) is None:
        return
    for parameter in required:
        if _is_frame(module, name, parameter):
            raise EvaluatorError(_of_frame(module, name, parameter, own))
        if line := _opened(module, name, parameter):
            raise EvaluatorError(_of_file(module, name, parameter, line))
    if len(required) == 1 and (step := _of_pair(module, name, required[0]) or _of_rows(module, name, required[0])):
        raise ListsError(f"{where}:{getattr(module.definition(name), 'lineno', 1)}", step)


# Data frames


def _is_frame(module: ScriptModule, entry: str, parameter: str) -> bool:
    function = module.definition(entry)
    if function is None or _FRAME.match(annotations_of(function).get(parameter, "")):
        return function is not None
    asked, named, keyed = set[str](), _NAMED.search(parameter) is not None, False
    for node, own in holders(module, entry, parameter):
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=other, ctx=ast.Store()) if other == own:
                    return False
                case ast.Call(func=ast.Name(id=check), args=[ast.Name(id=other), *_]) if (
                    other == own and check in _CHECKS
                ):
                    return False
                case ast.Attribute(value=ast.Name(id=other), attr=attr) if other == own:
                    asked.add(attr)
                case ast.Subscript(value=ast.Name(id=other)) if other == own:
                    keyed = True
    return len(asked & _OF_FRAMES) > ("columns" in asked) or (named and (keyed or bool(asked & _OF_FRAMES)))


def _of_frame(module: ScriptModule, entry: str, frame: str, own: Sequence[Parameter]) -> str:
    """What to do with a function of a data frame: a frame of one row, and one of all rows for `aggregate`."""
    function = module.definition(entry)
    assert function is not None
    every = [one.name for one in own if one.required]
    frames = [frame, *(one for one in every if one != frame and _is_frame(module, entry, one))]
    required = [one for one in every if one not in frames]
    inside = [one for one in ast.walk(function) if isinstance(one, ast.Subscript)]
    slices = {one.slice.id for one in inside if isinstance(one.slice, ast.Name)}
    stored = {expression(one.slice) for one in inside if isinstance(one.ctx, ast.Store)}
    keys = [one[1] for node in ast.walk(function) if (one := key_of(node)) is not None]
    keys = [key for key in keys if repr(key) not in stored]
    names = slices & {*required}  # parameters that are names of columns
    read = list(dict.fromkeys([*keys, *(one for one in required if one in names)]))
    rest = [one for one in required if one not in names]
    others = [one.name for one in own if not one.required and one.name in slices and _COLUMN.search(one.name)]
    read, optional = [*read, *others], [f'{one}="{one}"' for one in others]
    package = "polars" if any(one.startswith("polars") for one in module.imports.values()) else "pandas"
    called = call_name(module.body, entry)

    def call(made: dict[str, str]) -> str:
        given = {one: f'"{one}"' for one in names} | {one: f"{package}.DataFrame({rows})" for one, rows in made.items()}
        return f"{called}({', '.join([*(given.get(one, one) for one in every), *optional])})"

    if len(frames) > 1:  # of which each has one column, or those that are joined
        fields, columns = frames, ""
        rows = {one: f'[{{"{one}": {one}}}]' for one in frames}
        all_rows = {one: f'[{{"{one}": row["arguments"]["{one}"]}} for row in results]' for one in frames}
    else:
        fields = [one for one in read if one.isidentifier()] or ["COLUMN"]
        columns = "" if read else "; COLUMN is each column that it reads"
        row = ", ".join(f'"{one}": {one}' for one in fields)
        rows, all_rows = {frame: f"[{{{row}}}]"}, {frame: '[row["arguments"] for row in results]'}
    lines = [f"import {package}", f"def evaluate({', '.join(dict.fromkeys([*fields, *rest]))}): return {call(rows)}"]
    end = "That is a frame of one row"
    if not rest:
        lines.append(f"def aggregate(results): return {call(all_rows)}")
        end = "The first is a frame of one row, and `aggregate` is given all: docs/how-to/aggregates.md"
    first = renaming(entry)
    if not any(one.partition(".")[0] == package for one in module.imports.values()):
        columns += f", with {Setting('sandbox.packages', [package])}"
    return (
        f"{module.where}:{function.lineno}: {entry} takes a data frame of all rows as `{frame}`, and is called with "
        f"one row here: {first}add these lines to the end of the script, and run it without a name after the file"
        f"{columns}:\n{chr(10).join(lines)}\n{end}"
    )


# Files


def _opened(module: ScriptModule, entry: str, parameter: str) -> int:
    """The line where a function opens a file of this name; 0 where it does not, or asks first whether it is one."""
    line = 0
    for node, own in holders(module, entry, parameter):
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=other, ctx=ast.Store()) if other == own:
                    return 0
                case ast.Call(func=func, args=[ast.Name(id=other), *_]) if other == own:
                    called = expression(func)
                    last = called.rpartition(".")[2]
                    if last in _CHECKS:
                        return 0
                    if called in _READERS or last in _READERS:
                        line = line or inner.lineno
                case ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="Path"), args=[ast.Name(id=other)]), attr=attr)
                ) if other == own and attr in _OF_PATHS:
                    line = line or inner.lineno
                case ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr=attr)) if other == own and attr in (
                    "read_text",
                    "read_bytes",
                    "iterdir",
                    "rglob",
                ):
                    line = line or inner.lineno
    return line


def _of_file(module: ScriptModule, entry: str, parameter: str, line: int) -> str:
    function = module.definition(entry)
    read = [] if function is None else [read[1] for node in ast.walk(function) if (read := key_of(node)) is not None]
    keys = list(dict.fromkeys(one for one in read if one.isidentifier()))[:4]
    own = ", ".join(keys) if len(keys) > 1 else "output, reference"
    what = f", such as {list_names(keys)}," if keys else ""
    return (
        f"{module.where}:{line}: `{parameter}` of {entry} is the name of a file, which it opens, and no column of "
        "texts: a script is given the values of one row, and sees none of your files; copy the lines that judge one "
        f"record of that file{what} into a function of their own, `def evaluate({own}): …`, and run that"
    )


# All rows as an object


def _of_rows(module: ScriptModule, entry: str, parameter: str) -> str:
    """What to do with a function of one object that has a row under each key; empty for any other."""
    function = module.definition(entry)
    if function is None:
        return ""
    keyed, each = False, set[str]()
    for node in ast.walk(function):
        match node:
            case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
                pass
            case _:
                continue
        match over:
            case ast.Name(id=name) if name == parameter:
                each |= {target.id} if isinstance(target, ast.Name) else set()
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="items" | "values" as how)) if (
                name == parameter
            ):
                keyed = True
                target = target.elts[-1] if how == "items" and isinstance(target, ast.Tuple) else target
                each |= {target.id} if isinstance(target, ast.Name) else set()
    if not each:
        return ""
    attributes, keys = dict[str, None](), dict[str, None]()
    for node in ast.walk(function):
        if (read := key_of(node)) is not None and isinstance(read[0], ast.Name) and read[0].id in each:
            keys[read[1]] = None
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in each and not hasattr(str, attr):
                if not hasattr(dict, attr) and not hasattr(list, attr):
                    attributes[attr] = None
    every = [one for one in (*attributes, *keys) if one.isidentifier()]
    sides = [any(plain_name(one) in side for one in every) for side in (OUTPUTS, REFERENCES)]
    pairs = all(sides) and len(every) > 1
    if not every or not (pairs or (keyed and (attributes or len(every) > 1))):
        return ""
    record = f"SimpleNamespace({', '.join(f'{one}={one}' for one in every)})"
    head = "from types import SimpleNamespace\n"
    if not attributes:
        record, head = f"{{{', '.join(f'{chr(34)}{one}{chr(34)}: {one}' for one in every)}}}", ""
    first = renaming(entry)
    part = tuple_place(module.source, module.where, entry)
    path = part.path if part is not None and part.sure else ""
    whole, rows = ("object", f"{{0: {record}}}") if keyed else ("list", f"[{record}]")
    return (
        f"{entry} takes all rows as one {whole}, `{parameter}`, and reads "
        f"{list_names(every)} of each: {first}add these lines to the end of the script, and run it without a name "
        f"after the file:\n{head}def evaluate({', '.join(every)}): return {call_name(module.body, entry)}({rows}){path}"
    )


def _of_pair(module: ScriptModule, entry: str, parameter: str) -> str:
    """What to do with a function of a pair of all predictions and labels, as a trainer of transformers calls one."""
    function, pair = module.definition(entry), list[str]()
    asked = set[str]()
    for node in ast.walk(function) if isinstance(function, FunctionNode) else ():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])], value=ast.Name(id=name)):
                pair = [one, other] if name == parameter else pair
            case ast.Attribute(value=ast.Name(id=name), attr="predictions" | "label_ids" as attr) if name == parameter:
                asked.add(attr)
    trainer = re.search(r"eval_?p|^p$|preds?$", parameter) is not None
    if function is None or not (len(asked) > 1 or (pair and trainer)):
        return ""
    names, head = (pair, "") if pair else (["predictions", "label_ids"], "from types import SimpleNamespace\n")
    given = [f"numpy.array([{one}])" for one in names]
    made = f"({', '.join(given)})"
    if not pair:
        made = f"SimpleNamespace({', '.join(f'{one}={each}' for one, each in zip(names, given, strict=True))})"
    every = [f'numpy.array([row["arguments"]["{one}"] for row in results])' for one in names]
    first = renaming(entry)
    return (
        f"{entry} takes the {names[0]} and {names[1]} of all rows as `{parameter}`, "
        f"as a trainer of transformers calls it, and is called with one row here: {first}add these lines to the end of "
        f"the script, and run it without a name after the file:\nimport numpy\n{head}"
        f"def evaluate({', '.join(names)}): return {call_name(module.body, entry)}({made})\n"
        f"The row's predictions are what the function takes of one row, such as logits; for all rows together give "
        f"{', '.join(every)} in `def aggregate(results)`: docs/how-to/aggregates.md"
    )
